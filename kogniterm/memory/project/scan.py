"""A scan of a project folder: languages, commands, layout, dependencies; bounded.

What git ignores is left out; without git, or outside of a repository, only the folders that never
hold source are. No link is followed, no more than `LARGEST` bytes of one file are read, and after
`MOST_FILES` files or `seconds` the scan stops and says so. The folder must be trusted before it
is scanned; the caller sees to that.
"""

from __future__ import annotations

import os
import stat
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from kogniterm.host import safe_files
from kogniterm.host.safe_git import GitTooSlowError, files_known_to_git
from kogniterm.memory.project.manifests import (
    INSTRUCTION_FILES,
    Manifest,
    is_manifest,
    read_manifest,
)
from kogniterm.memory.project.profiles import ProjectProfile
from kogniterm.protocols import Clock

MOST_FILES = 20_000
MOST_FOLDERS = 4_000
DEEPEST = 12
LARGEST = 256 * 1024
SECONDS = 5.0

NEVER = frozenset(
    (
        ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", "dist", "build", "target", ".next",
        ".gradle", ".idea", ".vscode", "vendor", ".terraform", ".cache", "coverage", ".direnv",
    )
)  # fmt: skip
"""Folders that hold no source of the project, ignored or not."""

LANGUAGES: Mapping[str, str] = {
    ".py": "Python", ".pyi": "Python", ".js": "JavaScript", ".jsx": "JavaScript",
    ".mjs": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".go": "Go", ".rs": "Rust",
    ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".hpp": "C++", ".java": "Java",
    ".kt": "Kotlin", ".swift": "Swift", ".rb": "Ruby", ".php": "PHP", ".cs": "C#",
    ".scala": "Scala", ".ex": "Elixir", ".exs": "Elixir", ".hs": "Haskell", ".lua": "Lua",
    ".r": "R", ".jl": "Julia", ".sh": "Shell", ".bash": "Shell", ".sql": "SQL", ".html": "HTML",
    ".css": "CSS", ".scss": "CSS", ".vue": "Vue", ".svelte": "Svelte", ".tf": "Terraform",
    ".dart": "Dart", ".zig": "Zig", ".ml": "OCaml", ".pl": "Perl",
}  # fmt: skip


def scan(
    folder: Path,
    clock: Clock,
    *,
    stopped: Callable[[], bool] = lambda: False,
    seconds: float = SECONDS,
) -> ProjectProfile:
    """Return the profile of `folder` as it is now.

    `stopped` is asked at every file; a stopped scan gives what it has, marked as truncated. A
    folder that cannot be read gives an empty profile.
    """
    folder = Path(os.path.realpath(folder))
    deadline = clock.monotonic() + seconds
    files: list[PurePosixPath] = []
    truncated = False
    for name in _files(folder):
        if stopped() or clock.monotonic() > deadline or len(files) >= MOST_FILES:
            truncated = True
            break
        if name.isprintable():
            files.append(PurePosixPath(name))
    languages = Counter(LANGUAGES.get(file.suffix.lower(), "") for file in files)
    del languages[""]
    files.sort(key=lambda file: (len(file.parts), file))
    read = (_read(folder, file) for file in files if len(file.parts) <= 2)
    manifests = [manifest for manifest in read if manifest is not None]
    return ProjectProfile(
        scanned=clock.now(),
        files=len(files),
        truncated=truncated,
        languages=dict(languages.most_common()),
        build_commands=_each(one for manifest in manifests for one in manifest.build),
        test_commands=_each(one for manifest in manifests for one in manifest.test),
        layout=_each(f"{top}/" for top in sorted({f.parts[0] for f in files if f.parts[1:]})),
        dependencies=_each(one for manifest in manifests for one in manifest.dependencies),
        instruction_files=_each(str(file) for file in files if file.name in INSTRUCTION_FILES),
    )


def _each(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _read(folder: Path, file: PurePosixPath) -> Manifest | None:
    if not is_manifest(file.name):
        return None
    try:
        data = safe_files.read_regular(folder / file, LARGEST)
    except OSError:
        return None
    return read_manifest(file.name, data.decode("utf-8", errors="replace"))


def _files(folder: Path) -> Iterator[str]:
    """The regular files that may hold source, as paths relative to `folder`."""
    try:
        with safe_files.folder(folder) as descriptor:
            listed = files_known_to_git(descriptor)
            if listed is None:
                yield from _walked(folder)
                return
            for name in listed:
                if NEVER.isdisjoint(name.split("/")[:-1]) and _is_regular(name, descriptor):
                    yield name
    except (OSError, GitTooSlowError):
        return


def _is_regular(name: str, descriptor: int) -> bool:
    try:
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode)


def _walked(root: Path) -> Iterator[str]:
    waiting = deque([""])
    for _ in range(MOST_FOLDERS):
        if not waiting:
            return
        inner = waiting.popleft()
        try:
            with os.scandir(root / inner) as listing:
                entries = sorted(listing, key=lambda one: one.name)
        except OSError:
            continue
        for entry in entries:
            name = f"{inner}/{entry.name}" if inner else entry.name
            if entry.is_file(follow_symlinks=False):
                yield name
            elif (
                entry.is_dir(follow_symlinks=False)
                and entry.name not in NEVER
                and name.count("/") < DEEPEST
            ):
                waiting.append(name)


def project_root(folder: Path) -> Path:
    """The folder that names the project: the nearest one above with `.git`, else `folder`."""
    folder = Path(os.path.realpath(folder))
    for one in (folder, *folder.parents):
        # Above may lie a folder that may not be entered.
        if os.path.exists(one / ".git"):  # noqa: PTH110 - pathlib's own test raises there
            return one
    return folder
