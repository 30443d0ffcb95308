"""Each sandbox refuses what it promises; terminal, state, jobs and limits work inside it."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import Sandbox, SandboxKind
from kogniterm.execution.sandbox_probe import probe
from tests.support.executing import (
    BUILT,
    KINDS,
    PATIENCE,
    outside_tmp,
    processes_executing,
    sandbox_round,
    timed_out,
)

LONG = 100_000 + os.getpid()
"""A number of seconds that no other process sleeps, so that the process can be found."""


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a home outside of /tmp, because sandboxes have a private /tmp."""
    with outside_tmp() as home:
        yield home


@pytest.fixture(params=KINDS)
def box(request: pytest.FixtureRequest, home: Path) -> Sandbox:
    work = home / "work"
    (work / ".git" / "hooks").mkdir(parents=True)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("private")
    (home / ".netrc").write_text("password")
    return sandbox_round(request.param, work, home)


@pytest.fixture
def shell(box: Sandbox) -> Iterator[CommandExecutor]:
    with open_executor(box.workspace, sandbox=box) as executor:
        yield executor


def test_the_workspace_can_be_written_and_nothing_else(
    shell: CommandExecutor, box: Sandbox, home: Path
) -> None:
    assert shell.run("echo hi > inside && cat inside").text.strip() == "hi"
    for target in (f"{home}/no", "/etc/no", "/var/tmp/no", f"{home}/.ssh/no"):
        result = shell.run(f"touch {target}")
        assert result.exit_code != 0
        assert not Path(target).exists()


def test_a_command_can_start_in_what_is_shown_and_in_the_private_tmp(
    shell: CommandExecutor, box: Sandbox, home: Path
) -> None:
    outside = Path(tempfile.mkdtemp())
    shell.run(f"mkdir -p {outside.parent}/inside-only")
    folders = [Path(box.workspace), home, Path("/usr"), outside.parent, outside]
    can = [box.can_start_in(str(folder), shell.temporary_folder) for folder in folders]
    assert can == [True, True, True, True, False]
    if box.gives.private_tmp:
        assert box.can_start_in(f"{outside.parent}/inside-only", shell.temporary_folder)


def test_links_do_not_lead_out(shell: CommandExecutor, home: Path) -> None:
    assert shell.run(f"ln -s {home} out; echo x > out/no; mv inside out/no").exit_code != 0
    assert not (home / "no").exists()


def test_remounting_does_not_help(shell: CommandExecutor, home: Path) -> None:
    shell.run(f"mount -o remount,rw,bind /; unshare -Urm mount -o remount,rw / ; touch {home}/no")
    assert not (home / "no").exists()


def test_there_is_no_network(shell: CommandExecutor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = shell.run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")
    assert "connected" not in result.text


def test_the_network_can_be_approved(box: Sandbox) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        open_executor(box.workspace, sandbox=replace(box, network=True)) as executor,
    ):
        port = server.getsockname()[1]
        assert executor.run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo yes").text.strip() == "yes"


def test_state_exit_codes_and_the_terminal_work_inside(shell: CommandExecutor) -> None:
    assert shell.run("export A=1; f() { echo f; }; cd .git; exit 3").exit_code == 3
    result = shell.run('echo $A; f; basename "$PWD"; stty size; test -t 0 && echo tty')
    assert result.text.split() == ["1", "f", ".git", "40", "120", "tty"]


@pytest.mark.parametrize("kind", [*KINDS, "none"])
def test_a_program_alone_in_the_background_keeps_the_terminal(home: Path, kind: str) -> None:
    asks = 'for n in one two; do read -p "$n? " x; echo "got $x"; done'
    (home / "wizard.sh").write_text(asks)
    box = sandbox_round(kind, home, home) if kind != "none" else None
    with open_executor(home, sandbox=box) as executor:
        result = executor.run("WHAT=x bash 'wizard.sh' &")
        assert (result.exit_code, [job.state for job in result.jobs]) == (0, ["running"])
        # What runs meanwhile has a terminal of its own.
        assert "own" in executor.run("read x; echo $x", keystrokes=["own\n"]).text
        executor.wait_job("j1", 60, or_asks=True)
        assert executor.job_asks("j1") == "terminal"
        assert executor.send_keys("j1", "ann\n").splitlines() == ["ann", "got ann", "two? "]
        executor.send_keys("j1", "bob\n")
        assert executor.wait_job("j1", 60).exit_code == 0


def test_timeouts_end_everything(shell: CommandExecutor) -> None:
    command = f"echo begun; trap '' TERM; sleep {LONG} & sleep {LONG}"
    result = timed_out(shell, command, lambda result: "begun" in result.text)
    assert result.text.strip() == "begun"
    assert not processes_executing(f"sleep {LONG}")


def test_jobs_outlive_their_command_and_end_with_the_session(box: Sandbox) -> None:
    with open_executor(box.workspace, sandbox=box) as executor:
        result = executor.run(f"sleep {LONG} & echo started")
        assert result.text.strip() == "started"
        assert [job.state for job in executor.jobs()] == ["running"]
    assert not processes_executing(f"sleep {LONG}")


@pytest.mark.parametrize(
    ("job", "code"),
    [("(WAIT; exit 7) &", 7), ("WAIT | true & true", 0), ("(WAIT; exit 7) | (WAIT; true) &", 7)],
)
def test_a_job_ends_with_the_exit_code_of_what_was_left(
    shell: CommandExecutor, job: str, code: int
) -> None:
    wait = "while test ! -e go; do sleep 0.02; done"
    started = shell.run(job.replace("WAIT", wait)).jobs[0]
    shell.run("touch go")
    ended = shell.wait_job(started.id, PATIENCE)
    assert (ended.state, ended.exit_code) == ("ended", code)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workspace", [".", "work", ".local"])
def test_what_is_shown_in_a_hidden_folder_is_read_and_never_written(
    home: Path, workspace: str, kind: SandboxKind
) -> None:
    data = home / ".local" / "share" / "own"
    shown = data / "shown"
    for folder in (shown, home / "work"):
        folder.mkdir(parents=True)
    (data / "key").write_text("private")
    (shown / "page").write_text("public\n")
    box = sandbox_round(kind, home / workspace, home)
    own = str(data)
    box = replace(box, hidden=(own,), closed=(own,), shown=(str(shown),))
    for one in (box, box.reading()):
        with open_executor(box.workspace, sandbox=one) as executor:
            for _ in range(2):
                result = executor.run(f"cat {shown}/page {data}/key; ln -s /etc {shown}/link")
                assert "public" in result.text
                assert "private" not in result.text
                assert [file.name for file in shown.iterdir()] == ["page"]


def test_temporary_files_can_be_made(box: Sandbox) -> None:
    with open_executor(box.workspace, sandbox=box) as executor:
        assert executor.run('echo kept > "$(mktemp)" && cat "${TMPDIR:-/tmp}"/tmp.*').text == "kept"
        executor.sandbox = None
        assert executor.run('echo "${TMPDIR-unset}"').text == os.environ.get("TMPDIR", "unset")


@pytest.mark.parametrize("kind", BUILT)
def test_temporary_files_are_where_they_are_asked_for(
    home: Path, kind: SandboxKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("work", "scratch"):
        (home / name).mkdir()
    (home / "scratch" / "other").write_text("somebody's")
    monkeypatch.setenv("TMPDIR", str(home / "scratch"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    box = sandbox_round(kind, home / "work", home / "h")
    with open_executor(box.workspace, sandbox=box) as executor:
        result = executor.run('echo kept > "$(mktemp)" && cat "$TMPDIR"/tmp.*; ls "$TMPDIR"')
    assert result.text.startswith("kept\n")
    assert "other" not in result.text
    assert [path.name for path in (home / "scratch").iterdir()] == ["other"]


def test_off_is_none_and_says_so(home: Path) -> None:
    found = probe(home / "probe", "off")
    assert (found.kind, str(found.reasons["off"])) == ("none", "switched off")
