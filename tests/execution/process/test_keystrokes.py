"""Prepared keys: parsed from every form, and sent when they are due and the program reads."""

from __future__ import annotations

import pytest

from kogniterm.execution.process.command_input import (
    SEQUENCE_SECONDS,
    DetachKeys,
    KeySequence,
    as_keystrokes,
)


def test_keystrokes_in_every_form() -> None:
    class Like:
        send, wait_for, delay = "x", "y", 1

    made = as_keystrokes([Like(), {"send": "x", "wait_for": "y", "delay": 1}, ("y", 1, "x")])
    assert len(set(made)) == 1
    assert as_keystrokes(["q"])[0].send == "q"


@pytest.mark.parametrize("pattern", ["a[", "(a|aa)+$"])
def test_a_pattern_that_is_none_or_never_ends_is_taken_literally(pattern: str) -> None:
    keys = KeySequence(as_keystrokes([(pattern, 0, "x")]))
    keys.saw(b"a" * 80 + b"!\n")
    assert keys.due() is None
    keys.saw(b"\x1b[1mgot " + pattern.encode() + b"\x1b[m")
    due = keys.due()
    assert due is not None
    assert keys.take(due, reading=True) == "x"


def test_the_sequence_that_leaves_is_pressed_in_a_row_and_in_time() -> None:
    keys = DetachKeys()
    assert keys.find(b"\x07\x07", 1.0) is None
    assert keys.find(b"\x04", 1.0 + SEQUENCE_SECONDS * 2) is None
    assert keys.find(b"\x07\x07x\x04\x07\x04\x04", 9.0) is None
    assert keys.find(b"\x07\x07\x07", 20.0) is None
    assert keys.find(b"\x04rest", 20.0 + SEQUENCE_SECONDS) == 0
    assert keys.find(b"\x1b[103;5u\x1b[27;5;103~\x1b[100;5u", 25.0) == 19
    assert keys.find("ñ\x1dx".encode(), 30.0) == 2


def test_a_signal_waits_until_the_program_it_is_for_is_executed() -> None:
    keys = KeySequence(as_keystrokes([(None, 0.2, "\x03"), (None, 0.2, "x")]))
    due = keys.due()
    assert due is not None
    assert keys.take(due, reading=True, begins=True) is None
    assert keys.take(due, reading=True, begins=False) == "\x03"
    due = keys.due()
    assert due is not None
    assert keys.take(due, reading=True, begins=True) == "x"


def test_a_program_that_computes_for_ever_in_a_subshell_is_interrupted_too() -> None:
    keys = KeySequence(as_keystrokes([(None, 0.2, "\x03")]))
    due = keys.due()
    assert due is not None
    assert keys.take(due + 60, reading=False, begins=True) == "\x03"
