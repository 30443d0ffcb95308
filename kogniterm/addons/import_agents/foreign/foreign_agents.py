"""The terminal agents whose settings can be imported, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kogniterm.addons.import_agents.foreign.claude_and_deepagents import claude, deepagents
from kogniterm.addons.import_agents.foreign.codex_cli import codex
from kogniterm.addons.import_agents.foreign.found import Found, Place
from kogniterm.addons.import_agents.foreign.gemini_cli import gemini
from kogniterm.addons.import_agents.foreign.open_code import opencode
from kogniterm.errors import UsageError


class ForeignAgent(NamedTuple):
    """A terminal agent: the word for it, its name, and the reader of its files.

    `in_place` names the files of a project that KogniTerm reads without an import.
    """

    word: str
    name: str
    read: Callable[[Place], Found]
    in_place: str = ""


AGENTS = (
    ForeignAgent(
        "claude", "Claude Code", claude,
        "CLAUDE.md, .mcp.json, .claude/settings.json (hooks), .claude/commands, .claude/agents, "
        ".claude/skills",
    ),
    ForeignAgent("codex", "Codex", codex, "AGENTS.md, .agents/skills"),
    ForeignAgent("gemini", "gemini-cli", gemini, "GEMINI.md, .gemini/commands"),
    ForeignAgent("opencode", "opencode", opencode, "AGENTS.md, .agents/skills, .claude/skills"),
    ForeignAgent(
        "deepagents", "Deep Agents Code", deepagents, "AGENTS.md, .mcp.json, .agents/skills",
    ),
)  # fmt: skip


def find_agent(word: str) -> ForeignAgent:
    """Return the agent that a word stands for. Raises `UsageError`."""
    for one in AGENTS:
        if one.word == word:
            return one
    raise UsageError(
        "{name} is not an agent that can be imported; choose one of {names}.",
        name=word,
        names=", ".join(one.word for one in AGENTS),
    )


def place_of(environ: Mapping[str, str], project: Path | None) -> Place:
    """Return where to look. Raises `UsageError` without a home."""
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise UsageError("HOME is not set to an absolute path, so there is nothing to import from.")
    return Place(Path(home), environ, project)
