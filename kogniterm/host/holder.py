"""The process that holds something: a session, a task, a lock.

It is identified by machine, boot and process, so that a reused process number is no other's.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from kogniterm.host.processes import start_of, this_boot


@dataclass(frozen=True, slots=True)
class Holder:
    """One process on one machine. `boot` names the boot and the process-number space."""

    host: str
    boot: str
    pid: int
    started: str

    @property
    def machine_boot(self) -> str:
        """The boot alone, without the process-number space."""
        return self.boot.partition("/")[0]

    @property
    def lives_here(self) -> bool:
        """True while the process lives, if it is of this process-number space."""
        return start_of(self.pid) == self.started

    def is_gone(self, me: Holder, *, expired: bool) -> bool:
        """Return whether it can no longer write, as far as `me` can tell.

        The same process-number space: ask the system. The same machine after a restart: gone. The
        same boot in another container, or another machine: only when it has been silent.
        """
        if (self.host, self.boot) == (me.host, me.boot):
            return not self.lives_here
        return expired or (self.host == me.host and self.machine_boot != me.machine_boot)


def this_process() -> Holder:
    pid = os.getpid()
    return Holder(socket.gethostname(), this_boot(), pid, start_of(pid) or "unknown")
