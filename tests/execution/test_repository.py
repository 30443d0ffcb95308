"""A repository that would run programs for whoever looks at it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kogniterm.approval import RuleSet
from kogniterm.execution.repository import settings_that_run
from kogniterm.runtime.policy_desk import PolicyDesk, PolicySettings
from kogniterm.types import ActionRequest, RiskReport
from tests.support.programs import needs

pytestmark = needs("git")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitattributes").write_text("*.txt diff=ev filter=ev\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.fsmonitor", "./evil"),
        ("diff.external", "./evil"),
        ("diff.ev.textconv", "./evil"),
        ("diff.ev.command", "./evil"),
        ("filter.ev.clean", "./evil"),
        ("filter.ev.process", "./evil"),
        ("gpg.program", "./evil"),
    ],
)
def test_a_setting_that_names_a_program_is_found(repository: Path, name: str, value: str) -> None:
    git(repository, "config", name, value)
    assert settings_that_run([repository]) == (name,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.fsmonitor", "true"),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("core.hookspath", ".husky"),
        ("user.name", "./evil"),
    ],
)
def test_harmless_settings_are_not(repository: Path, name: str, value: str) -> None:
    git(repository, "config", name, value)
    assert settings_that_run([repository]) == ()


def test_the_settings_of_a_submodule_count(repository: Path) -> None:
    inner = repository / ".git" / "modules" / "lib"
    inner.mkdir(parents=True)
    (inner / "config").write_text("[core]\n\tfsmonitor = ./evil\n")
    assert settings_that_run([repository]) == ("core.fsmonitor",)


def test_a_repository_hidden_in_the_files_of_another(repository: Path) -> None:
    git(repository, "init", "-q", "--bare", "data")
    git(repository / "data", "config", "core.fsmonitor", "./evil")
    assert settings_that_run([repository]) == ()
    assert settings_that_run([repository / "data"]) == ("core.fsmonitor",)


def test_the_persons_own_settings_do_not_count(repository: Path, tmp_path: Path) -> None:
    assert settings_that_run([repository, tmp_path / "nowhere", Path("/")]) == ()


def assess(folder: Path, command: str) -> RiskReport:
    desk = PolicyDesk(str(folder), None, PolicySettings(), RuleSet(()), lambda: 0.0)
    return desk.assess(ActionRequest("a1", "c1", "execute_command", command), str(folder))


@pytest.mark.parametrize(
    "command", ["git status", "ls && git diff | cat", "cd src && git log -1", "git -C src show"]
)
def test_reading_such_a_repository_is_asked_about(repository: Path, command: str) -> None:
    (repository / "src").mkdir()
    assert assess(repository, command).label == "safe_readonly"
    git(repository, "config", "core.fsmonitor", "./evil")
    report = assess(repository, command)
    assert report.label == "needs_approval"
    assert "core.fsmonitor" in str(report.reasons[0])
    assert assess(repository, "ls").label == "safe_readonly"


def add_hook(folder: Path, name: str, mode: int = 0o755) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hook = folder / name
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(mode)


@pytest.mark.parametrize("command", ["git commit -m x", "cd src && git add . && git stash"])
def test_changing_a_repository_with_hooks_is_asked_about(repository: Path, command: str) -> None:
    (repository / "src").mkdir()
    hooks = repository / ".git" / "hooks"
    add_hook(hooks, "pre-push.sample")
    add_hook(hooks, "commit-msg", mode=0o644)
    assert assess(repository, command).label == "workspace_write"
    add_hook(hooks, "pre-commit")
    report = assess(repository, command)
    assert report.label == "needs_approval"
    assert "hooks run with it (pre-commit)" in str(report.reasons[0])
    assert assess(repository, "git status").label == "safe_readonly"
    assert not (repository / "ran").exists()


def test_a_hook_that_a_reader_runs_is_asked_about(repository: Path) -> None:
    add_hook(repository / ".git" / "hooks", "post-index-change")
    assert assess(repository, "git status").label == "needs_approval"


def test_hooks_in_a_folder_that_the_repository_names_count(repository: Path) -> None:
    git(repository, "config", "core.hooksPath", ".husky")
    add_hook(repository / ".husky", "pre-commit")
    assert assess(repository, "git commit -m x").label == "needs_approval"


def test_hooks_of_the_person_do_not_count(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    add_hook(home / "hooks", "pre-commit")
    (home / "config").write_text(f"[core]\n\thooksPath = {home}/hooks\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "config"))
    assert assess(repository, "git commit -m x").label == "workspace_write"
