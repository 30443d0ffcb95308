"""Warm servers in runtime folders of their own, as `kogniterm` starts them after its first use."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tests.support.forge import until

HELLO = "replies: [{text: Hello., repeat: forever}]\n"
KOGNITERM = str(Path(sys.executable).with_name("kogniterm"))
PATIENCE_SECONDS = 120.0
LOGGED_IN = ("sh", "-c", '{ echo $(id -u) >/proc/self/loginuid; } 2>/dev/null; exec "$@"', "sh")
"""Words before a command line that is a login of its own for the kernel's audit, if permitted."""
ANCESTORS = """
p=$$; while [ "$p" -gt 1 ]; do tr "\\0" " " </proc/$p/cmdline; echo
p=$(cut -d" " -f4 /proc/$p/stat); done"""
"""A command that prints the command lines of the processes that it descends from."""


def runtime_folder(parent: Path) -> Path:
    """Make a runtime folder as systemd does for a login."""
    folder = parent / "run"
    folder.mkdir(mode=0o700)
    folder.chmod(0o700)
    return folder


def variables(home: Path, runtime: Path) -> dict[str, str]:
    """Return an environment in which starts are warm once a server runs."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TMPDIR": os.environ["TMPDIR"],
        "LANG": "C.UTF-8",
        "XDG_RUNTIME_DIR": str(runtime),
    }


def inherited(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return this environment with another home, without variables that ask for a plain start."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "HOME": str(home), **more}


@contextmanager
def warm_server(
    home: Path,
    environment: Mapping[str, str],
    folder: Path | None = None,
    prefix: Sequence[str] = (),
) -> Iterator[Path]:
    """Use KogniTerm once, wait for the server that this starts, and yield its socket.

    It is in `folder`, by default that of the login. `prefix` are words before the command line.
    """
    script = home / "hello.yaml"
    script.write_text(HELLO, encoding="utf-8")
    subprocess.run(
        [*prefix, KOGNITERM, "run", "--no-sandbox", "--model", f"scripted:{script}", "hi"],
        env=dict(environment),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    folder = folder or Path(environment["XDG_RUNTIME_DIR"], "kogniterm")
    try:
        yield until_found(folder)
    finally:
        end_servers(folder)


@contextmanager
def quick_server(runtime: Path) -> Iterator[None]:
    """Run the server of `tests.addons.warm.warm_server`, for all tests at terminals."""
    script = Path(__file__).parents[1] / "addons" / "warm" / "warm_server.py"
    folder = runtime / "kogniterm"
    folder.mkdir(mode=0o700)
    server = subprocess.Popen(
        [sys.executable, "-P", str(script), str(folder)],
        env={name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ},
        cwd="/",
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until_found(folder, server)
        yield
    finally:
        end_servers(folder)  # whose process was forked from this one
        server.wait()


def until_found(folder: Path, server: subprocess.Popen[bytes] | None = None) -> Path:
    """Wait for a server in the folder and return its socket; fail at once where it has failed."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end and (server is None or not server.poll()):
        for found in folder.glob("*.sock"):
            if _listens(found):
                return found
        time.sleep(0.02)
    raise TimeoutError(f"no warm server in {folder}")


def _listens(path: Path) -> bool:
    """Return whether a server listens at a socket, whose path may be long."""
    opened = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tried:
            tried.connect(f"/proc/self/fd/{opened}/{path.name}")
    except OSError:
        return False
    finally:
        os.close(opened)
    return True


def server_of(path: Path) -> int:
    """Return the process ID of the server at a socket, which a new one may be writing just now."""
    return _holder_of(path.with_name(path.name.rpartition("-")[0] + ".lock"))


def _holder_of(lock: Path) -> int:
    until(lambda: lock.read_text() != "")
    return int(lock.read_text())


def end_servers(folder: Path) -> None:
    """End the servers in the folder, also one that is just starting."""
    for lock in folder.glob("*.lock"):
        with lock.open() as file:
            while _is_held(file):  # after it has loaded it becomes another process
                end(_holder_of(lock))


def _is_held(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def end(pid: int) -> None:
    """End a server and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while True:
            os.kill(pid, 0)
            time.sleep(0.01)


def sessions(pid: int) -> list[int]:
    """Return the sessions that were forked from a server; none when it is gone."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
