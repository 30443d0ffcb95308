"""`use_skill`: the instructions of a skill, when a task needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.types import USE_SKILL, EffectClass


class SkillPort(Protocol):
    """The skills of a session."""

    async def use(self, name: str) -> str:
        """Return the instructions of a skill. Raises `ToolError` for one that cannot be used."""

    def asks(self, name: str) -> bool:
        """Return whether the user is asked for permissions when this skill is used."""

    def may_read(self, path: Path) -> bool:
        """Return whether a resolved path is a file of a usable skill, as it was trusted."""


class SkillArguments(Arguments):
    """The name of a skill."""

    name: str = Field(min_length=1, max_length=64)


def use_skill(skills: SkillPort) -> SchemaTool[SkillArguments]:
    """Return the tool over the skills of a session."""

    def effect_of(arguments: SkillArguments) -> EffectClass:
        return "person" if skills.asks(arguments.name) else "none"

    async def run(arguments: SkillArguments) -> str:
        return await skills.use(arguments.name)

    return SchemaTool(
        USE_SKILL,
        SkillArguments,
        run,
        effect_of=effect_of,
        describe=lambda arguments: (f"use the skill {arguments.name}", ""),
    )


class _NoSkills:
    """The skills where none can be used: none asks anything, and no file is one of theirs."""

    async def use(self, name: str) -> str:
        """Raise `ToolError`."""
        raise ToolError("There is no skill {name}.", name=name)

    def asks(self, name: str) -> bool:
        """Return that the user is not asked."""
        return False

    def may_read(self, path: Path) -> bool:
        """Return that the file is none of a skill."""
        return False


NO_SKILLS = _NoSkills()
