"""The emulator: bounded, independent of how output is split, and in agreement with pyte."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kogniterm.execution.screen import Screen, render

PIECES = st.sampled_from(
    [
        b"abc",
        "ñ日🙂é".encode(),
        b"\r",
        b"\n",
        b"\r\n",
        b"\x08",
        b"\t",
        b"\x1b[K",
        b"\x1b[2A",
        b"\x1b[3C",
        b"\x1b[1;31m",
        b"\x1b[2J",
        b"\x1b[5;5H",
        b"\x1b]0;title\x07",
        b"\x1b(0",
        b"\xff",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x00",
        b"\x1b[2;6r",
        b"\x1b[L",
        b"\x1b[M",
        b"\x1bM",
        b"\x1b",
        b"\x1b[",
        b"\xe6\x97",
        b"\x9b",
        b"\x1b[999999999C",
        b"\x1b[;;;m",
        b"\x1bP+q\x1b\\",
    ]
)
STREAM = st.lists(PIECES, max_size=60).map(b"".join)


@given(STREAM, st.lists(st.integers(0, 400), max_size=8))
@settings(deadline=None)
def test_the_cut_of_reads_does_not_matter(data: bytes, cuts: list[int]) -> None:
    whole = render(data)
    screen = Screen()
    last = 0
    for cut in sorted(cuts):
        screen.feed(data[last:cut])
        last = max(last, min(cut, len(data)))
    screen.feed(data[last:], final=True)
    assert screen.text() == whole


@given(st.binary(max_size=2000))
@settings(deadline=None)
def test_any_bytes_give_text_without_controls(data: bytes) -> None:
    text = render(data)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in text)
    assert "\x7f" not in text


@given(
    st.lists(
        st.sampled_from(
            [
                "ab",
                "xyz ",
                "\r",
                "\r\n",
                "\x08",
                "\x1b[K",
                "\x1b[1K",
                "\x1b[2K",
                "\x1b[A",
                "\x1b[2B",
                "\x1b[4D",
                "\x1b[C",
                "\x1b[7G",
                "\x1b[3;9H",
                "\x1b[J",
                "\x1b[2P",
                "\x1b[2@",
                "\x1b[3X",
            ]
        ),
        max_size=40,
    )
)
@settings(deadline=None)
def test_agrees_with_pyte(parts: list[str]) -> None:
    data = "".join(parts)
    if data.count("\r\n") > 5:
        return  # pyte keeps no history
    reference = pyte.Screen(60, 20)
    pyte.Stream(reference).feed(data)
    expected = [line.rstrip() for line in reference.display]
    shown = [line.rstrip() for line in render(data.encode(), 20, 60).split("\n")]
    assert shown + [""] * (20 - len(shown)) == expected


def test_lines_that_scrolled_out_are_kept() -> None:
    data = b"".join(b"line %d\n" % n for n in range(500))
    assert render(data, 10, 40).splitlines() == [f"line {n}" for n in range(500)]


def test_a_full_screen_program_that_was_killed_shows_its_screen() -> None:
    data = b"before\r\n\x1b[?1049h\x1b[2J\x1b[1;1Htop\x1b[3;4Hrow three"
    assert render(data) == "before\ntop\n\n   row three"


def test_a_full_screen_program_that_ended_leaves_the_old_screen() -> None:
    screen = Screen()
    screen.feed(b"before\r\n\x1b[?1049h\x1b[1;1Hfull\x1b[?1049lafter", final=True)
    assert screen.text() == "before\nafter"
    assert screen.last_full_screen == "full"


def test_line_drawing() -> None:
    assert render(b"\x1b(0lqk\x1b(B ok") == "┌─┐ ok"


@pytest.mark.parametrize(
    ("stream", "shown"),
    [
        (b"a\x0elquick", "alquick"),  # a stray byte, which designates nothing
        (b"\x1b)0a\x0elqk\x0f lqk", "a┌─┐ lqk"),
        (b"\x1b)0\x0e\x1bclqk", "lqk"),
        (b"\x1b)0\x1b(0lq\x0elq\x1b)Blq\x0flq", "┌─┌─lq┌─"),
        (b"\x1b*0\x0elqk", "lqk"),
    ],
)
def test_shifting_out_takes_what_was_designated(stream: bytes, shown: str) -> None:
    assert render(stream) == shown


@pytest.mark.parametrize("size", [1_000_000])
def test_an_unfinished_string_does_not_swallow_for_ever(size: int) -> None:
    screen = Screen()
    screen.feed(b"\x1b]0;" + b"x" * size)
    screen.feed(b"\x07visible", final=True)
    assert "visible" in screen.text()
