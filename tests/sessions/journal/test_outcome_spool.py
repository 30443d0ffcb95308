"""The file that stores outcomes while the database cannot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage

from kogniterm.errors import StorageError
from kogniterm.memory.file_purge import FilePurge
from kogniterm.sessions.journal.outcome_spool import MOST, RESERVED_BYTES, Spool
from kogniterm.sessions.records import Outcome
from kogniterm.types import CommandResult, Phrase


def outcome(number: int, text: str = "7\n") -> Outcome:
    result = CommandResult("ls", "exited", 0, text, 0.1, "/")
    return Outcome(f"r{number}", "finished", ToolMessage(text, tool_call_id=f"c{number}"), result)


def test_what_is_kept_is_read_in_order_by_the_next_process(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "../../s")
    spool.make_room()
    assert spool.path.parent == tmp_path / "spool"
    assert spool.path.stat().st_size == RESERVED_BYTES
    assert (spool.path.stat().st_mode & 0o777, spool.path.parent.stat().st_mode & 0o777) == (
        0o600,
        0o700,
    )
    first, second = outcome(1), outcome(2, "ñ\x00\udcff")
    spool.keep(first)
    spool.keep(second)
    assert Spool(tmp_path / "spool", "../../s").read() == [first, second]
    assert Spool(tmp_path / "spool", "s").read() == []
    spool.remove()
    assert spool.read() == []
    assert not spool.path.exists()


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path, cut: int) -> None:
    spool = Spool(tmp_path, "s")
    spool.keep(outcome(1))
    whole = spool.path.stat().st_size
    spool.keep(outcome(2))
    os.truncate(spool.path, whole + cut)
    assert spool.read() == [outcome(1)]
    spool.keep(outcome(3))
    assert spool.read() == [outcome(1), outcome(3)]


def test_it_does_not_grow_without_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "s")
    with pytest.raises(StorageError, match="too large"):
        spool.keep(outcome(1, "x" * MOST))
    assert spool.read() == []
    assert spool.path.stat().st_size <= RESERVED_BYTES


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    spool = Spool(tmp_path / "spool", "s")
    spool.path.parent.mkdir()
    spool.path.symlink_to(other)
    assert spool.read() == []
    for write in (spool.make_room, lambda: spool.keep(outcome(1))):
        with pytest.raises(StorageError):
            write()
    assert other.read_text() == "mine"


@pytest.mark.parametrize("word", ["pineapple", "piña colada"])
def test_forgotten_words_leave_an_outcome_that_can_be_read(tmp_path: Path, word: str) -> None:
    spool = Spool(tmp_path / "spool", "s")
    spool.make_room()
    spool.keep(outcome(1, f"a {word}\n"))
    assert FilePurge(Phrase("outcomes"), [tmp_path / "spool"]).purge([word]).removed == 1
    (left,) = spool.read()
    assert word not in str(left)
    assert (left.request_id, left.status) == ("r1", "finished")
