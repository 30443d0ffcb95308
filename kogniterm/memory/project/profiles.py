"""What is known of a project folder, as it is stored and shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from kogniterm.memory.memory_database import MemoryDatabase

_MOST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ProjectProfile:
    """Languages (by number of files), commands, layout, dependencies, instruction files.

    `truncated` says that the folder was too big to be seen whole.
    """

    scanned: float = 0.0
    files: int = 0
    truncated: bool = False
    languages: Mapping[str, int] = field(default_factory=dict)
    build_commands: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    layout: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    instruction_files: tuple[str, ...] = ()

    def summary(self) -> str:
        """A few lines for a prompt or a person: only what was found."""
        languages = sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))
        rows = (
            ("languages", [f"{name} ({count} files)" for name, count in languages[:6]]),
            ("build with", self.build_commands),
            ("test with", self.test_commands),
            ("top folders", self.layout),
            ("depends on", self.dependencies),
            ("instruction files", self.instruction_files),
        )
        lines = [
            f"{name}: {', '.join(values[:_MOST_SHOWN])}{' …' if len(values) > _MOST_SHOWN else ''}"
            for name, values in rows
            if values
        ]
        if self.truncated:
            lines.append(f"(a big folder: only the first {self.files} files were looked at)")
        return "\n".join(lines)


class ProjectRepository:
    """The stored profile of one user's project."""

    def __init__(self, sql: MemoryDatabase, project: str) -> None:
        self._sql = sql
        self._bound = (sql.user, project)

    def load(self) -> ProjectProfile | None:
        """The last profile, or None before the first scan."""
        row = self._sql.one(
            "SELECT profile FROM project_profiles WHERE user_id = ? AND project_id = ?",
            self._bound,
        )
        return _decode(row[0]) if row else None

    def save(self, profile: ProjectProfile) -> None:
        """Store `profile` in place of the last one."""
        self._sql.run(
            "INSERT INTO project_profiles (user_id, project_id, scanned, profile) "
            "VALUES (?, ?, ?, ?) ON CONFLICT (user_id, project_id) DO UPDATE SET "
            "scanned = excluded.scanned, profile = excluded.profile",
            (*self._bound, profile.scanned, json.dumps(asdict(profile))),
        )


def _decode(text: str) -> ProjectProfile:
    # Older versions stored what the next scan started from besides.
    known = {one.name for one in fields(ProjectProfile)}
    held: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in json.loads(text).items()
        if key in known
    }
    return ProjectProfile(**held)
