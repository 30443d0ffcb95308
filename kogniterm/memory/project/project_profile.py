"""The stored profile of a project: what a scan found."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from kogniterm.memory.memory_database import MemoryDatabase

_MOST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ProjectProfile:
    """Languages (by number of files), frameworks, commands, conventions, layout, dependencies.

    `truncated` is true when the folder was too big to be scanned whole. `folder` is the one that
    was scanned, at `scanned`; `state` identifies its manifests as they were.
    """

    scanned: float = 0.0
    files: int = 0
    truncated: bool = False
    languages: Mapping[str, int] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ()
    build_commands: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    lint_commands: tuple[str, ...] = ()
    conventions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    layout: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    instruction_files: tuple[str, ...] = ()
    folder: str = ""
    state: str = ""

    def counted_languages(self) -> list[str]:
        """Return the languages with their number of files, the most used first."""
        counted = sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))
        return [f"{name} ({count} file{'s' * (count != 1)})" for name, count in counted]

    def values(self, name: str) -> tuple[str, ...]:
        """Return the findings of the scan for the row `name` of `TITLES`."""
        match name:
            case "languages":
                return tuple(self.counted_languages())
            case "build" | "test" | "lint":
                commands: tuple[str, ...] = getattr(self, f"{name}_commands")
                return commands
            case "frameworks" | "dependencies":
                names: tuple[str, ...] = getattr(self, name)
                return names
            case "folders":
                return self.layout
            case "instructions":
                return self.instruction_files
        return tuple(self.conventions.get(name, ()))

    def line(self, name: str) -> str:
        """Return the values of a row in one line; empty when there are none."""
        values = self.values(name)
        return f"{', '.join(values[:_MOST_SHOWN])}{' …' if len(values) > _MOST_SHOWN else ''}"

    def summary(self) -> str:
        """Return a few lines with what was found, for a prompt."""
        lines = [f"{TITLES[name]}: {self.line(name)}" for name in TITLES if self.values(name)]
        if self.truncated:
            lines.append(f"(a big folder: only the first {self.files} files were looked at)")
        return "\n".join(lines)


TITLES: Mapping[str, str] = {
    "languages": "languages",
    "frameworks": "frameworks",
    "build": "build with",
    "test": "test with",
    "lint": "lint with",
    "formatter": "formatted with",
    "line_length": "line length",
    "indent": "indentation",
    "commits": "commit messages",
    "folders": "top folders",
    "dependencies": "depends on",
    "instructions": "instruction files",
}
"""The rows of a profile by name, with their titles for a model."""


class ProjectRepository:
    """The stored profile of one user's project."""

    def __init__(self, sql: MemoryDatabase, project: str) -> None:
        self._sql = sql
        self._project = project

    def load(self) -> ProjectProfile | None:
        """Return the last profile, or None before the first scan."""
        row = self._sql.one(
            "SELECT profile FROM project_profiles WHERE user_id = ? AND project_id = ?",
            (self._sql.user, self._project),
        )
        return None if row is None else profile_of(json.loads(row[0]))

    def save(self, profile: ProjectProfile) -> None:
        """Store what a scan found in place of the last scan."""
        text = json.dumps(asdict(profile))
        row = {"project_id": self._project, "scanned": profile.scanned, "profile": text}
        with self._sql.transaction():
            self._sql.put("project_profiles", row, key=("project_id",))

    def drop(self) -> None:
        """Delete what was found: the folder is not trusted any more."""
        with self._sql.transaction():
            self._sql.run(
                "DELETE FROM project_profiles WHERE user_id = ? AND project_id = ?",
                (self._sql.user, self._project),
            )


def profile_of(data: Mapping[str, Any]) -> ProjectProfile:
    """Return the profile that `data` of JSON holds; unknown fields are left out.

    Raises `TypeError` or `ValueError` for data of another form.
    """
    held: dict[str, Any] = {}
    for one in fields(ProjectProfile):
        if one.name not in data:
            continue
        value = data[one.name]
        if isinstance(value, list):
            value = _texts(value)
        elif isinstance(value, dict):
            value = {
                str(key): _texts(part) if isinstance(part, list) else _plain(part)
                for key, part in value.items()
            }
        held[one.name] = value
    return ProjectProfile(**held)


def _texts(values: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(one, str) for one in values):
        raise TypeError("not a list of texts")
    return tuple(values)


def _plain(value: Any) -> str | int:
    if not isinstance(value, str | int):
        raise TypeError("not a text or a number")
    return value


def project_root(folder: Path) -> Path:
    """Return the folder that names the project: the nearest one above with `.git`, or `folder`."""
    folder = Path(os.path.realpath(folder))
    for one in (folder, *folder.parents):
        # A folder above may be unreadable.
        if os.path.exists(one / ".git"):  # noqa: PTH110 - pathlib's own test raises there
            return one
    return folder
