"""The plain front, and handing the terminal to a thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
from collections.abc import AsyncIterator
from typing import Any

from kogniterm.ui.app import build_repl
from kogniterm.ui.prompt.plain_front import PlainFront
from kogniterm.ui.repl import Opened
from kogniterm.ui.screen.screen_preferences import Preferences
from kogniterm.ui.terminal.user_terminal import TerminalHandover
from tests.ui.face import Play, PlayedSession, ask
from tests.ui.live import PATIENCE_SECONDS, until


class Plain:
    """A plain REPL behind a real pseudo-terminal."""

    def __init__(self, play: Play) -> None:
        self.master, slave = pty.openpty()
        self.keyboard = os.fdopen(os.dup(slave), encoding="utf-8")
        self.screen = os.fdopen(slave, "w", encoding="utf-8")
        self.session = PlayedSession(play)
        self.seen = b""
        os.set_blocking(self.master, False)

        async def open_session(_id: str | None) -> Opened:
            return Opened(self.session)  # type: ignore[arg-type]  # its face

        self.repl = build_repl(
            open_session,
            Preferences(term="dumb"),
            "/work/project",
            version="1.0",
            front=lambda controls: PlainFront(controls, self.keyboard, self.screen),
        )
        self.task = asyncio.get_running_loop().create_task(self.repl.run())

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    @property
    def text(self) -> str:
        with contextlib.suppress(BlockingIOError, OSError):
            while data := os.read(self.master, 65536):
                self.seen += data
        return self.seen.decode().replace("\r\n", "\n")

    async def until(self, text: str) -> None:
        await until(lambda: text in self.text, lambda: f"{text}\n{self.text}", self.task)

    def close(self) -> None:
        self.keyboard.close()
        self.screen.close()
        os.close(self.master)


async def test_plain_what_was_typed_ahead_does_not_answer_a_question() -> None:
    go, started = asyncio.Event(), asyncio.Event()

    async def play(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
        started.set()
        await go.wait()
        await ask(session, approver, sink, "make")

    plain = Plain(play)
    await plain.until("> ")
    plain.type("go\n")
    await plain.until("go")
    await started.wait()
    plain.type("y")
    # Its echo tells that it has arrived: the kernel passes keys on asynchronously.
    await until(lambda: plain.text.endswith("y"), lambda: plain.text, plain.task)
    go.set()
    await plain.until("Your decision")
    plain.type("\n")
    await plain.until("Answer with one of the keys")
    assert plain.session.decisions == []
    plain.type("n\n\n")
    await plain.until("1.2k tokens in")
    plain.type("/quit\n")
    assert await asyncio.wait_for(plain.task, PATIENCE_SECONDS) == 0
    plain.close()


async def test_the_terminal_is_lent_to_a_thread_and_comes_back() -> None:
    states: list[str] = []

    @contextlib.asynccontextmanager
    async def still() -> AsyncIterator[None]:
        states.append("rests")
        yield
        states.append("draws")

    handover = TerminalHandover(still, lambda keys: states.append(keys.decode()))

    def borrow() -> None:
        handover.suspend()
        handover.suspend()
        states.append("borrowed")
        handover.resume()
        handover.resume()
        states.append("given back")
        handover.typed(b"keys that came too late")

    await asyncio.to_thread(borrow)
    await asyncio.sleep(0)
    assert states == ["rests", "borrowed", "draws", "given back", "keys that came too late"]
