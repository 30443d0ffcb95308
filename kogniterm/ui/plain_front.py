"""The REPL as plain lines: TERM=dumb, screen readers, and whatever is no full terminal.

The terminal itself edits the line. Nothing is redrawn, nothing spins; lines that arrive while
a turn runs are queued, and Ctrl-C comes as a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kogniterm.errors import UsageError
from kogniterm.ui.banner import banner
from kogniterm.ui.choice import Option, choose_in_lines
from kogniterm.ui.editor import edited, run_program
from kogniterm.ui.inputs import is_slash_command
from kogniterm.ui.lending import Lending
from kogniterm.ui.locale import _
from kogniterm.ui.surface import LineSurface
from kogniterm.ui.theme import Theme
from kogniterm.ui.typeahead import typed_before

if TYPE_CHECKING:
    from kogniterm.protocols import Approver, Terminal
    from kogniterm.runtime.asking import Question
    from kogniterm.types import Text
    from kogniterm.ui.question import AskHooks
    from kogniterm.ui.repl import Repl

CHUNK = 65536
MOST_SHOWN = 400_000
"""Bytes of a file that /output writes where there is no pager."""


class PlainFront(LineSurface):
    """A `Front` that reads and writes lines."""

    def __init__(self, repl: Repl, stdin: TextIO, stdout: TextIO) -> None:
        super().__init__(stdout)
        self._repl = repl
        self._fd = stdin.fileno()
        self._tty = stdin.isatty()
        self._out = stdout.fileno()
        self._lending: Lending | None = None
        self._buffer = b""
        self._lines: deque[str] = deque()
        self._wanted: asyncio.Future[str | None] | None = None
        self._ended = False
        self._done: asyncio.Future[int] | None = None
        self._hooks: AskHooks | None = None
        self._prompted = False
        self._free = False

    @property
    def question_open(self) -> bool:
        """Whether a question waits for its answer."""
        return self._wanted is not None

    async def run(self) -> int:
        """Read lines until `exit` or the end of input."""
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        self.commit(
            banner(self._repl.version, self.size()[1], self._repl.theme, unicode=False,
                   color=False, attributes=False)
        )  # fmt: skip
        loop.add_reader(self._fd, self._readable)
        loop.add_signal_handler(signal.SIGINT, self._repl.interrupt)
        self._repl.ready()
        try:
            return await self._done
        finally:
            loop.remove_reader(self._fd)
            loop.remove_signal_handler(signal.SIGINT)
            if self._prompted and self._tty:
                self._prompted = False
                super().commit("\n")  # the shell's prompt begins a line of its own

    def exit(self, status: int) -> None:
        """Leave."""
        if self._done is not None and not self._done.done():
            self._done.set_result(status)

    def commit(self, text: str) -> None:
        """Write lines; an open prompt is left standing above them."""
        if self._prompted and text:
            self._prompted = False
            text = "\n" + text
        super().commit(text)

    def refresh(self) -> None:
        """Show the prompt when there is nothing left to do."""
        idle = self._repl.opened and not self._repl.turns.running
        if idle and not self._prompted and self._wanted is None:
            self._show_prompt()

    def echo(self, text: str) -> None:
        """The terminal has shown it already."""

    def say_below(self, note: str) -> None:
        """A line of its own."""
        if note:
            self.commit(note + "\n")

    def restore(self, text: str) -> None:
        """A line cannot be given back; show it, so that it can be copied."""
        if text:
            self.commit(_("Not sent: {text}").format(text=text) + "\n")

    def draft(self) -> str:
        """Only the terminal knows what stands on the line."""
        return ""

    def restyle(self, theme: Theme) -> None:
        """Plain lines have no colours."""

    def use_keys(self, keys: str) -> None:
        """The terminal's own keys are used."""

    def use_hooks(self, hooks: AskHooks) -> None:
        """Show these with every question."""
        self._hooks = hooks

    def history_redact(self, redact: Callable[[str], str] | None) -> None:
        """There is no history here."""

    def make_approver(self, repl: Repl) -> Approver:
        """The approver that asks line by line."""
        from kogniterm.ui.ask import LineAsker

        return LineAsker(
            read_line=self._ask,
            write=self.commit,
            size=self.size,
            pause=self._pause,
            painter=repl.painter,
            folder=repl.folder_of,
            hooks=lambda: self._hooks,
            notify=repl.person_needed,
            tools=repl.plan_tools,
            edit_text=self.edit_text if os.isatty(self._fd) else None,
            plan_shown=repl.plan_shown,
        )

    async def choose(self, title: str, body: Sequence[str], options: Sequence[Option]) -> str:
        """Ask a question that is answered with one letter; the end of input takes the last."""
        self.commit("\n".join([title, *body]) + "\n")
        await self._pause()
        return await choose_in_lines(options, read_line=self._ask, write=self.commit)

    async def ask_person(self, question: Question, answers: Sequence[str | Text]) -> str | None:
        """Ask what the model wants to know, line by line."""
        from kogniterm.ui.model_question import ask_in_lines, asked

        self._repl.person_needed()
        return await ask_in_lines(
            asked(question, answers),
            read_line=self._ask_freely,
            pause=self._pause,
            write=self.commit,
            painter=self._repl.painter,
            columns=self.size()[1],
        )

    def terminal(self) -> Terminal:
        """The person's terminal, for a command that needs their keyboard."""
        from kogniterm.ui.handover import PersonTerminal

        if self._lending is None:
            self._lending = Lending(self._still, self._late)
        return PersonTerminal(
            self._fd,
            self._out,
            suspend=self._lending.suspend,
            resume=self._lending.resume,
            typed=self._lending.typed,
        )

    @contextlib.asynccontextmanager
    async def _still(self) -> AsyncIterator[None]:
        """Nobody else reads the keyboard meanwhile."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._fd)
        try:
            yield
        finally:
            if not self._ended:
                loop.add_reader(self._fd, self._readable)

    async def edit_text(self, text: str) -> str | None:
        """`text` as it was saved in the person's editor. Raises `UsageError` without a terminal."""
        if not os.isatty(self._fd):
            raise UsageError("An editor needs a terminal.")
        async with self._still():
            return await edited(text, self._repl.preferences.editor, run_program)

    async def edit_outside(self) -> None:
        """Not on plain lines."""

    async def paste_image(self) -> None:
        """Not on plain lines."""

    def pasted_images(self, line: str) -> Sequence[str]:
        """None can be pasted."""
        return ()

    async def show_file(self, path: str) -> None:
        """Write the end of the file, made safe."""
        from kogniterm.approval.sanitize import sanitize
        from kogniterm.ui.clean import without_style

        try:
            data = await asyncio.to_thread(_end_of, path)
        except OSError as error:
            raise UsageError("The file {path} is gone.", path=path) from error
        self.commit(without_style(sanitize(data).decode("utf-8", "replace")) + "\n")

    # --- pieces ---------------------------------------------------------------------------------

    def _show_prompt(self) -> None:
        super().commit("> ")
        self._prompted = True

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
                self._repl.hang_up()
                return
        self._take_in(data)

    def _late(self, keys: bytes) -> None:
        lines, end, rest = keys.replace(b"\r", b"\n").partition(b"\x04")
        self._ended = self._ended or bool(end)
        self._take_in(lines + rest)

    def _take_in(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if self._ended and self._buffer:
            lines, self._buffer = [*lines, self._buffer], b""
        for line in lines:
            self._take(line.decode("utf-8", "replace").rstrip("\r"))
        if self._ended:
            self._end()

    def _take(self, line: str) -> None:
        self._prompted = False
        waiting = self._wanted is not None and not self._wanted.done()
        if waiting and self._is_command(line.strip()):
            # The question goes on waiting.
            self._repl.submit(line)
        elif self._wanted is not None and waiting:
            self._wanted.set_result(line)
        else:
            self._repl.submit(line)
            self.refresh()

    def _end(self) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)
        self._repl.leave_when_done()

    def _is_command(self, line: str) -> bool:
        """Whether a line at a question is for KogniTerm; to the model's a path is an answer."""
        return is_slash_command(line) and (not self._free or self._repl.knows(line))

    async def _ask_freely(self, prompt: str, prefill: str) -> str | None:
        self._free = True
        try:
            return await self._ask(prompt, prefill)
        finally:
            self._free = False

    async def _ask(self, prompt: str, prefill: str) -> str | None:
        if prefill:
            self.commit(_("now: {text}").format(text=prefill) + "\n")
        self.commit(prompt)
        if self._ended:
            return None
        self._wanted = asyncio.get_running_loop().create_future()
        try:
            return await self._wanted
        finally:
            self._wanted = None

    async def _pause(self) -> None:
        """Wait until nobody is typing; an unfinished line is shown, whole ones were sent."""
        typed = await typed_before(self._fd, self._repl.preferences.answer_pause)
        *lines, rest = (self._buffer.decode("utf-8", "replace") + typed).split("\n")
        self._buffer = b""
        for line in lines:
            self._take(line)
        self.restore(rest)


def _end_of(path: str) -> bytes:
    with Path(path).open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(stream.tell() - MOST_SHOWN, 0))
        return stream.read()
