"""A terminal in memory: what a program writes becomes the screen that a user sees (pyte)."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput

from kogniterm.ui.app import build_repl
from kogniterm.ui.controls import Controls
from kogniterm.ui.prompt.prompt import Prompt
from kogniterm.ui.prompt.terminal_front import TerminalFront
from kogniterm.ui.repl import Opened, Repl, Wiring
from kogniterm.ui.screen.screen_preferences import KeyTimes, Preferences
from kogniterm.ui.terminal.terminal_io import HeldOutput
from tests.support.picture import Picture
from tests.ui.face import Play, PlayedSession

PATIENCE_SECONDS = 240
"""A guard against hanging, not a measure: every wait ends with what it waits for."""
FAST = KeyTimes(0.05, 0.05, 0.05, 0.0, 0.05)
"""Short times of keys: those sent together come in less than that."""
AT_ONCE = Wiring(clock=lambda: 0.0)
"""A clock that stands still, so that two key presses always count as fast, on any machine."""


class Terminal(io.StringIO):
    """A stream that is a terminal of `rows` by `columns`, with scrollback."""

    encoding = "utf-8"

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.raw = ""
        self.writes: list[str] = []
        self.picture = Picture(rows, columns)

    def write(self, text: str) -> int:
        self.raw += text
        self.writes.append(text)
        self.picture.feed(text.encode())
        return len(text)

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2  # any descriptor will do: nothing is handed over here

    def size(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def shown(self) -> list[str]:
        """The lines on the screen, without trailing blanks."""
        return self.picture.lines

    @property
    def text(self) -> str:
        """The scrollback and the screen as one text."""
        return self.picture.text


async def until(
    holds: Callable[[], bool], what: Callable[[], str], task: asyncio.Task[int] | None = None
) -> None:
    """Wait until `holds`, as long as `task` runs; `what` describes the awaited state."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > end or (task is not None and task.done()):
            raise AssertionError(f"never: {what()}")
        await asyncio.sleep(0.005)


class Live:
    """A REPL on a terminal in memory, and methods that type into it."""

    def __init__(self, repl: Repl, keys: PipeInput, terminal: Terminal) -> None:
        self.repl = repl
        self.terminal = terminal
        self._keys = keys
        self.task = asyncio.get_running_loop().create_task(repl.run())

    def press(self, keys: str) -> None:
        """Send keys as a terminal would."""
        self._keys.send_text(keys)

    async def until(self, test: Callable[[], bool] | str, what: str = "") -> None:
        """Wait until `test` holds, or until the text is on the screen or in the scrollback."""
        check = (lambda: test in self.terminal.text) if isinstance(test, str) else test
        await until(check, lambda: f"{what or test}\n" + "\n".join(self.terminal.shown), self.task)

    @property
    def prompt(self) -> Prompt:
        """The prompt of the front."""
        assert isinstance(self.repl.front, TerminalFront)
        return self.repl.front.prompt

    async def ready(self) -> None:
        """Wait until a key would answer the open question."""
        prompt = self.prompt
        await self.until(lambda: prompt.keys.ready and not prompt.line.buffer.text, "a key answers")

    async def leave(self) -> int:
        """Leave with Ctrl-D and wait for the end."""
        self.press("\x04")
        return await asyncio.wait_for(self.task, PATIENCE_SECONDS)


@contextmanager
def keyboard() -> Iterator[PipeInput]:
    """Yield a keyboard without any input yet."""
    with create_pipe_input() as keys:
        yield keys


def live_repl(
    keys: PipeInput,
    play: Play,
    *,
    rows: int = 24,
    columns: int = 80,
    preferences: Preferences | None = None,
    wiring: Wiring | None = None,
    opened: Callable[[PlayedSession], Opened] | None = None,
    key_times: KeyTimes = FAST,
) -> tuple[Live, PlayedSession]:
    """Start a REPL whose session plays `play`."""
    terminal = Terminal(rows, columns)
    session = PlayedSession(play)
    given = replace(preferences or Preferences(notify="off"), key_times=key_times)

    async def open_session(_id: str | None) -> Opened:
        return opened(session) if opened else Opened(session)  # type: ignore[arg-type]  # its face

    def front(controls: Controls) -> TerminalFront:
        output = HeldOutput(
            terminal, lambda: Size(terminal.rows, terminal.columns), term=given.term,
            enable_cpr=False,
        )  # fmt: skip
        return TerminalFront(controls, io.StringIO(), terminal, input_=keys, output=output)

    repl = build_repl(open_session, given, "/work/project", wiring=wiring, front=front)
    return Live(repl, keys, terminal), session
