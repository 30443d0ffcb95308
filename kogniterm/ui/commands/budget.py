"""/budget: limits of turn and session, and what was used of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kogniterm.errors import UsageError
from kogniterm.runtime.budgets import OF_SESSION, UNITS, Budget, parse_amount
from kogniterm.types import Phrase, Usage
from kogniterm.ui.commands.command_helpers import first_word, one_of, table
from kogniterm.ui.locale import _, amount
from kogniterm.ui.repl import Repl

OFF = "off"
EXAMPLES = {
    "steps": "500",
    "seconds": "15min",
    "tokens": "200k",
    "dollars": "2",
}
SESSION = "session"


def budget(repl: Repl, argument: str) -> None:
    """Run /budget [[session] NAME VALUE|off]."""
    name, value = first_word(argument)
    held = repl.session.services.budget
    if name == SESSION:
        name, value = first_word(value)
        held.set_limit(*_parse_change(name, value, OF_SESSION), of_session=True)
    elif name:
        held.set_limit(*_parse_change(name, value, tuple(UNITS)))
    turn, session = held.usage_so_far(), _session_spent(repl)
    rows = [(_("name"), _("this turn"), _("limit"), _("session"), _("limit"))]
    for one in UNITS:
        most, in_all = _limit(held, one), _limit(held, one, of_session=True)
        rows.append((one, amount(one, turn[one]), most, amount(one, session[one]), in_all))
    repl.display.write(table(rows, ("accent", "", "", "", "")))
    if argument:
        return
    repl.display.say(
        Phrase("/budget NAME VALUE: limit each turn (such as 200k, 15min); off removes it.")
    )
    repl.display.say(
        Phrase(
            "/budget session NAME VALUE: limit the whole session ({names}).",
            {"names": ", ".join(OF_SESSION)},
        )
    )


def _parse_change(name: str, value: str, allowed: Sequence[str]) -> tuple[str, float | None]:
    name = one_of(name, allowed)
    if not value:
        raise UsageError(
            "Specify a limit, for example {name} {example}, or {name} off.",
            name=name,
            example=EXAMPLES[name],
        )
    return name, None if value == OFF else parse_amount(name, value)


def _limit(held: Budget, name: str, *, of_session: bool = False) -> str:
    limit = held.limit(name, of_session=of_session)
    return amount(name, limit) if limit is not None else _("no limit")


def _session_spent(repl: Repl) -> Mapping[str, float]:
    """Return the sums over all turns by the names of the limits, in tokens, dollars and seconds."""
    from kogniterm.models.catalog import cost_of
    from kogniterm.sessions.history import SessionHistory

    history = SessionHistory(repl.session.journal.records())
    usage = sum(history.models.values(), Usage())
    dollars = (cost_of(name, used) for name, used in history.models.items())
    return {
        "steps": usage.calls,
        "seconds": sum(turn.seconds for turn in history.turns),
        "tokens": usage.input + usage.output,
        "dollars": sum(filter(None, dollars)),
    }


def choices(repl: Repl) -> Iterable[str]:
    """Return the limits that can be set."""
    yield from UNITS
    yield from (f"{name} {OFF}" for name in UNITS)
    yield from (f"{SESSION} {name}" for name in OF_SESSION)
