"""The user's terminal: raw while handed over, restored afterwards."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.execution.process.pty import set_size
from kogniterm.ui.app import build_repl
from kogniterm.ui.prompt.terminal_front import TerminalFront
from kogniterm.ui.repl import Opened
from kogniterm.ui.screen.screen_preferences import Preferences
from kogniterm.ui.terminal.terminal_io import FilteredInput
from kogniterm.ui.terminal.user_terminal import UserTerminal
from tests.ui.face import PlayedSession
from tests.ui.live import until


@pytest.fixture
def terminal() -> Iterator[int]:
    ours, theirs = pty.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


def test_raw_while_lent_and_restored(terminal: int) -> None:
    user = UserTerminal(terminal, terminal)
    before = termios.tcgetattr(terminal)
    assert user.acquire() == (terminal, terminal)
    raw = termios.tcgetattr(terminal)
    assert not raw[3] & (termios.ICANON | termios.ECHO | termios.ISIG)
    assert not raw[1] & termios.OPOST
    user.release()
    assert termios.tcgetattr(terminal) == before


def test_release_without_acquire_is_harmless(terminal: int) -> None:
    before = termios.tcgetattr(terminal)
    UserTerminal(terminal, terminal).release()
    assert termios.tcgetattr(terminal) == before


def test_acquired_twice_restores_the_first_modes(terminal: int) -> None:
    user = UserTerminal(terminal, terminal)
    before = termios.tcgetattr(terminal)
    user.acquire()
    user.acquire()
    user.release()
    assert termios.tcgetattr(terminal) == before


def test_size(terminal: int) -> None:
    set_size(terminal, 33, 77)
    assert UserTerminal(terminal, terminal).size() == (33, 77)


def test_size_without_a_terminal() -> None:
    with Path(os.devnull).open() as nothing:
        user = UserTerminal(nothing.fileno(), nothing.fileno())
        assert user.size() == (24, 80)
        assert user.acquire() == (nothing.fileno(), nothing.fileno())
        user.release()


def test_the_prompt_rests_meanwhile(terminal: int) -> None:
    calls: list[str] = []
    user = UserTerminal(
        terminal,
        terminal,
        suspend=lambda: calls.append("suspend"),
        resume=lambda: calls.append("resume"),
    )
    user.acquire()
    assert calls == ["suspend"]
    user.release()
    assert calls == ["suspend", "resume"]


def test_the_prompt_comes_back_even_on_a_terminal_that_is_gone() -> None:
    ours, theirs = pty.openpty()
    calls: list[str] = []
    user = UserTerminal(theirs, theirs, resume=lambda: calls.append("resume"))
    user.acquire()
    os.close(ours)
    user.release()
    os.close(theirs)
    assert calls == ["resume"]


def test_a_prompt_that_rests_for_a_command_echoes_nothing(terminal: int) -> None:
    with os.fdopen(os.dup(terminal), encoding="utf-8") as keyboard:
        given = FilteredInput(keyboard)
        with given.raw_mode():
            with given.cooked_mode():
                assert termios.tcgetattr(terminal)[3] & termios.ECHO
            with given.resting_raw(), given.cooked_mode():
                assert not termios.tcgetattr(terminal)[3] & (termios.ECHO | termios.ISIG)


async def test_a_command_gets_a_keyboard_that_echoed_nothing(
    terminal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_session(_id: str | None) -> Opened:
        return Opened(PlayedSession(play))  # type: ignore[arg-type]  # its face

    async def play(*_: object) -> None: ...

    modes: list[int] = []
    monkeypatch.setattr(tty, "setraw", lambda fd, _: modes.append(termios.tcgetattr(fd)[3]))
    set_size(terminal, 24, 80)
    keyboard = os.fdopen(os.dup(terminal), encoding="utf-8")
    screen = os.fdopen(os.dup(terminal), "w", encoding="utf-8")
    repl = build_repl(
        open_session,
        Preferences(notify="off"),
        "/work/project",
        version="1.0",
        front=lambda controls: TerminalFront(controls, keyboard, screen),
    )
    running = asyncio.get_running_loop().create_task(repl.run())
    front = repl.front
    assert isinstance(front, TerminalFront)
    await until(lambda: front.app.is_running, lambda: "no prompt", running)
    user = front.terminal()
    await asyncio.to_thread(user.acquire)
    await asyncio.to_thread(user.release)
    front.exit(0)
    await running
    keyboard.close()
    screen.close()
    assert modes
    assert not modes[0] & (termios.ECHO | termios.ISIG)
