"""Pre-images: what a command or an edit would overwrite or delete, kept so that it can be undone.

Works on files whatever git thinks of them: untracked and ignored ones too. What is too large
is not kept, and that is said before the action is approved, not after.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from kogniterm.errors import StorageError, why

Kind = Literal["file", "folder", "link", "absent"]
Change = Literal["modified", "deleted", "created", "unchanged"]
MAX_ENTRIES = 5_000
MAX_BYTES = 64 * 1024 * 1024
"""The most one pre-image may take; a build folder or a data set is not copied for every command."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path as it was: `digest` names the kept content, or the target of a link."""

    path: str
    kind: Kind
    mode: int = 0
    digest: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Preimage:
    """What was kept for one action. `skipped` are the paths that were too much to keep."""

    id: str
    session: str
    created: float
    what: str
    entries: tuple[Entry, ...]
    skipped: tuple[str, ...] = ()
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """How a path differs now from how it was. `before` and `after` are absent for non-text."""

    path: str
    change: Change
    before: str | None = None
    after: str | None = None


class PreimageStore:
    """Pre-images in a folder: contents by digest, one manifest an action, newest listed first."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def keep(self, session: str, action: str, what: str, paths: Iterable[Path]) -> Preimage | None:
        """Keep every path as it is now; None when there is nothing to keep.

        Raises `StorageError` when the copies cannot be written: then the action must not start
        believing that it can be undone.
        """
        entries: list[Entry] = []
        skipped: list[str] = []
        room = self._max_bytes
        try:
            for path in _outermost(paths):
                found, size = self._take(path, room)
                if found is None:
                    skipped.append(str(path))
                    continue
                entries.extend(found)
                room -= size
            if not entries and not skipped:
                return None
            image = Preimage(action, session, time.time(), what, tuple(entries), tuple(skipped))
            self._write(image)
        except OSError as error:
            raise StorageError(
                "What this would change could not be kept for undoing: {why}.",
                why=why(error),
            ) from error
        return image

    def images(self, session: str) -> tuple[Preimage, ...]:
        """What can be undone in `session`, the newest first."""
        folder = self._folder / session
        if not folder.is_dir():
            return ()
        images = [_read(file) for file in folder.glob("*.json")]
        return tuple(sorted(images, key=lambda image: image.created, reverse=True))

    def differences(self, image: Preimage) -> tuple[Difference, ...]:
        """What undoing would change, path by path; nothing for what is as it was."""
        return tuple(
            difference
            for entry in image.entries
            if (difference := self._difference(entry)).change != "unchanged"
        )

    def restore(self, image: Preimage) -> tuple[Preimage | None, tuple[str, ...]]:
        """Put everything back; (pre-image of the state before, which undoes this, paths put back).

        Contents are written beside their place and renamed over it.
        """
        changed = [Path(d.path) for d in self.differences(image)]
        what = f"undo of: {image.what}"
        redo = self.keep(image.session, f"{image.id}.undo", what, changed)
        restored = []
        # Folders before what lies in them; what was created is removed last, deepest first.
        for entry in image.entries:
            if entry.kind != "absent" and Path(entry.path) in changed:
                self._put_back(entry)
                restored.append(entry.path)
        for entry in reversed(image.entries):
            if entry.kind == "absent" and Path(entry.path) in changed:
                _remove(Path(entry.path))
                restored.append(entry.path)
        self._write(replace(image, undone=True))
        return redo, tuple(restored)

    def forget(self, session: str) -> None:
        """Remove the pre-images of a session, and contents nobody needs any more."""
        shutil.rmtree(self._folder / session, ignore_errors=True)
        self._drop_contents()

    def drop(self, names: Callable[[str], bool]) -> int:
        """Remove the pre-images with a path for which `names` holds; how many there were.

        Their actions cannot be undone any more.
        """
        named = [
            file
            for file in self._folder.glob("*/*.json")
            if any(names(path) for path in _paths(_read(file)))
        ]
        for file in named:
            file.unlink()
        if named:
            self._drop_contents()
        return len(named)

    def _drop_contents(self) -> None:
        """Remove contents nobody needs any more."""
        needed = {
            entry.digest
            for file in self._folder.glob("*/*.json")
            for entry in _read(file).entries
            if entry.kind == "file"
        }
        for blob in (self._folder / "contents").glob("*"):
            if blob.name not in needed:
                blob.unlink(missing_ok=True)

    def _take(self, path: Path, room: int) -> tuple[list[Entry] | None, int]:
        """The entries of `path` and what is below it, or None when that is too much."""
        entries: list[Entry] = []
        size = 0
        for item in _walk(path):
            entry = _entry(item)
            if entry is None:
                continue
            size += entry.size
            if size > room or len(entries) >= MAX_ENTRIES:
                return None, 0
            entries.append(entry)
        return [self._with_content(entry) for entry in entries], size

    def _with_content(self, entry: Entry) -> Entry:
        if entry.kind != "file":
            return entry
        data = Path(entry.path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        blob = self._folder / "contents" / digest
        # One that something was forgotten in is no copy any more.
        if not blob.exists() or hashlib.sha256(blob.read_bytes()).hexdigest() != digest:
            _write_private(blob, data)
        return Entry(entry.path, "file", entry.mode, digest, len(data))

    def _difference(self, entry: Entry) -> Difference:
        path = Path(entry.path)
        there = os.path.lexists(path)
        if entry.kind == "absent":
            if not there:
                return Difference(entry.path, "unchanged")
            return Difference(entry.path, "created", None, _text(path))
        if not there:
            return Difference(entry.path, "deleted", self._kept_text(entry), None)
        now = _entry(path)
        same = now is not None and (now.kind, now.mode) == (entry.kind, entry.mode)
        if same and entry.kind == "file":
            same = hashlib.sha256(path.read_bytes()).hexdigest() == entry.digest
        elif same and now is not None and entry.kind == "link":
            same = now.digest == entry.digest
        change: Change = "unchanged" if same else "modified"
        if change == "unchanged":
            return Difference(entry.path, change)
        return Difference(entry.path, change, self._kept_text(entry), _text(path))

    def _kept_text(self, entry: Entry) -> str | None:
        if entry.kind != "file":
            return None
        return _text(self._folder / "contents" / entry.digest)

    def _put_back(self, entry: Entry) -> None:
        path = Path(entry.path)
        if entry.kind == "folder":
            if os.path.lexists(path) and not path.is_dir():
                path.unlink()
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(entry.mode)
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.undo")
        beside.unlink(missing_ok=True)
        if entry.kind == "link":
            beside.symlink_to(entry.digest)
        else:
            shutil.copyfile(self._folder / "contents" / entry.digest, beside)
            beside.chmod(entry.mode)
        beside.replace(path)

    def _write(self, image: Preimage) -> None:
        data = json.dumps(asdict(image), ensure_ascii=False).encode()
        _write_private(self._folder / image.session / f"{image.id}.json", data)


def _read(file: Path) -> Preimage:
    raw = json.loads(file.read_text(encoding="utf-8"))
    entries = tuple(Entry(**entry) for entry in raw.pop("entries"))
    return Preimage(**{**raw, "entries": entries, "skipped": tuple(raw["skipped"])})


def _paths(image: Preimage) -> tuple[str, ...]:
    links = (entry.digest for entry in image.entries if entry.kind == "link")
    return (*(entry.path for entry in image.entries), *image.skipped, *links)


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """`paths` without those that lie below another one, in order; links are not followed."""
    unique = sorted({Path(os.path.normpath(path.absolute())) for path in paths})
    kept: list[Path] = []
    for path in unique:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _walk(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir() and not path.is_symlink():
        for folder, folders, files in os.walk(path):
            for name in sorted(folders) + sorted(files):
                yield Path(folder) / name


def _entry(path: Path) -> Entry | None:
    """`path` as it is now; None for sockets, devices and pipes, which cannot be kept."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return Entry(str(path), "absent")
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        return Entry(str(path), "link", mode, str(path.readlink()))
    if stat.S_ISDIR(info.st_mode):
        return Entry(str(path), "folder", mode)
    if stat.S_ISREG(info.st_mode):
        return Entry(str(path), "file", mode, size=info.st_size)
    return None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _text(path: Path) -> str | None:
    """The content as text, or None when it is no text or not small."""
    try:
        if not path.is_file() or path.stat().st_size > 512 * 1024:
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _write_private(path: Path, data: bytes) -> None:
    """Write a file only the person can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_name(f"{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    beside.replace(path)
