"""Pre-images: what a command or an edit would overwrite or delete, kept so that it can be undone.

Works on files whatever git thinks of them: untracked and ignored ones too. What is too large
or may not be read is not kept, and that is said before the action is approved, not after.

Paths are resolved ones, and every step goes through `safe_files`: a command may have put a link
where a folder was, and what is kept or brought back must not lead through it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

from kogniterm.errors import StorageError, why
from kogniterm.host.safe_files import (
    folder,
    listable,
    look,
    parent,
    read_regular,
    replacing,
    resolved,
    status_in,
)
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.storage.folders import write_private
from kogniterm.text.file_text import changed, unified
from kogniterm.text.session_ids import SessionId

Kind = Literal["file", "folder", "link", "absent"]
MAX_ENTRIES = 5_000

UNDO_OF = "undo of: "
"""The beginning of the stored description of what an undo replaced."""


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """One path as it was: `digest` names the kept content, or the target of a link.

    `owner` and `group` are -1 where they were not noted.
    """

    path: str
    kind: Kind
    mode: int = 0
    digest: str = ""
    size: int = 0
    owner: int = -1
    group: int = -1


def below(path: Path, room: int) -> tuple[list[FileSnapshot] | None, list[str]]:
    """Return `path` and all below it as they are, and the paths that may not be read.

    None, and nothing, when it is more than `room` bytes or `MAX_ENTRIES` paths.
    """
    entries: list[FileSnapshot] = []
    unreadable: list[str] = []
    size = 0
    for item in _walk(path, unreadable):
        try:
            entry = look_at(item)
            closed = entry is not None and entry.kind == "file" and not _may_read(item)
        except (OSError, ValueError):  # of a name that no file can have
            entry, closed = None, True
        if closed:
            unreadable.append(str(item))
        if entry is None or closed:
            continue
        size += entry.size
        if size > room or len(entries) >= MAX_ENTRIES:
            return None, []
        entries.append(entry)
    return entries, unreadable


def _walk(path: Path, unreadable: list[str]) -> Iterator[Path]:
    """Yield `path` and all below it; folders that cannot be listed are added to `unreadable`."""
    waiting = [path]
    while waiting:
        found = waiting.pop()
        yield found
        try:
            if not stat.S_ISDIR(look(found).st_mode):
                continue
        except (OSError, ValueError):
            continue
        try:
            with listable(found) as listed:
                names = os.listdir(listed)  # noqa: PTH208 - a descriptor
        except OSError:
            unreadable.append(str(found))
            continue
        waiting += [found / name for name in sorted(names, reverse=True)]


def _may_read(path: Path) -> bool:
    with parent(path) as (descriptor, name):
        return os.access(
            name, os.R_OK, dir_fd=descriptor, effective_ids=True, follow_symlinks=False
        )


def look_at(path: Path) -> FileSnapshot | None:
    """Return `path` as it is now; None for sockets, devices and pipes, which cannot be kept.

    Raises `OSError` where that may not be known, and `ValueError` for no possible name.
    """
    try:
        with parent(path) as (descriptor, name):
            info = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            entry = FileSnapshot(
                str(path), "file", stat.S_IMODE(info.st_mode), owner=info.st_uid, group=info.st_gid
            )
            if stat.S_ISLNK(info.st_mode):
                target = os.readlink(name, dir_fd=descriptor)
                return replace(entry, kind="link", digest=target)
    except (FileNotFoundError, NotADirectoryError):
        return FileSnapshot(str(path), "absent")
    if stat.S_ISDIR(info.st_mode):
        return replace(entry, kind="folder")
    if stat.S_ISREG(info.st_mode):
        return replace(entry, size=info.st_size)
    return None


def digest_of(path: Path) -> str:
    """Return the digest of a file as it is now; empty when it may not be read."""
    try:
        return hashlib.sha256(read_regular(path)).hexdigest()
    except OSError:
        return ""


def set_mode(entry: FileSnapshot) -> None:
    """Give a folder the mode it had. Raises `OSError`."""
    with folder(Path(entry.path)) as descriptor:
        _set_mode(descriptor, entry.mode)


def _set_mode(descriptor: int, mode: int) -> None:
    """Change the mode of what was opened by its path only, for which there is no `fchmod`."""
    os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101 - a descriptor's own name


def put_back(entry: FileSnapshot, kept: Path) -> None:
    """Make a path again what it was; `kept` is the content of a file. Raises `OSError`.

    A folder can be written afterwards, for what lies in it; `set_mode` ends that.
    """
    path = Path(entry.path)
    with parent(path, make=True) as (descriptor, name):
        there = status_in(descriptor, name)
        if entry.kind == "folder":
            if there is not None and not stat.S_ISDIR(there.st_mode):
                os.unlink(name, dir_fd=descriptor)
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
        else:
            if there is not None and stat.S_ISDIR(there.st_mode):
                shutil.rmtree(name, dir_fd=descriptor)
            _put_file_back(descriptor, name, entry, kept)
    if entry.kind == "folder":
        with folder(path) as descriptor:
            _set_mode(descriptor, entry.mode | 0o700)
            _give(descriptor, ".", entry)


def _put_file_back(descriptor: int, name: str, entry: FileSnapshot, kept: Path) -> None:
    try:
        _put_beside(descriptor, name, entry, kept)
    except PermissionError:
        # The folder may not be written; the file itself, if it is still there, may be.
        there = status_in(descriptor, name)
        if entry.kind == "link" or there is None or not stat.S_ISREG(there.st_mode):
            raise
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=descriptor), "wb") as file:
            file.write(kept.read_bytes())
            file.truncate()
            os.fchmod(file.fileno(), entry.mode)


def _put_beside(descriptor: int, name: str, entry: FileSnapshot, kept: Path) -> None:
    """Put a link, or the file whose content is `kept`, where it was, in one step."""
    with replacing(descriptor, name) as (file, temporary):
        if entry.kind == "link":
            os.unlink(temporary, dir_fd=descriptor)
            os.symlink(entry.digest, temporary, dir_fd=descriptor)
        else:
            with kept.open("rb") as content:
                shutil.copyfileobj(content, file)
        _give(descriptor, temporary, entry)
        if entry.kind == "file":
            os.fchmod(file.fileno(), entry.mode)


def _give(descriptor: int, name: str, entry: FileSnapshot) -> None:
    """Give what is in an open folder back to its owner, if that is permitted."""
    info = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    if entry.owner >= 0 and (info.st_uid, info.st_gid) != (entry.owner, entry.group):
        with contextlib.suppress(PermissionError):
            os.chown(name, entry.owner, entry.group, dir_fd=descriptor, follow_symlinks=False)


def remove(path: Path) -> None:
    """Remove what is at `path`, whatever it is. Raises `OSError`."""
    try:
        with parent(path) as (descriptor, name):
            there = status_in(descriptor, name)
            if there is None:
                return
            if stat.S_ISDIR(there.st_mode):
                shutil.rmtree(name, dir_fd=descriptor)
            else:
                os.unlink(name, dir_fd=descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return  # with a folder above it


Change = Literal["modified", "deleted", "created", "unchanged"]
MAX_TEXT = 512 * 1024
"""The most text that a difference shows."""
MAX_BYTES = 64 * 1024 * 1024
"""The most one pre-image may take; a build folder or a data set is not copied for every command."""


@dataclass(frozen=True, slots=True)
class Preimage:
    """Copies kept for one action. `skipped` are the paths that were too much, or unreadable."""

    id: str
    session: SessionId
    created: float
    what: str
    entries: tuple[FileSnapshot, ...]
    skipped: tuple[str, ...] = ()
    undone: bool = False


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A path that differs from how it was: its bytes, None where they are not compared."""

    path: str
    change: Change
    before: bytes | None = None
    after: bytes | None = None

    @property
    def lines(self) -> tuple[int, int] | None:
        """Return the numbers of added and of removed lines; None where they are not compared."""
        there = {"created": self.after, "deleted": self.before}.get(self.change, self.before)
        if there is None or (self.change == "modified" and self.after is None):
            return None
        return changed(unified("", self.before, self.after))


class PreimageStore:
    """Pre-images in a folder: contents by digest, one manifest an action, newest listed first."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def keep(
        self, session: SessionId, action: str, what: str, paths: Iterable[Path]
    ) -> Preimage | None:
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
                "The files to be changed could not be saved for /undo: {why}.",
                why=why(error),
            ) from error
        return image

    def unkept(self, paths: Iterable[Path]) -> str | None:
        """Return the first path that `keep` would pass over, which then cannot be undone."""
        return next(iter(self._survey(paths)[1]), None)

    def images(self, session: SessionId) -> tuple[Preimage, ...]:
        """Return the pre-images of `session`, the newest first."""
        folder = self._folder / session
        if not folder.is_dir():
            return ()
        images = [_read(file) for file in folder.glob("*.json")]
        return tuple(sorted(images, key=lambda image: image.created, reverse=True))

    def differences(self, image: Preimage) -> tuple[FileDifference, ...]:
        """Return how each path differs from what it was, without those that do not."""
        return tuple(
            difference
            for entry in image.entries
            if (difference := self._difference(entry)).change != "unchanged"
        )

    def change(self, before: FileSnapshot, after: FileSnapshot | None) -> FileDifference:
        """Return how a path differed between two kept moments; None for the second means now."""
        if after is None:
            return self._difference(before)
        texts = self._kept_text(before), self._kept_text(after)
        if (before.kind, before.mode, before.digest) == (after.kind, after.mode, after.digest):
            return FileDifference(before.path, "unchanged")
        if before.kind == "absent":
            return FileDifference(before.path, "created", None, texts[1])
        return FileDifference(
            before.path, "deleted" if after.kind == "absent" else "modified", *texts
        )

    def restore(self, image: Preimage) -> tuple[Preimage | None, tuple[str, ...]]:
        """Put everything back; (pre-image of the state before, which undoes this, paths put back).

        Contents are written beside their place and renamed over it. Raises `StorageError` when
        something could not be put back; everything else was then, and it can be tried again.
        """
        changed = [Path(d.path) for d in self.differences(image)]
        what = UNDO_OF + image.what
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
                "{path} could not be restored: {why}. Other files restored: {count}.",
                path=path,
                why=why(error),
                count=len(restored),
            ) from error
        self._write(replace(image, undone=True))
        return redo, tuple(restored)

    def forget(self, session: SessionId) -> None:
        """Remove the pre-images of a session, and contents nobody needs any more."""
        shutil.rmtree(self._folder / session, ignore_errors=True)
        self._drop_contents()

    def drop(self, names: Callable[[str], bool]) -> int:
        """Remove the pre-images with a path for which `names` holds; returns how many.

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
        """Return what to keep of `paths`, contents still unread, and the paths to pass over."""
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
        if now is not None and (now.kind, now.mode) == (entry.kind, entry.mode):
            digest = digest_of(path) if entry.kind == "file" else now.digest
            if digest == entry.digest:
                return FileDifference(entry.path, "unchanged")
        return FileDifference(entry.path, "modified", self._kept_text(entry), _text(path))

    def _kept_text(self, entry: FileSnapshot) -> bytes | None:
        if entry.kind != "file":
            return None
        return _text((self._folder / "contents").resolve() / entry.digest)

    def _write(self, image: Preimage) -> None:
        # Names need not be UTF-8; what of them is not comes as half characters.
        data = json.dumps(asdict(image), ensure_ascii=False).encode("utf-8", "surrogatepass")
        write_private(self._folder / image.session / f"{image.id}.json", data)


def merged(images: Iterable[Preimage]) -> dict[str, FileSnapshot]:
    """Return each path as it was before the first of `images`, which are given oldest first."""
    found: dict[str, FileSnapshot] = {}
    for image in images:
        # What lies below a path that was not there yet goes with it.
        absent = {path for path, entry in found.items() if entry.kind == "absent"}
        for entry in image.entries:
            if not any(str(folder) in absent for folder in Path(entry.path).parents):
                found.setdefault(entry.path, entry)
    return found


def _read(file: Path) -> Preimage:
    raw = json.loads(file.read_text(encoding="utf-8", errors="surrogatepass"))
    entries = tuple(FileSnapshot(**entry) for entry in raw.pop("entries"))
    return Preimage(**{**raw, "entries": entries, "skipped": tuple(raw["skipped"])})


def _paths(image: Preimage) -> tuple[str, ...]:
    links = (entry.digest for entry in image.entries if entry.kind == "link")
    return (*(entry.path for entry in image.entries), *image.skipped, *links)


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Return `paths` without those that lie below another one, in order.

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
    """Take every step, though others fail; returns the paths done, and the first failure."""
    done: dict[str, None] = {}
    failed: tuple[str, OSError] | None = None
    for entry, step in steps:
        try:
            step(entry)
            done[entry.path] = None
        except OSError as error:
            failed = failed or (entry.path, error)
    return list(done), failed


def _text(path: Path) -> bytes | None:
    """Return the content of a text file in any encoding; None for a binary or a large one."""
    try:
        data = read_regular(path, MAX_TEXT + 1)
    except OSError:
        return None
    return data if len(data) <= MAX_TEXT and b"\0" not in data else None
