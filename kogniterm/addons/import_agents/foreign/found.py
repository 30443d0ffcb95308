"""Values for what another terminal agent has set up, in the shapes that KogniTerm's files have."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kogniterm.types import Phrase

Kind = Literal["mcp", "skills", "commands", "agents", "hooks", "instructions", "rules"]
KINDS: tuple[Kind, ...] = (
    "mcp", "hooks", "skills", "commands", "agents", "instructions", "rules",
)  # fmt: skip
"""Everything that can be imported, in the order of the screen: what runs by itself comes first."""


class ForeignHook(NamedTuple):
    """One command of a hook: its event, which tools it is for ("" is all), and its entry."""

    event: str
    matcher: str
    entry: Mapping[str, Any]


class SkillFile(NamedTuple):
    """A file of a skill, named from the skill's folder."""

    name: str
    data: bytes
    executable: bool = False


class Found(NamedTuple):
    """All that one agent has set up, what of it has no counterpart, and what could not be read.

    Entries of `mcpServers` and the files of skills are by name, texts of commands and sub-agents by
    the file's name below the folder, instructions by the file that holds them as the user names it.
    A rule is its decision, and its words as the other agent has them. `keys` are names only: of
    variables, and of files that hold keys.
    """

    sources: tuple[str, ...]
    servers: Mapping[str, Mapping[str, Any]]
    hooks: tuple[ForeignHook, ...]
    skills: Mapping[str, tuple[SkillFile, ...]]
    commands: Mapping[str, str]
    agents: Mapping[str, str]
    instructions: Mapping[str, str]
    rules: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    model: str
    left_out: tuple[Phrase, ...]
    problems: tuple[Phrase, ...]

    @property
    def counts(self) -> Mapping[Kind, int]:
        """Return how many entries of each kind there are, without those of which there are none."""
        parts: Mapping[Kind, Sized] = {
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


class Place(NamedTuple):
    """A place to look: the user's home and environment; with `project`, only that folder."""

    home: Path
    environ: Mapping[str, str]
    project: Path | None = None

    def folder_at(self, variable: str, name: str) -> Path:
        """Return the folder that a variable names, or the folder `name` of the home."""
        value = self.environ.get(variable, "")
        return Path(value) if value.startswith("/") else self.home / name
