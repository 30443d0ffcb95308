r"""The diff hides nothing: with the old bytes it gives the new ones."""

from __future__ import annotations

import random
import re

import pytest

from kogniterm.text.file_text import (
    NO_NEWLINE,
    WINDOWS_ENDS,
    count_changes,
    shown_lines,
    unified_diff,
)
from kogniterm.text.visible import is_invisible, unrender

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def _bytes(shown: str) -> bytes:
    marked = re.sub(r"\\x\{([89A-F][0-9A-F])\}", r"\\u{DC\1}", shown)
    return unrender(marked).encode("utf-8", "surrogateescape")


def applied(diff: str, old: bytes) -> bytes:
    """Return `old` with `diff` applied, from its text alone; every line of it has to fit."""
    source = re.findall(rb"[^\n]*\n|[^\n]+", old)
    lines = diff.split("\n")[2:]
    end = b"\n"
    if lines[:1] == [WINDOWS_ENDS]:
        del lines[0]
        end = b"\r\n"
    made: list[bytes] = []
    at = 0
    for number, line in enumerate(lines):
        head = _HUNK.match(line)
        if head is not None:
            start = int(head[1]) - (0 if head[2] == "0" else 1)
            made += source[at:start]
            at = start
        elif line != NO_NEWLINE:
            last = lines[number + 1 : number + 2] == [NO_NEWLINE]
            content = _bytes(line[1:]) + (b"" if last else end)
            if line[0] in " -":
                assert source[at] == content
                at += 1
            if line[0] in " +":
                made.append(content)
    return b"".join([*made, *source[at:]])


PIECES = [
    b"\n", b"\n", b"\n", b"\r\n", b"\r\n", b"\r", b"\f", b"\v", b"\x1c", b"\x00", b"\x1b[8m", b"\t",
    b" ",    b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\xef\xbb\xbf", b"\xff",
    b"\xe9", b"\xed\xb2\x80",
    b"\\u{D}", b"\\x{E9}", b"\\u{DCE9}", b"\\", b"a", b"b", b"-- x", b"++ y", b"@@ -1 +1 @@",
    b" " * 60,
    b"\\ No newline at end of file", "\u0301".encode(), "\U0001f600".encode(),
]  # fmt: skip


def _content(chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return chance.randbytes(chance.randrange(200))
    only = chance.sample(PIECES, chance.randrange(1, len(PIECES)))
    return b"".join(chance.choices(only, k=chance.randrange(40)))


def _changed_content(chance: random.Random, data: bytes) -> bytes:
    lines = re.split(rb"(?<=\n)", data)
    for _change in range(chance.randrange(4)):
        at = chance.randrange(len(lines) + 1)
        lines[at : at + chance.randrange(3)] = [_content(chance)] * chance.randrange(2)
    return b"".join(lines)


def check_diffs(seed: int, count: int) -> None:
    chance = random.Random(seed)
    for _pair in range(count):
        old = _content(chance)
        new = _changed_content(chance, old) if chance.random() < 0.8 else _content(chance)
        diff = unified_diff("f", old, new)
        assert applied(diff, old) == new, (old, new)
        assert (diff == "") == (old == new)
        hidden = [char for char in diff if is_invisible(char) and char != "\t"]
        assert hidden == []


@pytest.mark.parametrize("seed", range(4))
def test_the_diff_and_the_old_bytes_give_the_new_ones(seed: int) -> None:
    check_diffs(seed, 150)


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("a\nb\n", "a\r\nb\r\n", ["-a", "-b", "+a\\u{D}", "+b\\u{D}"]),
        ("a\nb", "a\nb\n", [" a", "-b", NO_NEWLINE, "+b"]),
        ("# guard\nexit 1\n", "# guard\fexit 1\n", ["-# guard", "-exit 1", "+# guard\\u{C}exit 1"]),
        ("a\nb\n", "a\x85b\n", ["-a", "-b", "+a\\u{85}b"]),
        ("a\nb\n", "a\u2028b\n", ["-a", "-b", "+a\\u{2028}b"]),
        ("a\nb\n", "a\rb\n", ["-a", "-b", "+a\\u{D}b"]),
        (b"Jos\xe9\n", b"Jos\xef\xbf\xbd\n", ["-Jos\\x{E9}", "+Jos\ufffd"]),
        ("a\r\n", "b\r\n", [WINDOWS_ENDS, "-a", "+b"]),
        (None, "", []),
        ("-- x\n", "", ["--- x"]),
    ],
)
def test_every_change_is_seen(old: str | None, new: str, lines: list[str]) -> None:
    found = unified_diff("f", old, new).split("\n")
    assert [line for line in found[2:] if not line.startswith("@@")] == lines
    removed = sum(line.startswith("-") for line in lines)
    assert count_changes("\n".join(found)) == (sum(line.startswith("+") for line in lines), removed)


def test_lines_are_shown_with_their_tabs_and_spelt_out_once() -> None:
    made = unified_diff("f", "a\u200b\n", "\tb\n")
    assert shown_lines(made) == made.split("\n")
    assert shown_lines("+a\u200b\x1b") == ["+a\\u{200B}\\u{1B}"]


def test_a_file_that_is_not_there_and_its_name_are_told() -> None:
    assert unified_diff("a\n+++ b", None, "x\n").split("\n")[:2] == [
        "--- /dev/null",
        "+++ a\\u{A}+++ b",
    ]
    assert unified_diff("f", b"x", None).split("\n")[:2] == ["--- f", "+++ /dev/null"]
