"""Commands on other machines as values: where hosts are listed, what is asked, what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kogniterm.types.localized import Phrase

HostState = Literal["answered", "failed", "unreachable", "unknown", "running", "not_started"]
"""`answered` is exit code 0, `failed` another one or a command that the host could not run.

On an `unreachable` or `not_started` host nothing ran. On an `unknown` one the command may have run:
the connection was lost. On a `running` one it has not ended yet.
"""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The place where hosts are listed, as Ansible reads it.

    `sources` are absolute paths of files or folders, or names separated by commas (`web1,web2`).
    `folder` is where Ansible works: its `ansible.cfg` counts, and relative names start there.
    `vault_files` are the files, or programs, that hold the passwords of vaults.
    """

    sources: tuple[str, ...]
    folder: str
    vault_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostRequest:
    """One command for many hosts. What each of them did stays there under `id` until discarded.

    `groups` are the hosts, whole and in the order in which they are asked, one group after the
    other. `timeout` is in seconds, for each host. `become` runs the command as Ansible's other
    user, usually root. `id` is made of letters, digits, `-` and `_`. `files` are those that the
    command may change, absolute or below `~/`; what became of them is part of the answers.
    """

    id: str
    command: str
    inventory: Inventory
    groups: tuple[tuple[str, ...], ...]
    timeout: int = 600
    become: bool = False
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id.replace("-", "").replace("_", "").isalnum() or not self.id.isascii():
            raise ValueError(f"no ID of a request: {self.id!r}")
        if not self.hosts or len(set(self.hosts)) != len(self.hosts):
            raise ValueError("a request has at least one host, and each of them once")
        if self.timeout < 1:
            raise ValueError("timeout")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return all hosts, in the order in which they are asked."""
        return tuple(host for group in self.groups for host in group)


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


@dataclass(frozen=True, slots=True)
class HostSecrets:
    """Passwords of the user, typed at a private question; they are never written to a file."""

    become: str = field(default="", repr=False)
    vault: str = field(default="", repr=False)
