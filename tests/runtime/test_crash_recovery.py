"""Unknown outcomes are settled by a run of the same action, and by nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kogniterm.runtime.crash_recovery import runs_settled
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
