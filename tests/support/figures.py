"""CPU seconds and program starts of each test, and their table at the end of a run.

A test's CPU time is that of the test process and of all processes below it: those that have ended
and were waited for, and those that still run (a server that a fixture keeps). A process that left
the tree is not seen.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tomllib
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.forge import STARTED
from tests.support.marking import TABLE

_TICKS = os.sysconf("SC_CLK_TCK")
_SERVERS = ("kogniterm", "initdb", "pg_ctl", "postgres", "sshd", "uvx", "npx", "node")
SLOWEST = 10
"""Tests in the report."""
STARTS = Path(__file__).parents[1] / "house" / "starts.toml"


def starts_program(words: Sequence[str]) -> bool:
    """Return whether a command line starts KogniTerm, another Python program or a server."""
    if not words or {"-I", "-S"} <= {*words}:
        return False
    program = Path(words[0]).name
    if program == "tmux":  # a screen is read as often as the machine is slow
        return "new-session" in words
    return program.startswith("python") or program in _SERVERS


class Figures:
    """Measures each test in its process, and fails an unmarked one that starts a program."""

    def __init__(self) -> None:
        self._started: list[str] = []
        self._before = 0.0
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == STARTED:
            self._started.append(str(arguments[0])[:200])
        elif event == "subprocess.Popen":
            given = arguments[1]
            given = [given] if isinstance(given, str | bytes) else given
            words = [os.fsdecode(word) for word in given]
            if starts_program(words):
                self._started.append(" ".join(words)[:200])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Begin a test."""
        self._before = tree_seconds()
        self._started.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail a test that starts a program and is not marked."""
        result = yield
        if self._started and not any(item.iter_markers("starts")):
            first = self._started[0]
            pytest.fail(f"needs the mark starts in {TABLE.name}: {first}", pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the last report of a test its figures."""
        report = yield
        if call.when == "teardown":
            seconds = round(tree_seconds() - self._before, 3)
            report.user_properties.append(("figures", [seconds, len(self._started)]))
        return report


def tree_seconds() -> float:
    """Return the CPU seconds of this process and of all below it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) + _running_below(os.getpid())


def _running_below(pid: int) -> float:
    total = 0.0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                with suppress(OSError):
                    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                    total += sum(map(int, fields[11:15])) / _TICKS
                total += _running_below(int(child))
    return total


class Report:
    """Collects the figures of all workers; writes them to `file`, and a table to the terminal."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._rows: dict[str, tuple[float, int]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test took."""
        for name, value in report.user_properties:
            if name == "figures" and isinstance(value, list):
                self._rows[report.nodeid] = (value[0], value[1])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a whole run in which a folder starts more programs than its row says."""
        if self._file is not None and self._risen() and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _folders(self) -> dict[str, tuple[int, float, int]]:
        """Return tests, CPU seconds and starts of each folder."""
        found: dict[str, tuple[int, float, int]] = {}
        for test, (seconds, starts) in self._rows.items():
            folder = test.partition("::")[0].split("/")[1]
            folder = "tests" if folder.endswith(".py") else folder
            tests, used, started = found.get(folder, (0, 0.0, 0))
            found[folder] = (tests + 1, used + seconds, started + starts)
        return found

    def _risen(self) -> list[str]:
        allowed = tomllib.loads(STARTS.read_text("utf-8"))
        return [
            f"{folder}: {starts} program starts, {allowed.get(folder, 0)} are listed; lower them, "
            f"or raise the row in {STARTS.name} and name the promise there"
            for folder, (_, _, starts) in self._folders().items()
            if starts > allowed.get(folder, 0)
        ]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the slowest tests, and CPU seconds and starts by folder."""
        if self._file is None:
            return
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text(json.dumps(self._rows))
        folders = self._folders()
        line = terminalreporter.line
        terminalreporter.section("CPU time of the tests and what they start")
        line(f"{'folder':12} {'tests':>6} {'CPU s':>8} {'starts':>7}")
        for folder in sorted(folders, key=lambda name: -folders[name][1]):
            line("{:12} {:6} {:8.1f} {:7}".format(folder, *folders[folder]))
        whole = (sum(one[column] for one in folders.values()) for column in range(3))
        line("{:12} {:6} {:8.1f} {:7}".format("all", *whole))
        line("the slowest, in CPU seconds:")
        for test in sorted(self._rows, key=lambda name: -self._rows[name][0])[:SLOWEST]:
            line(f"{self._rows[test][0]:8.1f} {test}")
        for risen in self._risen():
            line(risen, red=True)
