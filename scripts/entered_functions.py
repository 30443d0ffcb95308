"""A pytest plugin that writes which tests enter which functions of the product, and their cost.

Used by `plant_faults.py`: `--entered=FILE` names the file; each worker of a run writes its own,
with the worker's name behind. Functions that are entered while modules are imported or fixtures of
a session are made belong to the test that came first.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

_HERE = f"{Path.cwd()}/kogniterm/"
_seen: set[Any] = set()
_entered: dict[str, list[tuple[str, float]]] = {}
_counted: list[str] = []
_not_passed: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--entered", required=True)


def _note(frame: FrameType, event: str, argument: object) -> None:
    """Note a call; returning nothing leaves the lines of the function untraced, which is cheap."""
    _seen.add(frame.f_code)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note which tests do not pass: no fault can be seen by them."""
    if not report.passed:
        _not_passed.add(report.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record the functions that a test enters, in every thread."""
    _seen.clear()
    began = time.process_time()
    threading.settrace(_note)
    sys.settrace(_note)
    yield
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]  # None is how it is switched off
    seconds = time.process_time() - began
    if item.nodeid in _not_passed:
        return
    for code in _seen:
        if code.co_filename.startswith(_HERE):
            file = "kogniterm/" + code.co_filename[len(_HERE) :]
            name = code.co_qualname.replace(".<locals>", "")
            _entered.setdefault(f"{file}:{name}", []).append((item.nodeid, round(seconds, 3)))
    _counted.append(item.nodeid)
    if len(_counted) % 50 == 0:
        pytest_sessionfinish(item.session)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was recorded; also now and then before, so that a part of a run is of use."""
    worker = getattr(session.config, "workerinput", {}).get("workerid", "")
    Path(session.config.getoption("entered") + worker).write_text(json.dumps(_entered), "utf-8")
