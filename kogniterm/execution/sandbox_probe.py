"""The kind of sandbox that works here, found by attempts from inside that it must refuse."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from kogniterm.execution.sandbox.confinement import GIVES, Sandbox, SandboxKind
from kogniterm.host.programs import find_program
from kogniterm.host.safe_files import listable
from kogniterm.storage.folders import private_folder
from kogniterm.types import Phrase

WantedKind = SandboxKind | Literal["auto", "off"]
_PATIENCE = 10.0
_SUCCEEDED = {
    "write": Phrase("it allowed a write outside the workspace"),
    "remount": Phrase("it allowed remounting the disk as writable"),
    "secret": Phrase("it did not hide a secret file"),
    "git": Phrase("it did not protect the git configuration"),
    "socket": Phrase("it allowed a connection to a local socket"),
    "network": Phrase("it allowed a network connection"),
    "signal": Phrase("it allowed a signal to a process outside the sandbox"),
    "kernel": Phrase("it allowed a write to /proc/sys"),
}
"""The reason against a kind in which the attempt of this name succeeded."""


class Probe(NamedTuple):
    """The best sandbox that refused every attack, and the reasons against the others.

    `remains` are attempts that this kind cannot refuse with this kernel. `own_sockets` is whether
    local sockets work inside, which needs what the kernel, or a container, may not give.
    """

    kind: SandboxKind
    program: str = ""
    reasons: Mapping[SandboxKind | Literal["off"], Phrase] = {}
    remains: tuple[str, ...] = ()
    own_sockets: bool = False


def probe(scratch: Path, wanted: WantedKind = "auto") -> Probe:
    """Find the best sandbox that works, by attempts from inside that it must refuse.

    `scratch` is a folder of ours outside /tmp (where every sandbox has its own), in which the
    refused writes are tried. Takes some 50 ms a kind, and needs no terminal.
    """
    if wanted == "off":
        return Probe("none", reasons={"off": Phrase("switched off")})
    reasons: dict[SandboxKind | Literal["off"], Phrase] = {}
    private_folder(scratch)
    for kind in GIVES:
        if kind == "none" or wanted not in ("auto", kind):
            continue
        program = find_program("bwrap") if kind == "bubblewrap" else None
        if kind == "bubblewrap" and program is None:
            reasons[kind] = Phrase("bwrap is not installed")
            continue
        remains = _remaining(kind)
        found = _try(Sandbox(kind, "", "", program=program or ""), scratch, remains)
        if not isinstance(found, Phrase):
            return Probe(kind, program or "", reasons, remains, "own_sockets" in found)
        reasons[kind] = found
    return Probe("none", reasons=reasons)


def _remaining(kind: SandboxKind) -> tuple[str, ...]:
    """Return the attempts that a kind cannot refuse with this kernel, and is used all the same."""
    from kogniterm.execution.sandbox import kernel_rules

    if GIVES[kind].keeps_files:
        return ()
    # Landlock knows no exceptions inside a folder; a change of these is shown instead.
    scopes = kernel_rules.available() >= kernel_rules.SCOPES_FROM
    return ("git",) if scopes else ("git", "signal")


def _try(box: Sandbox, scratch: Path, remains: tuple[str, ...]) -> Phrase | list[str]:
    """Return the attempts that succeeded in a sandbox like `box`, or the reason against it."""
    from kogniterm.execution.process.confined_program import run_confined
    from kogniterm.execution.sandbox import attempts

    with tempfile.TemporaryDirectory(prefix="probe-", dir=scratch) as name:
        inside, outside, temporary = Path(name, "in"), Path(name, "out"), Path(name, "tmp")
        for folder in (inside / ".git", outside / ".ssh", temporary):
            folder.mkdir(parents=True)
        (inside / ".git" / "config").touch()
        (outside / ".ssh" / "key").write_text("secret")
        with _listening(outside) as port:
            try:
                began = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19]
                python = [sys.executable, "-I", "-S", attempts.__file__]
                done = run_confined(
                    [*python, str(inside), str(outside), str(port), str(os.getpid()), began],
                    env={},
                    cwd=str(inside),
                    sandbox=replace(box, workspace=str(inside), home=str(outside)),
                    temporary=str(temporary),
                    seconds=_PATIENCE,
                )
            except OSError as error:
                return Phrase("{reason}", {"reason": error})
        succeeded = done.output.decode("utf-8", "replace").split()
        if attempts.DONE not in succeeded or not (inside / "yes").exists():
            complaints = done.complaints.decode("utf-8", "replace").strip().splitlines()
            return Phrase("{reason}", {"reason": complaints[-1]}) if complaints else _NOT_STARTED
        if (outside / "written").exists():
            return _SUCCEEDED["write"]
        wrong = (_SUCCEEDED[s] for s in succeeded if s in _SUCCEEDED and s not in remains)
        return next(wrong, succeeded)


_NOT_STARTED = Phrase("it did not start")


@contextmanager
def _listening(folder: Path) -> Iterator[int]:
    """Listen at a socket in `folder`, and at a port of this machine, which is given."""
    with (
        listable(folder) as place,
        socket.socket(socket.AF_UNIX) as local,
        socket.create_server(("127.0.0.1", 0)) as network,
    ):
        local.bind(f"/proc/self/fd/{place}/s")  # the address of a socket is short
        local.listen()
        yield network.getsockname()[1]
