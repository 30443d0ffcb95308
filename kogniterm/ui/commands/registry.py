"""A slash command, its lookup by name, and the REPL as commands see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kogniterm.errors import UsageError
from kogniterm.types import Job, Phrase, UserInput
from kogniterm.ui.screen_preferences import Preferences

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kogniterm.runtime.session import LiveSession
    from kogniterm.ui.questions.choice import Option
    from kogniterm.ui.screen.paint import Painter
    from kogniterm.ui.screen.renderer import Finished


class ReplContext(Protocol):
    """The REPL as its commands see it."""

    @property
    def registry(self) -> Registry:
        """The commands there are."""

    @property
    def preferences(self) -> Preferences:
        """How the user wants the screen."""

    @property
    def session(self) -> LiveSession:
        """The open session. Raises `UsageError` while it is still being opened."""

    @property
    def painter(self) -> Painter:
        """How things are drawn now."""

    @property
    def finished(self) -> Sequence[Finished]:
        """The commands that ended on this screen, oldest first."""

    @property
    def model_names(self) -> Callable[[], Sequence[str]] | None:
        """Lists the models that can be used now, where the front knows how."""

    def jobs(self) -> Sequence[Job]:
        """What commands left running; nothing while the session is being opened."""

    def write(self, renderable: RenderableType) -> None:
        """Write something into the scrollback."""

    def say(self, text: Phrase, level: str = "info") -> None:
        """Write a sentence."""

    def prefer(self, **changes: object) -> None:
        """Change preferences, at once and for this session."""

    def ask_model(self, user_input: UserInput) -> None:
        """Queue an input for the model."""

    def steer(self, text: str) -> None:
        """Say something to the running turn."""

    async def reopen(self, session_id: str | None) -> None:
        """Close this session and open another one (None: a new one)."""

    async def choose(self, title: str, body: Sequence[str], options: Sequence[Option]) -> str:
        """Ask a question with fixed answers; the value of the one that was chosen."""

    async def edit_text(self, text: str) -> str | None:
        """`text` as it was saved in the user's editor; None when nothing was changed."""

    async def show_file(self, path: str) -> None:
        """Open a file in the pager."""

    def read_own_commands(self) -> tuple[str, ...]:
        """Offer the own commands as they are now; the names of those that are new."""

    def quit(self) -> None:
        """Leave."""


Handler = Callable[["ReplContext", str], Awaitable[None] | None]
Choices = Callable[["ReplContext"], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command. `arguments` is how they are written in help.

    `choices` completes them: words, or a function that finds them in the session.

    `while_running` False keeps the command from being used in the middle of a turn;
    `needs_session` True lets it wait until the session is open.
    """

    name: str
    help: Phrase
    run: Handler
    arguments: str = ""
    choices: Choices | Sequence[str] = ()
    while_running: bool = True
    needs_session: bool = True
    aliases: tuple[str, ...] = ()

    def completions(self, context: ReplContext) -> Iterable[str]:
        """Return what completes its arguments now."""
        return self.choices(context) if callable(self.choices) else self.choices


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
