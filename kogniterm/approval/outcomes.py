"""Whether a failed command's output looks as if the sandbox stopped it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kogniterm.types import Text

Widening = Literal["network", "write", "process"]


@dataclass(frozen=True, slots=True)
class SandboxFailure:
    """A failure the sandbox probably caused: what would have to be widened, and why."""

    widen: Widening
    target: str
    text: Text


_PATH = r"[‘'\"`]?(?P<path>/[^\s'\"’`:]+|[\w.~/-]+)[’'\"`]?"
_WRITES = re.compile(
    rf"(?:{_PATH}[^\n]{{0,80}}?:\s*)?(?:Read-only file system|EROFS|read-only file system)"
)
_NAMED_AFTER = r"[‘'\"](?P<path>[^'\"’\n]+)"
_WRITES_AFTER = re.compile(rf"\[Errno 30\] Read-only file system: {_NAMED_AFTER}")
_DENIED_AFTER = re.compile(
    rf"\[Errno 1?3?\] (?:Permission denied|Operation not permitted): {_NAMED_AFTER}"
)
_SERVICES = re.compile(
    r"(?i)(?:\bsocket\b|\.sock\b|\bconnect\w*\b)[^\n]{0,120}"
    r"(?:operation not permitted|permission denied|\bEPERM\b|\bEACCES\b)"
    r"|(?:operation not permitted|permission denied)[^\n]{0,120}\.sock\b"
    r"|cannot connect to the docker daemon|failed to connect to (?:bus|system scope bus|socket)"
    r"|could not open a connection to your authentication agent|error connecting to agent"
    r"|can't open display|cannot open display"
)
_REFUSED = re.compile(r"\[Errno 1\] Operation not permitted(?!: )|\bEPERM\b")
_DENIED = re.compile(rf"{_PATH}[^\n]{{0,80}}?: (?:Permission denied|Operation not permitted)")
_NETWORK = re.compile(
    r"(?i)could not resolve host(?:name)?:? ?(?P<host>[\w.-]*)|temporary failure in name resolution"
    r"|network is unreachable|name or service not known|failed to establish a new connection"
    r"|getaddrinfo (?:enotfound|eai_again) ?(?P<host2>[\w.-]*)|no route to host|could not"
    r" connect to server"
    r"|connection refused|ECONNREFUSED"
    r"|connect: cannot assign requested address|unable to access '(?P<host3>[^']+)'|ENETUNREACH"
)


def sandbox_failure(output: str, exit_code: int | None) -> SandboxFailure | None:
    """Whether a command's `output` and status look like the sandbox stopped it."""
    if exit_code in {0, None}:
        return None
    tail = output[-20_000:]
    network = _NETWORK.search(tail)
    if network is not None:
        host = network["host"] or network["host2"] or network["host3"] or ""
        reason = Text("It could not reach the network, which the sandbox keeps off.")
        return SandboxFailure("network", host, reason)
    if _SERVICES.search(tail) is not None:
        reason = Text(
            "It could not connect to a service of this machine, which the sandbox keeps off."
        )
        return SandboxFailure("process", "", reason)
    write = _WRITES_AFTER.search(tail) or _WRITES.search(tail)
    if write is not None:
        path = write["path"] or ""
        reason = Text(
            "It could not write {path}, which the sandbox protects.", {"path": path or "…"}
        )
        return SandboxFailure("write", path, reason)
    denied = _DENIED_AFTER.search(tail) or _DENIED.search(tail)
    if denied is not None and exit_code != 126:
        path = denied["path"] or ""
        reason = Text(
            "It was not permitted to touch {path}, perhaps by the sandbox.", {"path": path}
        )
        return SandboxFailure("write", path, reason)
    if _REFUSED.search(tail) is not None:
        return SandboxFailure(
            "process", "", Text("An operation was not permitted, perhaps by the sandbox.")
        )
    return None
