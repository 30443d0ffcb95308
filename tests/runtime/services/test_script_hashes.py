"""Hashes of files that decide what a command runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kogniterm.approval import classify
from kogniterm.runtime.services import script_hashes
from kogniterm.runtime.services.script_hashes import changed_file, file_states
from tests.support.ordinary import ordinary


def states(folder: Path, command: str, search_path: str = "/usr/bin") -> dict[str, str]:
    report = classify(command, cwd=str(folder), workspace=str(folder))
    return dict(file_states(report, str(folder), search_path))


def test_content_appearance_and_disappearance_are_changes(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    before = states(tmp_path, "make")
    assert changed_file(before, str(tmp_path)) is None
    (tmp_path / "rules.mk").write_text("all:\n")
    assert changed_file(before, str(tmp_path)) == "rules.mk"
    (tmp_path / "rules.mk").rename(tmp_path / "r[u]les.mk")
    with_rules = states(tmp_path, "make")
    assert changed_file(before, str(tmp_path)) == "*.mk"
    (tmp_path / "r[u]les.mk").write_text("all: x\n")
    assert changed_file(with_rules, str(tmp_path)) == "*.mk"
    (tmp_path / "r[u]les.mk").unlink()
    (tmp_path / "GNUmakefile").write_text("all:\n")
    assert changed_file(before, str(tmp_path)) == "GNUmakefile"
    (tmp_path / "GNUmakefile").unlink()
    (tmp_path / "Makefile").unlink()
    assert changed_file(before, str(tmp_path)) == "Makefile"


def test_of_a_pattern_the_file_that_changed_is_named(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.mk").write_text("all:\n")
    before = states(tmp_path, "make -C . -f a.mk")
    assert changed_file(before, str(tmp_path)) is None
    (tmp_path / "b.mk").write_text("all: c\n")
    assert changed_file(before, str(tmp_path)) == "b.mk"
    (tmp_path / "b.mk").unlink()
    assert changed_file(before, str(tmp_path)) == "b.mk"


def test_the_same_content_through_another_file_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text("true\n")
    before = states(tmp_path, "bash s.sh")
    (tmp_path / "new").write_text("true\n")
    (tmp_path / "new").replace(tmp_path / "s.sh")
    assert changed_file(before, str(tmp_path)) is None


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"echo {name}\n")
    (tmp_path / "s.sh").symlink_to("a")
    before = states(tmp_path, "bash s.sh")
    (tmp_path / "s.sh").unlink()
    (tmp_path / "s.sh").symlink_to("b")
    assert changed_file(before, str(tmp_path)) == "s.sh"


def test_a_large_file_is_known_by_size_inode_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_hashes, "MAX_HASHED", 8)
    file = tmp_path / "tool"
    file.write_text("x" * 100)
    before = states(tmp_path, "./tool")
    assert changed_file(before, str(tmp_path)) is None
    info = file.stat()
    file.write_text("y" * 100)
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert changed_file(before, str(tmp_path)) == "tool"


def test_pipes_folders_and_closed_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "closed").write_text("true\n")
    (tmp_path / "closed").chmod(0o111)
    tmp_path.chmod(0o777)
    with ordinary():
        before = states(tmp_path, "./pipe; ./folder; ./closed; ./a/../closed")
        assert changed_file(before, str(tmp_path)) is None


def test_a_program_that_appears_in_a_folder_of_the_workspace_on_path_is_a_change(
    tmp_path: Path,
) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    before = states(tmp_path, "ls; git status", f"{tmp_path}/tools:/usr/bin")
    assert changed_file(before, str(tmp_path)) is None
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "git").write_text("#!/bin/sh\n")
    assert changed_file(before, str(tmp_path)) == "tools/git"
    (tmp_path / "tools" / "git").unlink()
    (tmp_path / ".venv" / "bin" / "ls").write_text("#!/bin/sh\n")
    assert changed_file(before, str(tmp_path)) == ".venv/bin/ls"
