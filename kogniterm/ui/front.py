"""The front of the REPL: a live prompt or plain lines, whichever fits the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kogniterm.ui.screen.surface import Surface

if TYPE_CHECKING:
    from kogniterm.protocols import Terminal
    from kogniterm.ui.questions.question import Asker
    from kogniterm.ui.theme import Theme


class Front(Protocol):
    """What the REPL needs of the thing a user types into."""

    @property
    def surface(self) -> Surface:
        """Where to draw."""

    @property
    def questions(self) -> Asker:
        """Asks the user."""

    @property
    def question_open(self) -> bool:
        """Whether a question waits for its answer."""

    async def run(self) -> int:
        """Read lines until `exit`; returns the exit status."""

    def exit(self, status: int) -> None:
        """Leave."""

    def echo(self, text: str) -> None:
        """Write what the person sent into the scrollback."""

    def say_below(self, note: str) -> None:
        """A short note that goes away by itself."""

    def restore(self, text: str) -> None:
        """Give text back to the input line."""

    def draft(self) -> str:
        """What stands on the input line and was not sent."""

    def restyle(self, theme: Theme) -> None:
        """Use another theme."""

    def use_keys(self, keys: str) -> None:
        """Switch between emacs and vi keys."""

    def history_redact(self, redact: Callable[[str], str] | None) -> None:
        """How secrets are found, which the history must not keep."""

    def terminal(self) -> Terminal | None:
        """The person's terminal, to be lent to commands that need a keyboard."""

    async def edit_text(self, text: str) -> str | None:
        """`text` as it was saved in the person's editor; None when nothing was changed."""

    async def edit_outside(self) -> None:
        """Write the input line in the editor."""

    async def paste_image(self) -> None:
        """Add the image on the clipboard to the line."""

    def pasted_images(self, line: str) -> Sequence[str]:
        """The files of the pasted images that a line mentions."""

    async def show_file(self, path: str) -> None:
        """Open a file in the pager."""
