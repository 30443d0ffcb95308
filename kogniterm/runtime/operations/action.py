"""An action of a verb and of its slash command as data, and the report that both show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple

from kogniterm.errors import EXIT_DONE, UnusableValueError
from kogniterm.types import Phrase


class Argument(NamedTuple):
    """A word (`session`) or an option (`--limit`, `-C`) of the command line.

    An option without metavar, choices and `const` is a switch. `field` is the setting it sets. One
    with `many` may be given several times.
    """

    name: str
    help: str = ""
    metavar: str = ""
    field: str = ""
    nargs: str | None = None
    default: Any = None
    choices: Sequence[str] | None = None
    type: Callable[[str], Any] | None = None
    const: object = None
    short: str = ""
    many: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names it is typed as, the long one first."""
        return (self.name, self.short) if self.short else (self.name,)

    @property
    def dest(self) -> str:
        """Name of the parameter that gets its value."""
        return self.field or self.name.lstrip("-").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        """Return whether another word belongs to it."""
        return not self.name.startswith("-") or bool(self.metavar or self.choices)


class Action(NamedTuple):
    """A word after a verb: its help, what does it, its arguments, and command lines to copy.

    `unknown_option` is what to say of an option that it does not have, if not the usual.
    """

    name: str
    help: str
    run: Callable[..., Any]
    arguments: tuple[Argument, ...] = ()
    examples: tuple[str, ...] = ()
    session_options: bool = False
    unknown_option: Phrase | None = None

    @property
    def words(self) -> tuple[Argument, ...]:
        """Return the arguments that are words; the others are options."""
        return tuple(one for one in self.arguments if one.name[0] != "-")

    @property
    def usage(self) -> str:
        """Return the words behind its name."""
        optional = ("?", "*")
        return " ".join(
            f"[{one.metavar}]" if one.nargs in optional else one.metavar for one in self.words
        )


def usage(actions: Sequence[Action]) -> str:
    """Return how the actions of a slash command are written, such as [list|show|pin ID]."""
    together = (
        ("|".join(one.name for one in alike), words)
        for words, alike in groupby(actions, lambda one: one.usage)
    )
    return f"[{'|'.join(f'{names} {words}'.rstrip() for names, words in together)}]"


def completions(actions: Sequence[Action]) -> list[str]:
    """Return what completes a slash command made of actions: names, and words that are fixed."""
    fixed = [
        f"{action.name} {choice}"
        for action in actions
        for one in action.words
        for choice in one.choices or ()
    ]
    return [*(action.name for action in actions), *fixed]


Shown = str | Phrase
"""A text for the user, translated where it is shown."""


class Report(NamedTuple):
    """The result of an action: `data` for programs; lines, a table and notes for users.

    The command line writes notes on standard error: there is nothing, or something is wrong. What
    was `printed` already, such as an export, is the whole result.
    """

    data: object = None
    lines: Iterable[Shown] = ()
    rows: Sequence[Sequence[Shown]] = ()
    notes: Iterable[Shown] = ()
    status: int = EXIT_DONE
    printed: bool = False


def limit(default: int) -> Argument:
    """Return the option that bounds how much is listed."""
    return Argument("--limit", "Maximum number of results", "N", type=count, default=default)


def whole(text: str) -> int:
    """Read a whole number. Raises `UnusableValueError`."""
    try:
        return int(text)
    except ValueError as error:
        raise UnusableValueError("a whole number") from error


def count(text: str) -> int:
    """Read a number from 1 on. Raises `UnusableValueError`."""
    number = whole(text)
    if number < 1:
        raise UnusableValueError("greater than {limit}", limit=0)
    return number


def iso(moment: float | None) -> str | None:
    """Return a moment in ISO 8601, UTC, to the millisecond."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def local_time(moment: float) -> str:
    """Return a moment (seconds since the epoch) in the local time zone."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")
