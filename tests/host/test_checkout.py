"""The version that runs, with the commit of a checkout, and the one that is on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

import kogniterm
from kogniterm.host import checkout
from kogniterm.host.checkout import commit_of, running_version, version_on_disk
from tests.support.git_repositories import git
from tests.support.programs import require

COMMIT = "0123456789" * 4


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_version_names_the_package_that_runs() -> None:
    assert running_version().startswith(f"{kogniterm.__version__} from ")
    assert str(Path(checkout.__file__).parents[1]) in running_version()
    assert version_on_disk() == kogniterm.__version__


def test_what_is_no_checkout_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(str(tmp_path)) == ""


@pytest.mark.parametrize(
    "files",
    [
        {"HEAD": COMMIT},
        {"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{COMMIT}\n"},
        {"HEAD": "ref: refs/heads/main\n", "packed-refs": f"# pack\n{COMMIT} refs/heads/main\n"},
    ],
)
def test_the_commit_is_found_wherever_git_keeps_it(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        write(tmp_path / ".git" / name, text)
    assert commit_of(str(tmp_path)) == COMMIT


def test_git_names_the_same_commit_in_a_checkout_and_in_a_worktree(tmp_path: Path) -> None:
    require("git")
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    git(first, "init", "-q")
    git(first, "commit", "-q", "--allow-empty", "-m", "one")
    git(first, "worktree", "add", "-q", str(second))
    assert commit_of(str(first)) == commit_of(str(second)) == git(first, "rev-parse", "HEAD")
