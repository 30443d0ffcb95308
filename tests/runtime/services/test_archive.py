"""Forgetting in files: KogniTerm's own are cleaned; files in use or of the user are named."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from kogniterm.execution.undo import PreimageStore
from kogniterm.memory.file_purge import TextMention, scan
from kogniterm.runtime.services.archive import DamagedPurge, LeftoverPurge, UndoPurge
from kogniterm.runtime.services.written_files import UserFiles, WrittenFiles
from kogniterm.text.matching import Matcher

TERM = "periwinkle gadget"
NO_PROCESS = 5_000_000
"""Beyond the highest number that Linux gives to a process (4,194,304)."""


def folder(place: Path, owner: int, name: str = "abcd_123") -> Path:
    made = place / f"kogniterm-{owner}-{name}"
    made.mkdir()
    (made / "enter-1").write_text(f"TASK='{TERM}'\n")
    return made


def test_leftovers_of_ended_processes_are_cleaned_and_of_running_ones_named(tmp_path: Path) -> None:
    dead, living = folder(tmp_path, NO_PROCESS), folder(tmp_path, os.getpid())
    locked = folder(tmp_path, NO_PROCESS, "locked_1")
    strange = tmp_path / "kogniterm-notes"
    strange.mkdir()
    (strange / "a").write_text(TERM)
    with (locked / "held").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = LeftoverPurge(tmp_path).purge([TERM])
    assert done.removed == 1
    assert set(scan([tmp_path], Matcher([TERM]))[2]) == {
        living / "enter-1", locked / "enter-1", strange / "a",
    }  # fmt: skip
    assert sorted(str(text.values["file"]) for text in done.unreachable) == sorted(
        map(str, (living / "enter-1", locked / "enter-1"))
    )
    assert done.files == (dead,)


def test_damaged_databases_stay_but_lose_the_words(tmp_path: Path) -> None:
    aside = tmp_path / "kogniterm.db.damaged-20260101-000000"
    aside.write_bytes(b"\0" + TERM.upper().encode() + b"\0rest")
    done = DamagedPurge(tmp_path / "kogniterm.db").purge([TERM])
    assert (done.removed, len(done.unreachable)) == (1, 1)
    assert aside.read_bytes() == b"\0[forgotten]      \0rest"


def test_an_undo_never_restores_a_name_or_a_content_with_a_hole(tmp_path: Path) -> None:
    store = PreimageStore(tmp_path / "undo" / "s")
    named, other = tmp_path / f"{TERM}.txt", tmp_path / "other.txt"
    named.write_text("x")
    other.write_text(f"the {TERM}\n")
    store.keep("1", "rm", [named])
    kept = store.keep("2", f"edit {TERM}", [other])
    assert kept is not None
    made = tmp_path / "made"
    store.keep("3", "mkdir", [made])
    made.mkdir()
    (made / TERM).touch()
    store.note_left("3")
    UndoPurge(tmp_path / "undo").purge([TERM])
    (image,) = store.images()
    assert image.id == "2"
    assert scan([tmp_path / "undo"], Matcher([TERM]))[2] == ()
    other.write_text("changed\n")
    way = store.way_back([image], everything=True)
    assert (way.changes, way.kept) == ((), (str(other),))  # a copy with a hole is no copy


def test_what_was_written_is_cleaned_only_while_it_is_unchanged(tmp_path: Path) -> None:
    written = WrittenFiles(tmp_path / "written.jsonl")
    report, changed, recipe = (tmp_path / name for name in ("bug.jsonl", "talk.md", "r.yaml"))
    for file in (report, changed, recipe):
        file.write_text(f"first\nthe {TERM}\n")
        written.add(file, "recipe" if file is recipe else "report")
    with changed.open("a") as own:
        own.write("my words\n")
    with (tmp_path / "written.jsonl").open("a") as torn:
        torn.write('{"path": "/half')
    files = UserFiles(written, [changed, tmp_path / "missing"])
    assert files.foreseen([TERM]) == (TextMention(report, 2), TextMention(recipe, 2))
    done = files.purge([TERM])
    assert (done.removed, done.files) == (2, (report,))
    assert done.untouched == (TextMention(changed, 2),)
    assert report.read_text() == "first\nthe [forgotten]      \n"
    assert not recipe.exists()
    # A cleaned file still belongs to KogniTerm: the next words are found in it, too.
    assert files.foreseen(["first"]) == (TextMention(report, 1),)


def test_a_file_of_ours_that_became_something_else_is_left_alone(tmp_path: Path) -> None:
    written = WrittenFiles(tmp_path / "written.jsonl")
    file, outside = tmp_path / "talk.md", tmp_path / "outside"
    file.write_text(TERM)
    written.add(file, "export")
    outside.write_text(TERM)
    file.unlink()
    file.symlink_to(outside)
    assert UserFiles(written, []).purge([TERM]).removed == 0
    assert outside.read_text() == TERM
    assert json.loads((tmp_path / "written.jsonl").read_text())["kind"] == "export"
