"""Trust of folders: nothing in a project folder has any effect before the user trusts it.

The record holds the hash of every file that would have an effect, so the user is asked again about
a file that changed since, and sees the difference: the trusted texts are kept for that, by their
hash. Trust is per folder and is not inherited by folders below it. The files that have an effect in
a folder are those of the user's plugins and of the project there. Each source is compared with the
trust in it alone: one folder can be a plugin in every folder, and a project in itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kogniterm.host.safe_files import resolve_path
from kogniterm.paths import Paths
from kogniterm.runtime.trust.plugin_folders import MANIFEST
from kogniterm.runtime.trust.project_places import (
    ProjectFile,
    ProjectWalk,
    folders_with,
    walk,
    walk_plugin,
)
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


# --- the sources in a folder ----------------------------------------------------------------------


class TrustSource(NamedTuple):
    """A folder whose files have an effect once the user trusts it: a project, or an `own` plugin.

    `own` plugins are in the user's configuration, and in force in every folder. `files` are trusted
    together; `seen` is without the plugins whose names are in use.
    """

    folder: Path
    files: tuple[ProjectFile, ...]
    seen: ProjectWalk
    finding: TrustFinding
    own: bool

    @property
    def notices(self) -> tuple[Phrase, ...]:
        """Return what the user is told about files that are not in force, or changed."""
        files, finding = self.seen.files, self.finding
        told = list(finding.texts) if finding.known else []
        # A rule that is gone or no longer readable has no effect any more: the user is told.
        if files and not finding.trusted:
            # A folder that is not known needs no second notice: this one says how to trust it.
            names = dict.fromkeys(
                one.shown if one.plugin is None else one.plugin.shown for one in files
            )
            ignored = Phrase(
                "Not used until you trust this folder (/trust or kogniterm trust): {names}.",
                {"names": ", ".join(names)},
            )
            plugin = Phrase(
                "Plugin {path} not used until you trust it: /trust {name} or "
                "kogniterm trust -C {path}",
                {"path": self.folder, "name": ", ".join(self.seen.plugins)},
            )
            told.append(plugin if self.own else ignored)
        return (*told, *self.seen.passed_over)


def trust_sources(
    paths: Paths, folder: Path, seen: ProjectWalk | None = None
) -> tuple[TrustSource, ...]:
    """Return the user's plugins and the project `folder`; of two plugins of one name, the first.

    `seen` is what a walk just found in the folder; without it, the folder is walked.
    """
    taken, found = set[str](), list[TrustSource]()
    walks = [(place, walk_plugin(place, str(place), own=True), True) for place in _plugins(paths)]
    for place, here, own in (*walks, (folder, seen or walk(folder), False)):
        left = here.without(taken)
        taken |= set(here.plugins)
        finding = trust_store(paths, plugins=own).finding(place, here.files)
        found.append(TrustSource(place, here.files, left, finding, own))
    return tuple(found)


def _plugins(paths: Paths) -> Iterator[Path]:
    """Yield the folders of the user's plugins; one that several links lead to, once."""
    own, known = paths.extensions.plugins, set[Path]()
    for name in folders_with(MANIFEST, own):
        real = resolve_path(own / name)
        if real not in known:
            known.add(real)
            yield own / name


def own_plugins(paths: Paths, folder: Path) -> dict[str, Path]:
    """Return the folders of the user's plugins by their names, as they are used in `folder`."""
    sources = (one for one in trust_sources(paths, folder) if one.own)
    return {name: one.folder for one in sources for name in one.seen.plugins}


def sources_in(paths: Paths, folder: Path) -> tuple[TrustSource, ...]:
    """Return what trust of `folder` puts in force: the project, and the user's plugin it is."""
    real = resolve_path(folder)
    sources = trust_sources(paths, folder)
    return tuple(one for one in sources if not one.own or resolve_path(one.folder) == real)


def trusted_files(
    paths: Paths, folder: Path, seen: ProjectWalk | None = None
) -> tuple[tuple[ProjectFile, ...], tuple[Phrase, ...]]:
    """Return the files that may have an effect in `folder`, and notices about the others.

    They are those of the user's plugins and its own. `seen` is what a walk just found there.
    """
    sources = trust_sources(paths, folder, seen)
    files = tuple(file for one in sources if one.finding.trusted for file in one.seen.files)
    return files, tuple(notice for one in sources for notice in one.notices)


def trust_store(paths: Paths, *, plugins: bool = False) -> TrustStore:
    """Return the record of the trusted projects, or of the user's trusted `plugins`."""
    return TrustStore(paths.trust_file, plugins=plugins)


def trust_files(paths: Paths, folder: Path, files: tuple[ProjectFile, ...]) -> None:
    """Record that the user trusts exactly `files` of `folder`, each for the source it is of."""
    kinds = dict[bool, list[ProjectFile]]()
    if not files or trust_store(paths).knows(folder):
        kinds[False] = []  # of what was trusted there, nothing may be left
    for one in files:
        kinds.setdefault(one.plugin is not None and one.plugin.own, []).append(one)
    for plugins, found in kinds.items():
        trust_store(paths, plugins=plugins).trust(folder, tuple(found))


def revoke_trust(paths: Paths, folder: Path) -> bool:
    """Revoke the trust of `folder` as a plugin and as a project; return False without any."""
    of_plugin = trust_store(paths, plugins=True).revoke(folder)
    return trust_store(paths).revoke(folder) or of_plugin


def policy_texts(files: tuple[ProjectFile, ...]) -> dict[str, str]:
    """Return the texts of the rules among `files`, by file name."""
    return {file.name: file.text for file in files if file.kind == "policy"}
