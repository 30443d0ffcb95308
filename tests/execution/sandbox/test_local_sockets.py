"""Local sockets in a sandbox: those of the session connect, those of the machine never do."""

from __future__ import annotations

import errno
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import SandboxKind
from kogniterm.host.processes import descendants
from tests.support import socket_attacks
from tests.support.executing import BUILT, PATIENCE, outside_tmp, sandbox_round
from tests.support.forge import until
from tests.support.programs import needs

PYTHON = shutil.which("python3") or "python3"
BESIDE = (
    "(while :; do ln -f early-s taken; mv -f taken late-s; ln -f late-s taken; mv -f taken way; "
    "done) >/dev/null 2>&1 &"
)
"""A job that moves socket files about."""


@pytest.fixture
def place() -> Iterator[Path]:
    with outside_tmp() as place:
        for name in ("work", "home", "outside"):
            (place / name).mkdir()
        yield place


@pytest.fixture
def work(place: Path) -> Path:
    return place / "work"


@contextmanager
def session(kind: SandboxKind, work: Path) -> Iterator[CommandExecutor]:
    box = sandbox_round(kind, work, work.parent / "home")
    with open_executor(work, sandbox=box, workspace=work) as shell:
        yield shell


def output(shell: CommandExecutor, program: str) -> str:
    """Return what a Python program prints."""
    program = shlex.quote(program)
    return shell.run(f"{PYTHON} -c {program}", timeout=PATIENCE).text.strip()


# --- the machine's ---


class Machine:
    """Listeners of the machine: in and beside a workspace, in its system folders, and abstract."""

    def __init__(self, place: Path, held: ExitStack) -> None:
        self._place, self._held = place, held
        self.addresses: list[str] = []
        self._listeners: list[socket.socket] = []

    def listen(self, when: str) -> None:
        folders = [self._place / name for name in ("work", "home", "outside")]
        paths = [f"{folder}/{when}-s" for folder in folders]
        name = f"kogniterm-{when}-{os.getpid()}"
        for folder in ("/tmp", "/run", f"/run/user/{os.getuid()}"):
            if os.access(folder, os.W_OK):
                paths.append(f"{folder}/{name}")
                self._held.callback(Path(folder, name).unlink)
        for address in (*paths, f"@{name}", *(f"{path}.datagram" for path in paths[:2])):
            datagram = address.endswith(".datagram")
            kind = socket.SOCK_DGRAM if datagram else socket.SOCK_STREAM
            listener = self._held.enter_context(socket.socket(socket.AF_UNIX, kind))
            listener.bind(address.replace("@", "\0"))
            listener.setblocking(False)
            if not datagram:
                listener.listen(100)
            self._listeners.append(listener)
            self.addresses.append(address)
        relative = os.path.relpath(paths[0], self._place / "work")
        self.addresses += [relative, f"../work/{relative}"]

    def reached(self) -> list[object]:
        """Return the addresses that something from inside has come to."""
        found = []
        for listener in self._listeners:
            with suppress(BlockingIOError):
                listener.accept() if listener.type == socket.SOCK_STREAM else listener.recv(1)
                found.append(listener.getsockname())
        return found


@pytest.fixture
def machine(place: Path) -> Iterator[Machine]:
    with ExitStack() as held:
        yield Machine(place, held)


@pytest.mark.parametrize("position", ["first", "beside", "job"])
@pytest.mark.parametrize("kind", BUILT)
def test_no_socket_of_the_machine_is_reached(
    machine: Machine, work: Path, kind: SandboxKind, position: str
) -> None:
    machine.listen("early")
    shutil.copy(str(socket_attacks.__file__), work / "attacks.py")
    with session(kind, work) as shell:
        if position != "first":
            shell.run("true", timeout=PATIENCE)
            machine.listen("late")
        if position == "beside":
            shell.run(BESIDE, timeout=PATIENCE)
        attack = f"{PYTHON} attacks.py {' '.join(machine.addresses)}"
        placed = f"( {attack} ) & wait $!" if position == "job" else attack
        assert shell.run(placed, timeout=PATIENCE).text.strip() == "done"
    assert machine.reached() == []


def test_a_file_is_not_taken_for_one_of_another_disk_with_the_same_number(work: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    with ExitStack() as held:
        for name in ("outside", "inside"):
            (work / name).mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", "inode64", "none", work / name]
            subprocess.run(mount, check=True)
            held.callback(subprocess.run, ["umount", work / name], check=True)
        listener = held.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(work / "outside" / "s"))
        listener.listen()
        listener.setblocking(False)
        program = (
            "import os, socket; s = socket.socket(socket.AF_UNIX); s.bind('inside/s'); s.listen();"
            "print(*(os.stat(f'{name}/s').st_ino for name in ('outside', 'inside')));"
            "socket.socket(socket.AF_UNIX).connect('inside/s');"
            "print(socket.socket(socket.AF_UNIX).connect_ex('outside/s'))"
        )
        with session("namespaces", work) as shell:
            one, two, error = output(shell, program).split()
        assert (one, error) == (two, str(errno.EACCES))
        with pytest.raises(BlockingIOError):
            listener.accept()


LOADED_TWICE = """
import os, socket, sys
sys.path[:0] = sys.argv[1:]
from kogniterm.execution.sandbox import kernel_rules as k
rules = {"families": [k.AF_UNIX], "foreign": False, "namespaces": True, "processes": 0}
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for turn in range(2):
    k.confine(rules, ours)
    try:
        socket.socket(socket.AF_UNIX)
        print("allowed", len(socket.recv_fds(theirs, 1, 1)[1]))
    except PermissionError:
        print("refused")
"""


def test_they_are_refused_where_another_filter_has_a_broker(work: Path) -> None:
    root = str(Path(socket_attacks.__file__).parents[2])
    with open_executor(work) as shell:
        text = shell.run(f"{PYTHON} -c {shlex.quote(LOADED_TWICE)} {root}", timeout=PATIENCE).text
    assert text.split("\n")[:2] == ["allowed 1", "refused"]


@pytest.mark.parametrize("kind", ["namespaces", "landlock"])
def test_there_are_none_where_the_machines_could_be_reached(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell:
        box = shell.sandbox
        assert box is not None
        for one in (replace(box, network=True), replace(box, own_sockets=False)):
            shell.sandbox = one
            assert not one.local_sockets
            program = "import socket; socket.socket(socket.AF_UNIX)"
            assert "Operation not permitted" in output(shell, program)


@pytest.mark.parametrize("kind", BUILT)
def test_a_command_apart_does_not_reach_those_of_the_session(work: Path, kind: SandboxKind) -> None:
    client = "import socket; socket.socket(socket.AF_UNIX).connect('s'); print('through')"
    with session(kind, work) as shell:
        shell.run(f'{PYTHON} -c "{SERVER}" &', timeout=PATIENCE)
        until((work / "listens").exists)
        assert output(shell, client) == "through"
        box = shell.sandbox
        assert box is not None
        shell.sandbox = box.reading()
        assert "refused" in output(shell, client)
        shell.sandbox = box
        secret = {"TOKEN": "x"}
        client = shlex.quote(client)
        assert "refused" in shell.run(f"{PYTHON} -c {client}", secrets=secret).text


def test_no_filter_of_a_command_answers_for_its_connections(work: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers of x86_64")
    program = """
import ctypes, errno, os, struct
libc = ctypes.CDLL(None, use_errno=True)
code = struct.pack("=HBBI", 6, 0, 0, 0x7FC00000)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("@HxxxxxxP", 1, ctypes.addressof(buffer))
libc.syscall(317, 1, 8, program)
print(errno.errorcode[ctypes.get_errno()])
"""
    with session("namespaces", work) as shell:
        assert output(shell, program) == "EBUSY"


# --- the session's ---

SERVER = (
    "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); "
    "open('listens', 'w');\\nwhile True: s.accept()[0].sendall(b'served')"
).replace("\\n", "\n")
CLIENT = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('{path}'); print(s.recv(9))"


@pytest.mark.parametrize("kind", BUILT)
def test_a_server_of_one_command_is_there_for_the_next(work: Path, kind: SandboxKind) -> None:
    (work / "sub").mkdir()
    (work / "link").symlink_to("sub/../s")
    with session(kind, work) as shell:
        shell.run(f'{PYTHON} -c "{SERVER}" &', timeout=PATIENCE)
        until((work / "listens").exists)
        for path in (f"{work}/s", "s", "sub/../s", "link", f"{work}/link"):
            assert output(shell, CLIENT.format(path=path)) == "b'served'", path
        shell.run("cd sub", timeout=PATIENCE)
        client = CLIENT.format(path="../s")
        assert shell.run(f'{PYTHON} -c "{client}"', timeout=PATIENCE).text.strip() == "b'served'"


KINDS_OF_ADDRESSES = """
import os, socket, tempfile
os.umask(0o077)
folder = tempfile.mkdtemp()
for address in (f"{folder}/s", "\\0name", "", "/dev/shm/s"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as listener, \\
                socket.socket(socket.AF_UNIX, kind) as client:
            listener.bind(address)
            listener.listen()
            client.connect(listener.getsockname())
            peer, _ = listener.accept()
            client.sendall(b"through")
            assert peer.recv(9) == b"through"
            assert int.from_bytes(peer.getsockopt(1, 17, 12)[4:8], "little") == os.getuid()
        if address.startswith("/"):
            os.unlink(address)
print("through")
"""

ERRORS = """
import ctypes, errno, os, socket, tempfile
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(tempfile.mkdtemp())
def error(fd, address, length=None):
    result = libc.connect(fd, address, len(address) if length is None else length)
    return errno.errorcode[ctypes.get_errno()] if result else "none"
def local(path):
    return b"\\1\\0" + path
open("file", "w").close()
bound = socket.socket(socket.AF_UNIX)
bound.bind("bound")
os.symlink("loop", "loop")
fresh = socket.socket(socket.AF_UNIX).detach()
print(error(99, local(b"s")), error(0, local(b"s")), error(fresh, local(b"s")),
      error(fresh, local(b"file")), error(fresh, local(b"bound")), error(fresh, local(b"file/s")),
      error(fresh, local(b"loop")), error(fresh, local(b"x" * 110)), error(fresh, b"", 200),
      error(fresh, b"\\2\\0xxx"), error(fresh, b"\\1\\0"), error(fresh, None, 20),
      error(fresh, ctypes.c_void_p(-20 % 2**64), 20))
bound.listen()
print(error(fresh, local(b"bound")), error(fresh, local(b"bound")))
os.chmod("bound", 0o400)
print(error(socket.socket(socket.AF_UNIX).detach(), local(b"bound")) if os.getuid() else "EACCES")
"""


@pytest.mark.parametrize("kind", BUILT)
def test_every_kind_of_address_connects_and_errors_are_the_kernels(
    work: Path, kind: SandboxKind
) -> None:
    with session(kind, work) as shell:
        assert output(shell, KINDS_OF_ADDRESSES) == "through"
        inside = output(shell, ERRORS)
    with open_executor(work) as outside:
        assert inside == output(outside, ERRORS)


PROGRAMS = {
    "manager": """
import multiprocessing as m
if __name__ == "__main__":
    with m.Manager() as manager:
        shared = manager.dict(a=1)
        print(shared["a"])
""",
    "forkserver": """
import multiprocessing as m
if __name__ == "__main__":
    print(m.get_context("forkserver").Pool(2).map(abs, [-1])[0])
""",
    "asyncio": """
import asyncio
async def serve(reader, writer):
    writer.write(await reader.read(1))
    writer.close()
async def main():
    async with await asyncio.start_unix_server(serve, "s"):
        reader, writer = await asyncio.open_unix_connection("s")
        writer.write(b"1")
        print((await reader.read()).decode())
asyncio.run(main())
""",
    "threads with descriptors of their own": """
import ctypes, os, socket, threading
listener = socket.socket(socket.AF_UNIX)
listener.bind("s")
listener.listen()
def client():
    ctypes.CDLL(None).unshare(0x400)
    own = os.dup2(socket.socket(socket.AF_UNIX).detach(), 200)
    socket.socket(fileno=own).connect("s")
    print(1)
thread = threading.Thread(target=client)
thread.start()
thread.join()
""",
}


@pytest.mark.parametrize("kind", BUILT)
def test_programs_that_need_them_work(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell:
        for name, program in PROGRAMS.items():
            assert output(shell, program) == "1", name
            (work / "s").unlink(missing_ok=True)


@needs("tmux")
@pytest.mark.parametrize("kind", BUILT)
def test_tmux_works_across_commands(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell:
        shell.run("tmux new-session -d; tmux send-keys 'echo $((40+2)); tmux wait-for -S x' Enter")
        shown = shell.run("tmux wait-for x; tmux capture-pane -p", timeout=PATIENCE).text
        assert "42" in shown.split()


NETWORK = """
import errno, os, select, socket, threading
with socket.create_server(("127.0.0.1", 0), backlog=300) as server:
    address = server.getsockname()
    made = []
    def one():
        made.append(socket.create_connection(address))
    threads = [threading.Thread(target=one) for _ in range(200)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    later = socket.socket()
    later.setblocking(False)
    code = later.connect_ex(address)
    select.select([], [later], [])
    print(len(made), errno.errorcode[code], later.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    again = later.connect_ex(address)
    print(errno.errorcode.get(again, again), later.getblocking())
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
    datagram.connect(address)
    datagram.connect(address)
    print(datagram.getpeername() == address)
print(errno.errorcode[socket.socket().connect_ex(address)])
"""


@pytest.mark.parametrize("kind", BUILT)
def test_connections_of_the_network_are_as_outside(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell, open_executor(work) as outside:
        assert output(shell, NETWORK) == output(outside, NETWORK)


# --- what waits, and ends ---

WAITS = """
import os, signal, socket, sys, threading
listener = socket.socket(socket.AF_UNIX)
listener.bind("full")
listener.listen(0)
socket.socket(socket.AF_UNIX).connect("full")
held = [socket.socket(socket.AF_UNIX) for _ in range(30)]
children = []
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
for sock in held:
    pid = os.fork()
    if pid == 0:
        sock.connect("full")
        sys.exit(1)
    children.append(pid)
"""


def _broker() -> int:
    """Return the pid of the broker: the only process of ours that has the name of a first one."""
    supervisors = {state.pid for state in descendants(os.getpid()) if state.parent == os.getpid()}
    found = []
    for state in descendants(os.getpid()):
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{state.pid}/status").read_text().splitlines()
            numbers = next(line for line in lines if line.startswith("NSpid:")).split()
            named = Path(f"/proc/{state.pid}/cmdline").read_bytes().startswith(b"sandbox")
            if state.parent in supervisors and named and len(numbers) == 2:
                found.append(state.pid)
    (broker,) = found
    return broker


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_one_that_waits_holds_up_no_other_and_ends_with_its_caller(work: Path) -> None:
    with session("namespaces", work) as shell:
        (work / "waits.py").write_text(f"{WAITS}\nsignal.pause()")
        shell.run(f"{PYTHON} waits.py >/dev/null 2>&1 &", timeout=PATIENCE)
        broker = _broker()
        until(lambda: _threads(broker) > 30)
        assert output(shell, NETWORK).split()[0] == "200"
        (job,) = shell.jobs()
        shell.stop_job(job.id)
        until(lambda: _threads(broker) == 1)


def test_one_that_waits_is_interrupted_by_a_signal(work: Path) -> None:
    program = (
        f"{WAITS}\nopen('go').read()\nfor pid in children: os.kill(pid, signal.SIGUSR1)\n"
        "ended = {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children}\n"
        "open('new', 'w').write(str(ended))\nos.rename('new', 'ended')"
    )
    os.mkfifo(work / "go")
    with session("namespaces", work) as shell:
        (work / "waits.py").write_text(program)
        shell.run(f"{PYTHON} waits.py >/dev/null 2>&1 &", timeout=PATIENCE)
        broker = _broker()
        until(lambda: _threads(broker) > 30)
        (work / "go").write_text("")
        until((work / "ended").exists)
    assert (work / "ended").read_text() == "{7}"


def test_a_broker_that_was_killed_is_replaced(work: Path) -> None:
    with session("namespaces", work) as shell:
        assert output(shell, PROGRAMS["asyncio"]) == "1"
        with os.fdopen(os.pidfd_open(broker := _broker()), "rb") as end:
            os.kill(broker, signal.SIGKILL)
            select.select([end], [], [])  # until then it may still be taken for one that works
        (work / "s").unlink(missing_ok=True)
        assert output(shell, PROGRAMS["asyncio"]) == "1"


def test_it_ends_with_the_session_and_with_the_supervisor(work: Path) -> None:
    with session("namespaces", work) as shell:
        shell.run("true", timeout=PATIENCE)
        broker = _broker()
    until(lambda: not Path(f"/proc/{broker}").exists())
    with session("namespaces", work) as shell:
        shell.run("true", timeout=PATIENCE)
        broker = _broker()
        parent = Path(f"/proc/{broker}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(parent), signal.SIGKILL)
        until(lambda: not Path(f"/proc/{broker}").exists())
