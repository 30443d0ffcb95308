"""Hostile output: every attack is removed and the text kept, at every split of the stream."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogniterm.approval import Sanitizer, sanitize

_TABLE = [
    (b"plain text\r\n\tx\n", b"plain text\r\n\tx\n"),
    (b"\x1b[31;1mred\x1b[0m\x1b[m", b"\x1b[31;1mred\x1b[0m\x1b[m"),
    (b"\x1b[38;5;208mx\x1b[48;2;1;2;3my\x1b[4:3mz", b"\x1b[38;5;208mx\x1b[48;2;1;2;3my\x1b[4:3mz"),
    (b"a\x1b]52;c;cm0gLXJm\x07b", b"ab"), (b"a\x1b]52;c;cm0=\x1b\\b", b"ab"),
    (b"a\x1b]0;title\x07b", b"ab"), (b"a\x1b]2;title\x1b\\b", b"ab"),
    (b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", b"link"),
    (b"a\x1b]1337;File=:AAAA\x07b", b"ab"),
    (b"a\x1bP$q\"p\x1b\\b", b"ab"), (b"a\x1bP+q544e\x1b\\b", b"ab"),
    (b"a\x1b_Gf=32;AAAA\x1b\\b", b"ab"),
    (b"a\x1b^pm\x1b\\b", b"ab"), (b"a\x1bXsos\x1b\\b", b"ab"),
    (b"a\x1b[6nb", b"ab"), (b"a\x1b[cb", b"ab"), (b"a\x1b[>cb", b"ab"), (b"a\x1b[21tb", b"ab"),
    (b"a\x1b[5nb\x1b[?6n", b"ab"), (b"a\x1bZb", b"ab"), (b"a\x05b", b"ab"),
    (b"a\x1b[?1049hb", b"ab"),
    (b"a\x1b[?1000h\x1b[?2004hb", b"ab"), (b"a\x1b[2J\x1b[Hb", b"ab"), (b"a\x1b[8;1;1tb", b"ab"),
    (b"a\x1b[10Ab\x1b[2K", b"ab"), (b"a\x1bcb\x1b7\x1b8", b"ab"), (b"a\x1b(0b\x1b)B", b"ab"),
    (b"a\x0eb\x0fc", b"abc"), (b"a\x07b\x08c\x7f", b"abc"), (b"a\x1b#8b", b"ab"),
    (b"a\x1b=b\x1b>", b"ab"),
    (b"a\xc2\x9b6nb", b"ab"), (b"a\xc2\x9d52;c;AA\xc2\x9cb", b"ab"),
    (b"a\xc2\x90q\xc2\x9cb", b"ab"),
    (b"a\xc2\x85b", b"ab"), (b"a\x9b6nb", b"a\xef\xbf\xbd6nb"),
    (b"\x1b[8mhidden\x1b[0m", b"hidden\x1b[0m"),
    (b"\x1b[8:1mx\x1b[1;08:2mx", b"x\x1b[1mx"),
    (b"\x1b[1;8;31mx", b"\x1b[1;31mx"), (b"\x1b[38;5;8mx", b"\x1b[38;5;8mx"),
    (b"a\x1b]0;no end\nnext line", b"a\nnext line"), (b"\x1b]0;x\x1b[31mred", b"\x1b[31mred"),
    ("a\u202eb\u2066c\u200bd\u200ee\U000e0041f".encode(), b"abcdef"),
    ("é日🎉".encode(), "é日🎉".encode()),
    (b"a\xe2\x82", b"a\xef\xbf\xbd"), (b"a\x1b", b"a"), (b"a\x1b[3", b"a"), (b"a\x1b]5", b"a"),
    (b"\x1b[3\x1b[31mx", b"\x1b[31mx"), (b"a\x1b\x1b]0;t\x07b", b"ab"), (b"a\x18b\x1ac", b"abc"),
    (b"a\x1b[1!pb\x1b[0\"qc\x1b[2 qd", b"abcd"), (b"a\x1b%Gb", b"ab"), (b"a\x18\xc2\x9b2Jb", b"ab"),
    (b"a\x1bNb\x1bOc", b"abc"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "wanted"), _TABLE)
def test_attacks_go_and_text_stays(data: bytes, wanted: bytes) -> None:
    assert sanitize(data) == wanted


@pytest.mark.parametrize("data", [data for data, _ in _TABLE])
def test_the_cut_of_the_stream_does_not_matter(data: bytes) -> None:
    whole = sanitize(data)
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            cleaner = Sanitizer()
            parts = (data[:first], data[first:second], data[second:])
            assert b"".join(map(cleaner.feed, parts)) + cleaner.flush() == whole
    cleaner = Sanitizer()
    single = b"".join(cleaner.feed(data[i : i + 1]) for i in range(len(data)))
    assert single + cleaner.flush() == whole


_BYTES = st.lists(
    st.sampled_from([b"\x1b", b"[", b"]", b"P", b"\\", b"\x07", b"0", b"8", b";", b"m", b"n", b"\n",
                     b"\xc2", b"\x9b", b"\x9d", b"\x9c", b"a", b"\xe2\x80\xae", b"\xff", b"\x18"]),
    max_size=40,
).map(b"".join)  # fmt: skip


@given(_BYTES, st.integers(0, 40))
def test_whatever_comes_only_colours_pass(data: bytes, cut: int) -> None:
    whole = sanitize(data)
    rest = re.sub(rb"\x1b\[[0-9;:]*m", b"", whole)
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]", rest)
    cleaner = Sanitizer()
    assert cleaner.feed(data[:cut]) + cleaner.feed(data[cut:]) + cleaner.flush() == whole


def test_a_sanitizer_is_fresh_after_its_flush() -> None:
    cleaner = Sanitizer()
    cleaner.feed(b"\x1b]0;open")
    cleaner.flush()
    assert cleaner.feed(b"text") == b"text"
