"""The person's terminal: raw while lent, as before afterwards."""

from __future__ import annotations

import os
import pty
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.execution.pty import set_size
from kogniterm.ui.handover import PersonTerminal


@pytest.fixture
def terminal() -> Iterator[int]:
    ours, theirs = pty.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


def test_raw_while_lent_and_restored(terminal: int) -> None:
    person = PersonTerminal(terminal, terminal)
    before = termios.tcgetattr(terminal)
    assert person.acquire() == (terminal, terminal)
    lent = termios.tcgetattr(terminal)
    assert not lent[3] & (termios.ICANON | termios.ECHO | termios.ISIG)
    assert not lent[1] & termios.OPOST
    person.release()
    assert termios.tcgetattr(terminal) == before


def test_release_without_acquire_is_harmless(terminal: int) -> None:
    before = termios.tcgetattr(terminal)
    PersonTerminal(terminal, terminal).release()
    assert termios.tcgetattr(terminal) == before


def test_acquired_twice_restores_the_first_modes(terminal: int) -> None:
    person = PersonTerminal(terminal, terminal)
    before = termios.tcgetattr(terminal)
    person.acquire()
    person.acquire()
    person.release()
    assert termios.tcgetattr(terminal) == before


def test_size(terminal: int) -> None:
    set_size(terminal, 33, 77)
    assert PersonTerminal(terminal, terminal).size() == (33, 77)


def test_size_without_a_terminal() -> None:
    with Path(os.devnull).open() as nothing:
        person = PersonTerminal(nothing.fileno(), nothing.fileno())
        assert person.size() == (24, 80)
        assert person.acquire() == (nothing.fileno(), nothing.fileno())
        person.release()


def test_the_prompt_rests_meanwhile(terminal: int) -> None:
    calls: list[str] = []
    person = PersonTerminal(
        terminal,
        terminal,
        suspend=lambda: calls.append("suspend"),
        resume=lambda: calls.append("resume"),
    )
    person.acquire()
    assert calls == ["suspend"]
    person.release()
    assert calls == ["suspend", "resume"]


def test_the_prompt_comes_back_even_on_a_terminal_that_is_gone() -> None:
    ours, theirs = pty.openpty()
    calls: list[str] = []
    person = PersonTerminal(theirs, theirs, resume=lambda: calls.append("resume"))
    person.acquire()
    os.close(ours)
    person.release()
    os.close(theirs)
    assert calls == ["resume"]
