"""Pre-images: what a command or an edit would overwrite or delete, kept so that it can be undone.

Works on files whatever git thinks of them: untracked and ignored ones too. What is too large
or may not be read is not kept, and that is said before the action is approved, not after.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from kogniterm.errors import StorageError, why
from kogniterm.execution.undo.file_snapshots import (
    FileSnapshot,
    below,
    digest_of,
    look_at,
    put_back,
    remove,
    set_mode,
)
from kogniterm.host.safe_files import read_regular, resolved
from kogniterm.storage.folders import write_private

Change = Literal["modified", "deleted", "created", "unchanged"]
MAX_TEXT = 512 * 1024
"""The most text that a difference shows."""
MAX_BYTES = 64 * 1024 * 1024
"""The most one pre-image may take; a build folder or a data set is not copied for every command."""


@dataclass(frozen=True, slots=True)
class Preimage:
    """What was kept for one action. `skipped` are the paths that were too much, or unreadable."""

    id: str
    session: str
    created: float
    what: str
    entries: tuple[FileSnapshot, ...]
    skipped: tuple[str, ...] = ()
    undone: bool = False


@dataclass(frozen=True, slots=True)
class FileDifference:
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
        found, skipped = self._survey(paths)
        entries: list[FileSnapshot] = []
        try:
            for entry in found:
                try:
                    data = read_regular(Path(entry.path)) if entry.kind == "file" else None
                except OSError:
                    skipped.append(entry.path)
                    continue
                entries.append(entry if data is None else self._with_content(entry, data))
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

    def unkept(self, paths: Iterable[Path]) -> str | None:
        """The first path that `keep` would pass over, which then cannot be undone; or None."""
        return next(iter(self._survey(paths)[1]), None)

    def images(self, session: str) -> tuple[Preimage, ...]:
        """What can be undone in `session`, the newest first."""
        folder = self._folder / session
        if not folder.is_dir():
            return ()
        images = [_read(file) for file in folder.glob("*.json")]
        return tuple(sorted(images, key=lambda image: image.created, reverse=True))

    def differences(self, image: Preimage) -> tuple[FileDifference, ...]:
        """What undoing would change, path by path; nothing for what is as it was."""
        return tuple(
            difference
            for entry in image.entries
            if (difference := self._difference(entry)).change != "unchanged"
        )

    def restore(self, image: Preimage) -> tuple[Preimage | None, tuple[str, ...]]:
        """Put everything back; (pre-image of the state before, which undoes this, paths put back).

        Contents are written beside their place and renamed over it. Raises `StorageError` when
        something could not be put back; everything else was then, and it can be tried again.
        """
        changed = [Path(d.path) for d in self.differences(image)]
        what = f"undo of: {image.what}"
        redo = self.keep(image.session, f"{image.id}.undo", what, changed)
        differing = [entry for entry in image.entries if Path(entry.path) in changed]
        there = [entry for entry in differing if entry.kind != "absent"]
        absent = [entry for entry in differing if entry.kind == "absent"]
        folders = [entry for entry in there if entry.kind == "folder"]
        # Folders before what lies in them, their modes, which may forbid to write there, after
        # it; what was created is removed last. Deepest first in both.
        contents = self._folder / "contents"
        restored, failed = _each(
            [(entry, lambda entry: put_back(entry, contents / entry.digest)) for entry in there]
            + [(entry, set_mode) for entry in reversed(folders)]
            + [(entry, lambda entry: remove(Path(entry.path))) for entry in reversed(absent)]
        )
        if failed is not None:
            path, error = failed
            raise StorageError(
                "{path} cannot be brought back: {why}. {count} others were.",
                path=path,
                why=why(error),
                count=len(restored),
            ) from error
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

    def _survey(self, paths: Iterable[Path]) -> tuple[list[FileSnapshot], list[str]]:
        """What to keep of `paths`, contents still unread, and the paths to pass over."""
        entries: list[FileSnapshot] = []
        skipped: list[str] = []
        room = self._max_bytes
        for path in _outermost(paths):
            found, unreadable = below(path, room)
            if found is None:
                skipped.append(str(path))
                continue
            entries += found
            skipped += unreadable
            room -= sum(entry.size for entry in found)
        return entries, skipped

    def _with_content(self, entry: FileSnapshot, data: bytes) -> FileSnapshot:
        digest = hashlib.sha256(data).hexdigest()
        blob = self._folder / "contents" / digest
        # One that something was forgotten in is no copy any more.
        if not blob.exists() or hashlib.sha256(blob.read_bytes()).hexdigest() != digest:
            write_private(blob, data)
        return replace(entry, digest=digest, size=len(data))

    def _difference(self, entry: FileSnapshot) -> FileDifference:
        path = Path(entry.path)
        try:
            now = look_at(path)
        except OSError:  # a link where a folder was, or one that may not be entered any more
            return FileDifference(entry.path, "deleted", self._kept_text(entry), None)
        there = now is None or now.kind != "absent"
        if entry.kind == "absent":
            if not there:
                return FileDifference(entry.path, "unchanged")
            return FileDifference(entry.path, "created", None, _text(path))
        if not there:
            return FileDifference(entry.path, "deleted", self._kept_text(entry), None)
        same = now is not None and (now.kind, now.mode) == (entry.kind, entry.mode)
        if same and entry.kind == "file":
            same = digest_of(path) == entry.digest
        elif same and now is not None and entry.kind == "link":
            same = now.digest == entry.digest
        change: Change = "unchanged" if same else "modified"
        if change == "unchanged":
            return FileDifference(entry.path, change)
        return FileDifference(entry.path, change, self._kept_text(entry), _text(path))

    def _kept_text(self, entry: FileSnapshot) -> str | None:
        if entry.kind != "file":
            return None
        return _text((self._folder / "contents").resolve() / entry.digest)

    def _write(self, image: Preimage) -> None:
        # Names need not be UTF-8; what of them is not comes as half characters.
        data = json.dumps(asdict(image), ensure_ascii=False).encode("utf-8", "surrogatepass")
        write_private(self._folder / image.session / f"{image.id}.json", data)


def _read(file: Path) -> Preimage:
    raw = json.loads(file.read_text(encoding="utf-8", errors="surrogatepass"))
    entries = tuple(FileSnapshot(**entry) for entry in raw.pop("entries"))
    return Preimage(**{**raw, "entries": entries, "skipped": tuple(raw["skipped"])})


def _paths(image: Preimage) -> tuple[str, ...]:
    links = (entry.digest for entry in image.entries if entry.kind == "link")
    return (*(entry.path for entry in image.entries), *image.skipped, *links)


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """`paths` without those that lie below another one, in order.

    Links above them are resolved, once; a link that is itself named stays one.
    """
    unique = sorted({_settled(path) for path in paths})
    kept: list[Path] = []
    for path in unique:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _settled(path: Path) -> Path:
    path = Path(os.path.normpath(path.absolute()))
    try:
        return resolved(path.parent) / path.name
    except (OSError, ValueError):  # it is told of when it is looked at
        return path


def _each(
    steps: Sequence[tuple[FileSnapshot, Callable[[FileSnapshot], None]]],
) -> tuple[list[str], tuple[str, OSError] | None]:
    """Take every step, whatever becomes of the others; the paths, and the first failure."""
    done: dict[str, None] = {}
    failed: tuple[str, OSError] | None = None
    for entry, step in steps:
        try:
            step(entry)
            done[entry.path] = None
        except OSError as error:
            failed = failed or (entry.path, error)
    return list(done), failed


def _text(path: Path) -> str | None:
    """The content as text, or None when it is no text or not small."""
    try:
        data = read_regular(path, MAX_TEXT + 1)
        return data.decode("utf-8") if len(data) <= MAX_TEXT else None
    except (OSError, UnicodeDecodeError):
        return None
