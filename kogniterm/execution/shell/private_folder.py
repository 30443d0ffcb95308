"""The executor's own folder: what shells read and leave, and a lock that says it is in use.

Commands in a sandbox cannot write it: it is made apart from the folders that they can.

The folder goes with its executor. When that is killed the supervisor removes it, and when both
are killed the next executor does: a folder whose lock nobody holds is nobody's, and so is an empty
one whose process is gone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import tempfile
from pathlib import Path

from kogniterm.errors import ExecutionError, why
from kogniterm.execution.process.processes import process_state
from kogniterm.execution.process.pty import STATUSES
from kogniterm.execution.process.removal import LOCK, remove
from kogniterm.execution.shell import capture
from kogniterm.execution.shell.shell_files import StoredFiles

_PREFIX = "kogniterm-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-")
_CONTENT = ("capture", f"{STATUSES}/never", STATUSES, "tmp", "ask", "answer", "new", LOCK)
"""What is in a folder that was just made, the lock last."""
_OTHERS = ("/var/tmp", "/dev/shm")
"""Where the folder is made when the usual place for temporary files cannot be written."""


class PrivateFolder:
    """Makes the folder, names the files in it. Raises ExecutionError when none can be made.

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
                "No folder for temporary files can be written ({reason}); "
                "make room in {folder} or set TMPDIR to another.",
                reason="" if reason is None else why(reason),
                folder=usual,
            ) from reason
        self.statuses = self.path / STATUSES
        self.temporary = str(self.path / "tmp")
        fds = [self.held]
        try:
            for name in ("ask", "answer"):
                fds.append(_channel(self.path / name))
        except BaseException:
            _unmake(self.path, *fds)
            raise
        self.asked, self.answers = fds[1:]

    def files(self, number: int) -> StoredFiles:
        """The files of command `number`."""
        return StoredFiles(self.path, self.statuses, number)

    def close(self, *, keep: bool) -> None:
        """Release it; remove it unless a job that is kept still needs it."""
        for fd in (self.asked, self.answers, self.held):
            os.close(fd)
        if not keep:
            remove(self.path)


def _places() -> list[str]:
    try:
        return [tempfile.gettempdir(), *_OTHERS]
    except OSError:  # none can be written; the attempt tells why
        return ["/tmp", *_OTHERS]


def _make(place: str) -> tuple[Path, int]:
    """A new folder in `place` with what every command needs, and the descriptor of its lock."""
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
    held = -1
    try:
        # It has its name only once it is locked: a sweep must not find it free.
        held = os.open(path / "new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        (path / "new").rename(path / LOCK)
        (path / "capture").write_bytes(capture.script(os.fsencode(path)))
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


def _channel(path: Path) -> int:
    """A fifo, open at both ends so that neither side ever waits for the other to open it."""
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _sweep(place: str) -> None:
    """Remove folders in `place` whose executor and supervisor were killed.

    A folder without a lock is left alone, for it may be another program's or is just being made,
    unless it is empty and its process is gone: it was left a moment before its end, or its
    beginning.
    """
    with contextlib.suppress(OSError):
        for folder in Path(place).glob(f"{_PREFIX}*-*"):
            with contextlib.suppress(OSError):
                if (folder / LOCK).exists():
                    _remove_if_free(folder / LOCK)
                else:
                    _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    made_by = _NAME.match(folder.name)
    ours = folder.lstat().st_uid == os.geteuid()
    if ours and made_by is not None and process_state(int(made_by[1])) is None:
        folder.rmdir()


def _remove_if_free(lock: Path) -> None:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(lock, flags)
    try:
        ours = os.fstat(fd).st_uid == os.geteuid() == lock.parent.lstat().st_uid
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if ours and not lock.parent.is_symlink():
            remove(lock.parent)
    finally:
        os.close(fd)
