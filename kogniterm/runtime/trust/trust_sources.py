"""The sources of files that have an effect in a folder: the user's plugins, and the project there.

Each is compared with the trust in it alone: one folder can be a plugin in every folder, and a
project in itself.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from kogniterm.runtime.trust.trust_store import TrustFinding, TrustStore
from kogniterm.types import Phrase


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
