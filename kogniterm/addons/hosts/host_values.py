"""Commands on other machines as values, and the port that runs them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from kogniterm.types.command_results import HostAnswer


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
class HostSecrets:
    """Passwords of the user, typed at a private question; they are never written to a file."""

    become: str = field(default="", repr=False)
    vault: str = field(default="", repr=False)


class HostRunner(Protocol):
    """Runs one command on many hosts, and reads afterwards what each of them did.

    Every host keeps the outcome of a request below the remote user's home, in a folder named by the
    request's ID, until it is discarded; so `find` knows it after any loss of this process.
    """

    async def resolve(self, inventory: Inventory, limit: str = "") -> tuple[str, ...]:
        """Return the hosts of `inventory` that `limit`, a pattern of Ansible, leaves.

        Raises `UsageError` for an inventory that cannot be read, and where no host is left.
        """

    def run(self, request: HostRequest) -> AsyncIterator[HostAnswer]:
        """Run the command; yield each host's answer as it comes, all of them in the end.

        The groups follow one another. At the first whose answers differ or fail it stops, and the
        hosts of the rest are `not_started`. Closing the iterator, or cancelling its task, ends the
        program that speaks to the hosts, not the commands on them: `stop` does that. Raises
        `ExecutionError` where that program cannot work, `UsageError` for a wrong inventory.
        """

    async def find(
        self, request: HostRequest, hosts: tuple[str, ...] = (), *, wait: int = 0
    ) -> tuple[HostAnswer, ...]:
        """Return what `hosts` (all, where none is named) know about a request that was run.

        A host where the command has not begun is `not_started`, and can no longer begin it. A
        host that cannot be asked is `unknown`. Commands that still run are waited for up to `wait`
        seconds; those that then still run are `running`. Raises as `run` does.
        """

    async def stop(
        self, request: HostRequest, hosts: tuple[str, ...] = ()
    ) -> tuple[HostAnswer, ...]:
        """End the command where it still runs; return what the hosts know, as `find` does."""

    async def discard(self, request: HostRequest, hosts: tuple[str, ...] = ()) -> None:
        """Remove what the hosts keep about a request, once its outcome is recorded here.

        A host that cannot be reached keeps it; nothing is raised for that.
        """
