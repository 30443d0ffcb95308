"""Helpers of the handlers of slash commands: read words behind a name, show reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.types import Phrase
from kogniterm.ui.locale import translate

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table


LONGEST_CELL = 100
LONGEST_VALUE = 400
"""Characters shown of the value in a row of two cells."""
LEAST_ROOM = 24
"""Columns below which a sentence beside its word would be a thin strip."""


class Explained:
    """(word, sentence) rows: beside each other, or below where the screen is narrow."""

    def __init__(self, rows: Sequence[tuple[str, str]], style: str) -> None:
        self.rows, self.style = rows, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as it may be."""
        from rich.cells import cell_len
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        widest = max((cell_len(word) for word, _sentence in self.rows), default=0) + 1
        if options.max_width - widest - 2 < LEAST_ROOM:
            for word, sentence in self.rows:
                yield Text(f" {word}", self.style)
                yield Padding(Text(sentence, "muted"), (0, 0, 0, 4))
            return
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column()
        for word, sentence in self.rows:
            table.add_row(Text(f" {word}", self.style), Text(sentence, "muted"))
        yield table


def table(rows: Sequence[Sequence[str]], styles: Sequence[str]) -> Table:
    """Return columns in the given styles, one style a column; no cell can act on the terminal."""
    from rich.table import Table
    from rich.text import Text

    from kogniterm.text.shorten import one_line

    grid = Table.grid(padding=(0, 2))
    for number in range(len(styles)):
        grid.add_column(no_wrap=number == 0)
    for row in rows:
        cells = [one_line(cell, LONGEST_CELL if len(row) > 2 else LONGEST_VALUE) for cell in row]
        grid.add_row(*(Text(cell, style) for cell, style in zip(cells, styles, strict=True)))
    return grid


def first_word(argument: str) -> tuple[str, str]:
    """Return ("add", "I use fish") for "add I use fish"."""
    word, _space, rest = argument.strip().partition(" ")
    return word, rest.strip()


def read_action(
    command: str, actions: Sequence[Action], text: str
) -> tuple[Action, dict[str, Any]]:
    """Return the action that the words after a command name, and its arguments.

    Raises `UsageError` for another word, and for arguments that are missing or too many.
    """
    name, *words = text.split()
    action = next((one for one in actions if one.name == name), None)
    if action is None:
        names = ", ".join(one.name for one in actions)
        raise UsageError("/{command} takes: {names}.", command=command, names=names)
    options = {name: one for one in action.arguments for name in one.names if name[0] == "-"}
    waiting = [*action.words]
    written = f"/{command} {name} {action.usage}".rstrip()
    incomplete = UsageError("Incomplete command. Use: {usage}", usage=written)
    given: dict[str, Any] = {
        one.dest: one.default if one.takes_value else False for one in action.arguments
    }
    while words:
        word = words.pop(0)
        option = options.get(word)
        if option is not None and not option.takes_value:
            given[option.dest] = True
        elif option is not None and words:
            given[option.dest] = _read_value(option, words.pop(0))
        elif option is not None or not waiting:
            raise incomplete
        elif waiting[0].nargs in ("*", "+"):
            given[waiting.pop(0).dest], words = [word, *words], []
        else:
            argument = waiting.pop(0)
            given[argument.dest] = _read_value(argument, word)
    if any(one.nargs not in ("?", "*") for one in waiting):
        raise incomplete
    return action, given


def _read_value(argument: Argument, word: str) -> Any:
    if argument.choices is not None:
        return one_of(word, argument.choices)
    try:
        return argument.type(word) if argument.type is not None else word
    except UnusableValueError as error:
        raise UsageError(
            "{name} is {value}, but must be {wanted}.",
            name=argument.name,
            value=word,
            wanted=error.text,
        ) from error


def write_report(repl: Any, report: Report, *, level: str = "info") -> None:
    """Show the report of an action: its lines, its rows and its notes, which have a `level`."""
    for line in report.lines:
        repl.display.say(line if isinstance(line, Phrase) else Phrase("{text}", {"text": line}))
    rows = [[one if isinstance(one, str) else translate(one) for one in row] for row in report.rows]
    if rows:
        between = ["muted"] * (len(rows[0]) - 2)
        repl.display.write(table(rows, ("accent", *between, "")))
    for note in report.notes:
        repl.display.say(note, level)


_Word = TypeVar("_Word", bound=str)


def one_of(value: str, allowed: Sequence[_Word]) -> _Word:
    """Return `value` if it is one of the `allowed` words. Raises `UsageError`."""
    from kogniterm.text.spelling import closest_word

    for word in allowed:
        if word == value:
            return word
    if not value:
        raise UsageError("Specify one of: {allowed}.", allowed=", ".join(allowed))
    near = closest_word(value, allowed)
    if near:
        raise UsageError("Unknown value: {value}. Did you mean {near}?", value=value, near=near)
    raise UsageError(
        "Unknown value: {value}. Use one of: {allowed}.", value=value, allowed=", ".join(allowed)
    )
