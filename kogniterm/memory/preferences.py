"""Typed settings and stated preferences of the user, everywhere or in one project.

A project's value wins over the one that holds everywhere. Values are what JSON can say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from kogniterm.errors import UsageError
from kogniterm.memory.fact_records import Preference, Source
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.protocols import Clock
from kogniterm.text.language import raw_words

KNOWN: Mapping[str, type | tuple[str, ...]] = {
    "language": str,
    "verbosity": ("short", "normal", "long"),
    "explain_commands": bool,
    "editor": str,
    "package_manager": str,
    "test_command": str,
    "build_command": str,
    "units": ("metric", "imperial"),
    "emoji": bool,
    "name": str,
}
"""Settings with a Python type, or the words allowed. Any other key takes any JSON value."""


class Preferences:
    """The preferences of one user, seen from one project."""

    def __init__(
        self, sql: MemoryDatabase, project: str, clock: Clock, redact: Callable[[str], str]
    ) -> None:
        self._sql = sql
        self._project = project
        self._clock = clock
        self._redact = redact

    def set(
        self,
        key: str,
        value: object,
        *,
        scope: Literal["project", "everywhere"] = "everywhere",
        source: Source = "explicit",
    ) -> Preference:
        """Store `value`; an inferred value never replaces an explicit one. `UsageError` if bad."""
        name = "_".join(raw_words(key))
        value = _checked(name, self._redact(value) if isinstance(value, str) else value)
        project = self._project if scope == "project" else ""
        with self._sql.transaction():
            known = self._stored_at(name, project)
            if known and known.source == "explicit" and source != "explicit":
                return known
            preference = Preference(name, value, project, source, self._clock.now())
            self._write(preference)
        return preference

    def take_over(self, preference: Preference) -> bool:
        """Store an imported preference and return True, unless the key has a value here."""
        if self._stored_at(preference.key, preference.project) is not None:
            return False
        value = preference.value
        clean = _checked(preference.key, self._redact(value) if isinstance(value, str) else value)
        self._write(replace(preference, value=clean))
        return True

    def _stored_at(self, key: str, project: str) -> Preference | None:
        found = (one for one in self.stored() if (one.key, one.project) == (key, project))
        return next(found, None)

    def _write(self, one: Preference) -> None:
        row: dict[str, object] = {"project_id": one.project, "key": one.key}
        row |= {"value": json.dumps(one.value), "source": one.source, "updated": one.updated}
        self._sql.put("preferences", row, key=("project_id", "key"))

    def all(self) -> dict[str, Preference]:
        """Return what holds here: the project's preferences over those that hold everywhere."""
        return {one.key: one for one in sorted(self.stored(), key=lambda one: one.project)}

    def stored(self) -> list[Preference]:
        """Return every preference of this scope, including overridden ones."""
        rows = self._sql.execute(
            "SELECT key, value, project_id, source, updated FROM preferences "
            "WHERE user_id = ? AND project_id IN ('', ?) ORDER BY project_id, key",
            (self._sql.user, self._project),
        )
        return [Preference(row[0], json.loads(row[1]), *row[2:]) for row in rows]

    def remove(self, key: str) -> int:
        """Remove `key` in both scopes; returns the number of removed values."""
        return self._sql.run(
            "DELETE FROM preferences WHERE user_id = ? AND project_id IN ('', ?) AND key = ?",
            (self._sql.user, self._project, "_".join(raw_words(key))),
        )


def _checked(name: str, value: object) -> object:
    kind = KNOWN.get(name)
    if not name:
        raise UsageError("Specify the name of the preference.")
    if isinstance(kind, tuple) and value not in kind:
        raise UsageError(
            "{name} must be one of {choices}, not {value}.",
            name=name,
            choices=", ".join(kind),
            value=value,
        )
    if isinstance(kind, type) and not isinstance(value, kind):
        raise UsageError(
            "{name} must be of type {kind}, not {value}.",
            name=name,
            kind=kind.__name__,
            value=value,
        )
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise UsageError("{name} must be a JSON value.", name=name) from error
    return value
