"""The head file: where every journal stood when it was last written, beside the database.

The chain of a journal proves that nothing in it was changed; it cannot prove that its end, or a
whole session, is still there. So each process notes in a second, append-only file how far each
journal had come. A line is written only when the database has brought what it tells to the disk:
after a crash the file may lag behind the database, and it is never ahead of it. What is removed on
purpose is announced here first.

A line is a JSON object: its number `n`, its time `at`, what happened `what`, and for whom `id`;
with `seq` and `hash` of the record that was reached. The hashes are those of the journals' chains:
the file has none of its own. Lines that a newer one replaces are folded away when the file has
grown (`FOLD_AT`), so its size follows the number of sessions there are.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from kogniterm.storage.drivers import storage_errors
from kogniterm.storage.folders import private_folder, sync_folder, write_all
from kogniterm.storage.stores import without_password, without_secrets

FOLD_AT = 64 * 1024
"""Bytes by which the file may grow before lines that newer ones replace are folded away."""

Checked = TypeVar("Checked")

BEGUN, FOLDED = "begun", "folded"
What = Literal["open", "end", "closed", "coming", "gone", "removed", "odd", "memory"]
"""Events that a line records: a process opened the journal, it reached a record that is on the
disk, it was closed, it will be written whole (an import), it will be removed, it was removed, it
was found changed when it was opened; and for memory, that its ledger will reach an entry."""


@dataclass(frozen=True, slots=True)
class HeadNote:
    """One line to write about the journal `id`, or about the memory of the user `id`.

    For memory, `before` is the entry at which its ledger still may be.
    """

    what: What
    id: str
    seq: int = 0
    hash: str = ""
    created: float | None = None
    records: int | None = None
    before: tuple[int, str] | None = None

    def plain(self) -> dict[str, Any]:
        """Return the fields of the line."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> HeadNote:
        """Return the note that a line holds. Raises `KeyError` or `ValueError`."""
        return cls(
            line["what"],
            str(line["id"]),
            int(line.get("seq", 0)),
            str(line.get("hash", "")),
            line.get("created"),
            line.get("records"),
            None if line.get("before") is None else (int(line["before"][0]), line["before"][1]),
        )


@dataclass(frozen=True, slots=True)
class Known:
    """Knowledge of one journal.

    That is the place reached last, what was announced after that and perhaps not done, and the
    place where it was found changed.
    """

    reached: HeadNote | None = None
    announced: HeadNote | None = None
    odd: HeadNote | None = None

    def after(self, note: HeadNote) -> Known:
        """Return what is known after one more line."""
        if note.what in ("coming", "gone"):
            return Known(self.reached, note, self.odd)
        if note.what == "odd":
            return Known(self.reached, self.announced, note)
        if note.created is None and self.reached is not None:
            note = HeadNote(note.what, note.id, note.seq, note.hash, self.reached.created)
        return Known(note, None, self.odd)

    def notes(self) -> Iterator[HeadNote]:
        """Yield the notes that say the same."""
        for note in (self.reached, self.announced, self.odd):
            if note is not None:
                yield note


@dataclass(frozen=True, slots=True)
class Heads:
    """The content of a head file.

    `last` is the number of the last line, `broken` that of the first one that cannot be read or
    does not follow the one before it; `gone` counts the sessions that were removed on purpose.
    """

    id: str
    last: int
    sessions: Mapping[str, Known] = field(default_factory=dict)
    memory: Mapping[str, HeadNote] = field(default_factory=dict)
    gone: int = 0
    broken: int | None = None

    @property
    def empty(self) -> bool:
        """Return whether it tells of nothing that was ever written."""
        return not self.sessions and not self.memory and not self.gone


class HeadFile:
    """The head file at `path`; safe to append to from several processes and threads at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Heads | None:
        """Return its content; None when it is not there. Raises `StorageError`."""
        with storage_errors(self.path):
            try:
                content = self.path.read_bytes()
            except FileNotFoundError:
                return None
        return _parse_heads(content)

    def begin(self, notes: Sequence[HeadNote], *, replacing: bool = False) -> Heads:
        """Make the file with a new identity, whole or not at all.

        One that is there already is left as it is, unless it is to be replaced.
        """
        with storage_errors(self.path):
            private_folder(self.path.parent)
            size = len(_lines(notes, 0)[0])
            first, last = _line({"what": BEGUN, "id": secrets.token_hex(8), "size": size}, 0)
            temporary = self._written(first + _lines(notes, last)[0])
            try:
                if replacing:
                    temporary.replace(self.path)
                else:
                    with suppress(FileExistsError):
                        os.link(temporary, self.path)
                sync_folder(self.path.parent)
            finally:
                temporary.unlink(missing_ok=True)
        found = self.read()
        if found is None:
            raise FileNotFoundError(self.path)
        return found

    def append(self, notes: Sequence[HeadNote], *, durable: bool) -> int:
        """Write lines and return the number of the last; `durable` waits for the disk.

        Raises `StorageError`, also when the file is not there: a head file that was removed is not
        made anew behind the user's back.
        """
        with storage_errors(self.path), self._locked() as descriptor:
            return self._append(descriptor, notes, durable=durable)

    @contextmanager
    def hold(self) -> Iterator[Callable[[HeadNote, bool], int]]:
        """Yield a function that writes one line, and waits for the disk if told to.

        Others wait meanwhile.

        Raises `StorageError`, also when the file is not there.
        """
        with ExitStack() as stack:
            with storage_errors(self.path):
                descriptor = stack.enter_context(self._locked())

            def write(note: HeadNote, durable: bool) -> int:
                with storage_errors(self.path):
                    return self._append(descriptor, [note], durable=durable)

            yield write

    def _append(self, descriptor: int, notes: Sequence[HeadNote], *, durable: bool) -> int:
        data, last = _lines(notes, _tail(descriptor))
        write_all(descriptor, data)
        if durable:
            os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
        if size > FOLD_AT and size > FOLD_AT + _size_at_first(descriptor):
            last = self._fold(last)
        return last

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open and lock the file, again when it was replaced while waiting."""
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(descriptor), self.path.stat()):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _fold(self, last: int) -> int:
        """Leave out lines that newer ones replace."""
        content = self.path.read_bytes()
        heads = _parse_heads(content)
        if heads.broken is not None:
            return last  # what was changed stays, to be found
        notes = [note for known in heads.sessions.values() for note in known.notes()]
        notes += heads.memory.values()
        size = len(_lines(notes, last)[0])
        first, last = _line(
            {"what": FOLDED, "id": heads.id, "gone": heads.gone, "size": size}, last
        )
        data, last = _lines(notes, last)
        self._written(first + data).replace(self.path)
        sync_folder(self.path.parent)
        return last

    def _written(self, data: bytes) -> Path:
        """Return a new file with `data` beside it, on the disk."""
        path = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return path


def steady(
    file: HeadFile | None,
    check: Callable[[Heads | None], Checked],
    sound: Callable[[Checked], bool],
) -> Checked:
    """Return the result of `check` for a head file that was read before the database.

    Others may be writing: what is not `sound` is looked at again until the head file stood still.
    """
    while True:
        heads = None if file is None else file.read()
        found = check(heads)
        if file is None or heads is None or sound(found):
            return found
        again = file.read()
        if again is None or (again.id, again.last) == (heads.id, heads.last):
            return found


def beside(database: Path) -> Path:
    return database.with_name(database.name + ".heads")


def of_server(folder: Path | None, address: str) -> HeadFile | None:
    """Return this machine's head file for a database server; None without a `folder`."""
    if folder is None:
        return None
    path, earlier = (
        folder / f"server-{hashlib.sha256(named.encode()).hexdigest()[:12]}.heads"
        for named in (without_secrets(address), without_password(address))
    )
    if earlier.exists() and not path.exists():  # of a version whose name told of a password
        with suppress(FileNotFoundError):  # another process was first
            earlier.rename(path)
    return HeadFile(path)


# --- writing ---------------------------------------------------------------------------------


def _lines(notes: Sequence[HeadNote], last: int) -> tuple[bytes, int]:
    parts = []
    for note in notes:
        part, last = _line(note.plain(), last)
        parts.append(part)
    return b"".join(parts), last


def _line(fields: Mapping[str, Any], last: int) -> tuple[bytes, int]:
    whole = {"n": last + 1, "at": time.time(), **fields}
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode() + b"\n", last + 1


def _tail(descriptor: int) -> int:
    """Return the number of the last whole line; what a crash left of another one is cut off."""
    size = os.fstat(descriptor).st_size
    block = 4096
    while True:
        start = max(0, size - block)
        content = os.pread(descriptor, size - start, start)
        end = content.rfind(b"\n")
        before = content.rfind(b"\n", 0, max(end, 0))
        if end >= 0 and (before >= 0 or start == 0):
            break
        if start == 0:
            return 0
        block *= 2
    if start + end + 1 < size:
        os.ftruncate(descriptor, start + end + 1)
    line = content[before + 1 : end + 1]
    try:
        return int(json.loads(line)["n"])
    except (ValueError, KeyError, TypeError):
        return 0


def _size_at_first(descriptor: int) -> int:
    """Return about the size that the file had when it was begun or folded."""
    try:
        first = json.loads(os.pread(descriptor, 4096, 0).split(b"\n", 1)[0])
        return int(first.get("size", 0))
    except (ValueError, AttributeError):
        return 0


# --- reading ---------------------------------------------------------------------------------


def _parse_heads(content: bytes) -> Heads:
    """Return the content of a head file; a last line without its end was never written."""
    identity, gone, last, broken = "", 0, 0, None
    sessions: dict[str, Known] = {}
    memory: dict[str, HeadNote] = {}
    for line in content.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            fields = json.loads(line)
            number = int(fields["n"])
            if fields["what"] in (BEGUN, FOLDED) and not last:
                identity, gone = str(fields["id"]), int(fields.get("gone", 0))
            elif not last or number != last + 1:
                raise ValueError("a line is missing")
            else:
                note = HeadNote.of(fields)
                if note.what == "memory":
                    memory[note.id] = note
                elif note.what == "removed":
                    sessions.pop(note.id, None)
                else:
                    sessions[note.id] = sessions.get(note.id, Known()).after(note)
                gone += note.what == "removed"
        except (ValueError, KeyError, TypeError, AttributeError):
            broken = last + 1
            break
        last = number
    broken = broken if identity else 1
    return Heads(identity, last, sessions, memory, gone, broken)
