"""`kogniterm import`: a user brings along what they set up for another terminal agent."""

from __future__ import annotations

from tests.support.ordinary import hand_over
from tests.support.other_agents import HOMES, SECRETS
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import leave, open_prompt, put, say, scripted
from tests.terminal.conftest import OpenTerminal, open_terminal, place, pytest_generate_tests

__all__ = ["open_terminal", "place", "pytest_generate_tests"]

SHOWN = ("PreToolUse Bash", "git/commit.md", "British spelling", "/srv/shop")
CONFIG = ".config/kogniterm"


def at_home(open_terminal: OpenTerminal, user: User, *words: str, **more: object) -> RealTerminal:
    """Open a terminal in whose home these agents are set up."""
    terminal = open_terminal(user=user, **more)
    for word in words:
        HOMES[word](terminal.home)
    if user == "ordinary":
        hand_over(terminal.home)
    return terminal


def no_secret_shown(terminal: RealTerminal) -> bool:
    return not any(one.encode() in terminal.raw for one in SECRETS)


def test_everything_is_shown_then_asked_then_there(open_terminal: OpenTerminal, user: User) -> None:
    terminal = at_home(open_terminal, user, "claude")
    assert "claude" in terminal.run("kogniterm import")[1]
    status, shown = terminal.run("kogniterm import claude --dry-run")
    assert (status, "Nothing was written." in shown) == (0, True)
    for text in SHOWN:
        assert text in " ".join(shown.split()), text
    assert not (terminal.home / CONFIG).exists()
    terminal.start("kogniterm import claude")
    terminal.until("Import 10 entries? [yes/no]")
    terminal.send("n\r")
    assert terminal.status() == 2
    assert not (terminal.home / CONFIG).exists()
    terminal.start("kogniterm import claude")
    terminal.until(lambda: terminal.text.count("Import 10 entries? [yes/no]") == 2)
    terminal.send("y\r")
    terminal.until("Copy the secrets? [yes/no]")
    terminal.send("\r")
    terminal.until("10 entries imported.")
    assert terminal.status() == 0
    status, shown = terminal.run("kogniterm import claude")
    assert (status, "There is nothing to add." in shown) == (0, True)
    assert no_secret_shown(terminal)
    config = terminal.home / CONFIG
    files = [one.read_text() for one in config.rglob("*") if one.is_file()]
    assert not [one for one in files for secret in SECRETS if secret in one]
    assert (config / "AGENTS.md").stat().st_uid == terminal.home.stat().st_uid


def test_what_was_imported_works_in_the_next_session(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = at_home(open_terminal, user, "claude", columns=120)
    script = "#!/bin/sh\necho the guard was asked >&2\ntouch ~/written\nexit 2\n"
    put(terminal.home, ".claude/guard.sh", script).chmod(0o755)
    assert terminal.run("kogniterm import claude --yes > import.txt")[0] == 0
    screen = (terminal.folder / "import.txt").read_text()
    assert "Hooks run in the sandbox, without network." in screen
    assert "the guard was asked" in terminal.run("kogniterm hooks test PreToolUse Bash")[1]
    assert not (terminal.home / "written").exists()
    assert "pdf" in terminal.run("kogniterm skills list")[1]
    script = """replies:
  - {when: {last_contains: "Look at the branch"}, text: "The branch is fine."}
  - {when: {system_contains: "Use British spelling"}, text: "I write colour.", repeat: forever}
"""
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, script)}")
    say(terminal, "/review the branch", "The branch is fine.")
    say(terminal, "how do you spell?", "I write colour.")
    say(terminal, "/help git:commit", "Write a commit message")
    assert leave(terminal) == 0
