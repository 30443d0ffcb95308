"""/cost: tokens and money of the session's model calls, and what caches saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.text.shorten import money
from kogniterm.types import Phrase, Usage
from kogniterm.ui.commands.command_helpers import one_of
from kogniterm.ui.locale import _, tokens
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

TURNS = "turns"
WIDE = 80
"""Columns from which on the number of calls has a column, too."""
GAP = "  "
LEAST_NAME = 8
"""Columns that a row's name has at least."""


class Row(NamedTuple):
    """A row of the table: its name, the usage by model, and how the name is drawn."""

    name: str
    models: Mapping[str, Usage]
    style: str = ""
    indent: str = ""

    @property
    def usage(self) -> Usage:
        """Return the usage of all its models together."""
        return sum(self.models.values(), Usage())

    def dollars(self) -> tuple[float | None, float | None]:
        """Return (cost, saved); None where the price of one of its models is not known."""
        from kogniterm.models.catalog import price_of

        prices = {name: price_of(name) for name in self.models}
        known = [(one, self.models[name]) for name, one in prices.items() if one is not None]
        if len(known) < len(prices):
            return None, None
        cost = sum(price.cost(usage) for price, usage in known)
        return cost, sum(price.saving(usage) for price, usage in known)

    def cells(self, *, calls: bool) -> Iterator[str]:
        """Yield its numbers, with the number of calls first if wanted."""
        usage = self.usage
        cost, saved = self.dollars()
        if calls:
            yield str(usage.calls)
        yield tokens(usage.input)
        yield tokens(usage.cached)
        yield tokens(usage.output)
        yield _money(cost)
        yield _money(saved)


def _money(dollars: float | None) -> str:
    if dollars is None:
        return "–"
    return money(dollars) if dollars >= 0 else f"-{money(-dollars)}"


class CostTable:
    """The rows as a table: numbers are whole and to the right, names are cut to the room left."""

    def __init__(self, first: str, rows: Sequence[Row]) -> None:
        self.first, self.rows = first, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as it may be; where there is no room for names, they stand above."""
        from rich.cells import cell_len
        from rich.text import Text

        from kogniterm.text.shorten import one_line

        calls = options.max_width >= WIDE
        heads = [_("calls")] if calls else []
        heads += [_("input"), _("cached"), _("output"), _("cost"), _("saved")]
        numbers = [list(row.cells(calls=calls)) for row in self.rows]
        widths = [max(map(cell_len, column)) for column in zip(heads, *numbers, strict=True)]
        names = [f"{row.indent}{one_line(row.name)}" for row in self.rows]
        room = options.max_width - sum(widths) - len(GAP) * len(widths)
        name_width = min(max(map(cell_len, (self.first, *names))), room)
        above = room < LEAST_NAME
        for name, cells, style in (
            (self.first, heads, "muted"),
            *zip(names, numbers, (row.style for row in self.rows), strict=True),
        ):
            line = Text(name, style, overflow="ellipsis", no_wrap=True)
            if above:
                yield line
                line = Text()
            else:
                line.truncate(name_width, overflow="ellipsis", pad=True)
            for cell, width in zip(cells, widths, strict=True):
                line.append(GAP if line else "").append(" " * (width - cell_len(cell)))
                line.append(cell, "muted" if style == "muted" else "")
            yield line


def cost(repl: Repl, argument: str) -> None:
    """Run /cost [turns]."""
    from kogniterm.sessions.history import SessionHistory

    history = SessionHistory(repl.session.journal.records())
    whole = Row(_("session"), history.models, "accent")
    if argument:
        one_of(argument, (TURNS,))
        rows = [Row("0", history.before.models)] if history.before.models else []
        rows += [
            Row(f"{one.number}  {' '.join(one.input.typed.split())}", one.models)
            for one in history.turns
        ]
        repl.display.write(CostTable(_("turn"), [*rows, whole]))
    else:
        last = history.turns[-1] if history.turns else None
        name = _("last turn") if last is None or last.end else _("this turn")
        rows = [Row(name, last.models if last else {}, "accent"), whole]
        if len(whole.models) > 1:
            named = whole.models.items()
            rows += [Row(m.partition(":")[2] or m, {m: used}, indent="  ") for m, used in named]
        repl.display.write(CostTable("", rows))
    for text in (*_notes(whole), *_of_hooks(repl)):
        repl.display.say(text)


def _of_hooks(repl: Repl) -> Iterator[Phrase]:
    """Yield the time that hooks took in this session, if any ran."""
    from kogniterm.runtime.extensions.hooks.hook_service import past_runs

    times = [one.seconds for one in past_runs(repl.session.journal.records())]
    if times:
        values: dict[str, object] = {
            "count": len(times),
            "total": f"{sum(times):.1f}",
            "longest": f"{max(times):.1f}",
        }
        yield Phrase("Hooks: {count} runs, {total} s in total, the longest {longest} s.", values)


def choices(repl: Repl) -> Sequence[str]:
    """Return the words that may follow."""
    del repl
    return (TURNS,)


def _notes(whole: Row) -> Iterator[Phrase]:
    """Yield what the table does not show: shares, reuse, and where the prices are from."""
    from kogniterm.models.catalog import PRICES_DATE, price_of

    usage = whole.usage
    values: dict[str, object] = {
        "calls": usage.calls,
        "share": round(100 * usage.cached / usage.input) if usage.input else 0,
    }
    yield Phrase("Model calls: {calls}. Input from the provider's cache: {share} %.", values)
    if usage.reused:
        reused: dict[str, object] = {
            "calls": usage.reused,
            "tokens": tokens(usage.reused_input + usage.reused_output),
        }
        yield Phrase(
            "Answered from KogniTerm's own cache, free: {calls} ({tokens} tokens).", reused
        )
    unknown = [name for name in whole.models if price_of(name) is None]
    about: dict[str, object] = {"model": ", ".join(unknown), "date": PRICES_DATE}
    if unknown:
        yield Phrase("The price of {model} is unknown (price table of {date}).", about)
    else:
        yield Phrase("Estimated from the list prices of {date}.", about)
