"""The kinds of sandboxes and what each gives: one table for doctor, the docs and the model's note.

They are tried in this order. Our own namespaces come before bubblewrap's, because what the machine
mounts while those are made appears inside. A kind that gives less is used only where no other
refuses every attempt (`probe`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

SandboxKind = Literal["namespaces", "bubblewrap", "container", "landlock", "none"]


class Gives(NamedTuple):
    """Abilities of commands in a sandbox of one kind, and protections against them.

    `own_network` is a loopback that later commands of the session find servers on; `own_sockets`
    that local sockets (AF_UNIX) connect them (`tmux`); `own_processes` that they see no others;
    `own_terminals` that programs can open more (`script`); `shared_memory` that /dev/shm works
    (process pools); `private_tmp` a /tmp of the session; `hides_names` that secrets cannot even be
    listed; `keeps_files` that what other tools run is read-only; `keeps_modes` that no file outside
    gets another mode, owner or time.
    """

    name: str
    own_network: bool
    own_sockets: bool
    own_processes: bool
    own_terminals: bool
    shared_memory: bool
    private_tmp: bool
    hides_names: bool
    keeps_files: bool
    keeps_modes: bool

    @property
    def namespaces(self) -> bool:
        """Return whether it is built once, of namespaces, and entered by each command."""
        return self.own_network


_ALL = Gives("namespaces", *(True,) * 9)
_NONE = Gives("none", *(False,) * 9)

GIVES: dict[SandboxKind, Gives] = {
    "namespaces": _ALL,
    "bubblewrap": _ALL._replace(name="bubblewrap"),
    "container": _ALL._replace(name="container", own_processes=False),
    "landlock": _NONE._replace(name="Landlock"),
    "none": _NONE,
}
