"""Programs that a test needs and that not every machine has.

A test that needs one says so, once, and is skipped with a reason where it is missing:

    @needs("git")       a mark: for tests, modules (pytestmark) and parameters
    require("zsh")      a call, for fixtures and where it is known only while the test runs

The end of a test run names the programs that would let the skipped tests run (`missing_line`).
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

from kogniterm.execution.sandbox.confinement import SandboxKind
from kogniterm.execution.sandbox_probe import Probe, probe
from kogniterm.host.programs import find_program

needs = pytest.mark.needs
"""Mark of a test that is skipped where one of the named programs is missing."""
_REASON = re.compile(r"needs (.+), not installed")


def skip_in_need(item: pytest.Item) -> None:
    """Turn the marks of `item` into one that skips it, if a program is missing."""
    reason = _reason(name for mark in item.iter_markers("needs") for name in mark.args)
    if reason:
        item.add_marker(pytest.mark.skip(reason=reason))


def require(*programs: str) -> None:
    """Skip the running test unless all `programs` are installed."""
    __tracebackhide__ = True
    if reason := _reason(programs):
        pytest.skip(reason)


def _reason(programs: Iterable[str]) -> str:
    missing = [name for name in dict.fromkeys(programs) if not installed(name)]
    return f"needs {' and '.join(missing)}, not installed" if missing else ""


@cache
def installed(program: str) -> bool:
    """Return whether tests can start `program` by its name and KogniTerm finds it by its path."""
    return shutil.which(program) is not None and find_program(program) is not None


def missing_line(reasons: Iterable[str]) -> str:
    """Return the sentence about missing programs for the `reasons` of skipped tests, or ""."""
    waiting: Counter[str] = Counter()
    skipped = 0
    for reason in reasons:
        if found := _REASON.search(reason):
            skipped += 1
            waiting.update(found[1].split(" and "))
    if not waiting:
        return ""
    tests = "1 test was" if skipped == 1 else f"{skipped} tests were"
    counts = ", ".join(f"{name} ({count})" for name, count in sorted(waiting.items()))
    return f"{tests} skipped for want of {counts}: `make test-programs` installs them or says how"


def require_sandbox(kind: SandboxKind | Literal["auto"]) -> Probe:
    """Return the sandbox kind that works; skip the running test where this one does not.

    `auto` is any kind. It is tried without a terminal.
    """
    __tracebackhide__ = True
    if kind == "bubblewrap":
        require("bwrap")
    found = _probed(kind)
    if found.kind != kind and (kind != "auto" or found.kind == "none"):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in found.reasons.items())
        pytest.skip(f"no sandbox of this kind works here ({reasons})")
    return found


@cache
def _probed(kind: SandboxKind | Literal["auto"]) -> Probe:
    with tempfile.TemporaryDirectory(prefix="kogniterm-test-", dir="/var/tmp") as folder:
        return probe(Path(folder), kind)  # type: ignore[arg-type]  # "none" is no kind to ask for


def own_sandbox() -> SandboxKind:
    """Return the kind of sandbox that KogniTerm chooses on this machine."""
    return _probed("auto").kind
