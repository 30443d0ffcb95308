"""The scan of a project folder: files by language, manifests, conventions, commit messages.

What git ignores is left out; without git, or outside of a repository, only the folders that never
hold source are. No link is followed, no more than `LARGEST` bytes of one file are read, and after
`MOST_FILES` files or `seconds` the scan stops and says so. The caller scans trusted folders only.
Texts of the project are data: only names, numbers and commands of a plain shape are kept, and
nothing of them is run here. `ProjectScanner` scans in the background, where the user trusts the
workspace.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from kogniterm.errors import KognitermError
from kogniterm.host import safe_files
from kogniterm.host.safe_git import commit_subjects, files_known_to_git
from kogniterm.host.walk import WalkLimitError, WalkLimits, walk_folder
from kogniterm.memory.project.manifests import Manifest, is_manifest, project_data, read_manifest
from kogniterm.memory.project.project_profile import ProjectProfile, ProjectRepository
from kogniterm.protocols import Clock

log = logging.getLogger(__name__)
CLOSING_SECONDS = 2.0
"""Seconds by which a scan that is told to stop may delay the exit."""
MOST_FILES = 20_000
SECONDS = 5.0
_LIMITS = WalkLimits(entries=10 * MOST_FILES, depth=40)
_WATCHED = WalkLimits(entries=20_000, depth=1)
"""The part in which a change of the manifests is noticed."""
_MOST_DEPENDENCIES = 60
_MOST_COMMITS = 100
_FEWEST_COMMITS = 10
_MOSTLY = 0.8
"""Share of the commits that must have a form for it to be the project's."""


class ProjectScanner:
    """Keeps the profile of the workspace up to date, on a thread of its own.

    Nothing of a folder is read before `trusted` says so. `profiles` returns where profiles are
    kept, None while memory may not be written.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        trusted: Callable[[], bool],
        profiles: Callable[[], ProjectRepository | None],
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.trusted = trusted
        self.profiles = profiles
        self._untrusted = False
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def look(self) -> None:
        """Scan in the background if the manifests changed since the last scan; return at once."""
        if self._stopping.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        if self._untrusted and not self.trusted():
            return
        self._thread = threading.Thread(target=self._look, name="project scan", daemon=True)
        self._thread.start()

    def settled(self) -> None:
        """Wait for a scan that runs."""
        if self._thread is not None:
            self._thread.join()

    def scan_now(self) -> ProjectProfile:
        """Scan because the user asks for it; keep the profile where the folder is trusted."""
        found = scan(self.folder, self.clock, stopped=self._stopping.is_set)
        profiles = self.profiles()
        if profiles is not None and not self._stopping.is_set() and self.trusted():
            profiles.save(found)
        return found

    def close(self) -> None:
        """Stop a scan that runs; what it found is not kept."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def _look(self) -> None:
        try:
            profiles = self.profiles()
            if profiles is None:
                return
            known = profiles.load()
            self._untrusted = not self.trusted()
            if self._untrusted:
                profiles.drop()
            elif known is None or known.state != manifest_state(self.folder):
                self.scan_now()
        except (KognitermError, OSError):
            # What is known stays: the next turn looks again.
            log.exception("the project folder could not be scanned")


def scan(
    folder: Path,
    clock: Clock,
    *,
    stopped: Callable[[], bool] = lambda: False,
    seconds: float = SECONDS,
) -> ProjectProfile:
    """Return the profile of `folder` as it is now.

    `stopped` is asked at every file; a stopped scan returns what it has, marked as truncated. A
    folder that cannot be read gives an empty profile.
    """
    folder = Path(os.path.realpath(folder))
    deadline = clock.monotonic() + seconds
    state = manifest_state(folder)
    files: list[PurePosixPath] = []
    truncated = False

    def unseen(_folder: str, error: OSError) -> None:
        nonlocal truncated
        truncated = truncated or isinstance(error, WalkLimitError)

    for name in _files(folder, unseen):
        if stopped() or clock.monotonic() > deadline or len(files) >= MOST_FILES:
            truncated = True
            break
        if name.isprintable():
            files.append(PurePosixPath(name))
    files.sort(key=lambda file: (len(file.parts), file))
    manifests = [(file, read_manifest(folder, file)) for file in files if len(file.parts) <= 2]
    found = [manifest for _file, manifest in manifests]
    dependencies = _each(one for manifest in found for one in manifest.dependencies)
    conventions = _conventions(manifests)
    with suppress(TimeoutError):
        if not truncated and (commits := commit_style(commit_subjects(folder, _MOST_COMMITS))):
            conventions["commits"] = (commits,)
    endings = {one: name for name, all_ in project_data()["languages"].items() for one in all_}
    counted = Counter(endings.get(file.suffix.lower(), "") for file in files)
    del counted[""]
    held = {name.lower() for name in dependencies}
    table = project_data()["frameworks"]
    return ProjectProfile(
        scanned=clock.now(),
        files=len(files),
        truncated=truncated,
        languages=dict(counted.most_common()),
        frameworks=tuple(name for name, names in table.items() if not held.isdisjoint(names)),
        build_commands=_each(one for manifest in found for one in manifest.build),
        test_commands=_each(one for manifest in found for one in manifest.test),
        lint_commands=_each(one for manifest in found for one in manifest.lint),
        conventions=conventions,
        layout=_each(f"{top}/" for top in sorted({f.parts[0] for f in files if f.parts[1:]})),
        dependencies=dependencies[:_MOST_DEPENDENCIES],
        instruction_files=_each(
            str(one) for one in files if one.name in project_data()["instructions"]
        ),
        folder=str(folder),
        state=state,
    )


def manifest_state(folder: Path) -> str:
    """Return a digest of the folder's path, top folders and manifests (name, size, time).

    Reads no file: cheap enough for the beginning of each turn.
    """
    folder = Path(os.path.realpath(folder))
    seen = [str(folder)]
    skipped = frozenset(project_data()["skipped"])
    found = walk_folder(
        folder, None, _WATCHED, enters=lambda name: name not in skipped, near_first=True
    )
    for entry in found:
        if is_manifest(entry.found.name):
            with suppress(OSError):
                about = entry.found.stat(follow_symlinks=False)
                seen.append(f"{entry.path} {about.st_size} {about.st_mtime_ns}")
        elif "/" not in entry.path and entry.is_folder and entry.path not in skipped:
            seen.append(entry.path)
    return hashlib.sha256("\n".join(seen).encode("utf-8", "surrogateescape")).hexdigest()


def _conventions(
    manifests: Sequence[tuple[PurePosixPath, Manifest]],
) -> dict[str, tuple[str, ...]]:
    """Return the values of each convention; where files disagree, each with its file.

    What an editor is told (.editorconfig) counts only where no tool has a setting of its own.
    """
    found: dict[str, dict[str, str]] = {}
    by_tools = [one for one in manifests if one[0].name != ".editorconfig"]
    for file, manifest in (*by_tools, *(one for one in manifests if one not in by_tools)):
        for key, value in manifest.conventions.items():
            if file.name != ".editorconfig" or key not in found:
                found.setdefault(key, {}).setdefault(value, str(file))
    return {
        key: tuple(
            value if len(values) == 1 or key == "formatter" else f"{value} ({file})"
            for value, file in values.items()
        )
        for key, values in found.items()
    }


_STYLES = (
    ("Conventional Commits", re.compile(
        r"(?:build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(?:\([^)]+\))?!?: \S")),
    ("gitmoji", re.compile(r":[a-z_0-9]+: \S|[☀-➿\U0001f300-\U0001faff]")),
    ("[part] subject", re.compile(r"\[[^\]]+\] \S")),
    ("part: subject", re.compile(r"[\w./ -]{1,30}: \S")),
    ("capitalised subjects", re.compile(r"[A-ZÁÉÍÓÚÑ]")),
    ("lower-case subjects", re.compile(r"[a-záéíóúñ]")),
)  # fmt: skip
_LENGTHS = (50, 72)
"""Usual limits of a subject, in characters."""


def commit_style(subjects: Sequence[str]) -> str:
    """Return the form that most commit subjects have, and their usual limit; empty for none."""
    if len(subjects) < _FEWEST_COMMITS:
        return ""
    for name, form in _STYLES:
        if sum(form.match(one) is not None for one in subjects) < _MOSTLY * len(subjects):
            continue
        longest = sorted(map(len, subjects))[int(0.95 * (len(subjects) - 1))]
        limit = next((one for one in _LENGTHS if longest <= one), None)
        return f"{name}, up to {limit} characters" if limit is not None else name
    return ""


def _each(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _files(folder: Path, unseen: Callable[[str, OSError], None]) -> Iterator[str]:
    """Yield the regular files that may hold source, as paths relative to `folder`."""
    skipped = frozenset(project_data()["skipped"])
    try:
        with safe_files.folder(folder) as descriptor:
            listed = files_known_to_git(descriptor)
            if listed is None:
                found = walk_folder(
                    folder,
                    unseen,
                    _LIMITS,
                    enters=lambda name: name not in skipped,
                    near_first=True,
                )
                yield from (one.path for one in found if one.is_file)
                return
            for name in listed:
                if skipped.isdisjoint(name.split("/")[:-1]) and _is_regular(name, descriptor):
                    yield name
    except OSError:
        return


def _is_regular(name: str, descriptor: int) -> bool:
    try:
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode)
