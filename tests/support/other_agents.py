"""Files of other terminal agents, as their users have them, written into a home or a project."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

TOKEN = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
"""A secret of a known shape."""
PLAIN = "correct-horse-battery-staple"
"""A secret that only its name tells."""
BEARER = "tok-7f3a9b2c4d5e6f708192a3b4"
SECRETS = (TOKEN, PLAIN, BEARER)


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def claude_home(home: Path) -> None:
    """Write what a user of Claude Code has."""
    state = {
        "numStartups": 12,
        "mcpServers": {
            "github": {
                "type": "stdio",
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-github"],
                "env": {"GITHUB_TOKEN": TOKEN},
            },
            "docs": {
                "type": "http",
                "url": "https://docs.example.org/mcp",
                "headers": {"Authorization": f"Bearer {BEARER}", "X-Team": "blue"},
            },
            "db": {
                "command": "db-mcp",
                "args": ["--password", PLAIN, "--readonly"],
                "env": {"PGHOST": "${PGHOST}", "PORT": 5432},
            },
        },
        "projects": {"/srv/shop": {"mcpServers": {"shop": {"command": "shop-mcp"}}}},
    }
    settings = {
        "model": "opus",
        "env": {"ANTHROPIC_API_KEY": PLAIN},
        "permissions": {
            "allow": ["Bash(npm run test:*)", "Bash(git status)", "Read(~/.zshrc)"],
            "deny": ["Bash(curl:*)"],
        },
        "hooks": {
            "PreToolUse": [
                {
                    "matcher": "Bash",
                    "hooks": [
                        {"type": "command", "command": "~/.claude/guard.sh", "timeout": 30},
                        {"type": "prompt", "prompt": "Is this safe?"},
                    ],
                }
            ],
            "WorktreeCreate": [{"hooks": [{"type": "command", "command": "true"}]}],
        },
        "enabledPlugins": {"tidy@market": True, "neat@market": True},
    }
    cached = str(home / ".claude/plugins/cache/market/neat/1.0.0")
    installed = {"neat@market": [{"scope": "user", "installPath": cached, "version": "1.0.0"}]}
    _write(home, {
        ".claude.json": json.dumps(state),
        ".claude/settings.json": json.dumps(settings),
        ".claude/plugins/installed_plugins.json": json.dumps({"version": 2, "plugins": installed}),
        ".claude/CLAUDE.md": "# How I work\n\nUse British spelling.\n",
        ".claude/.credentials.json": json.dumps({"token": BEARER}),
        ".claude/commands/review.md": "---\ndescription: Review\n---\nLook at $ARGUMENTS.\n",
        ".claude/commands/git/commit.md": "Write a commit message.\n",
        ".claude/agents/tester.md": "---\nname: tester\ndescription: Runs tests\n---\nRun them.\n",
        ".claude/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Reads PDFs\n---\nUse it.\n",
        ".claude/skills/pdf/scripts/read.sh": "#!/bin/sh\npdftotext \"$1\" -\n",
    })  # fmt: skip
    (home / ".claude/skills/pdf/scripts/read.sh").chmod(0o755)


def codex_home(home: Path) -> None:
    """Write what a user of Codex has."""
    _write(home, {
        ".codex/config.toml": f"""model = "gpt-5.2-codex"
[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
env = {{ CONTEXT7_API_KEY = "{PLAIN}" }}
env_vars = ["HTTPS_PROXY"]
startup_timeout_sec = 20
tool_timeout_sec = 45
enabled_tools = ["search"]
[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
enabled = false
[[hooks.PostToolUse]]
matcher = "apply_patch"
[[hooks.PostToolUse.hooks]]
type = "command"
command = "ruff format"
""",
        ".codex/hooks.json": json.dumps(
            {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "notify"}]}]}}
        ),
        ".codex/prompts/fix.md": "---\nargument-hint: FILE\n---\nFix $1.\n",
        ".codex/AGENTS.md": "Prefer small commits.\n",
        ".codex/auth.json": json.dumps({"OPENAI_API_KEY": BEARER}),
        ".codex/skills/.system/hidden/SKILL.md": "none\n",
        ".agents/skills/notes/SKILL.md": "---\nname: notes\n---\nKeep notes.\n",
    })  # fmt: skip


def gemini_home(home: Path) -> None:
    """Write what a user of gemini-cli has."""
    settings = """{
  // my settings
  "model": {"name": "gemini-3-pro"},
  "mcpServers": {
    "search": {"httpUrl": "https://search.example.org/mcp",
               "headers": {"Authorization": "Bearer BEARER"}, "timeout": 30000, "trust": true},
    "files": {"command": "files-mcp", "env": {"ROOT": "$HOME"}, "includeTools": ["read"],},
  },
  "hooks": {
    "BeforeTool": [
      {"matcher": "run_shell_command|write_file",
       "hooks": [{"type": "command", "command": "$GEMINI_PROJECT_DIR/guard", "timeout": 5000}]},
      {"matcher": "read_.*", "hooks": [{"type": "command", "command": "watch"}]},
    ],
    "BeforeModel": [{"hooks": [{"type": "command", "command": "count"}]}],
  },
}
""".replace("BEARER", BEARER)
    _write(home, {
        ".gemini/settings.json": settings,
        ".gemini/GEMINI.md": "Answer in short sentences.\n",
        ".gemini/commands/git/fix.toml": 'description = "Fix"\nprompt = "Fix {{args}}."\n',
        ".gemini/commands/broken.toml": "prompt = \n",
        ".gemini/skills/maps/SKILL.md": "---\nname: maps\n---\nDraw maps.\n",
        ".gemini/.env": f"GEMINI_API_KEY={PLAIN}\nEDITOR=vi\n",
        ".gemini/oauth_creds.json": json.dumps({"refresh_token": BEARER}),
    })  # fmt: skip


def opencode_home(home: Path) -> None:
    """Write what a user of opencode has."""
    settings = """{
  "$schema": "https://opencode.ai/config.json", // with comments
  /* two formats */
  "model": "anthropic/claude-sonnet-5",
  "mcp": {
    "everything": {"type": "local", "command": ["npx", "-y", "everything"],
                   "environment": {"SERVICE_KEY": "PLAIN", "URL": "http://x//y"}, "enabled": true},
    "exa": {"type": "remote", "url": "https://mcp.exa.ai/mcp?exaApiKey={env:EXA_API_KEY}"},
    "servers": {"newer": {"type": "local", "command": ["newer-mcp"], "disabled": true}},
  },
  "command": {"test": {"template": "Run the tests of $ARGUMENTS", "description": "Run tests"}},
}
""".replace("PLAIN", PLAIN)
    reviewer = "---\ndescription: Reviews\nmode: subagent\ntools:\n  write: false\n  edit: false\n"
    _write(home, {
        ".config/opencode/opencode.jsonc": settings,
        ".config/opencode/AGENTS.md": "Explain each command.\n",
        ".config/opencode/commands/deploy.md": "Deploy it.\n",
        ".config/opencode/agents/reviewer.md": f"{reviewer}---\nReview the code.\n",
        ".config/opencode/agents/boss.md": "---\nmode: primary\n---\nLead.\n",
        ".config/opencode/skills/sql/SKILL.md": "---\nname: sql\n---\nWrite SQL.\n",
        ".local/share/opencode/auth.json": json.dumps({"anthropic": {"key": BEARER}}),
    })  # fmt: skip


def deepagents_home(home: Path) -> None:
    """Write what a user of Deep Agents Code has."""
    servers = {
        "linear": {
            "transport": "http",
            "url": "https://mcp.linear.app/mcp",
            "headers": {"X-Api-Key": PLAIN},
        }
    }
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "no"}]}]}
    _write(home, {
        ".deepagents/.mcp.json": json.dumps({"mcpServers": servers}),
        ".deepagents/hooks.json": json.dumps({"hooks": hooks}),
        ".deepagents/agent/AGENTS.md": "Ask before you guess.\n",
        ".deepagents/agent/skills/web/SKILL.md": "---\nname: web\n---\nSearch.\n",
        ".deepagents/agent/agents/writer/AGENTS.md": "---\ndescription: Writes\n---\nWrite.\n",
        ".deepagents/.env": f"OPENAI_API_KEY={BEARER}\n",
    })  # fmt: skip


HOMES = {
    "claude": claude_home,
    "codex": codex_home,
    "gemini": gemini_home,
    "opencode": opencode_home,
    "deepagents": deepagents_home,
}
