"""Real terminals for the user who runs the tests and for an ordinary user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_terminal import RealTerminal, User
from tests.support.warm import WANTED, runtime_folder, variables, warm_server

OpenTerminal = Callable[..., RealTerminal]
"""Opens a `RealTerminal` that is closed at the end of the test; takes the same arguments."""


@pytest.fixture(scope="session", autouse=True)
def _warm_starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the terminals of the current user share one warm server, where the run asks for it.

    So no session may see anything of the one before. The ordinary user's terminals start plain.
    """
    if not WANTED:
        yield
        return
    home = tmp_path_factory.mktemp("warm")
    runtime = runtime_folder(home)
    with warm_server(home, variables(home, runtime)):
        RealTerminal.everywhere["current"]["XDG_RUNTIME_DIR"] = str(runtime)
        yield
        del RealTerminal.everywhere["current"]["XDG_RUNTIME_DIR"]


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
