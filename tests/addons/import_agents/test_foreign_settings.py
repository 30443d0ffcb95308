"""Readers of other agents' settings: each format, and what they do with files that are wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from kogniterm.addons.import_agents.foreign.foreign_agents import AGENTS, find_agent, place_of
from kogniterm.addons.import_agents.foreign.found import Found, Place
from kogniterm.addons.import_agents.foreign.server_secrets import extract_secrets
from kogniterm.errors import UsageError
from tests.support.other_agents import HOMES, PLAIN, SECRETS


def read(word: str, home: Path, project: Path | None = None, **environ: str) -> Found:
    return find_agent(word).read(Place(home, environ, project))


def put(root: Path, files: Mapping[str, object]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))


def left_out(found: Found) -> str:
    return "\n".join(map(str, found.left_out))


def test_claude(tmp_path: Path) -> None:
    HOMES["claude"](tmp_path)
    found = read("claude", tmp_path)
    servers = found.servers
    assert list(servers) == ["github", "docs", "db"]
    assert servers["docs"]["url"] == "https://docs.example.org/mcp"
    assert servers["db"]["env"] == {"PGHOST": "${PGHOST}", "PORT": "5432"}
    assert [(one.event, one.matcher, one.entry["timeout"]) for one in found.hooks] == [
        ("PreToolUse", "Bash", 30)
    ]
    assert list(found.commands) == ["git/commit.md", "review.md"]
    assert list(found.agents) == ["tester.md"]
    assert [(f.name, f.executable) for f in next(iter(found.skills.values()))] == [
        ("SKILL.md", False),
        ("scripts/read.sh", True),
    ]
    assert list(found.instructions) == ["~/.claude/CLAUDE.md"]
    assert set(found.rules) == {
        ("deny", "Bash(curl:*)"),
        ("allow", "Bash(npm run test:*)"),
        ("allow", "Bash(git status)"),
        ("allow", "Read(~/.zshrc)"),
    }
    assert found.keys == ("ANTHROPIC_API_KEY", "~/.claude/.credentials.json")
    assert found.model == "opus"
    copies = f"cp -r {tmp_path}/.claude/plugins/cache/market/neat/1.0.0 "
    for told in ("/srv/shop: shop", "does not run a command", "WorktreeCreate", "tidy@market",
                 "Plugin neat@market: to have it here, run mkdir -p ", copies):  # fmt: skip
        assert told in left_out(found)
    assert not found.problems


def test_claude_in_another_folder_and_switched_off_hooks(tmp_path: Path) -> None:
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}
    put(tmp_path / "c", {
        ".claude.json": {"mcpServers": {"a": {"command": "a"}}},
        "settings.json": {"disableAllHooks": True, "hooks": hooks},
    })  # fmt: skip
    found = read("claude", tmp_path, CLAUDE_CONFIG_DIR=str(tmp_path / "c"))
    assert list(found.servers) == ["a"]
    assert not found.hooks
    assert "switched off" in left_out(found)


def test_servers_of_one_folder_come_with_its_import(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    state = {"projects": {str(project): {"mcpServers": {"shop": {"command": "shop-mcp"}}}}}
    put(tmp_path, {".claude.json": {**state, "mcpServers": {"mine": {"command": "m"}}}})
    found = read("claude", tmp_path, project)
    assert list(found.servers) == ["shop"]


def test_codex(tmp_path: Path) -> None:
    HOMES["codex"](tmp_path)
    found = read("codex", tmp_path)
    servers = found.servers
    assert servers["context7"]["timeout"] == 45
    assert servers["context7"]["startup_timeout"] == 20
    assert servers["context7"]["includeTools"] == ["search"]
    assert servers["context7"]["env"]["HTTPS_PROXY"] == "${HTTPS_PROXY:-}"
    assert servers["figma"]["headers"] == {"Authorization": "Bearer ${FIGMA_TOKEN}"}
    assert servers["figma"]["enabled"] is False
    assert [(one.event, one.matcher) for one in found.hooks] == [
        ("Stop", ""),
        ("PostToolUse", "apply_patch"),
    ]
    assert list(found.commands) == ["fix.md"]
    assert list(found.skills) == ["notes"]
    assert found.keys == ("~/.codex/auth.json",)
    assert found.model == "gpt-5.2-codex"
    assert not left_out(found)


def test_codex_project(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    put(project, {
        ".codex/config.toml": '[mcp_servers.shop]\ncommand = "shop-mcp"\n',
        ".codex/agents/qa.toml": 'name = "qa"\ndeveloper_instructions = "Test."\n',
    })  # fmt: skip
    HOMES["codex"](tmp_path)
    found = read("codex", tmp_path, project)
    assert list(found.servers) == ["shop"]
    assert next(iter(found.agents.values())).endswith("Test.\n")
    assert found.sources == (".codex/config.toml", ".codex/agents")
    assert not found.instructions


def test_gemini(tmp_path: Path) -> None:
    HOMES["gemini"](tmp_path)
    found = read("gemini", tmp_path)
    servers = found.servers
    assert servers["search"]["url"] == "https://search.example.org/mcp"
    assert servers["search"]["type"] == "http"
    assert servers["search"]["timeout"] == 30
    assert "trust" not in servers["search"]
    assert servers["files"]["env"] == {"ROOT": "${HOME}"}
    (hook,) = found.hooks
    assert (hook.event, hook.matcher) == ("PreToolUse", "Bash|Write")
    assert hook.entry == {
        "type": "command", "command": "$CLAUDE_PROJECT_DIR/guard", "timeout": 5,
    }  # fmt: skip
    assert list(found.commands) == ["git/fix.toml"]
    assert found.keys == ("GEMINI_API_KEY", "~/.gemini/oauth_creds.json")
    for told in ("KogniTerm asks", "read_.* has no exact", "BeforeModel", "broken: its file is"):
        assert told in left_out(found)


def test_gemini_servers_that_are_off_or_need_a_google_login(tmp_path: Path) -> None:
    servers = {
        "off": {"command": "a"},
        "sse": {"url": "https://x.example/sse"},
        "cloud": {"httpUrl": "https://y.example", "authProviderType": "google_credentials"},
    }
    put(tmp_path, {".gemini/settings.json": {"mcpServers": servers, "mcp": {"excluded": ["off"]}}})
    found = read("gemini", tmp_path)
    entries = found.servers
    assert entries == {
        "off": {"command": "a", "enabled": False},
        "sse": {"url": "https://x.example/sse", "type": "sse"},
    }
    assert "cloud" in left_out(found)
    assert "MCP server sse: it is reached by SSE there" in left_out(found)


def test_opencode(tmp_path: Path) -> None:
    HOMES["opencode"](tmp_path)
    found = read("opencode", tmp_path)
    servers = found.servers
    assert servers["everything"]["command"] == "npx"
    assert servers["everything"]["args"] == ["-y", "everything"]
    assert servers["everything"]["env"]["URL"] == "http://x//y"
    assert servers["exa"]["url"] == "https://mcp.exa.ai/mcp?exaApiKey=${EXA_API_KEY}"
    assert servers["newer"]["enabled"] is False
    assert list(found.commands) == ["test.md", "deploy.md"]
    (reviewer,) = found.agents.values()
    assert "Write" not in reviewer
    assert "tools: Bash, Glob, Grep" in reviewer
    assert found.keys == ("~/.local/share/opencode/auth.json",)
    assert "Agent boss" in left_out(found)


def test_a_limit_of_an_opencode_agent_is_never_lost(tmp_path: Path) -> None:
    folder = tmp_path / ".config/opencode/agents"
    put(folder, {
        "a.md": "---\npermission:\n  bash: deny\n  edit: deny\n---\nA\n",
        "b.md": "---\npermission:\n  bash:\n    '*': ask\n    'git *': deny\n---\nB\n",
        "c.md": "---\ndescription: all\n---\nC\n",
        "d.md": "---\ntools:\n  '*': false\n  grep: true\n---\nD\n",
        "e.md": "---\npermission: deny\n---\nE\n",
        "f.md": "---\npermissions:\n  - {action: deny}\n---\nF\n",
    })  # fmt: skip
    texts = read("opencode", tmp_path).agents
    assert "Bash" not in texts["a.md"]
    assert "Edit" not in texts["a.md"]
    assert "Bash" not in texts["b.md"]
    assert "tools" not in texts["c.md"]
    assert "tools: Grep\n" in texts["d.md"]
    assert set(texts) == {"a.md", "b.md", "c.md", "d.md"}


def test_deepagents(tmp_path: Path) -> None:
    HOMES["deepagents"](tmp_path)
    found = read("deepagents", tmp_path)
    assert next(iter(found.servers.values()))["type"] == "http"
    assert list(found.skills) == ["web"]
    assert list(found.agents) == ["writer.md"]
    assert list(found.instructions) == ["~/.deepagents/agent/AGENTS.md"]
    assert found.hooks[0].entry["command"] == "no"
    put(tmp_path, {".deepagents/hooks.json": {"hooks": [{"command": ["x"], "events": ["a"]}]}})
    found = read("deepagents", tmp_path)
    assert not found.hooks
    assert "their former format" in left_out(found)


@pytest.mark.parametrize("word", [one.word for one in AGENTS])
def test_without_files_nothing_is_found(word: str, tmp_path: Path) -> None:
    assert not any(read(word, tmp_path))
    assert not any(read(word, tmp_path, tmp_path))


@pytest.mark.parametrize("word", [one.word for one in AGENTS])
def test_no_key_is_in_what_is_said(word: str, tmp_path: Path) -> None:
    HOMES[word](tmp_path)
    found = read(word, tmp_path)
    said = [*map(str, found.left_out), *map(str, found.problems), *found.keys, *found.sources]
    assert not [one for one in said for secret in SECRETS if secret in one]


@pytest.mark.parametrize(
    ("word", "file"),
    [
        ("claude", ".claude.json"),
        ("claude", ".claude/settings.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("opencode", ".config/opencode/opencode.json"),
        ("deepagents", ".deepagents/.mcp.json"),
    ],
)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{ wrong", "~/{file}, line 1: not valid "),
        (b"[" * 100_000, "~/{file}"),
        (b"\xff\xfe", "~/{file} was not read: it is not UTF-8 text."),
        (b"a\0b", "~/{file} was not read: it is not UTF-8 text."),
    ],
)
def test_a_malformed_file_is_one_sentence_and_the_rest_is_read(
    word: str, file: str, content: bytes, reason: str, tmp_path: Path
) -> None:
    HOMES[word](tmp_path)
    (tmp_path / file).write_bytes(content)
    found = read(word, tmp_path)
    assert [str(one).startswith(reason.format(file=file)) for one in found.problems] == [True]
    assert found.skills
    assert found.instructions


def test_entries_of_the_wrong_shape_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, {
        ".claude.json": {"mcpServers": {"a": "x", "b": {}, "c": {"command": 1}, "d\x1b[2J": []}},
        ".claude/settings.json": {
            "hooks": {"Stop": {"hooks": []}, "PreToolUse": ["x", {"hooks": "y"}, {"hooks": [1]}]},
            "permissions": ["x"],
        },
        ".claude/commands/Bad Name!.md": "x",
        ".claude/commands/empty.md": "  \n",
        ".claude/skills/Über/SKILL.md": "x",
        ".claude/skills/other/SKILL.md": "---\nname: Not A Name\n---\nx",
    })  # fmt: skip
    found = read("claude", tmp_path)
    assert not found.servers
    assert not found.hooks
    assert not found.commands
    assert not found.skills
    told = left_out(found)
    assert "\x1b" not in told
    for name in ("MCP server a", "MCP server b", "MCP server c", "Bad Name!", "empty", "Über"):
        assert name in told


def test_links_are_followed_but_never_out_of_a_skill_or_a_project(tmp_path: Path) -> None:
    home, kept, secret = tmp_path / "home", tmp_path / "dotfiles", tmp_path / "secret.md"
    secret.write_text("a secret\n")
    put(kept, {"CLAUDE.md": "mine\n", "pdf/SKILL.md": "pdf\n", "pdf/real.md": "real\n"})
    (home / ".claude/skills").mkdir(parents=True)
    (home / ".claude/CLAUDE.md").symlink_to(kept / "CLAUDE.md")
    (home / ".claude/skills/pdf").symlink_to(kept / "pdf")
    (kept / "pdf/inner.md").symlink_to("real.md")
    (kept / "pdf/out.md").symlink_to(secret)
    found = read("claude", home)
    assert list(found.instructions.values()) == ["mine\n"]
    (files,) = found.skills.values()
    assert [one.name for one in files] == ["SKILL.md", "inner.md", "real.md"]
    assert "leads out of the skill" in str(found.problems[0])
    project = tmp_path / "shop"
    (project / ".gemini/skills").mkdir(parents=True)
    (project / ".gemini/skills/pdf").symlink_to(kept / "pdf")
    (project / ".gemini/settings.json").symlink_to(secret)
    found = read("gemini", home, project)
    assert not found.skills
    assert [".gemini/settings.json" in str(one) for one in found.problems] == [True, False]


def test_pipes_and_large_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    os.mkfifo(tmp_path / ".codex/config.toml")
    (tmp_path / ".codex/AGENTS.md").write_text("x" * 70_000)
    found = read("codex", tmp_path)
    assert "not a regular file" in str(found.problems[0])
    assert "it is too large" in str(found.problems[1])
    assert not found.instructions


def test_an_unknown_agent_and_a_missing_home() -> None:
    with pytest.raises(UsageError, match="choose one of claude, codex"):
        find_agent("cursor")
    with pytest.raises(UsageError, match="HOME"):
        place_of({}, None)


def test_a_hook_that_would_make_the_file_unusable_is_left_out(tmp_path: Path) -> None:
    def group(matcher: str, **entry: object) -> dict[str, object]:
        return {"matcher": matcher, "hooks": [{"type": "command", "command": "x", **entry}]}

    groups = [
        group("Bash", timeout=5, statusMessage="…", sandbox=False),
        group("[", timeout=5),
        group("Edit", timeout="soon"),
        group("Edit", timeout=True),
        group("Edit", command=" "),
        group("Edit", command="x" * 20_000),
    ]
    put(tmp_path, {".codex/hooks.json": {"hooks": {"PreToolUse": groups}}})
    found = read("codex", tmp_path)
    assert [one.entry for one in found.hooks] == [{"type": "command", "command": "x", "timeout": 5}]
    assert len(found.left_out) == 3


def test_what_instructions_include_is_named(tmp_path: Path) -> None:
    text = "See @docs/style.md and me@example.md.\n@~/.claude/more.md\n"
    put(tmp_path, {
        ".claude/CLAUDE.md": text, ".gemini/extensions/tidy/gemini-extension.json": "{}",
    })  # fmt: skip
    told = left_out(read("claude", tmp_path))
    assert "includes: docs/style.md, ~/.claude/more.md. To use them, copy them beside" in told
    assert "Extensions: tidy." in left_out(read("gemini", tmp_path))


def test_too_many_files_are_said(tmp_path: Path) -> None:
    put(tmp_path, {f".claude/commands/c{number:04}.md": "x" for number in range(501)})
    found = read("claude", tmp_path)
    assert len(found.commands) == 500
    assert "c0500.md was not read: there are too many files." in str(found.problems[0])


def test_sub_agents_of_codex_and_gemini_keep_their_limits(tmp_path: Path) -> None:
    agent = 'name = "{}"\nsandbox_mode = "{}"\ndeveloper_instructions = "Look."\n'
    tools = "---\nname: g\ntools:\n  - run_shell_command\n  - read_file\n---\nDo.\n"
    put(tmp_path, {
        ".codex/agents/a.toml": agent.format("a", "read-only"),
        ".codex/agents/b.toml": agent.format("b", "workspace-write"),
        ".gemini/agents/g.md": tools,
    })  # fmt: skip
    one, other = read("codex", tmp_path).agents.values()
    assert "tools: Read, Grep, Glob" in one
    assert "tools" not in other
    assert "tools: Bash, Read" in next(iter(read("gemini", tmp_path).agents.values()))


def test_times_and_sign_ins_of_servers(tmp_path: Path) -> None:
    put(tmp_path, {
        ".claude.json": {"mcpServers": {"a": {"command": "a", "timeout": 60_000}}},
        ".codex/config.toml": '[mcp_servers.b]\nurl = "https://b.example"\nscopes = ["x"]\n'
        '[mcp_servers.b.oauth]\nclient_id = "me"\n',
        ".config/opencode/opencode.json": {"mcp": {"servers": {"c": {
            "url": "https://c.example", "timeout": {"startup": 1, "execution": 2500},
            "oauth": {"clientId": "me", "scope": "x y"},
        }}}},
        ".gemini/settings.json": {"mcpServers": {"d d": {
            "httpUrl": "https://d.example", "timeout": 1500,
            "oauth": {"enabled": True, "clientId": "me", "clientSecret": PLAIN},
        }}},
    })  # fmt: skip
    entries = {
        name: entry
        for word in ("claude", "codex", "opencode", "gemini")
        for name, entry in read(word, tmp_path).servers.items()
    }
    assert entries["a"]["timeout"] == 60
    assert entries["b"]["oauth"] == {"clientId": "me", "scopes": ["x"]}
    assert entries["c"]["timeout"] == 2
    assert entries["c"]["oauth"] == {"clientId": "me", "scopes": ["x", "y"]}
    assert entries["d-d"]["timeout"] == 2
    made, secrets = extract_secrets(read("gemini", tmp_path).servers, {})
    assert made["d-d"]["oauth"]["clientSecret"] == "${D_D_CLIENT_SECRET}"
    assert [one.value for one in secrets] == [PLAIN]


def test_a_skill_is_imported_under_the_name_that_it_has(tmp_path: Path) -> None:
    put(tmp_path, {".claude/skills/PDF_tools/SKILL.md": "---\nname: pdf-tools\n---\nRead them.\n"})
    assert list(read("claude", tmp_path).skills) == ["pdf-tools"]


def test_other_instruction_files_and_permissions(tmp_path: Path) -> None:
    put(tmp_path, {
        ".claude/rules/style.md": "Use tabs.\n",
        ".claude/rules/tests.md": "---\npaths: tests/**\n---\nUse pytest.\n",
        ".codex/AGENTS.md": "Usual.\n",
        ".codex/AGENTS.override.md": "For now.\n",
        ".codex/rules/default.rules": "prefix_rule()",
        ".gemini/settings.json": {
            "context": {"fileName": ["AGENTS.md", "../x.md"]}, "tools": {"exclude": ["x"]},
        },
        ".gemini/AGENTS.md": "Short.\n",
        ".gemini/policies/mine.toml": "",
        ".config/opencode/opencode.json": {"permission": {"bash": "deny"}},
    })  # fmt: skip
    told = {}
    texts = {}
    for word in ("claude", "codex", "gemini", "opencode"):
        found = read(word, tmp_path)
        told[word], texts[word] = left_out(found), list(found.instructions.values())
    assert texts == {
        "claude": ["Use tabs.\n"], "codex": ["For now.\n"], "gemini": ["Short.\n"], "opencode": [],
    }  # fmt: skip
    assert "~/.claude/rules/tests.md: it is for some files only." in told["claude"]
    assert "Permissions in ~/.codex/rules" in told["codex"]
    assert "Permissions in ~/.gemini/settings.json" in told["gemini"]
    assert "Permissions in ~/.gemini/policies" in told["gemini"]
    assert "Permissions in ~/.config/opencode/opencode.json" in told["opencode"]
