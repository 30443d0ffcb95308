"""Real terminals for the user who runs the tests and for an ordinary user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_terminal import RealTerminal, User

OpenTerminal = Callable[..., RealTerminal]
"""Opens a `RealTerminal` that is closed at the end of the test; takes the same arguments."""


@pytest.fixture(scope="session", autouse=True)
def _warm_terminals(warm_starts: Mapping[str, str]) -> Iterator[None]:
    """Let the terminals of the current user start warm; the ordinary user's start plain."""
    RealTerminal.everywhere["current"].update(warm_starts)
    yield
    for name in warm_starts:
        del RealTerminal.everywhere["current"][name]


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a folder outside of /tmp, as a home is, because sandboxes have a private /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="kogniterm-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


_ONLY_CURRENT = os.geteuid() != 0 or os.environ.get("KOGNITERM_TEST_USERS") == "current"
"""As root, CI asks for the current user only: it ran every test as an ordinary user before."""


@pytest.fixture(params=["current"] if _ONLY_CURRENT else ["current", "ordinary"])
def user(request: pytest.FixtureRequest) -> User:
    """Return the user at the terminal; without root only the current one, who is ordinary."""
    chosen: User = request.param
    return chosen


@pytest.fixture
def open_terminal(place: Path) -> Iterator[OpenTerminal]:
    """Yield a function that opens terminals with home `place/home` and folder `place/project`."""
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
