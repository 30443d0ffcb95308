"""What a slash command is, and the table of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Text

if TYPE_CHECKING:
    from kogniterm.ui.context import ReplContext

Handler = Callable[["ReplContext", str], Awaitable[None] | None]
Choices = Callable[["ReplContext"], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command. `arguments` is how they are written in help; `choices` completes them.

    `while_running` False keeps the command from being used in the middle of a turn;
    `needs_session` True lets it wait until the session is open.
    """

    name: str
    help: Text
    run: Handler
    arguments: str = ""
    choices: Choices | None = None
    while_running: bool = True
    needs_session: bool = True
    aliases: tuple[str, ...] = ()


def split_line(line: str) -> tuple[str, str]:
    """("model", "local") from "/model local"."""
    name, _space, rest = line.strip().removeprefix("/").partition(" ")
    return name.lower(), rest.strip()


class Registry:
    """The commands by name, in the order in which help shows them."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = tuple(commands)
        self._by_name = {
            name: command for command in commands for name in (command.name, *command.aliases)
        }
        if len(self._by_name) != sum(1 + len(command.aliases) for command in commands):
            raise ValueError("two slash commands have the same name")

    def knows(self, name: str) -> bool:
        """Whether `name` is a command's, in full."""
        return name in self._by_name

    def has(self, name: str) -> bool:
        """Tell whether `name` is a command, or the beginning of one."""
        return any(known.startswith(name) for known in self._by_name)

    def find(self, name: str) -> Command:
        """The command called `name`, or the only one that begins so. Raises `UsageError`."""
        if name in self._by_name:
            return self._by_name[name]
        close = sorted({c.name for n, c in self._by_name.items() if name and n.startswith(name)})
        if len(close) == 1:
            return self._by_name[close[0]]
        if close:
            raise UsageError(
                "/{name} could be {names}; type a little more.",
                name=name,
                names=", ".join(f"/{other}" for other in close),
            )
        raise UsageError("There is no command /{name}; /help lists them.", name=name)
