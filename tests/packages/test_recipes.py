"""The scripts that docs/recipes shows, run as they stand there, with a scripted model."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kogniterm.execution.sandbox_probe import probe
from tests.support.programs import needs

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes"
Done = subprocess.CompletedProcess[str]


def blocks(page: str, language: str) -> Iterator[str]:
    """Yield the code blocks of a page."""
    text = (RECIPES / page).read_text("utf-8")
    yield from re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def script_of(page: str) -> str:
    return next(block for block in blocks(page, "sh") if block.startswith("#!/bin/sh"))


@dataclass
class User:
    """A user with a project, `kogniterm` in ~/.local/bin, and a model that answers as told."""

    home: Path
    project: Path

    def answer(self, script: str) -> None:
        (self.home / "script.yaml").write_text(script)

    def run(self, *words: str | Path, **environment: str) -> Done:
        """Run a program as cron does: with almost no environment."""
        own = {
            "HOME": str(self.home),
            "KOGNITERM_WARM": "off",
            "LOGNAME": "user",
            "PATH": "/usr/bin:/bin",
            "SHELL": "/bin/sh",
        }
        return subprocess.run(
            words,
            cwd=self.home,
            env=own | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def user(tmp_path: Path) -> User:
    home, project = tmp_path / "home", tmp_path / "project"
    programs, config = home / ".local" / "bin", home / ".config" / "kogniterm"
    for folder in (programs, config, project):
        folder.mkdir(parents=True)
    (programs / "kogniterm").symlink_to(Path(sys.executable).with_name("kogniterm"))
    (config / "config.toml").write_text(f'model = "scripted:{home}/script.yaml"\n')
    for name, page in (("kogniterm-nightly", "cron.md"), ("review-staged", "pre-commit.md")):
        (programs / name).write_text(script_of(page))
        (programs / name).chmod(0o755)
    return User(home, project)


# --- cron ---


@pytest.fixture
def nightly(user: User, tmp_path: Path) -> Callable[[], Done]:
    if probe(tmp_path / "probe", "auto").kind is None:
        pytest.skip("no sandbox works here")
    return lambda: user.run(user.home / ".local/bin/kogniterm-nightly", user.project)


@needs("flock")
def test_a_scheduled_task_is_silent_unless_it_needs_the_user(
    user: User, nightly: Callable[[], Done]
) -> None:
    state = user.home / ".local" / "state" / "kogniterm-nightly"
    user.answer("replies: [{run: echo tested > made.txt}, {text: All passed.}]")
    done = nightly()
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads((state / "result.json").read_text())["answer"] == "All passed."
    assert (user.project / "made.txt").read_text() == "tested\n"

    user.answer("replies: [{run: rm -rf /usr/local}, {text: Refused., repeat: forever}]")
    done = nightly()
    assert done.returncode == 3
    session = json.loads((state / "result.json").read_text())["session_id"]
    assert done.stdout.startswith(
        "An action needs your approval.\nContinue with: kogniterm resume "
    )
    assert f"kogniterm resume {session}\n" in done.stdout

    before = (state / "result.json").read_bytes()
    with (state / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = nightly()
    assert (done.returncode, done.stdout) == (75, f"The last run is still at work; see {state}.\n")
    assert (state / "result.json").read_bytes() == before


@needs("systemd-analyze")
def test_the_units_of_the_timer_are_valid(user: User) -> None:
    service, timer = blocks("cron.md", "ini")
    files = [user.home / f"kogniterm-nightly.{kind}" for kind in ("service", "timer")]
    for file, text in zip(files, (service, timer), strict=True):
        file.write_text(text.replace("%h", str(user.home)))
    done = user.run("systemd-analyze", "verify", *files)
    assert (done.returncode, done.stdout) == (0, "")


# --- pre-commit ---


@needs("git")
def test_a_commit_with_a_defect_is_stopped_and_the_review_changes_nothing(user: User) -> None:
    git = ("git", "-c", "user.name=u", "-c", "user.email=u@example.org", "-C", user.project)
    path = {"PATH": f"{user.home}/.local/bin:/usr/bin:/bin"}

    def commit() -> Done:
        return user.run(*git, "commit", "-qm", "x", **path)

    user.run(*git, "init", "-q")
    hook = user.project / ".git" / "hooks" / "pre-commit"
    hook.write_text(f'#!/bin/sh\nexec "{user.home}/.local/bin/review-staged"\n')
    hook.chmod(0o755)
    (user.project / "a.py").write_text("password = 'x'\n")
    user.run(*git, "add", "a.py")
    seen = "when: {any_contains: password = 'x'}"
    user.answer(f'replies: [{{{seen}, text: "It leaks.\\nVERDICT: fail"}}]')
    done = commit()
    assert done.returncode == 1, done.stdout
    assert "It leaks." in done.stdout
    user.answer("replies: [{run: touch made.txt}, {text: 'VERDICT: pass', repeat: forever}]")
    assert commit().returncode != 0
    assert not (user.project / "made.txt").exists()
    user.answer(f'replies: [{{{seen}, text: "Nothing found.\\nVERDICT: pass"}}]')
    assert commit().returncode == 0
    assert user.run(*git, "log", "--oneline").stdout.count("\n") == 1
    # A model that is not there keeps nobody from working.
    (user.project / "a.py").write_text("password = input()\n")
    user.run(*git, "add", "a.py")
    user.answer("replies: [{error: unavailable, repeat: forever}]")
    done = commit()
    assert (done.returncode, "Not reviewed" in done.stdout) == (0, True), done.stdout
