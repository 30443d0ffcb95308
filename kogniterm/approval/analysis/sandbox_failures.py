"""Return whether a failed command's output looks as if the sandbox stopped it."""

from __future__ import annotations

import re
from typing import Literal

from kogniterm.lazy_dataclasses import dataclass
from kogniterm.text.visible import cut, render_line
from kogniterm.types import Phrase

Widening = Literal["network", "write", "process"]


@dataclass(frozen=True, slots=True)
class SandboxFailure:
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
        return self._explained(self.text)

    @property
    def refusal(self) -> Phrase:
        """The same at a question, with what the command seems to need."""
        return self._explained(self._need())

    def _explained(self, said: Phrase) -> Phrase:
        if not self.read_only or self.widen != "write":
            return said
        return Phrase(
            "{failure} The sandbox was read-only: the command was expected to only read.",
            {"failure": said},
        )

    def _need(self) -> Phrase:
        values = {"target": cut(render_line(self.target), _LONGEST_TARGET)}
        if self.text.template == _NOT_PERMITTED.template:
            return Phrase("The sandbox may have refused it: no access to {target}.", values)
        if self.widen == "write":
            return Phrase("The sandbox refused it: writes {target}.", values)
        if self.widen == "process":
            return Phrase("The sandbox refused it: needs processes or services of this machine.")
        if self.target:
            return Phrase("The sandbox refused it: needs the network ({target}).", values)
        return Phrase("The sandbox refused it: needs the network.")


_LONGEST_TARGET = 80
_HOST = re.compile(r"(?i)host='([\w.-]+)'|https?://([\w.-]+)|host(?:name)?:? ([\w-]+(?:\.[\w-]+)+)")
_PATH = r"[‘'\"`]?(?P<path>/[^\s'\"’`:]+|(?!\d+:)[\w.~/-]+)[’'\"`]?"
_WITH_NUMBER = r"(?P<path>/[^\s'\"’`:,()]+)[^\n]{0,80}\(\d+: "
_NAMED_AFTER = r"[‘'\"](?P<path>[^'\"’\n]+)"
_NOT_WRITTEN = Phrase("Could not write {path}: the sandbox protects it.")
_NOT_PERMITTED = Phrase("Could not access {path}, possibly because of the sandbox.")
_HERE = r"(localhost|127\.0\.0\.1|::1)\b"
_PROTECTED = "(?:Read-only file system|EROFS|Device or resource busy)"
_CAUSES: tuple[tuple[Widening, Phrase, re.Pattern[str]], ...] = (
    ("network", Phrase("Could not connect to {path}: servers outside the sandbox are not reached."),
     re.compile(
        rf"(?i){_HERE}[^\n]{{0,160}}(?:connection refused|couldn't connect to server)"
        rf"|ECONNREFUSED {_HERE}")),
    ("network", Phrase("Could not reach the network: the sandbox has no network access."),
     re.compile(
        r"(?i)could not resolve host(?:name)?:? ?([\w.-]*)|temporary failure in name resolution"
        r"|temporary failure resolving '([\w.-]+)'"
        r"|network is unreachable|name or service not known|failed to establish a new connection"
        r"|getaddrinfo (?:enotfound|eai_again) ?([\w.-]*)|no route to host|could not connect to"
        r" server|connection refused|ECONNREFUSED|connect: cannot assign requested address"
        r"|unable to access '([^']+)'|ENETUNREACH"
        r"|\(from versions: none\)")),
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
    ("write", _NOT_WRITTEN, re.compile(rf"\[Errno \d+\] {_PROTECTED}: {_NAMED_AFTER}")),
    ("write", _NOT_WRITTEN, re.compile(rf"{_PATH}: {_PROTECTED}")),
    ("write", _NOT_WRITTEN, re.compile(rf"{_WITH_NUMBER}{_PROTECTED}")),
    ("write", _NOT_WRITTEN, re.compile(
        rf"(?:{_PATH}[^\n]{{0,80}}?:\s*)?(?:{_PROTECTED}|read-only file system)")),
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
        r"\[Errno 1\] Operation not permitted(?!: )|\bEPERM\b")),
)  # fmt: skip
"""Patterns of refusals, the most certain first, with the path or host that they name."""


_ADDRESS = re.compile(r"(?i)\b(?:https?|ftp|git|ssh)://(?:[^\s/@'\"]+@)?([\w.-]+)")
_INDEXES = (
    (re.compile(r"\b(?:pip3?|pipx|uv|poetry)\b"), "pypi.org"),
    (re.compile(r"\b(?:npm|npx|pnpm|yarn)\b"), "registry.npmjs.org"),
    (re.compile(r"\bcargo\b"), "index.crates.io"),
    (re.compile(r"\b(?:gem|bundle)\b"), "rubygems.org"),
)
"""The hosts that programs contact unless their settings name another, which they usually print."""


def _host(output: str, command: str) -> str:
    """Return the host that a command needed: its output names it, else the command itself."""
    for text, pattern in ((output, _HOST), (command, _ADDRESS)):
        if found := pattern.search(text):
            return next(filter(None, found.groups()), "")
    return next((host for program, host in _INDEXES if program.search(command)), "")


def sandbox_failure(output: str, exit_code: int | None, command: str = "") -> SandboxFailure | None:
    """Return the cause when a command's `output` and status look like the sandbox stopped it.

    The `command` tells the host where the output does not.
    """
    if exit_code in {0, None}:
        return None
    for widen, reason, pattern in _CAUSES:
        found = pattern.search(output[-20_000:])
        if found is None or (reason is _NOT_PERMITTED and exit_code == 126):
            continue
        target = next(filter(None, found.groups()), "")
        if widen == "network" and not target:
            target = _host(output[-20_000:], command)
        values = {"path": target or "…"} if "{path}" in reason.template else {}
        return SandboxFailure(widen, target, Phrase(reason.template, values))
    return None
