"""Going back: what an action overwrites or deletes is kept, and what it left is noted.

Works on files whatever git thinks of them: untracked and ignored ones too. What is too large
or may not be read is not kept, and that is said before the action is approved, not after.

Others work in the same folders. Going back therefore changes only what is still as an action left
it, told by the status of each path, and only where a copy can be kept. Everything else stays.
Folders are removed when they are empty; nothing here removes a folder with what is in it.

Paths are resolved ones, and every step goes through `safe_files`: a command may have put a link
where a folder was, and what is kept or brought back must not lead through it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from kogniterm.errors import StorageError, why
from kogniterm.host.safe_files import (
    birth_time,
    folder,
    listable,
    look,
    parent,
    read_regular,
    resolve_path,
    status_in,
    write_regular,
)
from kogniterm.host.walk import walk_folder
from kogniterm.storage.folders import write_private
from kogniterm.text.file_text import count_changes, unified_diff
from kogniterm.types import Phrase

Kind = Literal["file", "folder", "link", "other", "absent"]
MAX_ENTRIES = 5_000
TICK = 0.01
"""Seconds within which a file system may give two changes the same time."""
_CHANGED = str(Phrase("changed meanwhile"))

UNDO_OF = "undo of: "
"""The beginning of the stored description of what an undo replaced."""


class FileSnapshot(NamedTuple):
    """One path as it was: `digest` names the kept content, or the target of a link.

    Of kind "other" is what cannot be copied: sockets, devices, pipes, unreadable files. `owner` and
    `group` are -1 where they were not noted. `stamp` differs after every change by anybody, of a
    folder only when it is another folder or its mode is; it is empty for no file.
    """

    path: str
    kind: Kind
    mode: int = 0
    digest: str = ""
    size: int = 0
    owner: int = -1
    group: int = -1
    stamp: str = ""


def walk(path: Path, closed: list[str]) -> Iterator[tuple[str, FileSnapshot | None]]:
    """Yield `path` and all below it as they are, folders first; None for what cannot be looked at.

    Folders that cannot be listed are added to `closed`.
    """
    first = None
    with contextlib.suppress(OSError):
        first = look_at(path)
    yield str(path), first
    if first is None or first.kind != "folder":
        return
    for one in walk_folder(path, lambda name, _error: closed.append(str(path / name))):
        inner, entry = str(path / one.path), None
        with contextlib.suppress(OSError):
            entry = _look_in(one.folder, one.found.name, inner)
        yield inner, entry


def look_at(path: Path) -> FileSnapshot:
    """Return `path` as it is now.

    Raises `OSError` where that may not be known.
    """
    try:
        with parent(path) as (descriptor, name):
            return _look_in(descriptor, name, str(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):  # or a name that no file can have
        return FileSnapshot(str(path), "absent")


def _look_in(descriptor: int, name: str, path: str) -> FileSnapshot:
    info = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    kind: Kind = "other"
    target, size = "", info.st_size if stat.S_ISREG(info.st_mode) else 0
    # Not the device, whose number may be another after a restart.
    state = f"{info.st_size} {info.st_mtime_ns} {info.st_ctime_ns}"
    if stat.S_ISDIR(info.st_mode):
        kind, state = "folder", birth_time(name, descriptor)
    elif stat.S_ISLNK(info.st_mode):
        kind, target = "link", os.readlink(name, dir_fd=descriptor)
    elif stat.S_ISREG(info.st_mode) and os.access(
        name, os.R_OK, dir_fd=descriptor, effective_ids=True, follow_symlinks=False
    ):
        kind = "file"
    mode = stat.S_IMODE(info.st_mode)
    stamp = f"{kind} {mode:o} {info.st_ino} {state}"
    return FileSnapshot(path, kind, mode, target, size, info.st_uid, info.st_gid, stamp)


def put_back(entry: FileSnapshot, kept: Path) -> None:
    """Make a path again what it was; `kept` is the content of a file. Raises `OSError`.

    A folder that gives way has to be empty. One that comes back can be written, for what lies in
    it; `set_mode` ends that. A file that another one has replaced is not written into that one,
    which may have other names.
    """
    path, kind = Path(entry.path), entry.kind
    with parent(path) as (descriptor, name):
        there = status_in(descriptor, name)
        if there is not None and stat.S_ISDIR(there.st_mode):
            if kind != "folder":
                os.rmdir(name, dir_fd=descriptor)
        elif there is not None and not (
            kind == "file" and _takes_content(there, entry, birth_time(name, descriptor))
        ):
            os.unlink(name, dir_fd=descriptor)
        if kind == "folder":
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
        elif kind == "link":
            os.symlink(entry.digest, name, dir_fd=descriptor)
        elif kind == "file":
            data = kept.read_bytes()
            try:
                write_regular(path, data, (entry.mode, entry.owner, entry.group))
            except PermissionError:  # to give it to its owner
                write_regular(path, data, (entry.mode, -1, -1))
        if kind in ("folder", "link"):
            with contextlib.suppress(PermissionError):
                os.chown(name, entry.owner, entry.group, dir_fd=descriptor, follow_symlinks=False)
    if kind == "folder":
        set_mode(entry._replace(mode=entry.mode | 0o700))


def _takes_content(there: os.stat_result, entry: FileSnapshot, born: str) -> bool:
    """Return whether the content of `entry` may be written to the file `there`, `born` at a time.

    One with another name has to be the inode that `entry` was, not a later one of its number.
    """
    if not stat.S_ISREG(there.st_mode) or there.st_nlink == 1:
        return stat.S_ISREG(there.st_mode)
    was = entry.stamp.split()
    later = int(born.replace(".", "") or 0) > int(was[-1]) if was else True
    return was[2:3] == [str(there.st_ino)] and not later


def set_mode(entry: FileSnapshot) -> None:
    """Give a folder the mode it had. Raises `OSError`."""
    with folder(Path(entry.path)) as descriptor:
        # It was opened by its path only, for which there is no `fchmod`.
        os.chmod(f"/proc/self/fd/{descriptor}", entry.mode)  # noqa: PTH101 - a descriptor's name


Change = Literal["modified", "deleted", "created"]
MAX_TEXT = 512 * 1024
"""The most text that a difference shows."""
MAX_BYTES = 64 * 1024 * 1024
"""The most one pre-image may take; a build folder or a data set is not copied for every command."""


class Preimage(NamedTuple):
    """Copies kept for one action. `skipped` are the paths that were too much, or unreadable.

    `after` has the stamp of each path that was there when the action had ended; None as long as
    that is not known, as after a crash.
    """

    id: str
    created: float
    what: str
    entries: tuple[FileSnapshot, ...]
    skipped: tuple[str, ...] = ()
    undone: bool = False
    after: Mapping[str, str] | None = None


class FileDifference(NamedTuple):
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
        return count_changes(unified_diff("", self.before, self.after))


class WayBack(NamedTuple):
    """The way back to before `images`, the newest first: what changes, and what stays as it is.

    `steps` are the paths as they are and as they will be. Of `changes`, what goes with a folder is
    not listed; `kept` are paths that changed since or that no action made, what is too large for a
    copy, and what there is no whole copy of any more.
    """

    images: tuple[Preimage, ...]
    changes: tuple[FileDifference, ...] = ()
    kept: tuple[str, ...] = ()
    steps: tuple[tuple[FileSnapshot, FileSnapshot], ...] = ()


class PreimageStore:
    """Pre-images of a session in its folder: contents by digest, one manifest an action."""

    def __init__(
        self, folder: Path, *, max_bytes: int = MAX_BYTES, max_entries: int = MAX_ENTRIES
    ) -> None:
        self._folder = folder
        self.max_bytes = max_bytes
        self.max_entries = max_entries

    def keep(
        self, action: str, what: str, paths: Iterable[Path], widened: Iterable[Path] = ()
    ) -> Preimage | None:
        """Keep every path as it is now; None when there is nothing to keep.

        Where all of `widened` can be kept, it is kept in place of `paths`. Raises `StorageError`
        when the copies cannot be written: then the action must not start believing that it can be
        undone.
        """
        found, skipped = self._survey(widened)
        if skipped or not found:
            found, skipped = self._survey(paths)
        image = Preimage(action, time.time(), what, tuple(found), tuple(skipped))
        return self._save(image) if found or skipped else None

    def _save(self, image: Preimage) -> Preimage:
        """Write a pre-image and the contents of its files; what cannot be read is `skipped`."""
        entries, skipped = [], list(image.skipped)
        with _saving():
            for entry in image.entries:
                try:
                    data = read_regular(Path(entry.path)) if entry.kind == "file" else None
                except OSError:
                    skipped.append(entry.path)
                    continue
                entries.append(entry if data is None else self._with_content(entry, data))
            image = image._replace(entries=tuple(entries), skipped=tuple(skipped))
            self._write(image)
        return image

    def note_left(self, action: str) -> None:
        """Note what the action left, which has ended: only that is removed or replaced later."""
        file = self._folder / f"{action}.json"
        if not file.exists():
            return
        time.sleep(TICK)  # so that every later change has a later time
        with _saving():
            image = _read(file)
            self._write(image._replace(after=self._stamps(image)))

    def left_stamps(self, image: Preimage) -> Mapping[str, str]:
        """Return the stamps of what an action left, as they are now where its end is not known."""
        return self._stamps(image) if image.after is None else image.after

    def unkept(self, paths: Iterable[Path], *, alone: bool = False) -> str | None:
        """Return the first path that `keep` would pass over, which then cannot be undone.

        With `alone` also a file that has a second name (a hard link), which may lie anywhere.
        """
        found, skipped = self._survey(paths)
        files = (entry.path for entry in found if alone and entry.kind == "file")
        shared = (path for path in files if has_second_name(Path(path)))
        return next(iter(skipped), None) or next(shared, None)

    def images(self) -> tuple[Preimage, ...]:
        """Return the pre-images, the newest first."""
        images = [_read(file) for file in self._folder.glob("*.json")]
        return tuple(sorted(images, key=lambda image: image.created, reverse=True))

    def created(self, path: Path) -> bool:
        """Return whether an action made this file, and only actions have changed it since.

        A file that was only moved to its place is older than that action, and was not made by it.
        """
        now = look_at(settle_path(path))
        for image in self.images() if now.kind == "file" else ():
            before = next((entry for entry in image.entries if entry.path == now.path), now)
            if before is now:
                continue
            if (image.after or {}).get(now.path) != now.stamp:
                return False
            if before.kind == "absent":
                return float(birth_time(now.path) or 0) + TICK >= image.created
            now = before
        return False

    def way_back(self, images: Iterable[Preimage], *, everything: bool = False) -> WayBack:
        """Return the way back to before `images`, which are given newest first.

        With `everything` it also takes back what is not known to be an action's own, except what is
        too large for a copy.
        """
        way = _Way(self, everything=everything)
        images = tuple(images)
        for image in images:
            way.goal |= {path: FileSnapshot(path, "absent") for path in self.left_stamps(image)}
            way.goal |= {entry.path: entry for entry in image.entries}
        for image in images:
            way.then |= way.possible(way.steps(image), image)
        while way.keep_more():
            pass
        steps = tuple((way.now[path], then) for path, then in way.differing())
        return WayBack(
            images, tuple(way.changes(way.foreign)), tuple(group_by_top(way.kept)), steps
        )

    def changes(self, groups: Iterable[Iterable[Preimage]]) -> list[tuple[FileDifference, ...]]:
        """Return how the files changed with each group of images and since; newest groups first.

        A change is one to the next group, or to now, whoever made it.
        """
        way, found = _Way(self, everything=True), []
        for group in groups:
            way.now = way.now | way.then
            way.then.clear()
            for image in group:
                way.then |= way.steps(image)
            found.append(tuple(way.changes(())))
        return found

    def restore(self, way: WayBack, what: str = "") -> tuple[str, ...]:
        """Go back; returns the paths of its changes. A pre-image that undoes this is kept first.

        Contents are written beside their place and renamed over it; those of a file that has other
        names, in place. Raises `StorageError` when a copy cannot be written: nothing was changed
        then; or when something could not be put back, also because it changed meanwhile: everything
        else was then, and it can be tried again.
        """
        first, files = way.images[0], tuple(now for now, _ in way.steps)
        name, what = f"undo-{time.time_ns()}", f"{UNDO_OF}{what or first.what}"
        redo = Preimage(name, time.time(), what, files)
        redo = self._save(redo) if files else redo
        folders = [step for step in way.steps if step[1].kind == "folder"]
        gone = [step for step in way.steps if step[1].kind == "absent"]
        others = [step for step in way.steps if step[1].kind in ("file", "link")]
        modes = [(None, then) for _now, then in reversed(folders)]
        failed: list[tuple[str, OSError]] = []
        seen = {now.path: now for now in files}
        # Folders before what lies in them, and their modes, which may forbid to write there, last.
        for now, then in (*folders, *reversed(gone), *others, *modes):
            try:
                if now is None:
                    set_mode(then)
                elif now.path not in redo.skipped and look_at(Path(now.path)) == seen[now.path]:
                    names = _unchanged_names(now, seen)
                    put_back(then, self._folder / "contents" / then.digest)
                    seen |= {one: look_at(Path(one)) for one in names}
                else:
                    raise OSError(errno.ESTALE, _CHANGED)
            except OSError as error:
                failed.append((then.path, error))
        time.sleep(TICK)
        with _saving():
            if files:
                self._write(redo._replace(after=self._stamps(redo, below=False)))
            for image in way.images if not failed else ():
                if not any(_lies_below(path, way.kept) for path in _paths(image)):
                    self._write(image._replace(undone=True))
        for path, reason in failed:
            raise StorageError(
                "{path} could not be restored: {why}. Other files restored: {count}.",
                path=path,
                why=why(reason),
                count=len(files) - len(failed),
            ) from reason
        return tuple(change.path for change in way.changes)

    def drop(self, names: Callable[[str], bool]) -> int:
        """Remove the pre-images with a path for which `names` holds; returns how many.

        Their actions cannot be undone any more.
        """
        files = self._folder.glob("*.json")
        named = [file for file in files if any(map(names, _paths(_read(file))))]
        for file in named:
            file.unlink()
        needed = {
            entry.digest
            for file in self._folder.glob("*.json")
            for entry in _read(file).entries
            if entry.kind == "file"
        }
        for blob in (self._folder / "contents").glob("*") if named else ():
            if blob.name not in needed:
                blob.unlink(missing_ok=True)
        return len(named)

    def _survey(self, paths: Iterable[Path]) -> tuple[list[FileSnapshot], list[str]]:
        """Return the snapshots of `paths`, contents still unread, and the paths to pass over."""
        entries: list[FileSnapshot] = []
        skipped: list[str] = []
        room = self.max_bytes
        for top in group_by_top(str(settle_path(path)) for path in paths):
            found: list[FileSnapshot] = []
            closed: list[str] = []
            left = room
            for item, entry in walk(Path(top), closed):
                if entry is None or entry.kind == "other":
                    closed.append(item)
                    continue
                found.append(entry)
                left -= entry.size
                if left < 0 or len(found) > self.max_entries:
                    found, closed, left = [], [top], room
                    break
            entries, skipped, room = entries + found, skipped + closed, left
        return entries, skipped

    def _stamps(self, image: Preimage, *, below: bool = True) -> dict[str, str]:
        """Return the stamps of the paths of an image, and of what lies `below` them.

        Of a tree with too many entries there are none: it goes back whole or not at all.
        """
        paths = [entry.path for entry in image.entries]
        found: dict[str, str] = {}
        room = 2 * self.max_entries
        for top in group_by_top(paths) if below else paths:
            inside = list(islice(walk(Path(top), []), room + 1 if below else 1))
            if below and len(inside) > room:
                continue
            room -= len(inside)
            found |= {path: one.stamp for path, one in inside if one is not None and one.stamp}
        return found

    def _with_content(self, entry: FileSnapshot, data: bytes) -> FileSnapshot:
        digest = hashlib.sha256(data).hexdigest()
        blob = self._folder / "contents" / digest
        entry = entry._replace(digest=digest, size=len(data))
        if not self.holds(entry):
            write_private(blob, data)
        return entry

    def holds(self, entry: FileSnapshot) -> bool:
        """Return whether what is kept is all there; where a text was forgotten, it is no copy."""
        if entry.kind != "file":
            return True
        kept = (self._folder / "contents").resolve() / entry.digest
        return _digest(FileSnapshot(str(kept), "file")) == entry.digest

    def text(self, entry: FileSnapshot) -> bytes | None:
        """Return a kept file, or one on the disk; None for a binary, or one that is not small."""
        if entry.kind != "file":
            return None
        kept = (self._folder / "contents").resolve() / entry.digest
        try:
            data = read_regular(kept if entry.digest else Path(entry.path), MAX_TEXT + 1)
        except OSError:
            return None
        return data if len(data) <= MAX_TEXT and b"\0" not in data else None

    def _write(self, image: Preimage) -> None:
        # Names need not be UTF-8; what of them is not comes as half characters.
        kept = image._asdict() | {"entries": [entry._asdict() for entry in image.entries]}
        data = json.dumps(kept, ensure_ascii=False).encode("utf-8", "surrogatepass")
        write_private(self._folder / f"{image.id}.json", data)


class _Way:
    """Going back over pre-images, the newest first: each path `now`, and as it will be `then`."""

    def __init__(self, store: PreimageStore, *, everything: bool) -> None:
        self._store = store
        self._everything = everything
        self.now: dict[str, FileSnapshot] = {}
        self.then: dict[str, FileSnapshot] = {}
        self.goal: dict[str, FileSnapshot] = {}
        self.foreign: set[str] = set()
        self.kept: dict[str, None] = {}

    def at(self, path: str) -> FileSnapshot:
        """Return a path as it is once everything newer has been taken back."""
        if path in self.then:
            return self.then[path]
        if path not in self.now:
            try:
                self.now[path] = look_at(Path(path))
            except OSError:  # a link where a folder was, or one that is closed now
                self.now[path] = FileSnapshot(path, "absent")
        return self.now[path]

    def steps(self, image: Preimage) -> dict[str, FileSnapshot]:
        """Return the files that an action changed, as they were: its own, and `foreign` ones."""
        before = {entry.path: entry for entry in image.entries}
        steps: dict[str, FileSnapshot] = {}
        for path in sorted(before.keys() | self._store.left_stamps(image)):
            was, there = before.get(path) or FileSnapshot(path, "absent"), self.at(path)
            if _lies_below(path, image.skipped) or self._same(there, was):
                continue
            own = image.after is not None and there.stamp == image.after.get(path, "")
            # Where something was not saved, a file of another inode may be that, moved.
            known = there.kind == "absent" or there.stamp.split()[2] in was.stamp.split()[2:3]
            own = own and (known or not image.skipped)
            if own or self._everything:
                steps[path] = was
                self.foreign |= set() if own else {path}
            else:
                self.kept[path] = None
        return steps

    def possible(self, steps: dict[str, FileSnapshot], image: Preimage) -> dict[str, FileSnapshot]:
        """Return the steps without those that something stands in the way of, which is kept."""
        known = {entry.path for entry in image.entries} | self._store.left_stamps(image).keys()
        for path in sorted(path for path, was in steps.items() if was.kind != "absent"):
            upper, missing = path.rpartition("/")[0] or "/", []
            while upper not in known and self.at(upper).kind == "absent":
                missing.append(upper)
                upper = upper.rpartition("/")[0] or "/"
            there = (steps.get(upper) or self.at(upper)).kind == "folder"
            if there and self._store.holds(steps[path]):
                steps |= {one: FileSnapshot(one, "folder", 0o755) for one in missing}
            else:
                del steps[path]
                self.kept[path] = None
        ending = [one for one, was in steps.items() if was.kind != "folder" == self.at(one).kind]
        for top in group_by_top(ending) if self._everything else ():
            found = list(islice(walk(Path(top), []), self._store.max_entries + 1))
            for path, _ in found if len(found) <= self._store.max_entries else ():
                if path not in steps and self.at(path).kind != "absent":
                    steps[path] = FileSnapshot(path, "absent")
                    self.foreign.add(path)
        ending = [one for one, was in steps.items() if was.kind != "folder" == self.at(one).kind]
        for path in sorted(ending, reverse=True):
            inside = {one for one in self.then if one.rpartition("/")[0] == path}
            if self.at(path) is self.now.get(path):
                # One that cannot be listed could not be removed either.
                with contextlib.suppress(OSError), listable(Path(path)) as listed:
                    names = os.listdir(listed)  # noqa: PTH208 - a descriptor
                    inside |= {f"{path}/{name}" for name in names}
            others = [one for one in inside if (steps.get(one) or self.at(one)).kind != "absent"]
            if others:
                del steps[path]
                self.kept |= dict.fromkeys(sorted(set(others) - self.then.keys() - steps.keys()))
        return steps

    def keep_more(self) -> bool:
        """Keep what cannot be copied, or is too large for that, each tree whole.

        So is a content whose place before the actions is kept, as of a file that was moved. Returns
        whether anything is.
        """
        lost = {
            was.digest: was.size
            for path, was in self.goal.items()
            if was.kind == "file" and was.size and not self._same(self.at(path), was)
        }
        room, most, before = self._store.max_bytes, self._store.max_entries, len(self.then)
        for top, paths in group_by_top(path for path, _ in self.differing()).items():
            there = [self.now[path] for path in paths if self.now[path].kind != "absent"]
            size = sum(one.size for one in there)
            fixed = any(
                one.kind == "other" or (one.size in lost.values() and _digest(one) in lost)
                for one in there
            )
            if fixed or size > room or len(there) > most:
                self.kept[top] = None
                for path in paths:
                    del self.then[path]
            else:
                room, most = room - size, most - len(there)
        return len(self.then) < before

    def differing(self) -> Iterator[tuple[str, FileSnapshot]]:
        """Yield each path that will be another than now, as it will be; folders first."""
        for path in sorted(self.then):
            if not self._same(self.now[path], self.then[path]):
                yield path, self.then[path]

    def changes(self, listed: Iterable[str]) -> Iterator[FileDifference]:
        """Yield the differences; what goes with its folder only if it is `listed`."""
        ending: set[str] = set()
        for path, then in self.differing():
            now = self.now[path]
            if now.kind == "folder" != then.kind:
                ending.add(path)
            if path.rpartition("/")[0] in ending and path not in listed:
                continue
            change: Change = "modified" if now.kind != "absent" else "deleted"
            change = change if then.kind != "absent" else "created"
            yield FileDifference(path, change, self._store.text(then), self._store.text(now))

    def _same(self, one: FileSnapshot, other: FileSnapshot) -> bool:
        if one.kind == "absent" or (one.stamp and one.stamp == other.stamp):
            return one.kind == other.kind
        if (one.kind, one.mode) != (other.kind, other.mode) or one.kind == "other":
            return False
        return _digest(one) == _digest(other)


def _unchanged_names(now: FileSnapshot, seen: Mapping[str, FileSnapshot]) -> list[str]:
    """Return the names of the file `now` that are as `seen`: a step on it changes their status."""
    if now.kind != "file" or not has_second_name(Path(now.path)):
        return []
    inode = now.stamp.split()[2:3]
    names = [path for path, one in seen.items() if one.stamp.split()[2:3] == inode]
    return [path for path in names if look_at(Path(path)) == seen[path]]


def has_second_name(path: Path) -> bool:
    """Return whether a resolved path is a file with another name (a hard link), also in doubt."""
    try:
        found = look(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def _digest(entry: FileSnapshot) -> str:
    """Return the digest of a file, or a link's target; empty for what may not be read."""
    if entry.digest or entry.kind != "file":
        return entry.digest
    try:
        return hashlib.sha256(read_regular(Path(entry.path))).hexdigest()
    except OSError:
        return ""


def _read(file: Path) -> Preimage:
    raw = json.loads(file.read_text(encoding="utf-8", errors="surrogatepass"))
    raw.pop("session", None)  # of an earlier version
    entries = tuple(FileSnapshot(**entry) for entry in raw.pop("entries"))
    return Preimage(**{**raw, "entries": entries, "skipped": tuple(raw["skipped"])})


def _paths(image: Preimage) -> tuple[str, ...]:
    links = (entry.digest for entry in image.entries if entry.kind == "link")
    return (*(entry.path for entry in image.entries), *image.skipped, *(image.after or ()), *links)


def group_by_top(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return `paths` in order, each with those that lie below an earlier one under that one."""
    groups: dict[str, list[str]] = {}
    top = ""
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        top = top if top and _lies_below(path, (top,)) else path
        groups.setdefault(top, []).append(path)
    return groups


def _lies_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether `path` is one of `folders` or lies below it."""
    return any(path == one or path.startswith(f"{one}/") for one in folders)


def settle_path(path: Path) -> Path:
    """Return `path` with the links above it resolved; a link that is itself named stays one."""
    path = Path(os.path.normpath(path.absolute()))
    try:
        return resolve_path(path.parent) / path.name
    except (OSError, ValueError):  # it is told of when it is looked at
        return path


@contextlib.contextmanager
def _saving() -> Iterator[None]:
    """Report a failure to save copies. Raises `StorageError`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            "The files to be changed could not be saved for /undo: {why}.", why=why(error)
        ) from error
