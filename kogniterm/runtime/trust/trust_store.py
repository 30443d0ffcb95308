"""Trust of folders: nothing in a project folder has any effect before the user trusts it.

The record holds the hash of every file that would have an effect, so the user is asked again about
a file that changed since, and sees the difference: the trusted texts are kept for that, by their
hash. Trust is per folder and is not inherited by folders below it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kogniterm.runtime.trust.plugin_folders import MANIFEST
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.storage.folders import private_folder, read_file, read_own_json, write_private
from kogniterm.text.file_text import unified_diff
from kogniterm.types import Phrase

TRUSTED_TEXTS = "trusted-texts"
"""The folder of the texts that were trusted, beside the record."""


class TrustFinding(NamedTuple):
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


def joined(findings: Iterable[TrustFinding]) -> TrustFinding:
    """Return the comparison of a folder that has several records."""
    found = tuple(findings)
    return TrustFinding(
        known=all(one.known for one in found),
        new=tuple(name for one in found for name in one.new),
        changed=tuple(name for one in found for name in one.changed),
        gone=tuple(name for one in found for name in one.gone),
    )


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
    """The folders that the user trusts, with the hashes of what they held then.

    With `plugins` they are trusted as plugins of the user: one folder can be that and a project,
    and trust of the one is none of the other.
    """

    def __init__(self, file: Path, *, plugins: bool = False) -> None:
        self._file = file
        self._texts = file.with_name(TRUSTED_TEXTS)
        self._below = f"/{MANIFEST}" if plugins else ""

    def _key(self, folder: Path) -> str:
        return os.path.realpath(folder) + self._below

    def finding(self, folder: Path, files: tuple[ProjectFile, ...]) -> TrustFinding:
        """Compare the files found in `folder` with those trusted."""
        return compare(_hashes(files), self._load().get(self._key(folder)))

    def knows(self, folder: Path) -> bool:
        """Return whether the user trusts the folder, whatever changed in it since."""
        return self._key(folder) in self._load()

    def folders(self) -> tuple[str, ...]:
        """Return the trusted folders, of projects and plugins."""
        return tuple(sorted({name.removesuffix(f"/{MANIFEST}") for name in self._load()}))

    def trust(self, folder: Path, files: tuple[ProjectFile, ...]) -> None:
        """Record that the user trusts what `folder` holds now."""
        private_folder(self._texts)
        for one in files:
            if one.is_text:
                write_private(self._texts / one.digest, one.text.encode())
        self._save({**self._load(), self._key(folder): _hashes(files)})

    def revoke(self, folder: Path) -> bool:
        """Revoke the trust of `folder`; return False when there was none."""
        recorded = dict(self._load())
        known = recorded.pop(self._key(folder), None) is not None
        if known:
            self._save(recorded)
        return known

    def changes(self, folder: Path, files: tuple[ProjectFile, ...]) -> Mapping[str, str]:
        """Return what changed in `files` since they were trusted: a unified diff by file name.

        A file whose trusted text is not known any more has none.
        """
        known = self._load().get(self._key(folder), {})
        found = {}
        for one in files:
            digest = known.get(one.name, one.digest)
            if one.is_text and digest != one.digest and (before := self._text(digest)) is not None:
                found[one.name] = unified_diff(one.name, before, one.text)
        return found

    def _text(self, digest: str) -> str | None:
        try:
            return read_file(self._texts / digest).decode("utf-8", "replace")
        except OSError:
            return None

    def _load(self) -> Mapping[str, Mapping[str, str]]:
        """Read the record; an unreadable one means that nothing is trusted."""
        data = read_own_json(self._file)
        return data if isinstance(data, dict) else {}

    def _save(self, recorded: Mapping[str, Mapping[str, str]]) -> None:
        write_private(self._file, json.dumps(recorded, indent=1).encode())
        used = {digest for files in recorded.values() for digest in files.values()}
        for text in self._texts.glob("*"):
            if text.name not in used:
                text.unlink(missing_ok=True)


def _hashes(files: tuple[ProjectFile, ...]) -> dict[str, str]:
    return {file.name: file.digest for file in files}
