"""Every failure that KogniTerm reports to the user, and the exit code of the process.

    KognitermError                exit 1   the task could not be done
    ├── UsageError                exit 2   a flag, a task, a folder, an input that cannot be used
    │   └── SettingsError         exit 2   a configuration value that is unknown or wrong
    ├── LoopError                 exit 1   the model went in circles
    ├── RefusedError              exit 3   an action was refused or needed the user
    ├── BudgetError               exit 4   steps, time, tokens, money, commands or bytes ran out
    ├── ModelError                exit 5   the model or its provider failed
    │   ├── ModelAuthError                 the key is wrong or not permitted
    │   │   └── ModelKeyMissingError exit 2 no key is set
    │   ├── ModelNotFoundError             the provider does not know the model
    │   ├── ModelQuotaError                rate limit or quota; may carry `retry_after`
    │   ├── ModelUnavailableError          5xx, refused connection, DNS, cut stream
    │   ├── ModelTimeoutError              the deadline passed
    │   ├── ModelBlockedError              the provider's safety filter stopped it
    │   ├── ModelReplyError                empty, malformed or cut reply
    │   └── ContextOverflowError           the request does not fit the model's window
    ├── StorageError              exit 1   the database or a state file failed
    │   ├── StorageFullError               no space left, or a read-only state folder
    │   ├── StorageLockedError             another process holds the database
    │   │   └── StorageConflictError       another process wrote what was to be written
    │   ├── StorageCorruptError            the file is damaged (it is moved aside, never deleted)
    │   └── OutcomeNotWrittenError         how something ended could not be written
    ├── ExecutionError            exit 1   a command could not be started
    ├── ToolError                 (none)   what the model can correct: it sees a tool error
    │   └── PathChangedError               a path leads elsewhere than when it was judged: refused
    └── TurnInterruptedError      exit 130 the user stopped the turn

A message is one sentence (or two) that says what is wrong and what to do. It is built from a
template and named values so that the user interface can translate it:
`UsageError("Folder {path} does not exist; give an existing one with --cwd.", path=path)`.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kogniterm.types import Phrase

EXIT_DONE = 0
EXIT_NOT_DONE = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_BUDGET = 4
EXIT_MODEL = 5
EXIT_INTERRUPTED = 130


class KognitermError(Exception):
    """Base of the tree; `text` is the translatable message, `exit_code` the process status."""

    exit_code = EXIT_NOT_DONE
    text: Phrase

    def __init__(self, template: str, **values: object) -> None:
        told = {k: v.text if isinstance(v, KognitermError) else v for k, v in values.items()}
        self.text = Phrase(template, told)
        super().__init__(str(self.text))


class UnusableValueError(ValueError):
    """A value of a file or a reply that cannot be used; `text` is the reason inside a message."""

    def __init__(self, template: str, **values: object) -> None:
        self.text = Phrase(template, values)
        super().__init__(str(self.text))


_SYSTEM: Mapping[int, Phrase] = {
    errno.ENOENT: Phrase("no such file or folder"),
    errno.EACCES: Phrase("permission denied"),
    errno.EPERM: Phrase("operation not permitted"),
    errno.EISDIR: Phrase("it is a folder"),
    errno.ENOTDIR: Phrase("part of its path is not a folder"),
    errno.ENOSPC: Phrase("no space left"),
    errno.EDQUOT: Phrase("disk quota exceeded"),
    errno.EROFS: Phrase("the file system is read-only"),
    errno.ENAMETOOLONG: Phrase("the name is too long"),
    errno.EIO: Phrase("input/output error"),
    errno.ELOOP: Phrase("too many symbolic links"),
    errno.ECONNREFUSED: Phrase("connection refused"),
    errno.EMFILE: Phrase("too many open files (see ulimit -n)"),
    errno.EFBIG: Phrase("the file would be too large (see ulimit -f)"),
    errno.ENOMEM: Phrase("out of memory"),
    errno.EAGAIN: Phrase("resource temporarily unavailable (see ulimit -u)"),
}


def why(error: OSError | UnicodeError) -> Phrase:
    """Return the reason of a system error in plain words.

    An error that is not among the usual ones keeps the system's own (English) words.
    """
    if isinstance(error, UnicodeError):
        return Phrase("it is not UTF-8 text")
    return _SYSTEM.get(error.errno or 0) or Phrase(error.strerror or str(error))


def of_system(error: Exception) -> Phrase | None:
    """Return the message for a failure of the system that nothing else handled.

    None when the failure is one of the program.
    """
    if isinstance(error, MemoryError):
        return Phrase("Not enough memory (see ulimit -v).")
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return Phrase("No more processes or threads can be started (see ulimit -u).")
    if not isinstance(error, OSError) or not error.strerror:
        return None
    if error.filename:
        return Phrase("{file} cannot be used: {why}.", {"file": error.filename, "why": why(error)})
    return Phrase("Reading or writing failed: {why}.", {"why": why(error)})


class UsageError(KognitermError):
    """A request of the user that cannot be used as given."""

    exit_code = EXIT_USAGE


class SettingsError(UsageError):
    """A setting is unknown or has a wrong value; the message names the file and the line."""


Place = tuple[str | int, ...]
"""Keys and positions (from 0) that lead from the root to a value."""


class FileValues(NamedTuple):
    """The values of a file, which messages call `name`, and the lines that are known."""

    name: str | Path | Phrase
    data: Any
    lines: Mapping[Place, int] = {}

    def line(self, place: Sequence[str | int]) -> int:
        """Return the line of the value at `place`, or of the nearest around it."""
        around = (tuple(place[:length]) for length in range(len(place), -1, -1))
        return next((self.lines[near] for near in around if near in self.lines), 1)

    def error(self, place: Sequence[str | int], problem: object) -> SettingsError:
        """Return an error about the value at `place`: file, line and key, then the problem."""
        key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place)
        if key:
            problem = Phrase("{place}: {problem}", {"place": key.lstrip("."), "problem": problem})
        return self.at(place, problem)

    def at(self, place: Sequence[str | int], problem: object) -> SettingsError:
        """Return an error that names file and line of the value at `place`, but no key."""
        if not self.lines:
            return SettingsError("{file}: {problem}.", file=self.name, problem=problem)
        return SettingsError(
            "{file}, line {line}: {problem}.",
            file=self.name, line=self.line(place), problem=problem,
        )  # fmt: skip


class LoopError(KognitermError):
    """The model repeated itself without getting anywhere."""


class RefusedError(KognitermError):
    """An action was refused, or needed the user and nobody was there."""

    exit_code = EXIT_REFUSED


class BudgetError(KognitermError):
    """A budget ran out before the task was done."""

    exit_code = EXIT_BUDGET


class ModelError(KognitermError):
    """The model or its provider failed. `retryable` says whether asking again may help.

    One that `passes` does so in minutes or hours: a limit of the provider, or an outage.
    """

    exit_code = EXIT_MODEL
    retryable = False
    retry_after: float | None = None
    passes = False


class ModelAuthError(ModelError):
    """The key is missing, wrong, or lacks the permission."""


class ModelKeyMissingError(ModelAuthError):
    """No key is set for the provider; nothing was sent."""

    exit_code = EXIT_USAGE


class ModelNotFoundError(ModelError):
    """The provider does not know this model."""


class ModelQuotaError(ModelError):
    """Rate limit or quota reached; `retry_after` holds the provider's request in seconds."""

    retryable = True
    passes = True


class ModelUnavailableError(ModelError):
    """The provider answered 5xx, refused the connection or cut the stream."""

    retryable = True
    passes = True


class ModelTimeoutError(ModelError):
    """No complete reply before the deadline."""


class ModelBlockedError(ModelError):
    """The provider's safety filter stopped the prompt or the reply."""


class ModelReplyError(ModelError):
    """The reply was empty, malformed or cut; the model may do better when asked again."""

    retryable = True


class ContextOverflowError(ModelError):
    """The request does not fit the model's context window."""


class StorageError(KognitermError):
    """The database or a state file could not be read or written."""


class StorageFullError(StorageError):
    """No space is left, or the state folder is read-only."""


class StorageLockedError(StorageError):
    """Another process holds the database longer than the busy time."""


class OutcomeNotWrittenError(StorageError):
    """The outcome of something that ran is not in the journal; the message says where it is kept.

    With `waits` it is kept, and the database may come back at any moment.
    """

    waits = False


class StorageConflictError(StorageLockedError):
    """Another process wrote what was to be written here."""


class StorageLostError(StorageError):
    """The server of a shared database cannot be reached, or the connection to it broke."""


class StorageCorruptError(StorageError):
    """A database file is damaged."""


class ExecutionError(KognitermError):
    """A command could not be started at all."""


class ToolError(KognitermError):
    """A tool call that the model can correct; the text becomes the observation."""


class PathChangedError(ToolError):
    """A path became a link after it was judged, so that using it would reach something else."""


class TurnInterruptedError(KognitermError):
    """The user stopped the turn."""

    exit_code = EXIT_INTERRUPTED
