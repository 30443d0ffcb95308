"""How a shell gets what it reads at its start, and gives back its state at its end.

Outside a sandbox these are files in the executor's private folder, which no sandboxed command can
write. A shell in a sandbox gets no path at all: what it reads is sealed memory (memfd_create(2)) on
descriptors that the supervisor hands down, and its state goes into one more of them, whose size is
fixed. Nothing there can be exchanged for a link, grow without end, or keep the executor waiting: it
is read once, when the shell has ended, whoever still holds the descriptor.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from kogniterm.errors import ExecutionError, why
from kogniterm.execution.shell.restore import Files, capture_trap
from kogniterm.execution.shell.shell_state import decode, quoted

MOST_STATE = 8 << 20
"""Bytes of state that are taken from a sandboxed shell. Larger ones are not carried over."""
_DUMP, _CAPTURE, _ENTER, _RESTORE, _FUNCTIONS, _COMMAND = range(90, 96)
"""Descriptors of a sandboxed shell: above those that scripts choose and bash keeps for itself."""
_NUMBERS = {"enter": _ENTER, "restore": _RESTORE, "functions": _FUNCTIONS, "command": _COMMAND}
_PER_COMMAND = ("left", *_NUMBERS)


class StoredFiles:
    """Files in `folder`, the executor's private one; `number` counts commands."""

    def __init__(self, folder: Path, statuses: Path, number: int) -> None:
        self._folder, self._number = folder, number
        path = os.fsencode(folder)
        self.names = Files(
            capture=path + b"/capture",
            restore=b"%s/restore-%d" % (path, number),
            functions=b"%s/functions-%d" % (path, number),
            dump=b">|" + quoted(b"%s/left-%d" % (path, number)),
            statuses=os.fsencode(statuses),
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

    def left(self) -> bytes | None:
        """Return what the shell left; None when it left nothing."""
        with contextlib.suppress(OSError):
            return (self._folder / f"left-{self._number}").read_bytes()
        return None

    def traces(self) -> dict[str, str]:
        """Return what bash may print of these files, and what is to be read instead."""
        return _traces(self.names, f"{self._folder}/command-{self._number}")

    def tidy(self) -> None:
        """Remove the files."""
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
            self._fds[_DUMP] = dump = os.memfd_create("state", os.MFD_ALLOW_SEALING)
            os.ftruncate(dump, MOST_STATE)  # takes no memory before it is written
            _seal(dump, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
            self._put(_CAPTURE, capture)
        except OSError as error:
            self.close()
            raise _no_memory(error) from error

    @property
    def descriptors(self) -> Mapping[int, int]:
        """What the shell is to have open: its numbers, and the descriptors here."""
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

    def left(self) -> bytes | None:
        """Return what the shell left, as far as it was written in one piece; None for nothing."""
        with contextlib.suppress(OSError):
            written = os.lseek(self._fds[_DUMP], 0, os.SEEK_HOLE)
            return os.pread(self._fds[_DUMP], written, 0) or None
        return None

    def traces(self) -> dict[str, str]:
        """Return what bash may print of these files, and what is to be read instead."""
        enter = {f"{decode(_path(_ENTER))}: line ": "bash: line "}
        return {**_traces(self.names, decode(_path(_COMMAND))), **enter}

    def tidy(self) -> None:
        """Remove nothing: the memory goes with its last holder."""

    def close(self) -> None:
        """Release the descriptors."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()


ShellFiles = StoredFiles | SealedFiles
"""What one command's shell reads and leaves."""


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
