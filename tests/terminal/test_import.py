"""`kogniterm import`: a user brings along what they set up for another terminal agent."""

from __future__ import annotations

import json

import pytest

from tests.support.ordinary import hand_over
from tests.support.other_agents import BEARER, HOMES, SECRETS
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import leave, open_prompt, put, say, scripted
from tests.terminal.conftest import OpenTerminal

SHOWN = {
    "claude": ("10 entries", "PreToolUse Bash", "git/commit.md", "British spelling", "/srv/shop"),
    "codex": ("7 entries", "context7", '"timeout": 45', "Fix $1.", "gpt-5.2-codex"),
    "gemini": ("6 entries", "PreToolUse Bash|Write", "git/fix.toml", "read_.* has no exact"),
    "opencode": ("8 entries", "everything", "reviewer.md", "Agent boss: it is no sub-agent"),
    "deepagents": ("5 entries", "linear", "writer.md", "Ask before you guess."),
}
"""The number of entries, and what else stands on the screen."""
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


@pytest.mark.parametrize("word", SHOWN)
def test_everything_is_shown_then_asked_then_there(
    word: str, open_terminal: OpenTerminal, user: User
) -> None:
    terminal = at_home(open_terminal, user, word)
    count, *texts = SHOWN[word]
    assert word in terminal.run("kogniterm import")[1]
    status, shown = terminal.run(f"kogniterm import {word} --dry-run")
    assert (status, "Nothing was written." in shown) == (0, True)
    for text in texts:
        assert text in " ".join(shown.split()), text
    assert not (terminal.home / CONFIG).exists()
    terminal.start(f"kogniterm import {word}")
    terminal.until(f"Import {count}? [y/N]")
    terminal.send("n\r")
    assert terminal.status() == 2
    assert not (terminal.home / CONFIG).exists()
    terminal.start(f"kogniterm import {word}")
    terminal.until(lambda: terminal.text.count(f"Import {count}? [y/N]") == 2)
    terminal.send("y\r")
    terminal.until("Copy the secrets? [y/N]")
    terminal.send("\r")
    terminal.until(f"{count} imported.")
    assert terminal.status() == 0
    status, shown = terminal.run(f"kogniterm import {word}")
    assert (status, "There is nothing to add." in shown) == (0, True)
    assert no_secret_shown(terminal)
    config = terminal.home / CONFIG
    files = [one.read_text() for one in config.rglob("*") if one.is_file()]
    assert not [one for one in files for secret in SECRETS if secret in one]
    assert (config / "AGENTS.md").stat().st_uid == terminal.home.stat().st_uid


def test_secrets_are_copied_only_at_their_own_question(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = at_home(open_terminal, user, "claude", columns=80, rows=24)
    terminal.start("kogniterm import claude --only mcp")
    terminal.until("Import 3 entries? [y/N]")
    terminal.send("y\r")
    terminal.until("Copy the secrets? [y/N]")
    terminal.send("y\r")
    terminal.until("3 entries imported.")
    assert "run in the sandbox, without network" in " ".join(terminal.text.split())
    assert terminal.status() == 0
    servers = (terminal.home / CONFIG / "mcp.json").read_text()
    assert all(one in servers for one in SECRETS)
    assert "There is nothing to add." in terminal.run("kogniterm import claude --only mcp")[1]
    assert no_secret_shown(terminal)


def test_a_conflict_a_malformed_file_and_names_that_would_control_the_terminal(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = at_home(open_terminal, user, "claude", columns=100)
    state = json.loads((terminal.home / ".claude.json").read_text())
    evil = "x\x1b]0;owned\x07\x1b[2J\u202e"
    state["mcpServers"][evil] = {"command": f"run{evil}", "args": ["\r\x1b[1A"]}
    put(terminal.home, ".claude.json", json.dumps(state))
    put(terminal.home, ".claude/settings.json", "{ this is wrong")
    put(terminal.home, ".claude/commands/a\x1b[2Jb.md", "Text\x1b[2Jmore\n")
    put(terminal.home, ".claude/commands/look.md", "Text\x1b[2Jmore\x1b]0;owned\x07\n")
    own = {"mcpServers": {"github": {"command": "mine"}}}
    put(terminal.home, f"{CONFIG}/mcp.json", json.dumps(own))
    before = terminal.raw
    status, shown = terminal.run("kogniterm import claude --yes")
    # The rest is imported, and the exit status says that something is missing.
    assert status == 1
    assert "settings.json was not read: line 1 is wrong." in " ".join(shown.split())
    assert "! github (differs, kept)" in shown
    assert "mine" in shown
    assert "--replace" in shown
    raw = terminal.raw[len(before) :]
    assert b"\x1b]0;owned" not in raw
    assert b"\x1b[2J" not in raw
    assert b"\x1b[1A" not in raw
    assert r"\u{1B}" in shown
    servers = json.loads((terminal.home / CONFIG / "mcp.json").read_text())["mcpServers"]
    assert servers["github"] == {"command": "mine"}
    assert (terminal.home / CONFIG / "skills/pdf/scripts/read.sh").exists()
    assert terminal.run("kogniterm import claude --only mcp --replace --yes")[0] == 1
    servers = json.loads((terminal.home / CONFIG / "mcp.json").read_text())["mcpServers"]
    assert servers["github"]["command"] == "npx"
    assert no_secret_shown(terminal)


def test_scripts_get_json_and_pipes_plain_lines(open_terminal: OpenTerminal, user: User) -> None:
    terminal = at_home(open_terminal, user, "codex", "gemini", columns=200)
    terminal.run("kogniterm import codex --dry-run --json > plan.json 2> screen.txt")
    plan = json.loads((terminal.folder / "plan.json").read_text())
    assert (plan["agent"], plan["written"]) == ("codex", False)
    assert {(one["kind"], one["state"]) for one in plan["entries"]} == {
        (kind, "new") for kind in ("mcp", "hooks", "skills", "commands", "instructions")
    }
    assert plan["variables"] == [{"server": "context7", "name": "CONTEXT7_API_KEY", "set": False}]
    terminal.run("kogniterm import gemini --dry-run > screen.txt")
    screen = (terminal.folder / "screen.txt").read_text()
    assert "\x1b" not in screen
    assert "+++ ~/.config/kogniterm/mcp.json" in screen
    status, shown = terminal.run("kogniterm import codex < /dev/null")
    assert (status, "--yes" in shown) == (2, True)
    status, shown = terminal.run("kogniterm import cursor")
    assert (status, "choose from claude, codex" in shown) == (2, True)
    status, shown = terminal.run("kogniterm import claude")
    assert (status, "No settings of Claude Code were found here." in shown) == (1, True)
    status, shown = terminal.run("kogniterm import codex --only servers")
    assert (status, "one or more of mcp, hooks" in shown) == (2, True)
    status, shown = terminal.run("kogniterm import codex -C /")
    assert (status, "--cwd needs --project." in shown) == (2, True)
    assert not any(one in screen + json.dumps(plan) for one in SECRETS)


def test_a_project_is_converted_and_has_no_effect_before_it_is_trusted(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    headers = {"Authorization": f"Bearer {BEARER}"}
    entry = {"httpUrl": "https://shop.example/mcp", "headers": headers}
    settings = json.dumps({"mcpServers": {"shop": entry}})
    put(terminal.folder, ".gemini/settings.json", settings)
    status, shown = terminal.run("kogniterm import gemini --project --yes")
    assert (status, "1 entry imported." in shown) == (0, True)
    assert "once you trust the folder: kogniterm trust" in shown
    assert "GEMINI.md, .gemini/commands" in shown
    servers = json.loads((terminal.folder / ".mcp.json").read_text())["mcpServers"]
    assert servers["shop"]["headers"] == {"Authorization": "Bearer ${SHOP_TOKEN}"}
    assert not (terminal.home / CONFIG / "mcp.json").exists()
    assert no_secret_shown(terminal)


def test_the_screen_speaks_spanish(open_terminal: OpenTerminal, user: User) -> None:
    terminal = at_home(open_terminal, user, "gemini", environment={"LANG": "es_ES.UTF-8"})
    terminal.start("kogniterm --lang es import gemini")
    terminal.until("¿Importar 6 entradas? [s/N]")
    assert "No se importa:" in terminal.text
    terminal.send("s\r")
    terminal.until("¿Copiar los secretos? [s/N]")
    terminal.send("n\r")
    terminal.until("6 entradas importadas.")
    assert terminal.status() == 0


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


def test_the_prompt_imports_too(open_terminal: OpenTerminal, user: User) -> None:
    terminal = at_home(open_terminal, user, "gemini", columns=80, rows=24)
    model = scripted(terminal, "replies:\n  - {text: Hello.}\n")
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "/import", "gemini-cli")
    say(terminal, "/import cursor", "choose one of claude, codex")
    say(terminal, "/import gemini")
    terminal.until("Import 6 entries?")
    terminal.look()
    terminal.send("y")
    terminal.until("6 entries imported.")
    say(terminal, "/import gemini", "There is nothing to add.")
    assert leave(terminal) == 0
    assert (terminal.home / CONFIG / "skills/maps/SKILL.md").exists()
    assert no_secret_shown(terminal)
