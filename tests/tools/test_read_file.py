"""A reading says what it is not: the encoding, the line ends, cut lines and lines left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kogniterm.errors import ToolError
from kogniterm.execution.command_output import OutputStore
from kogniterm.tools.file_tools import MAX_BYTES, read_file


async def read(folder: Path, **arguments: object) -> str:
    outputs = OutputStore(folder / "outputs")
    tool = read_file(lambda: str(folder), str(folder), lambda path: False, outputs)
    return (await tool.run(tool.check({"path": "f", **arguments}))).text


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"a\nb\n", "1: a\n2: b"),
        (b"", "[empty]"),
        (b"a\nb", "1: a\n2: b\n[no newline at the end]"),
        (b"a\r\nb\r\n", "1: a\n2: b\n[CRLF line ends]"),
        (b"a\r\nb\n", "1: a\n2: b\n[some lines end in CRLF, some in LF]"),
        (b"a\x85\x0cb\rc\n",
         "1: a\\x85\x0cb\rc\n[not UTF-8: \\xe9 stands for one byte, in edit_file too]"),
        ("a\u2028b\x85c\n".encode(), "1: a\u2028b\x85c"),
        (b"\xef\xbb\xbfa\n", "1: a\n[UTF-8 with a byte order mark]"),
        ("\ufeffa\r\nb\r\n".encode("utf-16-be"),
         "1: a\n2: b\n[UTF-16-BE with a byte order mark; CRLF line ends]"),
        (b"Jos\xe9 '\\xe9'\n",
         "1: Jos\\xe9 '\\x5cxe9'\n[not UTF-8: \\xe9 stands for one byte, in edit_file too]"),
        (b"'\\xe9'\n", "1: '\\xe9'"),
        (b"x" * 2_519 + b"\n", f"1: {'x' * 2_000}[… 519 characters left out …]\n"
         "[see what is left out of a line with a command such as cut -c2001-]"),
    ],
)  # fmt: skip
async def test_what_is_shown_is_what_the_file_holds(
    tmp_path: Path, data: bytes, shown: str
) -> None:
    (tmp_path / "f").write_bytes(data)
    assert await read(tmp_path) == shown


async def test_lines_that_are_left_out_are_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"".join(b"%d\r\n" % number for number in range(1, 10)))
    assert await read(tmp_path, lines=2) == "1: 1\n2: 2\n[more from line 3]\n[CRLF line ends]"
    assert await read(tmp_path, start=-2) == "8: 8\n9: 9\n[CRLF line ends]"
    assert await read(tmp_path, start=11) == "[the file has fewer than 11 lines]"


async def test_in_a_small_window_the_end_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"".join(b"line %d\n" % number for number in range(1, 1_000)))
    outputs = OutputStore(tmp_path / "outputs")
    here = str(tmp_path)
    tool = read_file(
        lambda: here, here, lambda path: False, outputs, lambda path: False, lambda: 2_000
    )
    shown = (await tool.run(tool.check({"path": "f"}))).text
    lines = shown.splitlines()
    assert len(shown) < 2_000
    assert lines[-1] == f"[more from line {len(lines)}]"
    assert lines[-2] == f"{len(lines) - 1}: line {len(lines) - 1}"


async def test_a_byte_behind_what_is_looked_at_first_is_shown_too(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\n" * (MAX_BYTES // 2 + 1) + b"Jos\xe9\n")
    assert (await read(tmp_path, start=-1)).endswith(
        ": Jos\\xe9\n[not UTF-8: \\xe9 stands for one byte, in edit_file too]"
    )


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (b"Screenshot 3\xe2\x80\xafPM.txt", "Screenshot 3 PM.txt"),  # a narrow blank, by macOS
        (b"two\xc2\xa0words.txt", "two words.txt"),
        (b"cafe\xcc\x81.txt", "caf\N{LATIN SMALL LETTER E WITH ACUTE}.txt"),
        (b"caf\xe9.txt", r"caf\xe9.txt"),
    ],
)
async def test_a_name_is_found_as_a_model_writes_it(
    tmp_path: Path, name: bytes, written: str
) -> None:
    (tmp_path / os.fsdecode(name)).write_text("here")
    assert (await read(tmp_path, path=written)).startswith("1: here")
    (tmp_path / f"{os.fsdecode(name).replace('.txt', '')}\N{NO-BREAK SPACE}.txt").touch()
    (tmp_path / written).write_text("exactly")
    assert (await read(tmp_path, path=written)).startswith("1: exactly")


async def test_a_binary_file_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(ToolError, match="is binary"):
        await read(tmp_path)
