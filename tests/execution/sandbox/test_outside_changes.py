"""Changes outside of a sandbox that stands, and limits of the machine that a session meets."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm.errors import ExecutionError
from kogniterm.execution import open_executor
from kogniterm.execution.sandbox.confinement import SandboxKind
from kogniterm.host.processes import descendants
from tests.support.executing import BUILT, KINDS, ran, sandbox_round, session
from tests.support.forge import until

EVIL = "echo evil >> .git/config"


@pytest.mark.parametrize("kind", BUILT)
def test_a_protected_file_that_is_made_again_outside_stays_protected(
    work: Path, kind: SandboxKind
) -> None:
    config = work / ".git" / "config"
    config.parent.mkdir()
    config.write_text("first\n")
    with session(kind, work) as shell:
        assert ran(shell, EVIL).exit_code != 0
        for text in ("second\n", "third\n"):  # most file systems give it the same number again
            config.unlink()
            config.write_text(text)
            assert ran(shell, EVIL).exit_code != 0
            assert config.read_text() == text
        shutil.rmtree(work / ".git")
        config.parent.mkdir()
        config.write_text("fourth\n")
        assert ran(shell, EVIL).exit_code != 0


@pytest.mark.parametrize("kind", BUILT)
def test_what_is_protected_later_is_protected_from_jobs_in_other_sandboxes_too(
    place: Path, work: Path, kind: SandboxKind
) -> None:
    secret = place / "home" / ".aws" / "credentials"
    waits = f"(while test ! -e go; do sleep 0.05; done; cat {secret} > out; {EVIL}; touch done)"
    with session(kind, work) as shell:
        box = shell.sandbox
        assert box is not None
        for later in (box, box.reading()):
            shell.sandbox = replace(box, network=True)
            ran(shell, f"{waits} >/dev/null 2>&1 &")
            secret.parent.mkdir()
            secret.write_text("the key")
            (work / ".git").mkdir()
            (work / ".git" / "config").write_text("as it was\n")
            shell.sandbox = later
            ran(shell, "true")
            (work / "go").touch()
            until((work / "done").exists)
            assert (work / ".git" / "config").read_text() == "as it was\n"
            assert (work / "out").read_text() == ""
            for name in ("go", "done", "out"):
                (work / name).unlink()
            shutil.rmtree(work / ".git")
            shutil.rmtree(secret.parent)


@pytest.mark.parametrize("kind", BUILT)
def test_a_secret_folder_of_a_home_that_is_the_workspace_stays_hidden_when_it_is_made_again(
    place: Path, kind: SandboxKind
) -> None:
    home = place / "home"
    box = sandbox_round(kind, home, home)
    (home / ".ssh").mkdir()
    (home / "project").mkdir()
    with open_executor(home, sandbox=box, workspace=home) as shell:
        wait = "while test ! -e project/go; do sleep 0.05; done"
        ran(shell, f"({wait}; cat .ssh/key > project/out; touch project/done) >/dev/null 2>&1 &")
        shutil.rmtree(home / ".ssh")
        (home / ".ssh").mkdir()
        (home / ".ssh" / "key").write_text("the key")
        assert "the key" not in ran(shell, "cat .ssh/key").text
        (home / "project" / "go").touch()
        until((home / "project" / "done").exists)
        assert (home / "project" / "out").read_text() == ""


@pytest.mark.parametrize("kind", BUILT)
@pytest.mark.parametrize("which", ["work", "extra"])
def test_a_folder_that_is_made_again_outside_can_be_written(
    place: Path, work: Path, kind: SandboxKind, which: str
) -> None:
    folder = place / which
    folder.mkdir(exist_ok=True)
    with session(kind, work) as shell:
        assert shell.sandbox is not None
        shell.sandbox = replace(shell.sandbox, writable=(str(place / "extra"),))
        (place / "extra").mkdir(exist_ok=True)
        assert ran(shell, f"echo one > {folder}/file").exit_code == 0
        shutil.rmtree(folder)
        folder.mkdir()  # most file systems give it the same number again
        result = shell.run(f"echo two > {folder}/file", cwd=str(work))
        assert result.exit_code == 0, result.text


@pytest.mark.parametrize("kind", BUILT)
def test_mounts_of_any_name_keep_no_sandbox_from_being_built(
    place: Path, work: Path, kind: SandboxKind
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    folder = place / os.fsdecode(b"m\xff \\ \r\xc3\xb6")
    folder.mkdir()
    subprocess.run(["mount", "-t", "proc", "proc", folder], check=True)
    try:
        with session(kind, work) as shell:
            assert ran(shell, "ls ../m*ö | wc -l").text.strip() == "0"
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize(
    "name", [b"a b", b"a\nb", b"a:b", b"a\\012b", b"\xff\xfe", b"x" * 250, b"--bind", b"q'\"$(x)"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_workspace_of_any_name_works(place: Path, kind: SandboxKind, name: bytes) -> None:
    work = place / os.fsdecode(name)
    (work / ".git").mkdir(parents=True)
    (work / ".git" / "config").write_text("as it was\n")
    with open_executor(work, sandbox=sandbox_round(kind, work, place / "home")) as shell:
        assert ran(shell, f"echo one > file; cat file; {EVIL}").text.startswith("one")
    kept = shell.sandbox is not None and shell.sandbox.gives.keeps_files
    assert ((work / ".git" / "config").read_text() == "as it was\n") == kept


# --- limits ---


@contextmanager
def limit(kind: int, soft: int, hard: int | None = None) -> Iterator[None]:
    """Lower a limit of this process, which what it starts has too."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1] if hard is None else hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shell_whose_descriptors_cannot_be_placed_is_no_success(
    work: Path, kind: SandboxKind
) -> None:
    with (
        limit(resource.RLIMIT_NOFILE, 64),
        session(kind, work) as shell,
        pytest.raises(ExecutionError, match="too many open files"),
    ):
        ran(shell, "touch made")
    assert not (work / "made").exists()


@pytest.mark.parametrize("kind", ["namespaces", "landlock"])
def test_jobs_outlast_a_supervisor_without_descriptors(work: Path, kind: SandboxKind) -> None:
    with limit(resource.RLIMIT_NOFILE, 104):
        begun = session(kind, work)
        ran(begun, "true")  # starts the supervisor
    with begun as shell:
        started, refused = 0, 0
        while refused < 3:
            assert shell.sandbox is not None
            try:
                assert ran(shell, "sleep 1000 &").exit_code == 0
                started += 1
            except ExecutionError:
                refused += 1
                shell.sandbox = replace(shell.sandbox, network=refused % 2 == 1)
        jobs = shell.jobs()
        assert [job.state for job in jobs] == ["running"] * started
        for job in jobs[:8]:
            shell.stop_job(job.id)
        assert ran(shell, "echo next").text.strip() == "next"


LOW = """
import resource, sys; sys.path[:0] = sys.argv[4:]
from pathlib import Path
from kogniterm.execution import open_executor
from kogniterm.execution.sandbox_probe import probe
from kogniterm.execution.sandbox.confinement import Sandbox
resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000))
work, home, kind = sys.argv[1:4]
found = probe(Path(home), kind)
box = Sandbox(found.kind, work, home, program=found.program)
with open_executor(work, sandbox=box) as shell:
    print(found.kind, shell.run("ulimit -Hu", timeout=60).text)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_low_limit_of_processes_is_kept(place: Path, work: Path, kind: SandboxKind) -> None:
    sandbox_round(kind, work, place / "home")
    words = [sys.executable, "-c", LOW, str(work), str(place / "home"), kind]
    words += sys.path
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [kind, "1000"]


@pytest.mark.parametrize("kind", ["namespaces", "bubblewrap"])
def test_an_interrupt_while_a_sandbox_is_built_leaves_nothing_to_the_next_command(
    work: Path, kind: SandboxKind
) -> None:
    usual = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for delay in (0.003, 0.006, 0.01):
            with session(kind, work) as shell:
                ran(shell, "true")
                assert shell.sandbox is not None
                shell.sandbox = replace(shell.sandbox, network=True)
                signal.setitimer(signal.ITIMER_REAL, delay)
                with pytest.raises(KeyboardInterrupt):
                    ran(shell, "echo first; sleep 1000")
                assert ran(shell, "echo second").text.strip() == "second"
                until(lambda: "sleep" not in {one.name for one in descendants(os.getpid())})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
