"""Kept output: pages, searches, quota and age."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kogniterm.errors import ToolError
from kogniterm.execution.command_output import OutputStore
from kogniterm.tools.file_tools import read_file


@pytest.fixture
def store(tmp_path: Path) -> OutputStore:
    (tmp_path / "s").mkdir()
    text = b"".join(b"line %d\n" % n for n in range(1, 1001))
    (tmp_path / "s" / "0001.log").write_bytes(text)
    (tmp_path / "s" / "0002.log").write_bytes(b"10%\r50%\r100%\r\n\x1b[31mred\x1b[m\nlast")
    return OutputStore(tmp_path)


async def page(folder: Path, **arguments: object) -> str:
    outputs = OutputStore(folder)
    tool = read_file(lambda: "/", "/nowhere", lambda path: False, outputs)
    return (await tool.run(tool.check(arguments))).text


async def test_lines_of_an_output_are_read(store: OutputStore, tmp_path: Path) -> None:
    log = str(tmp_path / "s" / "0001.log")
    told = "line 10\nline 11\nline 12\n[more from line 13]"
    assert await page(tmp_path, path=log, start=10, lines=3) == told
    assert await page(tmp_path, path=log, start=-2) == "line 999\nline 1000"
    assert await page(tmp_path, path=log, start=5000) == "[no such line]"


async def test_a_line_that_is_cut_says_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "1.log").write_bytes(b"x" * 30_000 + b"\nnext\n")
    text = await page(tmp_path, path=str(tmp_path / "1.log"))
    assert text.endswith("xxx[… 8500 characters left out …]\n[more from line 2]")


def test_control_sequences_are_rendered(store: OutputStore) -> None:
    assert list(store.lines("s/0002.log")) == ["100%", "red", "last"]


def test_foreign_files_are_refused(store: OutputStore, tmp_path: Path) -> None:
    (tmp_path / "link.log").symlink_to("/etc/passwd")
    for path in ("/etc/passwd", "../etc/passwd", "s", "link.log", "s/none.log"):
        with pytest.raises(ToolError, match="is not a saved command output"):
            list(store.lines(path))


def test_quota_takes_the_oldest(tmp_path: Path) -> None:
    now = time.time()
    for n in range(4):
        file = tmp_path / f"{n}.log"
        file.write_bytes(b"x" * 100)
        os.utime(file, (now - 90_000 + n, now - 90_000 + n))
    assert OutputStore(tmp_path, quota_bytes=250).prune() == 200
    assert sorted(p.name for p in tmp_path.iterdir()) == ["2.log", "3.log"]


def test_age_and_running_commands(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old, fresh = tmp_path / "old" / "1.log", tmp_path / "2.log"
    for file in (old, fresh):
        file.write_bytes(b"x" * 100)
    os.utime(old, (1, 1))
    assert OutputStore(tmp_path, quota_bytes=0, max_age=3600).prune() == 100
    assert not old.parent.exists()
    assert fresh.exists()
