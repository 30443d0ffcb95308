"""The user's own terminal: what was typed ahead, and its handover to a command, editor or pager."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import termios
import threading
import tty
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

from kogniterm.errors import TurnInterruptedError, UsageError, why
from kogniterm.host.terminal_owner import user_job
from kogniterm.text.visible import render
from kogniterm.ui.locale import _
from kogniterm.ui.screen.screen_preferences import KEY_TIMES, KeyTimes
from kogniterm.ui.screen.surface import cells

_FALLBACK = (24, 80)
Value = TypeVar("Value")


class UserTerminal:
    """Implements `protocols.Terminal` for the terminal this process runs in.

    `suspend` is called before the terminal is taken and `resume` after it was given back: the
    prompt's own drawing has to rest meanwhile. `typed` gets the keys that came too late for the
    command. All may be called from the executor's thread.
    """

    def __init__(
        self,
        input_fd: int | None = None,
        output_fd: int | None = None,
        *,
        suspend: Callable[[], None] | None = None,
        resume: Callable[[], None] | None = None,
        typed: Callable[[bytes], None] | None = None,
    ) -> None:
        self._input = sys.stdin.fileno() if input_fd is None else input_fd
        self._output = sys.stdout.fileno() if output_fd is None else output_fd
        self._suspend = suspend
        self._resume = resume
        self._typed = typed
        self._modes: list[int | list[bytes | int]] | None = None

    def size(self) -> tuple[int, int]:
        """Return (rows, columns); 24 by 80 where there is no terminal."""
        for fd in (self._output, self._input):
            with contextlib.suppress(OSError):
                columns, rows = os.get_terminal_size(fd)
                if rows and columns:
                    return rows, columns
        return _FALLBACK

    def acquire(self) -> tuple[int, int]:
        if self._suspend is not None:
            self._suspend()
        if self._modes is None:
            with contextlib.suppress(termios.error):
                self._modes = termios.tcgetattr(self._input)
                # Draining, not flushing: what was typed ahead belongs to the program.
                tty.setraw(self._input, termios.TCSADRAIN)
        return self._input, self._output

    def release(self, unread: bytes = b"") -> None:
        """Give the terminal back with the modes it had; harmless when it was not taken."""
        modes, self._modes = self._modes, None
        try:
            if modes is not None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(self._input, termios.TCSADRAIN, modes)
        finally:
            if self._resume is not None:
                self._resume()
            if unread and self._typed is not None:
                self._typed(unread)


PATIENCE_SECONDS = 10.0
"""Seconds for which a thread waits for the loop, which may be gone."""


class TerminalHandover:
    """`suspend` and `resume` may be called from any thread but the loop's own.

    `still` is what keeps the screen quiet: an async context manager made anew each time.
    `late` takes the keys that were typed when nothing read them any more.
    """

    def __init__(
        self,
        still: Callable[[], AbstractAsyncContextManager[None]],
        late: Callable[[bytes], None],
    ) -> None:
        self._still = still
        self._late = late
        self._loop = asyncio.get_running_loop()
        self._back: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    def terminal(self, input_fd: int, output_fd: int) -> UserTerminal:
        """Return the terminal behind the descriptors, taken and given back in this way."""
        return UserTerminal(
            input_fd, output_fd, suspend=self.suspend, resume=self.resume, typed=self.typed
        )

    def suspend(self) -> None:
        """Return when the screen rests. Harmless when it does already."""
        rests = threading.Event()
        self._loop.call_soon_threadsafe(self._begin, rests)
        rests.wait(PATIENCE_SECONDS)

    def resume(self) -> None:
        """Return when the screen is drawn again. Harmless when it is."""
        drawn = threading.Event()
        self._loop.call_soon_threadsafe(self._end, drawn)
        drawn.wait(PATIENCE_SECONDS)

    def typed(self, keys: bytes) -> None:
        """Take keys that came too late for the command."""
        self._loop.call_soon_threadsafe(self._late, keys)

    def _begin(self, rests: threading.Event) -> None:
        if self._task is None:
            self._back = asyncio.Event()
            self._task = self._loop.create_task(self._rest(rests, self._back))
        else:
            rests.set()

    async def _rest(self, rests: threading.Event, back: asyncio.Event) -> None:
        try:
            async with self._still():
                rests.set()
                await back.wait()
        finally:
            rests.set()

    def _end(self, drawn: threading.Event) -> None:
        task, self._task = self._task, None
        if task is None or self._back is None:
            drawn.set()
            return
        self._back.set()
        task.add_done_callback(lambda _task: drawn.set())


Run = Callable[[Sequence[str]], Awaitable[int]]


async def edit_in_program(
    text: str, editor: Sequence[str], run: Run, name: str = "plan.yaml"
) -> str | None:
    """Return `text` as it was saved; None when the editor failed or nothing was changed."""
    with tempfile.TemporaryDirectory(prefix=f"kogniterm-{os.getpid()}-") as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8")
        if await run([*editor, str(file)]) != 0 or not file.is_file():
            return None
        saved = file.read_text(encoding="utf-8", errors="replace")
        return saved if saved != text else None


async def run_program(command: Sequence[str], keyboard: int | None = None) -> int:
    """Run a program on the terminal to its end; its exit status. Raises `UsageError`.

    It is named by its path: a bare name was found nowhere but perhaps in the workspace.
    """
    if not command[0].startswith("/"):
        raise UsageError(
            "{program} not found outside the workspace. Set VISUAL, EDITOR "
            "or PAGER to the full path of a program.",
            program=command[0],
        )
    try:
        return await asyncio.to_thread(user_job().run, command, keyboard)
    except OSError as error:
        raise UsageError(
            "{program} could not be started: {why}",
            program=command[0],
            why=why(error),
        ) from error


_CHUNK = 65536
_LOCAL, _CONTROL = 3, 6


def take_typed(fd: int) -> str:
    """Empty the terminal's input queue and return what was in it; "" where `fd` is none."""
    try:
        before = termios.tcgetattr(fd)
        raw = termios.tcgetattr(fd)
        # Only a terminal that edits no lines hands out the beginning of one.
        raw[_LOCAL] &= ~termios.ICANON
        raw[_CONTROL][termios.VMIN] = raw[_CONTROL][termios.VTIME] = 0
        termios.tcsetattr(fd, termios.TCSANOW, raw)
        try:
            data = os.read(fd, _CHUNK)
        finally:
            termios.tcsetattr(fd, termios.TCSANOW, before)
    except (termios.error, OSError, ValueError):
        return ""
    return data.decode("utf-8", "replace").replace("\r", "\n")


_PASTE = "\x1b[200~", "\x1b[201~"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|O.)")
_STOP = re.compile("[\x1b\x03]")
_RECEIVED = b"***"
_SHORTEST_ROOM = 30
"""Cells behind a question; where fewer are left, the answer is typed below it."""


async def hidden_line(
    input_fd: int, output_fd: int, prompt: str, *, shown: bool = False
) -> str | None:
    """Return a line, echoed if `shown`, without the white space around it; None to go back.

    Esc, Ctrl-C and Ctrl-D go back. A paste is taken whole, with its line breaks removed. Of a
    line that is longer than its row, the end is shown.
    """
    with _silent(input_fd):
        columns = UserTerminal(input_fd, output_fd).size()[1]
        room = columns - 1 - cells(prompt)
        if shown and room < _SHORTEST_ROOM:
            prompt, room = f"{prompt}\r\n", columns - 1
        try:
            os.write(output_fd, f"{prompt}\x1b7\x1b[?2004h".encode())
            return await _typed_hidden(input_fd, output_fd, room if shown else 0)
        finally:
            os.write(output_fd, b"\x1b[?2004l\r\n")


async def ask_secret(
    hand_over: Callable[..., AbstractAsyncContextManager[None]], files: tuple[int, int], name: str
) -> str | None:
    """Ask at the terminal `files` for the value of a secret, without an echo; None for none."""
    async with hand_over(raw=True):
        prompt = _("Value of {name} (hidden, Esc: back): ").format(name=name)
        return await hidden_line(*files, prompt)


async def run_stoppable(command: Sequence[str]) -> int:
    """Run a program that reads no keys; its exit status. It is ended where this is cancelled.

    Raises `UsageError`.
    """
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise UsageError(
            "{program} could not be started: {why}", program=command[0], why=why(error)
        ) from error
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def unless_stopped(
    work: Coroutine[Any, Any, Value], input_fd: int, stop: Callable[[], object] | None = None
) -> Value | None:
    """Return what `work` returns; None when Esc or Ctrl-C was pressed.

    `stop` makes the work raise `TurnInterruptedError`; without it, the work is cancelled.
    """
    task = asyncio.ensure_future(work)
    with _silent(input_fd):
        watch = asyncio.ensure_future(_stop_pressed(input_fd))
        try:
            await asyncio.wait([task, watch], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            (stop or task.cancel)()
            with contextlib.suppress(asyncio.CancelledError, TurnInterruptedError):
                await task
            return None
        finally:
            task.cancel()
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch  # which still reads the keyboard until then


async def _stop_pressed(fd: int) -> None:
    async with contextlib.aclosing(_keys(fd)) as typed:
        async for keys in typed:
            if _STOP.search(_SEQUENCE.sub("", keys)) is not None:
                return
    await asyncio.Event().wait()  # the terminal is gone, which its signal tells


@contextlib.contextmanager
def _silent(fd: int) -> Iterator[None]:
    """Let the terminal echo nothing and make no signals."""
    before = termios.tcgetattr(fd)
    silent = termios.tcgetattr(fd)
    silent[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
    silent[_CONTROL][termios.VMIN], silent[_CONTROL][termios.VTIME] = 1, 0
    termios.tcsetattr(fd, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        # What was typed too late must not be echoed, or answer the next question.
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)


async def _typed_hidden(fd: int, output_fd: int, room: int) -> str | None:
    """Read a line, shown in `room` cells; without any, three stars say that it was received."""
    keys = ""
    async with contextlib.aclosing(_keys(fd)) as typed:
        async for more in typed:
            keys += more
            line, done = _edited_line(keys)
            echo = render(line or "")[-room:].encode() if room else _RECEIVED
            os.write(output_fd, b"\x1b8\x1b[K" + (echo if line else b""))
            if done:
                return line
    return None


def _edited_line(keys: str) -> tuple[str | None, bool]:
    """Return the line that `keys` make, and whether a key has ended it."""
    start, end = map(re.escape, _PASTE)
    pasted = re.compile(f"{start}(.*?){end}", re.DOTALL)
    keys = pasted.sub(lambda found: re.sub(r"[\r\n]+", "", found[1]), keys)
    line = ""
    for key in _SEQUENCE.sub("", keys):
        if key in "\r\n":
            return line.strip(), True
        if key in "\x03\x04\x1b":
            return None, True
        if key in "\x7f\b":
            line = line[:-1]
        elif key == "\x15":
            line = ""
        else:
            line += key
    return line, False


async def _keys(fd: int) -> AsyncGenerator[str, None]:
    """Yield what keys and pastes send, whole, until the terminal is gone."""
    from kogniterm.ui.terminal.terminal_io import AnswerFilter

    answers = AnswerFilter(lambda _background: None)
    patience = None
    while (more := await _keys_from(fd, patience)) or patience is not None:
        if keys := answers.feed(more) if more else answers.release():
            yield keys
        patience = answers.patience if more else None


async def _keys_from(fd: int, seconds: float | None) -> str:
    """Return what is typed next; an empty string at the end, or after `seconds`."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        async with asyncio.timeout(seconds):
            await readable.wait()
        return os.read(fd, _CHUNK).decode("utf-8", "replace")
    except (TimeoutError, OSError):
        return ""
    finally:
        loop.remove_reader(fd)


async def typed_before(fd: int, times: KeyTimes = KEY_TIMES) -> str:
    """Wait until nobody is typing; return what was typed until then.

    To be called once the question is on the screen, which takes some time to be seen. Returns at
    once where `fd` is no terminal.
    """
    if not os.isatty(fd):
        return ""
    typed = take_typed(fd)
    while True:
        await asyncio.sleep(times.typing if typed else times.early)
        more = take_typed(fd)
        if not more:
            return typed
        typed += more
