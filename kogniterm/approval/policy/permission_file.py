"""Saved permissions: leases of projects in a TOML file of the user's own, read and written.

    [[permission]]
    # outside the sandbox: exactly this command: npm test (in /home/me/project)
    id = "p1"
    workspace = "/home/me/project"    # the project
    folder_id = "131:1763953200"      # tells its folder from another one of the same name
    kind = "exact"                    # exact, program, runs, effect, edits, calls
    command = "npm test"              # the command that was approved, if not an edit
    folder = "/home/me/project"       # where the command may run
    anywhere = true                   # or in any folder of the project
    outside = true                    # outside the sandbox
    effects = [{ kind = "execute", target = "npm", outside = false }]
    granted = 2026-11-24

The command is read anew with each load: what it may not be granted for is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple, cast, get_args

from kogniterm.approval.policy.leases import LEASE_KINDS, Lease, LeaseKind, grant
from kogniterm.approval.policy.rules import TableError, read_tables
from kogniterm.errors import FileValues, SettingsError
from kogniterm.text.shorten import one_line
from kogniterm.types import Effect, EffectKind, Phrase, RiskReport

_TABLE = "permission"
_TEXTS = ("id", "workspace", "folder_id", "kind", "command", "folder")
_FLAGS = ("outside", "anywhere")
_KEYS = frozenset({*_TEXTS, *_FLAGS, "effects", "granted"})
_ID = re.compile(r"p[1-9]\d*")
_LONGEST_COMMENT = 200
_UNKNOWN = "…"
"""The mark in a report for a value that is known only at run time."""


class Permission(NamedTuple):
    """A lease that was saved for a project, with the identity of its folder and its date."""

    lease: Lease
    folder_id: str
    granted: date

    @property
    def toml(self) -> str:
        lease = self.lease
        texts = (
            ("id", lease.id),
            ("workspace", lease.workspace),
            ("folder_id", self.folder_id),
            ("kind", lease.kind),
            ("command", lease.report.command),
            ("folder", lease.folder),
        )
        effects = ", ".join(map(_effect_toml, lease.report.effects))
        return "\n".join((
            f"[[{_TABLE}]]",
            f"# {one_line(str(lease.text), _LONGEST_COMMENT)}",
            *(f"{key} = {_toml_string(value)}" for key, value in texts if value),
            *(f"{key} = true" for key in _FLAGS if getattr(lease, key)),
            *([f"effects = [{effects}]"] if effects else []),
            f"granted = {self.granted.isoformat()}",
        ))  # fmt: skip


def load_permissions(file: FileValues) -> tuple[Permission, ...]:
    """Return the permissions of a TOML file.

    Raises `SettingsError` naming the file and the line: an unknown key or value, or a command that
    the permission cannot be granted for.
    """
    seen: set[str] = set()

    def make(item: Mapping[str, Any], place: str) -> Permission:
        for key in item:
            if key not in _KEYS:
                raise TableError(key, Phrase("unknown key {key!r}", {"key": key}))
        texts = {key: item.get(key, "") for key in _TEXTS}
        for key, value in texts.items():
            if not isinstance(value, str):
                raise TableError(key, Phrase("{key} must be a string", {"key": key}))
        if not _ID.fullmatch(texts["id"]):
            raise TableError("id", Phrase("id must be p and a number, such as p1"))
        if texts["kind"] not in LEASE_KINDS:
            raise TableError(
                "kind", Phrase("kind must be exact, program, effect, edits, calls or server")
            )
        for key in ("workspace", "folder"):
            if not texts[key].startswith("/"):
                raise TableError(key, Phrase("{key} must be an absolute path", {"key": key}))
        for key in _FLAGS:
            if not isinstance(item.get(key, False), bool):
                raise TableError(key, Phrase("{key} must be true or false", {"key": key}))
        try:
            granted = date.fromisoformat(str(item.get("granted")))
        except ValueError:
            raise TableError("granted", Phrase("granted must be a date")) from None
        permission = Permission(_lease(item, texts, place), texts["folder_id"], granted)
        if permission.lease.id in seen:
            raise TableError("id", Phrase("this id is used twice"))
        seen.add(permission.lease.id)
        return permission

    return read_tables(file, _TABLE, make)


def can_be_saved(lease: Lease, read: Callable[[str, str], FileValues]) -> bool:
    """Return whether a later session, which will `read` the file, would understand a lease alike.

    It would not where the command holds a secret, whose mark means another one there, or depends
    on values that are known only at run time.
    """
    report = lease.report
    if lease.kind not in LEASE_KINDS:
        return False
    words = (*(e.target for e in report.effects), *(w for argv in report.programs for w in argv))
    if "[secret:" in report.command or any(_UNKNOWN in word for word in words):
        return False
    saved = replace(lease, id="p1")
    try:
        text = Permission(saved, "0", date.min.replace(year=2000)).toml
        text.encode("utf-8")
        (again,) = load_permissions(read("", text))
    except (SettingsError, UnicodeError):
        return False
    return again.lease.mismatch(report, folder=lease.folder) is None


def without(text: str, file: FileValues, permission_id: str) -> str:
    """Return the text of a file without the table of a permission; comments in it go with it."""
    lines = text.split("\n")
    tables = file.data[_TABLE]
    heads = [file.lines[(_TABLE, index)] - 1 for index in range(len(tables))]
    index = [table["id"] for table in tables].index(permission_id)
    end = heads[index + 1] if index + 1 < len(heads) else len(lines)
    return "\n".join([*lines[: heads[index]], *(lines[end:] or [""])])


def _lease(item: Mapping[str, Any], texts: Mapping[str, str], place: str) -> Lease:
    kind = cast(LeaseKind, texts["kind"])
    folder, workspace = texts["folder"], texts["workspace"]
    report = RiskReport("", "workspace_write")
    if kind in ("calls", "server"):
        report = RiskReport("", "needs_approval", effects=_effects(item.get("effects", [])))
    elif kind != "edits":
        from kogniterm.approval.analysis.analyser import classify

        found = classify(texts["command"], cwd=folder, workspace=workspace)
        report = replace(found, effects=_effects(item.get("effects", [])))
    try:
        lease = grant(
            report,
            kind,
            id=texts["id"],
            folder=folder,
            workspace=workspace,
            outside=item.get("outside", False),
            anywhere=item.get("anywhere", False),
        )
    except ValueError:
        raise TableError(
            "command",
            Phrase("no permission of this kind can cover this command; delete this table"),
        ) from None
    return replace(lease, origin=place)


def _effects(value: object) -> tuple[Effect, ...]:
    wrong = TableError("effects", Phrase("effects must be tables with kind, target and outside"))
    if not isinstance(value, list):
        raise wrong
    found = []
    for one in value:
        if not isinstance(one, dict) or set(one) != {"kind", "target", "outside"}:
            raise wrong
        kind, target, outside = one["kind"], one["target"], one["outside"]
        known = kind in get_args(EffectKind)
        if not (known and isinstance(target, str) and isinstance(outside, bool)):
            raise wrong
        found.append(Effect(cast(EffectKind, kind), target, outside))
    return tuple(found)


def _effect_toml(effect: Effect) -> str:
    outside = "true" if effect.outside else "false"
    kind, target = _toml_string(effect.kind), _toml_string(effect.target)
    return f"{{ kind = {kind}, target = {target}, outside = {outside} }}"


def _toml_string(text: str) -> str:
    """Return `text` as a basic string of TOML, on one line."""
    return f'"{"".join(map(_escape_character, text))}"'


def _escape_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    hidden = ord(character) < 0x20 or ord(character) in (0x7F, 0x85, 0x2028, 0x2029)
    return f"\\u{ord(character):04X}" if hidden else character
