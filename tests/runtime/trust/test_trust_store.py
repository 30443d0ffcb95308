"""A project folder has no effect before it is trusted, nor after it changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kogniterm.paths import Paths
from kogniterm.runtime.trust.instruction_texts import instructions_text
from kogniterm.runtime.trust.project_places import MAX_FILE, walk
from kogniterm.runtime.trust.trust_store import TrustStore, compare, trusted_files
from kogniterm.text.file_text import unified_diff
from tests.support.ordinary import ordinary


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".kogniterm" / "commands").mkdir(parents=True)
    (folder / "AGENTS.md").write_text("Use tabs.\n")
    (folder / ".kogniterm" / "policy.toml").write_text("")
    (folder / ".kogniterm" / "commands" / "ship.md").write_text("Ship it")
    return folder


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")


@pytest.fixture
def store(paths: Paths) -> TrustStore:
    return TrustStore(paths.trust_file)


def test_new_changed_and_missing_files_are_told_apart() -> None:
    trusted = {".env": "1", "AGENTS.md": "2", "old": "3"}
    assert compare({".env": "1"}, trusted).trusted
    finding = compare({".env": "9", "AGENTS.md": "2", "mcp": "4"}, trusted)
    assert not finding.trusted
    assert (finding.new, finding.changed, finding.gone) == (("mcp",), (".env",), ("old",))
    assert [str(text) for text in finding.texts] == [
        "New since this folder was trusted: mcp.",
        "Changed since this folder was trusted: .env.",
        "No longer present or not readable: old.",
    ]
    assert [str(text) for text in compare({".env": "1"}, None).texts] == [
        "This folder is not trusted yet."
    ]


def test_trust_holds_until_something_changes(project: Path, store: TrustStore) -> None:
    assert not store.finding(project, walk(project).files).known
    store.trust(project, walk(project).files)
    assert store.finding(project, walk(project).files).trusted
    (project / "AGENTS.md").write_text("Use spaces.\n")
    assert store.finding(project, walk(project).files).changed == ("AGENTS.md",)
    store.trust(project, walk(project).files)
    (project / ".kogniterm" / "commands" / "new.md").write_text("x")
    assert store.finding(project, walk(project).files).new == (".kogniterm/commands/new.md",)


def test_nothing_of_an_untrusted_folder_is_used_and_the_user_is_told(
    project: Path, store: TrustStore, paths: Paths
) -> None:
    files, told = trusted_files(paths, project)
    assert files == ()
    assert "AGENTS.md" in str(told[-1])
    store.trust(project, walk(project).files)
    files, told = trusted_files(paths, project)
    assert len(files) == 3
    assert told == ()


def test_trust_is_not_inherited_and_can_be_revoked(project: Path, store: TrustStore) -> None:
    below = project / "vendor"
    below.mkdir()
    (below / "AGENTS.md").write_text("evil")
    store.trust(project, walk(project).files)
    assert not store.finding(below, walk(below).files).known
    assert store.revoke(project)
    assert not store.revoke(project)
    assert not store.finding(project, walk(project).files).known


def test_an_empty_folder_wants_nothing(tmp_path: Path, paths: Paths) -> None:
    assert trusted_files(paths, tmp_path) == ((), ())


def test_a_link_to_the_folder_is_the_folder(
    project: Path, store: TrustStore, tmp_path: Path
) -> None:
    store.trust(project, walk(project).files)
    link = tmp_path / "link"
    link.symlink_to(project)
    assert store.finding(link, walk(link).files).trusted


def test_traps_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    os.mkfifo(folder / "AGENTS.md")
    (folder / "KOGNITERM.md").symlink_to("/etc/passwd")
    (folder / ".kogniterm").mkdir()
    (folder / ".kogniterm" / "policy.toml").write_bytes(b"#" * (MAX_FILE + 1))
    (folder / ".kogniterm" / "commands").symlink_to("/etc")
    assert walk(folder).files == ()


def test_folders_in_the_place_of_files_are_passed_over(tmp_path: Path) -> None:
    for name in ("AGENTS.md", "KOGNITERM.md", ".kogniterm/policy.toml", ".kogniterm/commands/x.md"):
        (tmp_path / name).mkdir(parents=True)
    assert walk(tmp_path).files == ()


def test_a_damaged_record_trusts_nothing(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    file.write_text("{not json")
    assert not TrustStore(file).finding(project, walk(project).files).known


def test_the_record_is_private(project: Path, store: TrustStore, tmp_path: Path) -> None:
    store.trust(project, walk(project).files)
    assert (tmp_path / "data" / "trust.json").stat().st_mode & 0o077 == 0


def test_only_instructions_reach_the_model_and_as_data(project: Path) -> None:
    text = instructions_text(walk(project).files)
    assert text == ('<project_instructions file="AGENTS.md">\nUse tabs.\n</project_instructions>')


def test_a_closed_folder_brings_nothing_and_closes_nothing(project: Path) -> None:
    hidden = project / ".kogniterm"
    for mode in (0o000, 0o600):
        hidden.chmod(mode)
        with ordinary():
            found = {file.kind for file in walk(project).files}
        assert found == {"instructions"}
    hidden.chmod(0o700)


def test_a_rule_that_went_is_told(project: Path, store: TrustStore, paths: Paths) -> None:
    store.trust(project, walk(project).files)
    assert trusted_files(paths, project)[1] == ()
    policy = project / ".kogniterm" / "policy.toml"
    policy.chmod(0o000)
    with ordinary():
        files, told = trusted_files(paths, project)
    assert {file.kind for file in files} == {"instructions", "command"}
    assert [str(text) for text in told] == [
        "No longer present or not readable: .kogniterm/policy.toml."
    ]


def test_what_changed_is_shown_as_a_diff_against_what_was_trusted(
    project: Path, store: TrustStore, tmp_path: Path
) -> None:
    store.trust(project, walk(project).files)
    assert store.changes(project, walk(project).files) == {}
    (project / "AGENTS.md").write_text("Use spaces.\n")
    diffs = store.changes(project, walk(project).files)
    assert list(diffs) == ["AGENTS.md"]
    assert diffs["AGENTS.md"].splitlines()[-2:] == ["-Use tabs.", "+Use spaces."]
    for trusted, changed in ((b"a\r\nb\r\n", b"a\r\nB\r\n"), (b"a\nb\n", b"a\x0cb\n")):
        (project / "AGENTS.md").write_bytes(trusted)
        store.trust(project, walk(project).files)
        (project / "AGENTS.md").write_bytes(changed)
        shown = store.changes(project, walk(project).files)["AGENTS.md"]
        assert shown == unified_diff("AGENTS.md", trusted, changed)
    store.revoke(project)
    assert list((tmp_path / "data" / "trusted-texts").iterdir()) == []
