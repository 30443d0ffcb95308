"""Real terminals: as whoever runs the tests, and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_terminal import RealTerminal, User

OpenTerminal = Callable[..., RealTerminal]
"""Opens a `RealTerminal` that is closed at the end of the test; takes what it takes."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder outside of /tmp, as a home is: a sandbox has a /tmp of its own."""
    folder = Path(tempfile.mkdtemp(prefix="kogniterm-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


_ONLY_CURRENT = os.geteuid() != 0 or os.environ.get("KOGNITERM_TEST_USERS") == "current"
"""CI, which runs every test as an ordinary user before, asks for that when it runs them as root."""


@pytest.fixture(params=["current"] if _ONLY_CURRENT else ["current", "ordinary"])
def user(request: pytest.FixtureRequest) -> User:
    """Who sits at the terminal: without root, whoever runs the tests is an ordinary user."""
    chosen: User = request.param
    return chosen


@pytest.fixture
def open_terminal(place: Path) -> Iterator[OpenTerminal]:
    """Opens terminals in `place`: the home is `place/home`, the folder `place/project`."""
    opened: list[RealTerminal] = []

    def open_one(**more: Any) -> RealTerminal:
        home, project = place / "home", place / "project"
        for folder in (home, project):
            folder.mkdir(exist_ok=True)
        opened.append(RealTerminal(home, project, **more))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()
