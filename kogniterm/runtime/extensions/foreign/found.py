"""Values for what another terminal agent has set up, in the shapes that KogniTerm's files have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kogniterm.types import Phrase

Kind = Literal["mcp", "skills", "commands", "agents", "hooks", "instructions", "rules"]
KINDS: tuple[Kind, ...] = (
    "mcp", "hooks", "skills", "commands", "agents", "instructions", "rules",
)  # fmt: skip
"""Everything that can be imported, in the order of the screen: what runs by itself comes first."""


@dataclass(frozen=True, slots=True)
class ForeignServer:
    """An MCP server; `entry` is its entry in `mcpServers`."""

    name: str
    entry: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ForeignHook:
    """One command of a hook: its event, which tools it is for ("" is all), and its entry."""

    event: str
    matcher: str
    entry: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ForeignText:
    """A custom command or a sub-agent: its file's name below the folder, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill, named from the skill's folder."""

    name: str
    data: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class ForeignSkill:
    """A skill with all of its files."""

    name: str
    files: tuple[SkillFile, ...]


@dataclass(frozen=True, slots=True)
class ForeignRule:
    """A permission of another agent, in its own words."""

    decision: Literal["allow", "ask", "deny"]
    words: str


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions for the model, and the file that holds them as the user names it."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """All that one agent has set up, what of it has no counterpart, and what could not be read.

    `keys` are names only: of variables, and of files that hold keys.
    """

    sources: tuple[str, ...] = ()
    servers: tuple[ForeignServer, ...] = ()
    hooks: tuple[ForeignHook, ...] = ()
    skills: tuple[ForeignSkill, ...] = ()
    commands: tuple[ForeignText, ...] = ()
    agents: tuple[ForeignText, ...] = ()
    instructions: tuple[Instructions, ...] = ()
    rules: tuple[ForeignRule, ...] = ()
    keys: tuple[str, ...] = ()
    model: str = ""
    left_out: tuple[Phrase, ...] = ()
    problems: tuple[Phrase, ...] = ()

    @property
    def counts(self) -> Mapping[Kind, int]:
        """Return how many entries of each kind there are, without those of which there are none."""
        parts: Mapping[Kind, Sequence[object]] = {
            "mcp": self.servers,
            "hooks": self.hooks,
            "skills": self.skills,
            "commands": self.commands,
            "agents": self.agents,
            "instructions": self.instructions,
            "rules": self.rules,
        }
        return {kind: len(parts[kind]) for kind in KINDS if parts[kind]}

    @property
    def nothing(self) -> bool:
        """Return whether the agent is not set up here at all."""
        return not self.sources and not self.problems and not self.counts


@dataclass(frozen=True, slots=True)
class Place:
    """A place to look: the user's home and environment; with `project`, only that folder."""

    home: Path
    environ: Mapping[str, str]
    project: Path | None = None

    def moved(self, variable: str, name: str) -> Path:
        """Return the folder that a variable names, or the folder `name` of the home."""
        value = self.environ.get(variable, "")
        return Path(value) if value.startswith("/") else self.home / name
