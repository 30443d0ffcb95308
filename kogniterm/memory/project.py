"""Looking at a project folder: bounded, incremental, and never outside it.

No link is followed, only regular files are opened (a named pipe would block), no more than a
few hundred kilobytes of one file are read, and after `MOST_FILES` files or `seconds` the scan
stops and says so. A folder whose modification time has not changed is not listed again. The
folder must be trusted before it is scanned; that is the caller's to know.
"""

from __future__ import annotations

import os
import stat
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from kogniterm.memory import ignores
from kogniterm.memory.manifests import INSTRUCTION_FILES, is_manifest, read_manifest
from kogniterm.memory.profiles import FolderNote, ManifestNote, ProjectProfile
from kogniterm.protocols import Clock

MOST_FILES = 20_000
MOST_FOLDERS = 4_000
DEEPEST = 12
LARGEST = 256 * 1024
SECONDS = 5.0

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


@dataclass(slots=True)
class _Found:
    """What a scan has gathered so far."""

    files: int = 0
    truncated: bool = False
    languages: Counter[str] = field(default_factory=Counter)
    folders: dict[str, FolderNote] = field(default_factory=dict)
    manifests: dict[str, ManifestNote] = field(default_factory=dict)
    instructions: list[str] = field(default_factory=list)


def scan(
    folder: Path,
    previous: ProjectProfile | None,
    clock: Clock,
    *,
    redact: Callable[[str], str] = lambda text: text,
    stopped: Callable[[], bool] = lambda: False,
    seconds: float = SECONDS,
) -> ProjectProfile:
    """The profile of `folder` as it is now, made from `previous` where nothing changed.

    `stopped` is asked between folders; a stopped scan gives what it has, marked as truncated.
    A folder that cannot be read gives an empty profile.
    """
    found = _Found()
    deadline = clock.monotonic() + seconds
    known = previous if previous is not None and not previous.truncated else ProjectProfile()
    # A folder's note holds only while every `.gitignore` above it is as it was.
    waiting: deque[tuple[str, tuple[ignores.Rule, ...], bool]] = deque([("", (), True)])
    while waiting:
        inner, rules, holds = waiting.popleft()
        if stopped() or clock.monotonic() > deadline or _is_full(found):
            found.truncated = True
            break
        rules = (*rules, *_rules_of(folder, inner, found))
        ignoring = _join(inner, ".gitignore")
        holds = holds and found.manifests.get(ignoring) == known.manifests.get(ignoring)
        note = _look(folder, inner, known.folders.get(inner) if holds else None, rules)
        if note is None:
            continue
        _count(folder, inner, note, known, found, redact)
        if inner.count("/") < DEEPEST:
            waiting += [(_join(inner, name), rules, holds) for name in note.folders]
    return _profile(found, clock.now())


def _is_full(found: _Found) -> bool:
    return found.files >= MOST_FILES or len(found.folders) >= MOST_FOLDERS


def _look(
    root: Path, inner: str, earlier: FolderNote | None, rules: Sequence[ignores.Rule]
) -> FolderNote | None:
    """The note on one folder: the earlier one when its modification time is the same."""
    folder = root / inner
    try:
        changed = folder.lstat()
        if not stat.S_ISDIR(changed.st_mode):
            return None
        if earlier is not None and earlier.mtime == changed.st_mtime_ns:
            return earlier
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda one: one.name)
    except OSError:
        return None
    languages: Counter[str] = Counter()
    kept: list[str] = []
    folders: list[str] = []
    count = 0
    for entry in entries[:MOST_FILES]:
        is_folder = entry.is_dir(follow_symlinks=False)
        if (entry.name in ignores.NEVER and is_folder) or not _is_text(entry.name):
            continue
        if ignores.is_ignored(_join(inner, entry.name), is_folder, rules):
            continue
        if is_folder:
            folders.append(entry.name)
        elif entry.is_file(follow_symlinks=False):
            count += 1
            language = LANGUAGES.get(PurePath(entry.name).suffix.lower())
            if language:
                languages[language] += 1
            if is_manifest(entry.name) or entry.name in INSTRUCTION_FILES:
                kept.append(entry.name)
    return FolderNote(changed.st_mtime_ns, dict(languages), tuple(kept), tuple(folders), count)


def _is_text(name: str) -> bool:
    """Whether a name can be written down: on the disk it may be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _count(
    root: Path,
    inner: str,
    note: FolderNote,
    known: ProjectProfile,
    found: _Found,
    redact: Callable[[str], str],
) -> None:
    found.folders[inner] = note
    found.languages.update(note.languages)
    found.files += note.count
    for name in note.files:
        path = _join(inner, name)
        if name in INSTRUCTION_FILES:
            found.instructions.append(path)
        if is_manifest(name) and path.count("/") <= 1:
            manifest = _manifest(root, path, known.manifests.get(path), redact)
            if manifest is not None:
                found.manifests[path] = manifest


def _manifest(
    root: Path, path: str, earlier: ManifestNote | None, redact: Callable[[str], str]
) -> ManifestNote | None:
    stamp = _stamp(root / path)
    if stamp is None:
        return None
    if earlier is not None and earlier.stamp == stamp:
        return earlier
    text = read_regular(root / path)
    return None if text is None else read_manifest(path.rsplit("/", 1)[-1], redact(text), stamp)


def _rules_of(root: Path, inner: str, found: _Found) -> list[ignores.Rule]:
    path = _join(inner, ".gitignore")
    stamp = _stamp(root / path)
    text = read_regular(root / path) if stamp is not None else None
    if stamp is None or text is None:
        return []
    found.manifests[path] = ManifestNote(stamp, ".gitignore")
    return ignores.parse(text.splitlines(), inner)


def read_regular(path: Path) -> str | None:
    """The first `LARGEST` bytes of a regular file as text; None for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(LARGEST).decode("utf-8", errors="replace")


def _stamp(path: Path) -> str | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return f"{found.st_size}:{found.st_mtime_ns}" if stat.S_ISREG(found.st_mode) else None


def _profile(found: _Found, now: float) -> ProjectProfile:
    notes = [found.manifests[path] for path in sorted(found.manifests, key=_nearest_first)]
    root = found.folders.get("")
    return ProjectProfile(
        scanned=now,
        files=found.files,
        truncated=found.truncated,
        languages=dict(found.languages.most_common()),
        build_commands=tuple(dict.fromkeys(one for note in notes for one in note.build)),
        test_commands=tuple(dict.fromkeys(one for note in notes for one in note.test)),
        layout=tuple(f"{name}/" for name in root.folders) if root else (),
        dependencies=tuple(dict.fromkeys(one for note in notes for one in note.dependencies)),
        instruction_files=tuple(sorted(found.instructions, key=_nearest_first)),
        folders=found.folders,
        manifests=found.manifests,
    )


def _nearest_first(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _join(inner: str, name: str) -> str:
    return f"{inner}/{name}" if inner else name


def project_root(folder: Path) -> Path:
    """The folder that names the project: the nearest one above with `.git`, else `folder`."""
    folder = Path(os.path.realpath(folder))
    for one in (folder, *folder.parents):
        # Above may lie a folder that may not be entered.
        if os.path.exists(one / ".git"):  # noqa: PTH110 - pathlib's own test raises there
            return one
    return folder
