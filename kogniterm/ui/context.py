"""What a slash command may use of the REPL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kogniterm.types import Job, Text, UserInput
from kogniterm.ui.preferences import Preferences

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kogniterm.runtime.session import LiveSession
    from kogniterm.ui.choice import Option
    from kogniterm.ui.commands.registry import Registry
    from kogniterm.ui.paint import Painter
    from kogniterm.ui.render import Finished


class ReplContext(Protocol):
    """The REPL as its commands see it."""

    registry: Registry

    @property
    def preferences(self) -> Preferences:
        """How the person wants the screen."""

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

    def say(self, text: Text, level: str = "info") -> None:
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
        """`text` as it was saved in the person's editor; None when nothing was changed."""

    async def show_file(self, path: str) -> None:
        """Open a file in the pager."""

    def read_own_commands(self) -> tuple[str, ...]:
        """Offer the own commands as they are now; the names of those that are new."""

    def quit(self) -> None:
        """Leave."""
