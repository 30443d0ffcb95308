"""The two fronts of the REPL behind one face: a live prompt, or plain lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kogniterm.ui.surface import Surface

if TYPE_CHECKING:
    from kogniterm.protocols import Approver, Terminal
    from kogniterm.runtime.asking import Question
    from kogniterm.types import Text
    from kogniterm.ui.choice import Option
    from kogniterm.ui.question import AskHooks
    from kogniterm.ui.repl import Repl
    from kogniterm.ui.theme import Theme


class Front(Surface, Protocol):
    """What the REPL needs of the thing a person types into. Draws like any `Surface`."""

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

    def use_hooks(self, hooks: AskHooks) -> None:
        """What questions show besides the request."""

    def history_redact(self, redact: Callable[[str], str] | None) -> None:
        """How secrets are found, which the history must not keep."""

    def make_approver(self, repl: Repl) -> Approver:
        """Who asks the person. Called once, when drawing is loaded."""

    def terminal(self) -> Terminal | None:
        """The person's terminal, to be lent to commands that need a keyboard."""

    async def choose(self, title: str, body: Sequence[str], options: Sequence[Option]) -> str:
        """Ask a question with fixed answers; the value of the one that was chosen."""

    async def ask_person(self, question: Question, answers: Sequence[str | Text]) -> str | None:
        """Ask what the model wants to know: one of `answers`, own words, or None for no answer."""

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


def open_front(repl: Repl) -> Front:
    """The front that fits the terminal."""
    if repl.preferences.bare or not (sys.stdin.isatty() and sys.stdout.isatty()):
        from kogniterm.ui.plain_front import PlainFront

        return PlainFront(repl, sys.stdin, sys.stdout)
    from kogniterm.ui.prompt_front import TerminalFront

    return TerminalFront(repl, sys.stdin, sys.stdout)
