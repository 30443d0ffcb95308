"""A newer KogniTerm on this machine is told once, and nothing is asked over the network."""

from __future__ import annotations

from pathlib import Path

import pytest

import kogniterm
from kogniterm.runtime.operations.updates import UpdateWatch, fetched_commits, installed_version
from tests.support.git_repositories import git
from tests.support.programs import needs


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """Return a repository with one commit; `checkout` beside it is a clone."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q")
    git(origin, "commit", "-q", "--allow-empty", "-m", "one")
    git(tmp_path, "clone", "-q", str(origin), "checkout")
    return origin


@needs("git")
def test_commits_that_were_fetched_are_told_once(origin: Path, tmp_path: Path) -> None:
    checkout, told = tmp_path / "checkout", tmp_path / "cache" / "told"
    assert UpdateWatch(told, checkout).newer_commits() is None
    for name in ("two", "three"):
        git(origin, "commit", "-q", "--allow-empty", "-m", name)
    assert UpdateWatch(told, checkout).newer_commits() is None, "nothing was fetched"
    git(checkout, "fetch", "-q")
    notice = UpdateWatch(told, checkout).newer_commits()
    assert str(notice) == (
        f"Newer commits of KogniTerm were fetched: 2. Update with: git -C {checkout} pull"
    )
    assert UpdateWatch(told, checkout).newer_commits() is None
    assert fetched_commits(checkout) == notice
    git(checkout, "pull", "-q", "--ff-only")
    assert fetched_commits(checkout) is None


@needs("git")
def test_a_branch_without_upstream_has_no_update(origin: Path, tmp_path: Path) -> None:
    assert UpdateWatch(tmp_path / "told", origin).newer_commits() is None


def test_a_folder_that_is_no_checkout_has_no_update(tmp_path: Path) -> None:
    assert fetched_commits(tmp_path) is None
    assert UpdateWatch(tmp_path / "told", tmp_path).newer_commits() is None


def test_a_version_that_was_installed_meanwhile_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = UpdateWatch(tmp_path / "told", tmp_path)
    assert watch.newer_version() is None
    monkeypatch.setattr(kogniterm, "__version__", "0.0.9")
    assert str(watch.newer_version()) == (
        f"KogniTerm {installed()} was installed; this session runs 0.0.9. "
        "Restart KogniTerm to use it."
    )
    assert watch.newer_version() is None
    assert installed_version() is not None


def installed() -> str:
    lines = Path(kogniterm.__file__).read_text().splitlines()
    return next(line for line in lines if line.startswith("__version__")).split('"')[1]
