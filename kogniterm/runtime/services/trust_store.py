"""Trust of folders: nothing in a project folder has any effect before the user trusts it.

The record holds the hash of every file that would have an effect, so the user is asked again about
a file that changed since. Trust is per folder and is not inherited by folders below it. Reading is
bounded: only regular files of known names, never a pipe or a device, never a link that leads out.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kogniterm.host.safe_files import open_file, resolved
from kogniterm.storage.folders import write_private
from kogniterm.types import Phrase

INSTRUCTION_FILES = ("AGENTS.md", "KOGNITERM.md")
"""In the order in which the model gets them: what is for KogniTerm alone comes last."""
POLICY_FILE = ".kogniterm/policy.toml"
COMMANDS_FOLDER = ".kogniterm/commands"
MAX_FILE = 64 * 1024
MAX_COMMANDS = 100

Kind = Literal["instructions", "policy", "command"]


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a project folder that would have an effect once it is trusted."""

    name: str
    kind: Kind
    digest: str
    text: str


def discover(folder: Path) -> tuple[ProjectFile, ...]:
    """Return the files of `folder` that would have an effect: a bounded number of small ones."""
    wanted: list[tuple[str, Kind]] = [(name, "instructions") for name in INSTRUCTION_FILES]
    wanted.append((POLICY_FILE, "policy"))
    commands = folder / COMMANDS_FOLDER
    wanted.extend((f"{COMMANDS_FOLDER}/{name}", "command") for name in _commands(commands))
    found = ((name, kind, _read(folder, name)) for name, kind in wanted)
    return tuple(
        ProjectFile(name, kind, hashlib.sha256(data).hexdigest(), data.decode("utf-8", "replace"))
        for name, kind, data in found
        if data is not None
    )


def _commands(folder: Path) -> list[str]:
    """Return the command files in `folder`; none where it is a link or not readable."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return []
        with os.scandir(folder) as entries:
            return sorted(e.name for e in entries if e.name.endswith(".md"))[:MAX_COMMANDS]
    except OSError:
        return []


def _read(folder: Path, name: str) -> bytes | None:
    try:
        path = resolved(folder / name)
        if not path.is_relative_to(resolved(folder)):
            return None
        descriptor = open_file(path)
    except (OSError, ValueError):
        return None
    info = os.fstat(descriptor)
    # Checked before `os.fdopen`, which raises for a folder.
    if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_FILE:
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_FILE)


def trusted_files(
    store: TrustStore, folder: Path
) -> tuple[tuple[ProjectFile, ...], tuple[Phrase, ...]]:
    """Return the files of `folder` that may have an effect, and notices about the others."""
    files = discover(folder)
    finding = store.finding(folder, files)
    if not files or finding.trusted:
        # A rule that is gone or no longer readable has no effect any more: the user is told.
        return files, finding.texts if finding.known else ()
    names = ", ".join(file.name for file in files)
    ignored = Phrase(
        "Not used until you trust this folder (/trust or kogniterm trust): {names}.",
        {"names": names},
    )
    # A folder that is not known needs no second notice: this one says how to trust it.
    return (), (*(finding.texts if finding.known else ()), ignored)


@dataclass(frozen=True, slots=True)
class TrustFinding:
    """A comparison of the files of a folder with its record; `known` is false without a record."""

    known: bool
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def trusted(self) -> bool:
        """Return whether everything found may have an effect: nothing is new or changed."""
        return self.known and not self.new and not self.changed

    @property
    def texts(self) -> tuple[Phrase, ...]:
        """Return what the user is told about the differences."""
        new, changed, gone = (
            {"names": ", ".join(names)} for names in (self.new, self.changed, self.gone)
        )
        found = []
        if not self.known:
            found.append(Phrase("This folder is not trusted yet."))
        elif self.new:
            found.append(Phrase("New since this folder was trusted: {names}.", new))
        if self.changed:
            found.append(Phrase("Changed since this folder was trusted: {names}.", changed))
        if self.gone:
            found.append(Phrase("No longer present or not readable: {names}.", gone))
        return tuple(found)


def compare(found: Mapping[str, str], trusted: Mapping[str, str] | None) -> TrustFinding:
    """Compare the files `found` (name to hash) with those trusted, None for an unknown folder."""
    if trusted is None:
        return TrustFinding(known=False, new=tuple(sorted(found)))
    changed = (name for name in found if name in trusted and trusted[name] != found[name])
    return TrustFinding(
        known=True,
        new=tuple(sorted(set(found) - set(trusted))),
        changed=tuple(sorted(changed)),
        gone=tuple(sorted(set(trusted) - set(found))),
    )


class TrustStore:
    """The folders that the user trusts, with the hashes of what they held then."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def finding(self, folder: Path, files: tuple[ProjectFile, ...]) -> TrustFinding:
        """Compare the files found in `folder` with those trusted."""
        return compare(_hashes(files), self._load().get(os.path.realpath(folder)))

    def knows(self, folder: Path) -> bool:
        """Return whether the user trusts the folder, whatever changed in it since."""
        return os.path.realpath(folder) in self._load()

    def folders(self) -> tuple[str, ...]:
        """Return the trusted folders."""
        return tuple(sorted(self._load()))

    def trust(self, folder: Path, files: tuple[ProjectFile, ...]) -> None:
        """Record that the user trusts what `folder` holds now."""
        self._save({**self._load(), os.path.realpath(folder): _hashes(files)})

    def revoke(self, folder: Path) -> bool:
        """Revoke the trust of `folder`; return False when there was none."""
        recorded = dict(self._load())
        known = recorded.pop(os.path.realpath(folder), None) is not None
        if known:
            self._save(recorded)
        return known

    def _load(self) -> Mapping[str, Mapping[str, str]]:
        """Read the record; an unreadable one means that nothing is trusted."""
        try:
            data = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def _save(self, recorded: Mapping[str, Mapping[str, str]]) -> None:
        write_private(self._file, json.dumps(recorded, indent=1).encode())


def _hashes(files: tuple[ProjectFile, ...]) -> dict[str, str]:
    return {file.name: file.digest for file in files}


def policy_texts(files: tuple[ProjectFile, ...]) -> dict[str, str]:
    """Return the texts of the rules among `files`, by file name."""
    return {file.name: file.text for file in files if file.kind == "policy"}


def instructions_text(files: tuple[ProjectFile, ...]) -> str:
    """Return trusted instruction files for the model, quoted as data of the project."""
    parts = [
        f'<project_instructions file="{file.name}">\n{file.text.strip()}\n</project_instructions>'
        for file in files
        if file.kind == "instructions" and file.text.strip()
    ]
    return "\n\n".join(parts)
