"""Answers of hosts, as records and events hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kogniterm.types.localized import Phrase

HostState = Literal["answered", "failed", "unreachable", "unknown", "running", "not_started"]
"""`answered` is exit code 0, `failed` another one or a command that the host could not run.

On an `unreachable` or `not_started` host nothing ran. On an `unknown` one the command may have run:
the connection was lost. On a `running` one it has not ended yet.
"""


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """The answer of one host.

    `output` holds standard output and standard error in their order, clipped, redacted and without
    escape sequences; `clipped` says that it is not whole. `reason` says why there is no exit code.
    `changes` is a unified diff of the request's files, before and after the command.
    """

    host: str
    state: HostState
    exit_code: int | None = None
    output: str = ""
    reason: Phrase | None = None
    seconds: float = 0.0
    clipped: bool = False
    changes: str = ""


@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """Hosts that gave the same answer. `diff` compares their output with the largest group's."""

    hosts: tuple[str, ...]
    state: HostState
    exit_code: int | None = None
    output: str = ""
    reason: Phrase | None = None
    diff: str = ""
    changes: str = ""
