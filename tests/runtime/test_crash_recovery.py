"""Unknown outcomes are settled by a run of the same action, and by nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kogniterm.runtime.crash_recovery import partial_output, runs_settled
from kogniterm.sessions.fold import UnknownRun
from kogniterm.sessions.records import Intent


def journal(*runs: UnknownRun) -> Any:
    return SimpleNamespace(state=SimpleNamespace(unsettled=runs))


def unknown(command: str, *hosts: str) -> UnknownRun:
    return UnknownRun(Intent("r1", command, "/w", "e" * 64, None), 1, hosts)


@pytest.mark.parametrize(
    ("command", "shell", "hosts", "settled"),
    [
        ("make deploy", True, (), True),
        ("make  deploy", True, (), True),  # the same to a shell
        ("make  deploy", False, (), False),  # a text that no shell reads
        ("make deploy", False, (), True),
        ("make clean", True, (), False),
        ("make deploy", True, ("web",), False),
    ],
)
def test_the_same_command_settles_it(
    command: str, shell: bool, hosts: tuple[str, ...], settled: bool
) -> None:
    found = runs_settled(journal(unknown("make deploy")), command, "/w", shell=shell, hosts=hosts)
    assert found == (("r1",) if settled else ())


def test_a_run_on_hosts_settles_only_what_ran_on_no_others() -> None:
    before = journal(unknown("uptime", "web", "db"))
    assert runs_settled(before, "uptime", "/w", shell=True, hosts=("web",)) == ()
    assert runs_settled(before, "uptime", "/w", shell=True, hosts=("db", "web")) == ("r1",)
    assert runs_settled(before, "uptime", "/w", shell=True) == ()


def test_only_an_output_of_the_session_is_read(tmp_path: Path) -> None:
    """The record may be another program's, or of another machine that shares the database."""
    outputs, other = tmp_path / "outputs" / "s", tmp_path / "outputs" / "t" / "1.log"
    own, history = outputs / "18f-7-ab" / "0001.log", tmp_path / ".bash_history"
    for file in (own, other, history):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(file.name)
    (outputs / "link").symlink_to(history)
    paths = [own, history, other, outputs / "link", f"{outputs}/../../.bash_history", "a\0", None]
    texts = [
        partial_output(
            SimpleNamespace(outputs=outputs),  # type: ignore[arg-type]  # all that is read of it
            Intent("r1", "ls", "/w", "", None if path is None else str(path)),
        )
        for path in paths
    ]
    assert texts == ["0001.log", "", "", "", "", "", ""]
