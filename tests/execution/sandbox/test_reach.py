"""Attacks from inside that the sandboxes must refuse, each through the public interface."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import GIVES, Sandbox, SandboxKind
from kogniterm.execution.sandbox.kernel_rules import ruleset_of
from kogniterm.execution.sandbox.reach import folder_state, is_unchanged, lasting_state
from kogniterm.execution.sandbox_probe import probe
from kogniterm.types import CommandResult
from tests.support.executing import KINDS, outside_tmp, private_folder_of
from tests.support.programs import require_sandbox

PYTHON = shutil.which("python3") or "python3"


@dataclass
class Ground:
    """A home with secrets and two projects, outside of /tmp."""

    kind: SandboxKind
    program: str
    home: Path

    def box(self, workspace: Path, **more: tuple[str, ...]) -> Sandbox:
        box = Sandbox(self.kind, str(workspace), str(self.home), program=self.program)
        return replace(box, **more)

    def run(self, workspace: Path, *commands: str, **more: tuple[str, ...]) -> list[CommandResult]:
        """Return the results of commands in a sandbox around `workspace`."""
        with open_executor(workspace, sandbox=self.box(workspace, **more)) as executor:
            return [executor.run(command, timeout=60) for command in commands]


def ground_at(place: Path, kind: SandboxKind) -> Ground:
    home = place / "home"
    for folder in (".ssh", ".config/kogniterm", "work/sub", "other", "bin"):
        (home / folder).mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("the private key\n")
    for name in (".bashrc", ".profile", ".ssh/authorized_keys", ".netrc", "notes.txt"):
        (home / name).write_text("as it was\n")
    (home / ".config" / "kogniterm" / "policy.toml").write_text("# mine\n")
    found = require_sandbox(kind)
    return Ground(kind, found.program, home)


@pytest.fixture(params=KINDS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with outside_tmp() as place:
        yield ground_at(place, request.param)


@pytest.fixture
def shell(ground: Ground) -> Iterator[CommandExecutor]:
    work = ground.home / "work"
    with open_executor(work, sandbox=ground.box(work)) as executor:
        yield executor


def python(code: str) -> str:
    return f"{PYTHON} -c '{code}'"


# --- a home as workspace --------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["home", "above", "root"])
def test_a_home_is_opened_by_its_entries_only(ground: Ground, where: str) -> None:
    home = ground.home
    workspace = {"home": home, "above": home.parent, "root": Path("/")}[where]
    steering = (".bashrc", ".profile", ".ssh/authorized_keys", ".config/kogniterm/policy.toml")
    new = (".zshrc", ".config/new", ".ssh/config", "new.txt", "bin/git", ".local/bin/ls")
    attacks = [f"echo evil >> {home}/{name}" for name in (*steering, *new)]
    attacks += [f"mv {home}/.bashrc {home}/work/", f"rm -rf {home}/.ssh; rm -f {home}/.profile"]
    attacks += [f"mkdir -p {home}/.local/bin", f"ln -s /bin/true {home}/bin/git"]
    done = ground.run(workspace, f"echo mine > {home}/work/made; echo x >> {home}/notes.txt")
    assert done[0].exit_code == 0
    for attack, result in zip(attacks, ground.run(workspace, *attacks), strict=True):
        assert result.exit_code != 0, attack
    for name in steering:
        assert "evil" not in (home / name).read_text()
    assert not any((home / name).exists() for name in new)
    assert (home / "work" / "made").read_text() == "mine\n"


def test_secrets_below_the_workspace_cannot_be_read(ground: Ground) -> None:
    home = ground.home
    hidden = (str(home / ".config" / "kogniterm"),)
    for workspace in (home, home.parent, home / "work"):
        said = ground.run(
            workspace,
            f"cat {home}/.ssh/id_ed25519 {home}/.netrc {home}/.config/kogniterm/policy.toml",
            f"cp -r {home}/.ssh {home}/work/; grep -r private {home}/work",
            f"ln -s {home}/.ssh/id_ed25519 {home}/work/a; cat {home}/work/a",
            hidden=hidden,
        )
        for result in said:
            assert "the private key" not in result.text
            assert "as it was" not in result.text
            assert "mine" not in result.text


def test_own_folders_below_a_workspace_can_be_neither_changed_nor_replaced(ground: Ground) -> None:
    work = ground.home / "work"
    own = work / "sub" / "own"
    own.mkdir()
    (own / "policy.toml").write_text("# mine\n")
    ground.run(
        work,
        f"echo evil > {own}/policy.toml; echo evil > {own}/new",
        "mv sub moved && mkdir -p sub/own && echo evil > sub/own/policy.toml",
        "rm -rf sub",
        hidden=(str(own),),
        closed=(str(own),),
    )
    assert (own / "policy.toml").read_text() == "# mine\n"
    assert sorted(path.name for path in own.iterdir()) == ["policy.toml"]


# --- sockets, processes, the kernel -------------------------------------------------------------


@pytest.mark.parametrize("place", ["work", "home", "opt"])
def test_sockets_of_the_machine_cannot_be_reached(ground: Ground, place: str) -> None:
    folder = {"work": ground.home / "work", "home": ground.home, "opt": ground.home.parent}[place]
    stream, datagram = folder / "s", folder / "d"
    with (
        socket.socket(socket.AF_UNIX) as one,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as two,
    ):
        one.bind(str(stream))
        one.listen()
        two.bind(str(datagram))
        for listener in (one, two):
            listener.setblocking(False)
        connect = f'import socket; socket.socket(socket.AF_UNIX).connect("{stream}")'
        send = (
            "import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); "
            f'a.sendto(b"x", "{datagram}")'
        )
        for result in ground.run(ground.home / "work", python(connect), python(send)):
            assert result.exit_code != 0
        for listener in (one, two):
            with pytest.raises(BlockingIOError):
                listener.recv(1) if listener is two else listener.accept()


def test_pairs_of_sockets_work(shell: CommandExecutor) -> None:
    code = (
        "import socket; a, b = socket.socketpair();"
        ' a.sendall(b"through"); print(b.recv(9).decode())'
    )
    assert shell.run(python(code)).text.strip() == "through"


@pytest.mark.parametrize(
    "code",
    [
        "socket.socket(socket.AF_VSOCK)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "socket.socket(38, socket.SOCK_SEQPACKET)",
        "call(425, 4, ctypes.create_string_buffer(120))",
        "call(250, 0, -3, 0)",
        "call(321, 0, 0, 0)",
        "call(323, 0)",
        "call(0x40000000 + 39)",
    ],
)
def test_calls_that_lead_round_the_sandbox_are_refused(shell: CommandExecutor, code: str) -> None:
    if os.uname().machine != "x86_64" and "call(" in code:
        pytest.skip("these are the numbers of x86_64")
    program = f"""
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    if libc.syscall(*words) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
try:
    {code}
except PermissionError as error:
    print("refused")
"""
    path = Path(shell.cwd) / "program.py"
    path.write_text(program)
    assert shell.run(f"{PYTHON} program.py").text.strip() == "refused"


def test_input_cannot_be_pushed_into_a_terminal(shell: CommandExecutor) -> None:
    code = 'import fcntl; fcntl.ioctl(0, 0x5412, b"x")'
    assert "not permitted" in shell.run(python(code)).text


def test_processes_outside_get_no_signal(ground: Ground) -> None:
    found = probe(ground.home / ".config" / "probe", ground.kind)
    if "signal" in found.remains:
        pytest.skip("this kernel's Landlock cannot scope signals (Linux 6.12)")
    with subprocess.Popen(["sleep", "1000"]) as victim:
        pid = victim.pid
        code = f"import os, signal; os.kill({pid}, signal.SIGSTOP)"
        ground.run(ground.home / "work", f"kill -9 {pid}; kill -STOP {pid}", python(code))
        assert victim.poll() is None
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        victim.kill()
    assert state != "T"


def test_abstract_sockets_cannot_be_reached_with_the_network(ground: Ground) -> None:
    work, name = ground.home / "work", f"kogniterm-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        code = f'import socket; socket.socket(socket.AF_UNIX).connect("\\0{name}")'
        box = replace(ground.box(work), network=True)
        with open_executor(work, sandbox=box) as executor:
            assert executor.run(python(code)).exit_code != 0


def test_the_kernel_cannot_be_steered(shell: CommandExecutor) -> None:
    code = 'import os; os.open("/proc/sys/vm/swappiness", os.O_WRONLY)'
    assert shell.run(python(code)).exit_code != 0
    code = 'import os; os.open("/proc/sysrq-trigger", os.O_WRONLY)'
    assert shell.run(python(code)).exit_code != 0


def test_root_has_no_privileges(shell: CommandExecutor) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has privileges to lose")
    said = shell.run("grep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status; mknod d b 8 0").text
    assert [line.split()[1] for line in said.splitlines() if line.startswith("Cap")] == [
        "0" * 16
    ] * 3
    assert not (Path(shell.cwd) / "d").exists()


def test_other_terminals_are_closed(ground: Ground) -> None:
    pairs = [os.openpty() for _ in range(9)]  # the last number is not that of one inside
    master, slave = pairs[-1]
    try:
        other = os.ttyname(slave)
        work = ground.home / "work"
        results = ground.run(work, f"echo stolen > {other}", f"head -c 1 < {other}")
        assert [result.exit_code != 0 for result in results] == [True, True]
        os.set_blocking(master, False)
        with pytest.raises(BlockingIOError):
            os.read(master, 10)
    finally:
        for fd in (fd for pair in pairs for fd in pair):
            os.close(fd)


def test_the_own_terminal_can_be_opened_by_its_name(shell: CommandExecutor) -> None:
    assert shell.run('echo said > "$(tty)"; echo too > /dev/tty').text.split() == ["said", "too"]


def test_devices_that_show_what_the_machine_holds_are_closed(shell: CommandExecutor) -> None:
    disks = [str(path) for path in Path("/dev").glob("[lsv][od][ao]*")]
    for device in (*disks, "/dev/kmsg", "/dev/mem", "/dev/tty0"):
        assert shell.run(f"head -c 1 < {device}").exit_code != 0, device
    assert (
        shell.run("head -c 1 /dev/urandom > /dev/null && echo it > /dev/stdout").text.strip()
        == "it"
    )


# --- files that come and go -----------------------------------------------------------------------


def test_files_of_a_home_are_seen_as_they_are_at_each_command(
    shell: CommandExecutor, ground: Ground
) -> None:
    notes, netrc = ground.home / "notes.txt", ground.home / ".netrc"
    assert shell.run(f"cat {notes}").text.strip() == "as it was"
    (ground.home / "draft").write_text("replaced\n")
    (ground.home / "draft").replace(notes)
    assert shell.run(f"cat {notes}").text.strip() == "replaced"
    notes.replace(netrc)
    assert "replaced" not in shell.run(f"cat {netrc}").text


def test_a_folder_counts_as_unchanged_only_when_its_clock_could_show_a_change(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(place)
    just_now = folder_state(path)[0]
    monkeypatch.setattr(time, "time_ns", lambda: just_now)
    assert not is_unchanged(path, lasting_state(path))
    monkeypatch.setattr(time, "time_ns", lambda: just_now + 10**10)
    known = lasting_state(path)
    assert is_unchanged(path, known)
    (place / "new").touch()
    os.utime(place, ns=(0, 0))
    assert not is_unchanged(path, known)
    assert lasting_state("/proc") == ()  # dates no changes


@pytest.mark.parametrize("name", ["write", "show", "private"])
def test_a_folder_that_replaces_one_that_is_open_has_rules_of_its_own(
    place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_sandbox("landlock")
    monkeypatch.setattr(time, "time_ns", lambda: 1 << 62)  # long after all changes
    folders = {one: place / one for one in ("write", "show", "private")}
    for folder in folders.values():
        folder.mkdir()
    rules = {one: [str(folder)] for one, folder in folders.items()} | {"close": [], "hide": []}
    told = {**rules, "namespaces": False, "home": str(place / "home")}
    first = ruleset_of(told)
    assert ruleset_of(told) == first
    folders[name].rename(place / "old")
    folders[name].mkdir()
    assert ruleset_of(told) != first


# --- temporary files ----------------------------------------------------------------------------


def test_temporary_files_last_for_the_session(shell: CommandExecutor) -> None:
    temporary = "${TMPDIR:-/tmp}"
    name = f"notes-{os.getpid()}"
    assert shell.run(f"echo kept > {temporary}/{name}").exit_code == 0
    assert shell.run(f"cat {temporary}/{name}").text.strip() == "kept"
    assert not Path("/tmp", name).exists()


def test_files_of_other_sessions_cannot_be_read(ground: Ground) -> None:
    with open_executor(ground.home / "work") as other:
        folder = private_folder_of(other)
        (folder / "left").write_text("hidden-value")
        for work in (ground.home / "work", folder.parent):
            box = ground.box(work)
            with open_executor(work, sandbox=box, workspace=work) as executor:
                result = executor.run(f"cat {folder}/*; echo x > {folder}/left")
            assert (result.exit_code != 0, "hidden-value" in result.text) == (True, False)
        assert (folder / "left").read_text() == "hidden-value"


def test_a_write_into_nothing_is_an_error(shell: CommandExecutor, ground: Ground) -> None:
    for target in ("/run/x", "/dev/x", f"{ground.home}/.ssh/x", f"{ground.home}/.netrc", "../x"):
        assert shell.run(f"echo lost > {target}").exit_code != 0, target


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_beside_a_workspace_below_tmp_is_seen_and_kept(kind: SandboxKind) -> None:
    place = Path(tempfile.mkdtemp(prefix="kt-test-", dir="/tmp"))
    try:
        ground = ground_at(place, kind)
        work = place / "work"
        work.mkdir()
        (place / "beside").write_text("seen\n")
        read, write, inside = ground.run(
            work, "cat ../beside", "echo lost > ../outside", "echo in > made; cat made"
        )
        assert read.text.strip() == "seen"
        assert write.exit_code != 0
        assert not (place / "outside").exists()
        assert inside.text.strip() == "in"
        assert (work / "made").exists()
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("kind", KINDS)
def test_a_workspace_directly_below_tmp_works(kind: SandboxKind, tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="kt-test-", dir="/tmp"))
    try:
        ground = ground_at(tmp_path / "away", kind)
        made, beside, seen = ground.run(
            place, "echo in > made", f"echo lost > ../{place.name}-x", "cat made; pwd"
        )
        assert made.exit_code == 0
        assert (place / "made").read_text() == "in\n"
        assert not Path(f"{place}-x").exists()
        assert seen.text.split() == ["in", str(place)]
        assert (beside.exit_code == 0) == GIVES[kind].private_tmp
    finally:
        shutil.rmtree(place)


# --- the interpreter ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_environment_below_tmp_is_seen_inside(kind: SandboxKind, tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="kt-venv-", dir="/tmp"))
    try:
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(place / "env")], check=True)
        root = Path(__file__).parents[3]
        code = (
            "import sys; sys.path[:0] = sys.argv[3:]; from pathlib import Path; "
            "from kogniterm.execution.sandbox_probe import probe; "
            "found = probe(Path(sys.argv[1]), sys.argv[2]); "
            "print(found.kind, {k: str(v) for k, v in found.reasons.items()})"
        )
        scratch = Path(tempfile.mkdtemp(prefix="kogniterm-test-", dir="/var/tmp"))
        done = subprocess.run(
            [str(place / "env/bin/python"), "-c", code, str(scratch), kind, str(root)],
            capture_output=True,
            text=True,
            check=True,
        )
        shutil.rmtree(scratch)
        require_sandbox(kind)
        assert done.stdout.split()[0] == kind, done.stdout
    finally:
        shutil.rmtree(place)


def test_what_the_host_process_runs_cannot_be_written_below_a_workspace(ground: Ground) -> None:
    package = Path(__file__).parents[3] / "kogniterm"
    box = ground.box(package.parent)
    with open_executor(package.parent, sandbox=box) as executor:
        assert executor.run(f"touch {package}/execution/planted_by_a_test.py").exit_code != 0
    assert not (package / "execution" / "planted_by_a_test.py").exists()


# --- other processes ----------------------------------------------------------------------------


@contextmanager
def outside_process() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process outside that does nothing and is ended with the test."""
    with subprocess.Popen(["sleep", "4242"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_settings_of_other_processes_stay(ground: Ground) -> None:
    work = ground.home / "work"
    for box in (ground.box(work), ground.box(work).reading()):
        with (
            outside_process() as victim,
            open_executor(work, sandbox=box) as executor,
        ):
            pid, before = victim.pid, Path(f"/proc/{victim.pid}/limits").read_text()
            for code in (
                f"import resource; resource.prlimit({pid}, resource.RLIMIT_NOFILE, (5, 5))",
                f"import os; os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
                f"import os; os.sched_setaffinity({pid}, [0])",
            ):
                assert executor.run(python(code)).exit_code != 0, code
            assert Path(f"/proc/{pid}/limits").read_text() == before
            victim.kill()
