"""The REPL as plain lines: TERM=dumb, screen readers, and whatever is no full terminal.

The terminal itself edits the line. Nothing is redrawn, nothing spins; lines that arrive while
a turn runs are queued, and Ctrl-C comes as a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kogniterm.errors import UsageError
from kogniterm.runtime.inputs.called_input import is_slash_command
from kogniterm.ui.controls import Controls
from kogniterm.ui.front import banner
from kogniterm.ui.locale import _
from kogniterm.ui.screen.surface import LineSurface, discard_output
from kogniterm.ui.terminal.user_terminal import (
    TerminalHandover,
    edit_in_program,
    run_program,
    typed_before,
)

if TYPE_CHECKING:
    from kogniterm.protocols import Terminal
    from kogniterm.ui.questions.lines import LineQuestions
    from kogniterm.ui.screen.paint import Painter
    from kogniterm.ui.screen.screen_preferences import Theme

CHUNK = 65536
MOST_SHOWN = 400_000
"""Bytes of a file that /output writes where there is no pager."""


class PlainLines(LineSurface):
    """Reads and writes the lines of a REPL; where a question waits, a line is its answer."""

    def __init__(self, controls: Controls, stdin: TextIO, stdout: TextIO) -> None:
        super().__init__(stdout)
        self._fd = stdin.fileno()
        self._tty = stdin.isatty()
        self._controls = controls
        self._buffer = b""
        self._wanted: asyncio.Future[str | None] | None = None
        self._ended = False
        self._prompted = False
        self._free = False

    @property
    def painter(self) -> Painter:
        return self._controls.display.painter

    @property
    def question_open(self) -> bool:
        return self._wanted is not None and not self._wanted.done()

    def listen(self) -> None:
        if not self._ended:
            asyncio.get_running_loop().add_reader(self._fd, self._readable)

    def rest(self) -> None:
        """Leave the keyboard to somebody else."""
        asyncio.get_running_loop().remove_reader(self._fd)

    def close(self) -> None:
        """Take no more lines; the shell's prompt begins a line of its own."""
        self.rest()
        if self._prompted and self._tty:
            self._prompted = False
            self._write("\n")

    def commit(self, text: str) -> None:
        """Write lines; an open prompt is left standing above them."""
        if self._prompted and text:
            self._prompted = False
            text = "\n" + text
        self._write(text)

    def refresh(self) -> None:
        """Show the prompt when there is nothing left to do."""
        repl = self._controls.repl
        idle = repl.opened and not repl.turns.running
        if idle and not self._prompted and self._wanted is None:
            self._write("> ")
            self._prompted = True

    def restore(self, text: str) -> None:
        """Show a line that was not sent, so that it can be copied: it cannot be given back."""
        if text:
            self.commit(_("Not sent: {text}").format(text=text) + "\n")

    def late(self, keys: bytes) -> None:
        """Take keys that a command left unread."""
        lines, end, rest = keys.replace(b"\r", b"\n").partition(b"\x04")
        self._ended = self._ended or bool(end)
        self._take_in(lines + rest)

    def typed_line(self, line: str) -> None:
        """Show a line and take it, as if it was typed."""
        self._prompted = False
        self.commit(line + "\n")
        self._take(line)

    async def read_line(self, prompt: str, start: str = "", *, free: bool = False) -> str | None:
        if start:
            self.commit(_("now: {text}").format(text=start) + "\n")
        self.commit(prompt)
        if self._ended:
            return None
        self._wanted = asyncio.get_running_loop().create_future()
        self._free = free
        try:
            return await self._wanted
        finally:
            self._wanted = None
            self._free = False

    async def pause(self) -> None:
        """Wait until nobody is typing; an unfinished line is shown, whole ones were sent."""
        typed = await typed_before(self._fd, self._controls.display.preferences.key_times)
        *lines, rest = (self._buffer.decode("utf-8", "replace") + typed).split("\n")
        self._buffer = b""
        for line in lines:
            self._take(line)
        self.restore(rest)

    def _write(self, text: str) -> None:
        """Write `text`; leave when the reader of a pipe is gone."""
        try:
            super().commit(text)
        except BrokenPipeError:
            discard_output(self._stream)
            self._controls.repl.leave(128 + signal.SIGPIPE)

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except OSError:
            data = b""
        if not data:
            self._ended = True
            asyncio.get_running_loop().remove_reader(self._fd)
            if self._tty and not os.isatty(self._fd):
                # The terminal is gone, which is no answer to anything.
                self._controls.hang_up()
                return
        self._take_in(data)

    def _take_in(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if self._ended and self._buffer:
            lines, self._buffer = [*lines, self._buffer], b""
        for line in lines:
            self._take(line.decode("utf-8", "replace").rstrip("\r"))
        if self._ended:
            if self._wanted is not None and not self._wanted.done():
                self._wanted.set_result(None)
            self._controls.repl.leave_when_done()

    def _take(self, line: str) -> None:
        self._prompted = False
        waiting = self._wanted is not None and not self._wanted.done()
        if waiting and self._is_command(line.strip()):
            # The question goes on waiting.
            self._controls.submit(line)
        elif self._wanted is not None and waiting:
            self._wanted.set_result(line)
        else:
            self._controls.submit(line)
            self.refresh()

    def _is_command(self, line: str) -> bool:
        """Return whether a line at a question is a command; to the model's a path is an answer."""
        return is_slash_command(line) and (not self._free or self._controls.knows_command(line))


class PlainFront:
    """A `Front` that reads and writes lines; the terminal itself edits and shows them."""

    def __init__(self, controls: Controls, stdin: TextIO, stdout: TextIO) -> None:
        self.surface = PlainLines(controls, stdin, stdout)
        self._controls = controls
        self._display = controls.display
        self._fd = stdin.fileno()
        self._out = stdout.fileno()
        self._handover: TerminalHandover | None = None
        self._done: asyncio.Future[int] | None = None

    @property
    def question_open(self) -> bool:
        return self.surface.question_open

    async def run(self) -> int:
        """Read lines until `exit` or the end of input."""
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        self.surface.commit(
            banner(
                self._controls.version,
                self.surface.size()[1],
                self._display.theme,
                unicode=False,
                color=False,
                attributes=False,
            )
        )
        self.surface.listen()
        loop.add_signal_handler(signal.SIGINT, self._controls.interrupt)
        self._controls.repl.ready()
        try:
            return await self._done
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self.surface.close()

    def exit(self, status: int) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(status)

    def echo(self, text: str) -> None:
        """Write nothing: the terminal has shown it already."""

    def restyle(self, theme: Theme) -> None:
        """Change nothing: plain lines have no colours."""

    async def type_keys(self, keys: str, *, every: float = 0.0, enter: bool = False) -> None:
        """Take a line as if it was typed; it is shown, as a terminal would."""
        await asyncio.sleep(every * len(keys))
        self.surface.typed_line(keys)

    def use_keys(self, keys: str) -> None:
        """Change nothing: the terminal's own keys are used."""

    def draft(self) -> str:
        """Return nothing: only the terminal knows what stands on the line."""
        return ""

    def pasted(self, line: str) -> tuple[Sequence[str], tuple[tuple[int, int], ...]]:
        """Return nothing: only the terminal knows what was pasted."""
        return (), ()

    def say_below(self, note: str, holds: Callable[[], bool] | None = None) -> None:
        if note:
            self.surface.commit(note + "\n")

    def restore(self, text: str) -> None:
        """Show a line that cannot be given back."""
        self.surface.restore(text)

    @cached_property
    def questions(self) -> LineQuestions:
        """Asks line by line. Loads what draws."""
        from kogniterm.ui.questions.lines import LineQuestions

        edit_text = self.edit_text if os.isatty(self._fd) else None
        return LineQuestions(self.surface, notify=self._display.user_needed, edit_text=edit_text)

    def terminal(self) -> Terminal:
        if self._handover is None:
            self._handover = TerminalHandover(self.hand_over, self.surface.late)
        return self._handover.terminal(*self.terminal_files)

    @property
    def terminal_files(self) -> tuple[int, int]:
        return self._fd, self._out

    @contextlib.asynccontextmanager
    async def hand_over(self, *, raw: bool = False) -> AsyncIterator[None]:
        """Let nobody else read the keyboard meanwhile; its modes stay as they are."""
        self.surface.rest()
        try:
            yield
        finally:
            self.surface.listen()

    async def edit_text(self, text: str) -> str | None:
        """Return `text` as saved in the user's editor. Raises `UsageError` without a terminal."""
        if not os.isatty(self._fd):
            raise UsageError("The editor cannot be opened: standard input is not a terminal.")
        async with self.hand_over():
            return await edit_in_program(text, self._display.preferences.editor, run_program)

    async def show_file(self, path: str) -> None:
        """Write the end of the file, made safe."""
        from kogniterm.text.sanitize import sanitize
        from kogniterm.text.visible import without_style

        try:
            data = await asyncio.to_thread(_end_of, path)
        except OSError as error:
            raise UsageError(
                "The file {path} cannot be read; it may have been deleted.", path=path
            ) from error
        self.surface.commit(without_style(sanitize(data).decode("utf-8", "replace")) + "\n")


def _end_of(path: str) -> bytes:
    with Path(path).open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(stream.tell() - MOST_SHOWN, 0))
        return stream.read()
