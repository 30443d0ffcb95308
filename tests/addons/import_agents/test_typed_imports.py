"""`kogniterm import` as a user types and answers it, in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.test_typed_commands import user
from tests.support.other_agents import HOMES, SECRETS
from tests.support.typist import Typist

__all__ = ["user"]


def test_secrets_are_copied_at_their_own_question(user: Typist) -> None:
    HOMES["claude"](user.home)
    answers = [("Import 3 entries? [yes/no]", "y\n"), ("Copy the secrets? [yes/no]", "y\n")]
    assert user.type("import", "claude", "--only", "mcp", answers=answers) == 0
    assert "3 entries imported." in user.flat
    shown = user.shown
    servers = (user.config / "mcp.json").read_text()
    assert all(one in servers for one in SECRETS)
    assert user.type("import", "claude", "--only", "mcp") == 0
    assert "There is nothing to add." in user.flat
    assert not any(one in shown + user.shown for one in SECRETS)


def test_an_import_that_is_refused_or_has_a_wrong_option_writes_nothing(user: Typist) -> None:
    HOMES["claude"](user.home)
    assert user.type("import", "claude", answers=[("Import 10 entries? [yes/no]", "n\n")]) == 2
    for words, told in (
        (("claude", "--only", "servers"), "one or more of mcp, hooks"),
        (("claude", "-C", "/"), "--cwd needs --project."),
        (("cursor",), "choose from claude, codex"),
    ):
        assert user.type("import", *words) == 2
        assert told in user.flat
    assert user.type("import", "codex") == 1
    assert "No settings of Codex were found here." in user.flat
    assert list(user.config.iterdir()) == []


def test_an_import_for_scripts_is_json_or_plain_lines(user: Typist) -> None:
    HOMES["codex"](user.home)
    assert user.type("import", "codex", "--dry-run", "--json") == 0
    plan = json.loads(user.shown[user.shown.index("\n{") :])
    assert (plan["agent"], plan["written"]) == ("codex", False)
    assert {one["state"] for one in plan["entries"]} == {"new"}
    kinds = {"mcp", "hooks", "skills", "commands", "instructions"}
    assert {one["kind"] for one in plan["entries"]} == kinds
    assert user.type("import", "codex", stdin=Path(os.devnull)) == 2
    assert "or --yes" in user.flat
    assert list(user.config.iterdir()) == []


def test_an_import_survives_mistakes_and_names_that_would_control_the_terminal(
    user: Typist,
) -> None:
    HOMES["claude"](user.home)
    state = user.home / ".claude.json"
    found = json.loads(state.read_text())
    evil = "x\x1b]0;owned\x07\x1b[2J\u202e"
    found["mcpServers"][evil] = {"command": f"run{evil}", "args": ["\r\x1b[1A"]}
    state.write_text(json.dumps(found))
    (user.home / ".claude" / "settings.json").write_text("{ this is wrong")
    (user.home / ".claude" / "commands" / "look.md").write_text("Text\x1b[2Jmore\x1b]0;owned\x07\n")
    (user.config / "mcp.json").write_text('{"mcpServers": {"github": {"command": "mine"}}}')
    # The rest is imported, and the exit status says that something is missing.
    assert user.type("import", "claude", "--yes") == 1
    assert "settings.json, line 1: not valid JSON" in user.flat
    assert "! github (differs, kept)" in user.flat
    assert not {"\x1b", "\x07", "\u202e"} & set(user.shown)
    assert r"\u{1B}" in user.shown
    assert json.loads((user.config / "mcp.json").read_text())["mcpServers"]["github"] == {
        "command": "mine"
    }


def test_an_import_speaks_spanish_and_one_of_a_project_needs_trust(user: Typist) -> None:
    HOMES["gemini"](user.home)
    answers = [("¿Importar 6 entradas? [sí/no]", "s\n"), ("¿Copiar los secretos? [sí/no]", "n\n")]
    assert user.type("--lang", "es", "import", "gemini", answers=answers) == 0
    assert "6 entradas importadas." in user.flat
    (user.project / ".gemini").mkdir()
    headers = {"Authorization": f"Bearer {SECRETS[-1]}"}
    servers = {"shop": {"httpUrl": "https://shop.example/mcp", "headers": headers}}
    (user.project / ".gemini" / "settings.json").write_text(json.dumps({"mcpServers": servers}))
    assert user.type("import", "gemini", "--project", "--yes") == 0
    assert "once you trust the folder: kogniterm trust" in user.flat
    written = json.loads((user.project / ".mcp.json").read_text())["mcpServers"]
    assert written["shop"]["headers"] == {"Authorization": "Bearer ${SHOP_TOKEN}"}


def test_a_file_with_a_mark_of_bytes_is_read(user: Typist) -> None:
    """Editors of Windows begin each file with one."""
    file = user.home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('\ufeff[mcp_servers.three]\ncommand = "true"\n')
    assert user.type("import", "codex", "--only", "mcp", "--yes") == 0
    assert "1 entry imported." in user.flat
    assert user.type("mcp", "list") == 0
    assert "three " in user.shown
