"""The front on a real terminal: the prompt, and what needs the terminal for itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.application import in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output import Output

from kogniterm.errors import UsageError
from kogniterm.ui.controls import Controls
from kogniterm.ui.front import banner
from kogniterm.ui.prompt.application import open_application
from kogniterm.ui.prompt.file_completion import FileIndex
from kogniterm.ui.prompt.input_line import LineCompleter
from kogniterm.ui.prompt.prompt import Prompt
from kogniterm.ui.terminal.terminal_io import (
    ASK_BACKGROUND,
    AnswerFilter,
    FilteredInput,
    make_output,
    worth_asking,
)
from kogniterm.ui.terminal.user_terminal import TerminalHandover, edit_in_program, run_program

if TYPE_CHECKING:
    from kogniterm.protocols import Terminal
    from kogniterm.ui.screen.screen_preferences import Theme

COPY_BYTES = 256 * 1024
ON_ITS_WAY_SECONDS = 0.05
ANSWER_SECONDS = 1.0
"""Within which a terminal that answers at all has answered, however far away it is."""
LEAVE_SECONDS = 0.15
"""Seconds for which the keyboard is still read for an answer before leaving."""


class TerminalFront:
    """A `Front` with the prompt on a terminal, which it lends to programs."""

    def __init__(
        self,
        controls: Controls,
        stdin: TextIO,
        stdout: TextIO,
        *,
        input_: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._controls = controls
        self._display = controls.display
        self._wiring = controls.repl.wiring
        self._answer: AnswerFilter | None = None
        self._keyboard: FilteredInput | None = None
        if input_ is None:
            input_ = self._keyboard = FilteredInput(stdin)
            self._answer = self._keyboard.filter = AnswerFilter(self._display.saw_background)
        self.prompt = Prompt(controls, self.edit_text)
        self.surface = self.prompt.surface
        self.questions = self.prompt.questions
        self.app = open_application(
            self.prompt,
            input_,
            output or make_output(stdout, self._display.preferences),
            self._ready,
        )
        self._asked = float("-inf")
        self._handover: TerminalHandover | None = None
        self._program_runs = False
        self.prompt.line.completer = LineCompleter(controls.repl, self._files())
        preferences = self._display.preferences
        self.surface.commit(
            banner(
                self._controls.version,
                self.surface.size()[1],
                self._display.theme,
                unicode=preferences.unicode,
                color=preferences.color,
            )
        )
        self.surface.after_blank = True

    def _files(self) -> FileIndex | None:
        if self._wiring.files is None:
            return None
        return FileIndex(
            self._wiring.files,
            clock=self._wiring.clock,
            arrived=self._files_arrived,
            near=self._shell_folder,
        )

    def _shell_folder(self) -> str:
        """Return the shell's folder seen from the workspace; "" for the workspace or outside."""
        repl = self._controls.repl
        if not repl.opened:
            return ""
        start = f"{repl.session.folder.rstrip('/')}/"
        cwd = repl.session.executor.cwd
        return cwd.removeprefix(start) if cwd.startswith(start) else ""

    @property
    def question_open(self) -> bool:
        return self.questions.open

    def exit(self, status: int) -> None:
        """Leave. An answer that is still on its way must not meet the shell."""
        fresh = self._wiring.clock() - self._asked < ANSWER_SECONDS
        if self._answer is not None and self._answer.expecting and fresh and self.app.loop:
            self.app.loop.call_later(LEAVE_SECONDS, self._exit, status)
        else:
            self._exit(status)

    def _exit(self, status: int) -> None:
        if self.app.is_running and not self.app.is_done:
            self.app.exit(result=status)

    # --- the line ------------------------------------------------------------------------------

    def echo(self, text: str) -> None:
        """Write the sent line, with the prompt's sign; of a long paste the two ends."""
        from kogniterm.ui.screen.paint import paint_input

        painter = self._display.painter
        shown = painter.paint(paint_input(text, painter), self.surface.size()[1])
        self.surface.commit(shown if self.surface.after_blank else f"\n{shown}")

    def say_below(self, note: str, holds: Callable[[], bool] | None = None) -> None:
        self.surface.say_below(note, holds)

    def restore(self, text: str) -> None:
        self.prompt.line.restore(text)
        self.surface.refresh()

    def draft(self) -> str:
        return self.prompt.line.draft()

    async def type_keys(self, keys: str, *, every: float = 0.0, enter: bool = False) -> None:
        for key in keys:
            self._late(key.encode())
            await asyncio.sleep(every)
        if enter:
            self._late(b"\r")

    def use_keys(self, keys: str) -> None:
        self.prompt.line.use_keys(keys)

    async def edit_text(self, text: str, name: str = "plan.yaml") -> str | None:
        return await edit_in_program(
            text, self._display.preferences.editor, self._run_program, name
        )

    def pasted(self, line: str) -> tuple[Sequence[str], tuple[tuple[int, int], ...]]:
        return self.prompt.clipboard.named(line), self.prompt.line.pastes.stretches(line)

    async def run(self) -> int:
        """Show the prompt until it is left; pasted images are gone then."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        try:
            return await self.app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self.prompt.clipboard.close()

    def _on_interrupt(self) -> None:
        """Take SIGINT, from outside or from a terminal in a mode that makes it of Ctrl-C.

        A pager or an editor gets the signal itself.
        """
        if not self._program_runs:
            self._controls.interrupt()

    async def show_file(self, path: str) -> None:
        """Open a file in the pager: a copy that cannot do anything to the terminal."""
        with tempfile.TemporaryDirectory(prefix=f"kogniterm-{os.getpid()}-") as folder:
            copy = Path(folder) / "output"
            try:
                await asyncio.to_thread(_safe_copy, Path(path), copy)
            except OSError as error:
                raise UsageError(
                    "The file {path} cannot be read; it may have been deleted.", path=path
                ) from error
            await self._run_program([*self._display.preferences.pager, str(copy)])

    def terminal(self) -> Terminal:
        if self._handover is None:
            self._handover = TerminalHandover(self._command_keyboard, self._late)
        return self._handover.terminal(*self.terminal_files)

    @property
    def terminal_files(self) -> tuple[int, int]:
        return self.app.input.fileno(), self.app.output.fileno()

    def _late(self, keys: bytes) -> None:
        """Give the prompt the keys that a command left unread, as a shell would get them."""
        pressed: list[KeyPress] = []
        parser = Vt100Parser(pressed.append)
        parser.feed(keys.decode("utf-8", "replace"))
        parser.flush()
        self.app.key_processor.feed_multiple(pressed)
        self.app.key_processor.process_keys()

    @contextlib.asynccontextmanager
    async def hand_over(self, *, raw: bool = False) -> AsyncIterator[None]:
        """Give the terminal without the prompt on it, in the modes it had before.

        It stays `raw` on demand: in line mode, the terminal would echo for a moment what is typed
        at a hidden prompt.
        """
        quiet = self._keyboard.resting_raw() if raw and self._keyboard else contextlib.nullcontext()
        with quiet, set_app(self.app):
            async with in_terminal():
                self.surface.write_pending()
                yield

    @contextlib.asynccontextmanager
    async def _command_keyboard(self) -> AsyncIterator[None]:
        """Give the terminal to a running command; the user is told how to get it back."""
        # What the command wrote just now is still on its way to the screen.
        await asyncio.sleep(ON_ITS_WAY_SECONDS)
        self._display.keyboard_to_command()
        try:
            async with self.hand_over(raw=True):
                yield
        finally:
            self._display.keyboard_back()

    async def _run_program(self, command: Sequence[str]) -> int:
        async with self.hand_over():
            self._program_runs = True
            try:
                return await run_program(command)
            finally:
                self._program_runs = False

    def _files_arrived(self) -> None:
        """Complete again with the new list of files, if somebody waits for it."""
        loop = self.app.loop
        if loop is not None and self.app.is_running:
            with contextlib.suppress(RuntimeError):  # it closed just now, and nothing waits
                loop.call_soon_threadsafe(self._complete_again)

    def _complete_again(self) -> None:
        word = self.prompt.line.buffer.document.text_before_cursor.rpartition(" ")[2]
        if word.startswith("@"):
            self.prompt.line.buffer.start_completion(select_first=False)

    def restyle(self, theme: Theme) -> None:
        """Use another theme from the next frame on."""
        self.surface.restyle(theme)
        self._ask_background()

    def _ask_background(self) -> None:
        """Ask once, when the answer matters."""
        if (
            self._answer is not None
            and self._asked == float("-inf")
            and worth_asking(self._display.preferences)
        ):
            self._answer.expecting = True
            self._asked = self._wiring.clock()
            self.surface.control(ASK_BACKGROUND)

    def _ready(self) -> None:
        self._ask_background()
        self._controls.repl.ready()


def _safe_copy(source: Path, target: Path) -> None:
    """Copy command output without what a terminal would obey, except colours."""
    from kogniterm.text.sanitize import Sanitizer

    cleaner = Sanitizer()
    with source.open("rb") as read, target.open("wb") as write:
        while data := read.read(COPY_BYTES):
            write.write(cleaner.feed(data).replace(b"\r\n", b"\n"))
        write.write(cleaner.flush())
