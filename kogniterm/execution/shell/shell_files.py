"""Files of the executor and its shells: what a shell reads at its start and leaves at its end.

Outside a sandbox these are files in the executor's private folder, which is made apart from the
folders that sandboxed commands can write. It goes with its executor. When that is killed the
supervisor removes it, and when both are killed the next executor does: a folder whose lock is free
belongs to no executor, nor does an empty one whose process is gone.

A shell in a sandbox gets no path at all: what it reads is sealed memory (memfd_create(2)) on
descriptors that the supervisor hands down, and its state goes into one more of them, whose size is
fixed. Nothing there can be exchanged for a link, grow without end, or keep the executor waiting: it
is read once, when the shell has ended, though others may still hold the descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kogniterm.errors import ExecutionError, why
from kogniterm.execution.process.pty import STATUSES
from kogniterm.execution.process.supervisor import LOCK, remove_folder
from kogniterm.execution.shell import capture
from kogniterm.execution.shell.restore import Files, capture_trap
from kogniterm.execution.shell.shell_state import decode, quote_word
from kogniterm.host.kernel_calls import closing_descriptor
from kogniterm.host.processes import process_state
from kogniterm.storage.folders import try_lock

_PREFIX = "kogniterm-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-")
_CONTENT = ("capture", f"{STATUSES}/never", STATUSES, "tmp", "ask", "answer", "new", LOCK)
"""Content of a folder that was just made, the lock last."""
_OTHERS = ("/var/tmp", "/dev/shm")
"""Places for the folder when the usual one for temporary files cannot be written."""


class PrivateFolder:
    """The executor's folder: made here or not at all (ExecutionError), with what it always holds.

    `workspace` is where sandboxed commands may write. When it holds every place for temporary files
    the first is used, and no sandbox can be (`Sandbox.may_write`).
    """

    def __init__(self, workspace: str | os.PathLike[str] | None = None) -> None:
        places = _places()
        usual = places[0]
        if workspace is not None:
            taken = Path(workspace).resolve()
            places.sort(key=lambda place: Path(place).resolve().is_relative_to(taken))
        _sweep(places[0])
        reason: OSError | None = None
        for place in places:
            try:
                self.path, self.held = _make(place)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise  # room is not what is missing
                reason = reason or error
            else:
                break
        else:
            raise ExecutionError(
                "No folder for temporary files is writable ({reason}). Free "
                "space in {folder}, or set TMPDIR to another folder.",
                reason="" if reason is None else why(reason),
                folder=usual,
            ) from reason
        self.statuses = self.path / STATUSES
        self.temporary = str(self.path / "tmp")
        fds = [self.held]
        try:
            for name in ("ask", "answer"):
                fds.append(os.open(self.path / name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except BaseException:
            _unmake(self.path, *fds)
            raise
        self.asked, self.answers = fds[1:]

    def files(self, number: int) -> StoredFiles:
        """Return the files of command `number`."""
        return StoredFiles(self.path, number)

    def close(self, *, keep: bool) -> None:
        """Release it; remove it unless a job that is kept still needs it."""
        for fd in (self.asked, self.answers, self.held):
            os.close(fd)
        if not keep:
            remove_folder(self.path)


def _places() -> list[str]:
    try:
        return [tempfile.gettempdir(), *_OTHERS]
    except OSError:  # none can be written; the attempt tells why
        return ["/tmp", *_OTHERS]


def _make(place: str) -> tuple[Path, int]:
    """Make a folder in `place` with what every command needs; returns its lock's descriptor too."""
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
    held = -1
    try:
        # It has its name only once it is locked: a sweep must not find it free.
        held = os.open(path / "new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        (path / "new").rename(path / LOCK)
        (path / "capture").write_bytes(capture.capture_file(os.fsencode(path)))
        (path / STATUSES).mkdir()
        (path / "tmp").mkdir(mode=0o700)
        for name in (f"{STATUSES}/never", "ask", "answer"):
            os.mkfifo(path / name, 0o600)
    except BaseException:
        _unmake(path, *([held] if held >= 0 else []))
        raise
    return path, held


def _unmake(path: Path, *fds: int) -> None:
    """Remove a folder that nobody has used yet, without opening anything: there may be no room."""
    for fd in fds:
        os.close(fd)
    for entry in (*(path / name for name in _CONTENT), path):
        with contextlib.suppress(OSError):
            if entry.is_dir():
                entry.rmdir()
            else:
                entry.unlink()


def _sweep(place: str) -> None:
    """Remove folders in `place` whose executor and supervisor were killed.

    A folder without a lock is left alone, for it may be another program's or is just being made,
    unless it is empty and its process is gone: it was left a moment before its end, or its
    beginning.
    """
    with contextlib.suppress(OSError):
        for folder in Path(place).glob(f"{_PREFIX}*-*"):
            with contextlib.suppress(OSError):
                lock = folder / LOCK
                if lock.exists():
                    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
                    with closing_descriptor(os.open(lock, flags)) as fd:
                        owned = os.fstat(fd).st_uid == os.geteuid() == lock.parent.lstat().st_uid
                        if owned and not lock.parent.is_symlink() and try_lock(fd):
                            remove_folder(lock.parent)
                else:
                    made_by = _NAME.match(folder.name)
                    ours = folder.lstat().st_uid == os.geteuid()
                    if ours and made_by is not None and process_state(int(made_by[1])) is None:
                        folder.rmdir()


MOST_STATE = 8 << 20
"""Bytes of state that are taken from a sandboxed shell. Larger ones are not carried over."""
_DUMP, _CAPTURE, _ENTER, _RESTORE, _FUNCTIONS, _COMMAND = range(90, 96)
"""Descriptors of a sandboxed shell: above those that scripts choose and bash keeps for itself."""
_NUMBERS = {"enter": _ENTER, "restore": _RESTORE, "functions": _FUNCTIONS, "command": _COMMAND}
_PER_COMMAND = ("left", *_NUMBERS)


class StoredFiles:
    """Files in `folder`, the executor's private one; `number` counts commands."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._number = folder, number
        path = os.fsencode(folder)
        self.names = Files(
            capture=path + b"/capture",
            restore=b"%s/restore-%d" % (path, number),
            functions=b"%s/functions-%d" % (path, number),
            dump=b">|" + quote_word(b"%s/left-%d" % (path, number)),
            statuses=path + b"/" + STATUSES.encode(),
        )

    def write(self, name: str, data: bytes) -> str:
        """Write the file `name`; returns its path. Raises ExecutionError."""
        path = f"{self._folder}/{name}-{self._number}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            raise ExecutionError(
                "{path} cannot be written: {reason}.",
                path=str(self._folder),
                reason=why(error),
            ) from error
        return path

    def read_left(self) -> bytes | None:
        with contextlib.suppress(OSError):
            return (self._folder / f"left-{self._number}").read_bytes()
        return None

    def traces(self) -> dict[str, str]:
        """Return texts that bash may print of these files, each with its substitute."""
        return _traces(self.names, f"{self._folder}/command-{self._number}")

    def tidy(self) -> None:
        for name in _PER_COMMAND:
            with contextlib.suppress(OSError):
                os.unlink(f"{self._folder}/{name}-{self._number}")  # noqa: PTH108 - once a command

    def close(self) -> None:
        """Release nothing: no file stays open."""


class SealedFiles:
    """Memory on descriptors for a shell in a sandbox; `capture` is its capture file's text."""

    def __init__(self, capture: bytes) -> None:
        self.names = Files(
            capture=_path(_CAPTURE),
            restore=_path(_RESTORE),
            functions=_path(_FUNCTIONS),
            dump=b">&%d" % _DUMP,
            statuses=b"",
        )
        self._fds: dict[int, int] = {}
        try:
            self._fds[_DUMP] = fd = os.memfd_create("state", os.MFD_ALLOW_SEALING)
            os.ftruncate(fd, MOST_STATE)  # takes no memory before it is written
            _seal(fd, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
            self._put(_CAPTURE, capture)
        except OSError as error:
            self.close()
            raise _no_memory(error) from error

    @property
    def descriptors(self) -> Mapping[int, int]:
        """Return the descriptors that the shell gets: their numbers there, and those here."""
        return self._fds

    def write(self, name: str, data: bytes) -> str:
        """Write the file `name`; returns its path for the shell. Raises ExecutionError."""
        number = _NUMBERS[name]
        if number != _COMMAND:
            # The shell has read it whole then, and has no function `exec` yet.
            data = b"\\exec %d<&-; " % number + data
        try:
            self._put(number, data)
        except OSError as error:
            raise _no_memory(error) from error
        return decode(_path(number))

    def _put(self, number: int, data: bytes) -> None:
        self._fds[number] = fd = os.memfd_create("shell", os.MFD_ALLOW_SEALING)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        _seal(fd, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE)

    def read_left(self) -> bytes | None:
        """Return the state that the shell left, as far as it was written in one piece, or None."""
        with contextlib.suppress(OSError):
            written = os.lseek(self._fds[_DUMP], 0, os.SEEK_HOLE)
            return os.pread(self._fds[_DUMP], written, 0) or None
        return None

    def traces(self) -> dict[str, str]:
        """Return texts that bash may print of these files, each with its substitute."""
        enter = {f"{decode(_path(_ENTER))}: line ": "bash: line "}
        return {**_traces(self.names, decode(_path(_COMMAND))), **enter}

    def tidy(self) -> None:
        """Remove nothing: the memory goes with its last holder."""

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()


ShellFiles = StoredFiles | SealedFiles
"""Files that one command's shell reads and leaves."""


def _traces(names: Files, command: str) -> dict[str, str]:
    return {
        # `set -v` makes bash print even the text of a trap.
        decode(capture_trap(names)): "",
        # Complaints name the file that the text came from.
        **{f"{name}: line ": "bash: line " for name in (command, decode(names.functions))},
    }


def _path(number: int) -> bytes:
    return b"/proc/self/fd/%d" % number


def _seal(fd: int, seals: int) -> None:
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals | fcntl.F_SEAL_SEAL)


def _no_memory(error: OSError) -> ExecutionError:
    return ExecutionError("The command could not be started: {reason}.", reason=why(error))
