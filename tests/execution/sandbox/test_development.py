"""Tools of development in every kind of sandbox that is made of namespaces."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kogniterm.execution.sandbox.confinement import SandboxKind
from tests.support.executing import BUILT, ran, session
from tests.support.programs import require

POOLS = """
import concurrent.futures as futures, multiprocessing as processes
from multiprocessing import shared_memory

if __name__ == "__main__":
    for how in ("fork", "spawn"):
        context = processes.get_context(how)
        with context.Pool(2) as pool:
            print(how, pool.map(abs, [-1, -2]))
        with futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            print(how, list(pool.map(abs, [-3])))
    memory = shared_memory.SharedMemory(create=True, size=9)
    memory.unlink()
    print("shared")
"""
LIVE = """
import http.server, os, socket, threading, urllib.request

def test_server():
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with urllib.request.urlopen(f"http://localhost:{server.server_port}/") as answer:
        assert answer.status == 200
    server.shutdown()
    server.server_close()

def test_datagrams():
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as two:
        one.bind(("127.0.0.1", 0))
        two.sendto(b"x", one.getsockname())
        assert one.recv(9) == b"x"

def test_terminal():
    master, slave = os.openpty()
    os.write(master, b"typed\\n")
    assert os.read(slave, 9) == b"typed\\n"
"""
EXPECT = """
import pexpect
child = pexpect.spawn("bash --norc", encoding="utf-8", timeout=60)
child.sendline("echo $((6 * 7)) $(tty)")
child.expect("42 /dev/pts/")
child.sendline("exit")
child.expect(pexpect.EOF)
print("expected")
"""
STEPS = (
    ("pools", (), "{python} pools.py", "fork [1, 2]\nfork [3]\nspawn [1, 2]\nspawn [3]\nshared"),
    ("pytest", (), "{python} -m pytest -q -p no:cacheprovider test_live.py", "3 passed"),
    ("pexpect", (), "{python} expect.py", "expected"),
    ("script", ("script",), "script -qc tty /dev/null", "/dev/pts/"),
    (
        "vim",
        ("vim",),
        "script -qc 'vim -Nu NONE -c \"s/one/two/\" -c wq v' /dev/null; cat v",
        "two",
    ),
    ("strace", ("strace",), "strace -f sh -c true 2>&1", "exited with 0"),
    ("gdb", ("gdb",), "gdb -q -batch -ex run true 2>&1", "exited normally"),
    ("git", ("git",), "git init -q . && git status", "No commits yet"),
    ("venv", (), "{python} -m venv --without-pip v2 && v2/bin/python -c 'print(1)'", "1"),
)


@pytest.mark.parametrize(("name", "programs", "command", "shown"), STEPS, ids=[s[0] for s in STEPS])
@pytest.mark.parametrize("kind", BUILT)
def test_it_works(
    work: Path, kind: SandboxKind, name: str, programs: tuple[str, ...], command: str, shown: str
) -> None:
    require(*programs)
    files = {"pools.py": POOLS, "test_live.py": LIVE, "expect.py": EXPECT}
    for file, text in {**files, "v": "one\n"}.items():
        (work / file).write_text(text)
    with session(kind, work) as shell:
        text = ran(shell, command.format(python=sys.executable)).text
        assert shown in text.replace("\r", ""), text


@pytest.mark.parametrize("kind", ["namespaces", "bubblewrap"])
def test_a_job_is_found_traced_and_ended_by_later_commands(work: Path, kind: SandboxKind) -> None:
    require("gdb", "strace", "ps")
    attach = Path("/proc/sys/kernel/yama/ptrace_scope")
    with session(kind, work) as shell:
        ran(shell, "cp $(command -v bash) own; ./own -c 'while :; do sleep 0.1; done' &")
        assert ran(shell, "pgrep -x own").exit_code == 0
        if not attach.exists() or attach.read_text().strip() == "0":
            found = "gdb -q -batch -p $(pgrep -ox own) -ex 'info inferiors' 2>&1"
            assert "process" in ran(shell, found).text.splitlines()[-2]
            traced = "strace -p $(pgrep -ox own) 2>&1 | grep -m 1 wait4"
            assert "wait4" in ran(shell, traced).text
        ran(shell, "pkill -x own")
        assert ran(shell, "while pgrep -x own >&-; do :; done").exit_code == 0
