"""State that the sandbox of a session keeps between commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm.approval import classify
from kogniterm.errors import ExecutionError
from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import Sandbox, SandboxKind
from kogniterm.runtime.services.sandbox_service import SandboxService
from kogniterm.runtime.turn_ports import SandboxFindings
from kogniterm.types import CommandResult, Decision
from tests.support.executing import BUILT, KINDS, PATIENCE, outside_tmp, sandbox_round
from tests.support.forge import until
from tests.support.programs import require_sandbox


@pytest.fixture
def work() -> Iterator[Path]:
    with outside_tmp() as place:
        (place / "work").mkdir()
        yield place / "work"


@pytest.fixture(params=KINDS)
def box(request: pytest.FixtureRequest, work: Path) -> Sandbox:
    return sandbox_round(request.param, work, work.parent / "home")


def run(service: SandboxService, executor: CommandExecutor, command: str) -> SandboxFindings:
    report = classify(command)
    executor.sandbox = box = service.choose(Decision("approve", command, "policy"), report)
    service.temporary = executor.temporary_folder
    service.begin(box)
    return service.end(command, executor.run(command, timeout=PATIENCE), box, report)


@pytest.mark.parametrize(
    ("command", "twice"),
    [
        ("ps aux | grep x", True),
        ("ps aux > found; grep x found", False),
        ("ps aux | sed -i s/a/b/ notes", False),
        ("pgrep server && echo up > up.txt", False),
        ("ss -K dst 192.0.2.1", False),
    ],
)
def test_only_what_reads_runs_among_the_machines_processes_too(command: str, twice: bool) -> None:
    box = Sandbox("namespaces", "/w", "/h")
    service, report = SandboxService(box), classify(command, cwd="/w", workspace="/w")
    found = service.of_machine(box, Decision("approve", command, "policy"), report)
    assert (found is not None) == twice


@pytest.mark.parametrize(
    ("kind", "told", "not_told"),
    [
        ("landlock", ("opens no sockets", "no new terminals (script", "no shared semaphores",
                      "/tmp is closed"), ("loopback", "private /tmp")),
        ("namespaces", ("a loopback of its own", "a private /tmp of this session",
                        "this session's commands only"), ("no sockets", "no new terminals")),
    ],
)  # fmt: skip
def test_what_a_kind_forbids_is_told_once_and_before_it_is_met(
    kind: SandboxKind, told: tuple[str, ...], not_told: tuple[str, ...]
) -> None:
    box = Sandbox(kind, "/w", "/h")
    service, result = SandboxService(box), CommandResult("true", "exited", 0, "", 0.1, "/w")
    note = service.end("true", result, box.reading(), classify("true")).note
    assert note.count("[sandbox: this and every other command") == 1
    assert all(text in note for text in told)
    assert not any(text in note for text in not_told)
    assert service.end("true", result, box.reading(), classify("true")).note == ""


def test_what_a_job_leaves_between_commands_is_told_with_the_next(box: Sandbox, work: Path) -> None:
    service = SandboxService(box)
    os.mkfifo(work / "go")
    job = "(read -r x < go; echo x > .envrc; touch gone) >/dev/null 2>&1 &"
    with open_executor(work, sandbox=box) as executor:
        assert run(service, executor, job).notices == ()
        (work / "go").write_text("\n")
        until((work / "gone").exists)
        aftermath = run(service, executor, "true")
        assert ".envrc (new)" in str(aftermath.notices[0])
        assert run(service, executor, "true").notices == ()


def test_what_the_user_changes_between_commands_is_not_told(box: Sandbox, work: Path) -> None:
    service = SandboxService(box)
    with open_executor(work, sandbox=box) as executor:
        run(service, executor, "true")
        (work / ".envrc").write_text("mine")
        assert run(service, executor, "true").notices == ()


def test_approved_commands_run_outside_unless_a_kind_was_asked_for(box: Sandbox) -> None:
    decision, report = Decision("approve", "true", "person"), classify("true")
    assert SandboxService(box).choose(decision, report) is None
    assert SandboxService(box, always=True).choose(decision, report) is box
    assert SandboxService(None).choose(Decision("approve", "true", "policy"), report) is None


@pytest.mark.parametrize(
    ("command", "access"),
    [
        ("ps aux", "write"),
        ("ss -ltn | grep :80", "write"),
        ("lsof -i :80", "write"),
        ("ps -o pid= | sort -n | tail -3; ss -s 2>/dev/null", "write"),
        ("ps -p $PPID", "read"),
        ("ps -p $(cat pid)", "read"),
        ("ps aux; cat notes", "write"),
        ("ps aux; ls", "read"),
        ("(ps aux)", "read"),
        ("ls", "read"),
        ("cd sub && ls", "read"),
        ("for f in *; do n=$(wc -l < $f); echo $n; done", "read"),
        ("x=$(ls)", "write"),
        ("export X=1", "write"),
        ("ps aux > file", "write"),
        ("ps aux; rm file", "write"),
        ("touch file", "write"),
    ],
)
def test_only_what_reads_is_confined_to_that(command: str, access: str) -> None:
    box = Sandbox("landlock", "/w", "/h")
    report = classify(command, cwd="/w", workspace="/w")
    chosen = SandboxService(box).choose(Decision("approve", command, "policy"), report)
    assert chosen is not None
    assert chosen.access == access


def test_what_the_user_approved_may_write_though_it_was_judged_to_read() -> None:
    box = Sandbox("landlock", "/w", "/h")
    for by in ("person", "program"):
        decision = Decision("approve", "ls", by)
        assert SandboxService(box, always=True).choose(decision, classify("ls")) is box
        assert SandboxService(box).choose(decision, classify("ls")) is None


def test_names_that_would_forge_a_line_are_shown_as_they_are(box: Sandbox, work: Path) -> None:
    service = SandboxService(box)
    with open_executor(work, sandbox=box) as executor:
        aftermath = run(service, executor, "mkdir -p .vscode; touch $'.vscode/a\\nb\\e[31m'")
    assert "\n" not in str(aftermath.notices[0])
    assert "\x1b" not in str(aftermath.notices[0]) + aftermath.note


@pytest.mark.parametrize("kind", BUILT)
def test_a_sandbox_that_cannot_start_is_an_error_and_nothing_runs(
    work: Path, kind: SandboxKind
) -> None:
    found = require_sandbox(kind)
    gone = str(work.parent / "gone")
    home = str(work.parent / "home")
    box = Sandbox(kind, str(work), home, writable=(gone,), program=found.program)
    with open_executor(work, sandbox=box) as executor:
        with pytest.raises(ExecutionError, match="sandbox could not start, so the command was not"):
            executor.run("touch ran")
        executor.sandbox = replace(box, writable=())
        assert executor.run("true").exit_code == 0
    assert not (work / "ran").exists()
