"""The state that a command's shell leaves to the next one's, and text as bash reads and prints it.

Carried: folder and folder stack, variables with all attributes, functions, aliases, shell
options, disabled builtins, umask, resource limits, traps, positional parameters, `$?`,
PIPESTATUS, `$_` and the count of SECONDS. Descriptors go another way (`descriptors`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

OPTIONS_ON_AT_START = frozenset({b"braceexpand", b"hashall", b"interactive-comments"})


@dataclass(frozen=True, slots=True)
class EarlierJob:
    """A job of an earlier shell: its number for the user, its processes, its command."""

    number: int
    pids: tuple[int, ...]
    text: bytes
    runs: bool = True


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a shell starts with: only what differs from it has to be restored."""

    shopts: frozenset[bytes]
    limits: bytes


@dataclass(frozen=True, slots=True)
class ShellState:
    """What one command leaves to the next. Values are bash source text, as bash printed it."""

    variables: Mapping[bytes, bytes] = field(default_factory=dict)
    missing: frozenset[bytes] = frozenset()
    """Unset variables that bash would set by itself."""
    functions: Mapping[bytes, bytes] = field(default_factory=dict)
    """Definitions by name, in bash's order; together they are what bash printed."""
    function_flags: Mapping[bytes, bytes] = field(default_factory=dict)
    """Declarations of functions that are exported, traced or read-only."""
    shopts: frozenset[bytes] | None = None
    """The `shopt` options that are on; None before the first command."""
    options: frozenset[bytes] = OPTIONS_ON_AT_START
    """The `set` options that are on."""
    fresh: Fresh | None = None
    aliases: Mapping[bytes, bytes] = field(default_factory=dict)
    disabled: frozenset[bytes] = frozenset()
    """Builtins that are switched off."""
    traps: Mapping[bytes, bytes] = field(default_factory=dict)
    positional: bytes = b""
    folders: tuple[bytes, ...] = ()
    umask: bytes = b""
    limits: bytes = b""
    """Resource limits, as bash prints an array of what the kernel says."""
    status: int = 0
    pipe: tuple[int, ...] = ()
    """PIPESTATUS."""
    clock: float | None = None
    """The moment (`time.monotonic`) at which SECONDS was 0."""
    last_argument: bytes = b""
    cwd: str = "/"
    exit_action: bytes = b""
    """What a user's EXIT trap is to do, waiting for a command that exits."""
    background: int | None = None
    """`$!` of an earlier command."""
    children: tuple[int, ...] = ()
    """Background processes of earlier commands that `wait` may still be asked for."""
    ended: tuple[int, int] | None = None
    """The process `$!` and its exit code, when it ended before the shell did."""
    jobs: tuple[EarlierJob, ...] = ()
    """What `jobs` listed in earlier shells and still runs."""
    gone: bool = False
    """The folder did not exist any more, for a shell in a sandbox."""
    held: bool = False
    """The shell had descriptors of its own that nobody took over."""
    overridden: frozenset[bytes] = frozenset()
    """Names of the overlay that the command set itself."""

    @property
    def function_text(self) -> bytes:
        """All functions, as bash printed them."""
        return b"".join(self.functions.values())

    def without_processes(self) -> ShellState:
        """Return the state without process numbers."""
        return replace(self, background=None, children=(), ended=None, jobs=())

    def without_dump(self, status: int, folder: str) -> ShellState:
        """Return the state after a command that could not write its own."""
        return replace(
            self,
            status=status,
            cwd=folder,
            ended=None,
            gone=False,
            held=False,
            overridden=frozenset(),
        )


def first_state(env: Mapping[str, str], cwd: str, umask: bytes = b"") -> ShellState:
    """The state before the first command: the environment, the folder and the umask."""
    variables = {encode(k): exported(k, v) for k, v in env.items()}
    return ShellState(variables=variables, cwd=cwd, umask=umask)


def encode(text: str) -> bytes:
    """Text to a shell's bytes, undecodable ones too; UnicodeEncodeError for half a character."""
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """The inverse of `encode`."""
    return data.decode("utf-8", "surrogateescape")


def quoted(value: bytes) -> bytes:
    """`value` as one word of bash source."""
    return b"'" + value.replace(b"'", b"'\\''") + b"'"


def exported(name: str, value: str) -> bytes:
    """The declaration of an exported variable."""
    escaped = re.sub(rb'([\\"$`])', rb"\\\1", encode(value))
    return b"declare -x " + encode(name) + b'="' + escaped + b'"\n'
