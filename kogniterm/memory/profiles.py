"""What is known of a project folder, as it is stored and shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kogniterm.memory.sql import Sql

_MOST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class FolderNote:
    """A folder as it was at `mtime` (ns): file counts by language, its manifests and folders."""

    mtime: int
    languages: Mapping[str, int]
    files: tuple[str, ...]
    folders: tuple[str, ...]
    count: int = 0


@dataclass(frozen=True, slots=True)
class ManifestNote:
    """What a manifest file says; `stamp` is size and mtime, to see whether it changed."""

    stamp: str
    kind: str
    build: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectProfile:
    """Languages (by number of files), commands, layout, dependencies, instruction files.

    `truncated` says that the folder was too big to be seen whole. `folders` and `manifests` are
    what the next scan starts from.
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
    folders: Mapping[str, FolderNote] = field(default_factory=dict)
    manifests: Mapping[str, ManifestNote] = field(default_factory=dict)

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

    def __init__(self, sql: Sql, project: str) -> None:
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

    def remove(self) -> int:
        """Drop the profile."""
        return self._sql.run(
            "DELETE FROM project_profiles WHERE user_id = ? AND project_id = ?", self._bound
        )


def _decode(text: str) -> ProjectProfile:
    data = json.loads(text)
    data["folders"] = {
        path: FolderNote(**_with_tuples(note)) for path, note in data["folders"].items()
    }
    data["manifests"] = {
        path: ManifestNote(**_with_tuples(note)) for path, note in data["manifests"].items()
    }
    return ProjectProfile(**_with_tuples(data))


def _with_tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
