"""Checkouts of repositories for tasks: made, moved to another machine, and cleared."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kogniterm.addons.fleet.checkouts import Checkouts, Repository, repository_of
from kogniterm.errors import UsageError
from tests.addons.fleet.conftest import Fleet
from tests.support.git_repositories import git
from tests.support.programs import require

RUN = ("-y", "--no-sandbox", "--plan", "never", "--memory", "off")
EDIT = """replies:
  - {when: {last_contains: "GO"}, run: "COMMAND"}
  - {text: "Done.", repeat: forever}
"""


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """Return a bare repository with a file on the branch main."""
    require("git")
    work, bare = tmp_path / "work", tmp_path / "shop.git"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    (work / "price.txt").write_text("1\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "Begin")
    git(tmp_path, "clone", "-q", "--bare", str(work), str(bare))
    return bare


def add(fleet: Fleet, task: str, workspace: str, command: str, *more: str) -> None:
    model = fleet.script(f"m-{task}", EDIT.replace("COMMAND", command))
    words = ["queue", "add", "GO", "--id", task, "--workspace", workspace, "--model", model]
    fleet.run(*words, *RUN, *more)


@pytest.mark.parametrize(
    ("text", "repository"),
    [
        ("https://git.example.org/shop.git@main", ("https://git.example.org/shop.git", "main")),
        ("https://ana@git.example.org/shop", ("https://ana@git.example.org/shop", "HEAD")),
        ("https://ana@git.example.org/shop@v1.2", ("https://ana@git.example.org/shop", "v1.2")),
        ("ssh://git@host:22/shop@feature/x", ("ssh://git@host:22/shop", "feature/x")),
        ("git@host:org/shop.git", ("git@host:org/shop.git", "HEAD")),
        ("git@host:org/shop.git@main", ("git@host:org/shop.git", "main")),
        ("file:///srv/shop.git@main", ("file:///srv/shop.git", "main")),
        ("/srv/shop@main", ("/srv/shop", "main")),
        ("shop", None),
        ("-x", None),
    ],
)
def test_addresses_are_told_from_folders(text: str, repository: tuple[str, str] | None) -> None:
    found = repository_of(text)
    assert found == (Repository(*repository) if repository else None)


@pytest.mark.parametrize("text", ["ext::sh -c id@main", "--upload-pack=x"])
def test_what_would_start_a_program_is_no_address(text: str) -> None:
    found = repository_of(text)
    assert found is None or not found.address.startswith(("ext:", "-"))


def test_a_password_in_an_address_and_a_wrong_name_are_refused() -> None:
    with pytest.raises(UsageError, match="contains a password"):
        repository_of("https://ana:secret@git.example.org/shop@main")
    with pytest.raises(UsageError, match="no branch, tag or commit"):
        repository_of("https://git.example.org/shop@--output=x")


def test_tasks_work_in_checkouts_of_their_own_and_leave_patches(fleet: Fleet, origin: Path) -> None:
    commit = git(origin, "rev-parse", "main")
    add(fleet, "one", f"{origin}@main", "echo 2 >price.txt; echo new >added")
    add(fleet, "two", f"file://{origin}@main", "git rm -q price.txt; git status --short >/dev/null")
    add(fleet, "gone", f"{origin}@nowhere", "true")
    lines = fleet.run("worker", "--until-empty", "--slots", "3")
    one, two = fleet.task("one"), fleet.task("two")
    assert (one.state, two.state, one.commit_id, two.commit_id) == ("done", "done", commit, commit)
    assert "couldn't find remote ref" in str(fleet.task("gone").reason), lines
    diff = fleet.run("queue", "show", "one", "--diff")
    assert "-1\n+2\n" in diff
    assert "+new\n" in diff
    clone = fleet.base / "clone"
    git(fleet.base, "clone", "-q", str(origin), str(clone))
    (fleet.base / "one.patch").write_text(diff)
    git(clone, "apply", str(fleet.base / "one.patch"))
    assert (clone / "price.txt").read_text() == "2\n"
    found = [json.loads(line) for line in fleet.run("queue", "results").splitlines() if line]
    assert {one["id"]: "deleted file" in (one["patch"] or "") for one in found} == {
        "one": False, "two": True, "gone": False,
    }  # fmt: skip
    left = [one.name for one in (fleet.base / "data-checkouts").iterdir()]
    assert [name for name in left if name in ("one", "two", "gone")] == []


def test_settings_of_a_checkout_start_nothing_in_the_worker(tmp_path: Path, origin: Path) -> None:
    repository = Repository(str(origin), "main")
    checkouts = Checkouts(tmp_path / "checkouts", tmp_path / "repositories")

    async def work() -> bytes:
        commit = await checkouts.resolve(repository, "")
        found = await checkouts.open("t", repository, commit, "")
        assert (found.fresh, (found.folder / "price.txt").read_text()) == (True, "1\n")
        for setting in ("core.fsmonitor", "diff.external", "filter.x.clean", "core.sshCommand"):
            git(found.folder, "config", setting, f"touch {tmp_path}/stolen; cat")
        hooks = found.folder / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        (hooks / "post-index-change").write_text(f"#!/bin/sh\ntouch {tmp_path}/stolen\n")
        (hooks / "post-index-change").chmod(0o755)
        (found.folder / ".gitattributes").write_text("* filter=x diff=x\n")
        (found.folder / "price.txt").write_bytes(b"2\n")
        (found.folder / "photo").write_bytes(bytes(range(256)))
        patch = await checkouts.patch("t", repository, commit)
        checkouts.remove("t")
        again = await checkouts.open("t", repository, commit, patch.decode())
        assert (again.folder / "photo").read_bytes() == bytes(range(256))
        assert (again.folder / "price.txt").read_text() == "2\n"
        return patch

    assert b"+2\n" in asyncio.run(work())
    assert not (tmp_path / "stolen").exists()


def test_a_task_goes_on_in_a_new_checkout_of_the_same_commit(fleet: Fleet, origin: Path) -> None:
    """Lose a machine with its checkout in the middle; the branch has moved on meanwhile."""
    commit = git(origin, "rev-parse", "main")
    asks = """replies:
  - {when: {last_contains: "GO"}, run: "echo 2 >price.txt"}
  - {when: {last_contains: "new checkout of commit"}, text: "I was told."}
  - {text: "Done.", repeat: forever}
"""
    model = fleet.script("asks", asks)
    words = ["queue", "add", "GO", "--id", "moved", "--workspace", f"{origin}@main"]
    fleet.run(*words, "--model", model, *RUN[1:], "--allow-reads")
    fleet.run("worker", "--until-empty")
    parked = fleet.task("moved")
    assert (parked.state, parked.commit_id) == ("parked", commit)
    checkout = fleet.base / "data-checkouts" / "moved"
    assert (checkout / "price.txt").read_text() == "1\n"
    (checkout / "price.txt").write_text("lost\n")
    checkout.rename(fleet.base / "lost")
    (fleet.base / "work" / "price.txt").write_text("5\n")
    git(fleet.base / "work", "commit", "-qam", "Later")
    git(fleet.base / "work", "push", "-q", str(origin), "main")
    (question,) = json.loads(fleet.run("queue", "inbox", "--json"))
    fleet.run("queue", "answer", "moved", "approve", "--digest", question["digest"])
    fleet.run("worker", "--until-empty")
    task = fleet.task("moved")
    assert (task.state, task.answer, task.commit_id) == ("done", "I was told.", commit)
    diff = fleet.run("queue", "show", "moved", "--diff")
    assert "-1\n+2\n" in diff  # of the pinned commit, not of what the branch is by now
