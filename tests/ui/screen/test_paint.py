"""Painted text: safe words, keys in rows, long input shortened."""

from __future__ import annotations

import pytest

from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.ui.questions.panel import Line, key_row
from kogniterm.ui.screen.paint import CHARACTERS, LINES, paint_input
from tests.ui.face import PLAIN

READY = Line(armed=True, ready=True)


def test_words_of_a_model_are_shown_not_obeyed() -> None:
    assert clean("a\x1b[2Jb\r\nc\td\u202e") == "a[2Jb\nc\td"
    assert one_line("a\n  b\x07", 10) == "a b\\u{7}"
    assert one_line("a\u200bb \u26a0\ufe0f", 20) == "a\\u{200B}b \u26a0\ufe0f"
    assert one_line("abcdefgh", 5) == "abcd…"


def test_no_line_parts_a_key_from_its_words() -> None:
    keys = [("s", "aprobar"), ("n", "rechazar"), ("p", "permitir más"), ("d", "detener el turno")]
    assert key_row(keys, READY, PLAIN, 40) == [
        "[s] aprobar  [n] rechazar",
        "[p] permitir más  [d] detener el turno",
    ]
    whole = "[s] aprobar  [n] rechazar  [p] permitir más  [d] detener el turno"
    assert key_row(keys, READY, PLAIN, 80) == [whole]


@pytest.mark.parametrize("count", [1, 2, LINES, LINES + 1])
def test_what_was_sent_stays_whole(count: int) -> None:
    lines = [f"line {number}" for number in range(count)]
    assert paint_input("\n".join(lines), PLAIN).plain == "› " + "\n  ".join(lines)


def test_of_a_long_paste_the_two_ends_stay() -> None:
    text = "\r\n".join([*(f"line {number}" for number in range(100)), "y" * 1_000_000])
    shown = paint_input(text, PLAIN).plain.split("\n")
    assert len(shown) == LINES + 1
    assert shown[0] == "› line 0"
    assert shown[LINES // 2] == f"  … {101 - LINES} more lines"
    assert shown[LINES // 2 + 1] == f"  line {101 - LINES // 2}"
    assert shown[-1] == f"  {'y' * CHARACTERS}…"


def test_words_longer_than_a_line_continue_below_the_words_of_their_key() -> None:
    keys = [("1", "exactly this command, in /a"), ("Esc", "back")]
    assert key_row(keys, READY, PLAIN, 24) == [
        "[1] exactly this",
        "    command, in /a",
        "[Esc] back",
    ]
