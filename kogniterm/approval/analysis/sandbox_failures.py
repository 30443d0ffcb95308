"""Return whether a failed command's output looks as if the sandbox stopped it."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from kogniterm.text.shorten import cut
from kogniterm.text.visible import render_line
from kogniterm.types import Phrase

Widening = Literal["network", "write", "process"]


class SandboxFailure(NamedTuple):
    """A failure the sandbox probably caused: the restriction to lift, and the reason.

    `read_only` is whether the sandbox let the command write nothing.
    """

    widen: Widening
    target: str
    text: Phrase
    read_only: bool = False

    @property
    def said(self) -> Phrase:
        """The reason, and why nothing could be written."""
        if not self.read_only or self.widen != "write":
            return self.text
        return Phrase(
            "{failure} The sandbox was read-only: the command was expected to only read.",
            {"failure": self.text},
        )


_LONGEST_TARGET = 80
_HOST = re.compile(r"(?i)host='([\w.-]+)'|https?://([\w.-]+)|host(?:name)?:? ([\w-]+(?:\.[\w-]+)+)")
_PATH = r"[‘'\"`]?(?P<path>/[^\s'\"’`:]+|(?!\d+:)[\w.~/-]+)[’'\"`]?"
_WITH_NUMBER = r"(?P<path>/[^\s'\"’`:,()]+)[^\n]{0,80}\(\d+: "
_NAMED_AFTER = r"[‘'\"](?P<path>[^'\"’\n]+)"
_NOT_WRITTEN = Phrase("Could not write {path}: the sandbox protects it.")
_NOT_PERMITTED = Phrase("Could not access {path}, possibly because of the sandbox.")
_NOT_REACHED = Phrase("Could not reach {path}: the sandbox has no network access.")
_NOT_HERE = Phrase(
    "Could not connect to {path}: nothing listens there in the sandbox, and servers outside it are "
    "not reached."
)
_NOBODY_LISTENS = Phrase(
    "Nothing answered there: services of this machine are not visible in the sandbox."
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HERE = rf"({'|'.join(map(re.escape, _LOOPBACK))})\b"
_PROTECTED = "(?:Read-only file system|EROFS|Device or resource busy)"
_CAUSES: tuple[tuple[Widening, Phrase, re.Pattern[str]], ...] = (
    ("network", _NOT_HERE, re.compile(
        rf"(?i){_HERE}[^\n]{{0,160}}(?:connection refused|couldn't connect to server)"
        rf"|ECONNREFUSED {_HERE}")),
    ("network", Phrase("Could not reach the network: the sandbox has no network access."),
     re.compile(
        r"(?i)could not resolve host(?:name)?:? ?([\w.-]*)|temporary failure in name resolution"
        r"|temporary failure resolving '([\w.-]+)'"
        r"|network is unreachable|name or service not known|failed to establish a new connection"
        r"|getaddrinfo (?:enotfound|eai_again) ?([\w.-]*)|no route to host"
        r"|connect: cannot assign requested address"
        r"|unable to access '([^']+)'|ENETUNREACH"
        r"|\(from versions: none\)")),
    ("process", Phrase("Could not open a new terminal, possibly because of the sandbox."),
     re.compile(
        r"(?i)out of pty devices|openpty failed|pseudo-?terminal: (?:permission|operation not)")),
    ("process", Phrase(
        "Could not make a shared semaphore (process pools), possibly because of the sandbox."
    ), re.compile(r"SemLock\([\s\S]{0,200}(?:Permission denied|Operation not permitted)")),
    ("process", Phrase(
        "Could not connect to a local service: the sandbox blocks such connections."
    ), re.compile(
        r"(?i)(?:\bsocket\b|\.sock\b|\bconnect\w*\b)[^\n]{0,120}"
        r"(?:operation not permitted|permission denied|\bEPERM\b|\bEACCES\b)"
        r"|(?:operation not permitted|permission denied)[^\n]{0,120}\.sock\b"
        r"|cannot connect to the docker daemon"
        r"|failed to connect to (?:bus|system scope bus|socket)"
        r"|could not open a connection to your authentication agent|error connecting to agent"
        r"|can't open display|cannot open display")),
    ("process", _NOBODY_LISTENS, re.compile(
        r"(?i)could not connect to server|connection refused|ECONNREFUSED")),
    ("write", _NOT_WRITTEN, re.compile(rf"\[Errno \d+\] {_PROTECTED}: {_NAMED_AFTER}")),
    ("write", _NOT_WRITTEN, re.compile(rf"{_PATH}: {_PROTECTED}")),
    ("write", _NOT_WRITTEN, re.compile(rf"{_WITH_NUMBER}{_PROTECTED}")),
    ("write", _NOT_WRITTEN, re.compile(
        rf"(?:{_PATH}[^\n]{{0,80}}?:\s*)?(?:{_PROTECTED}|read-only file system)")),
    # Node's answer where a folder with those above it cannot be made on a read-only file system.
    ("write", _NOT_PERMITTED, re.compile(
        r"ENOENT: no such file or directory, mkdir '(?P<path>/[^'\n]+)'")),
    ("write", _NOT_PERMITTED, re.compile(
        rf"\[Errno 1?3?\] (?:Permission denied|Operation not permitted): {_NAMED_AFTER}")),
    ("write", _NOT_PERMITTED, re.compile(
        rf"{_PATH}: (?:Permission denied|Operation not permitted)")),
    ("write", _NOT_PERMITTED, re.compile(
        rf"{_WITH_NUMBER}(?:Permission denied|Operation not permitted)")),
    ("write", _NOT_PERMITTED, re.compile(
        rf"{_PATH}[^\n]{{0,80}}?: (?:Permission denied|Operation not permitted)")),
    ("process", Phrase("An operation was not permitted, possibly because of the sandbox."),
     re.compile(
        r"\[Errno 13?\] (?:Operation not permitted|Permission denied)(?!: )|\bEPERM\b")),
)  # fmt: skip
"""Patterns of refusals, the most certain first, with the path or host that they name."""


_ADDRESS = re.compile(r"(?i)\b(?:https?|ftp|git|ssh)://(?:[^\s/@'\"]+@)?([\w.-]+)")


def sandbox_failure(output: str, exit_code: int | None, command: str = "") -> SandboxFailure | None:
    """Return the cause when a command's `output` and status look like the sandbox stopped it.

    The `command` tells the host where the output does not. With status 0 only messages count that
    the sandbox alone explains.
    """
    if exit_code is None:
        return None
    for widen, reason, pattern in _CAUSES:
        found = pattern.search(output[-20_000:])
        if found is None or (reason is _NOT_PERMITTED and exit_code == 126):
            continue
        target = next(filter(None, found.groups()), "")
        if widen == "network" and not target:  # the output names it, or the command
            for text, address in ((output[-20_000:], _HOST), (command, _ADDRESS)):
                if not target and (named := address.search(text)):
                    target = next(filter(None, named.groups()), "")
        if widen == "network" and target:
            reason = _NOT_HERE if target.lower() in _LOOPBACK else _NOT_REACHED
        certain = (widen == "network" and reason is not _NOT_HERE) or reason is _NOT_WRITTEN
        if exit_code == 0 and not certain:
            continue
        path = cut(render_line(target), _LONGEST_TARGET) or "…"
        values = {"path": path} if "{path}" in reason.template else {}
        return SandboxFailure(widen, target, Phrase(reason.template, values))
    return None
