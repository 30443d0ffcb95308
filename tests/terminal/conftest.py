"""Real terminals for the user who runs the tests and for an ordinary user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_terminal import RealTerminal

OpenTerminal = Callable[..., RealTerminal]
"""Opens a `RealTerminal` that is closed at the end of the test; takes the same arguments."""


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a folder outside of /tmp, as a home is, because sandboxes have a private /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="kogniterm-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


PLAIN = {"test_installed", "test_questions", "test_take_over", "test_terminal"}
"""Modules whose programs start plain: what they show may depend on how a program starts."""
BOTH_USERS = {"test_sandbox", "test_take_over", "test_terminal"}
"""Modules whose tests root runs for an ordinary user too."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test its user: the one who runs it; for some also one without privileges."""
    if "user" in metafunc.fixturenames:
        both = os.geteuid() == 0 and metafunc.module.__name__.rpartition(".")[2] in BOTH_USERS
        metafunc.parametrize("user", ["current", "ordinary"] if both else ["current"])


@pytest.fixture
def open_terminal(
    place: Path, request: pytest.FixtureRequest, warm_starts: Mapping[str, str]
) -> Iterator[OpenTerminal]:
    """Yield a function that opens terminals with home `place/home` and folder `place/project`."""
    opened: list[RealTerminal] = []
    plain = request.module.__name__.rpartition(".")[2] in PLAIN

    def open_one(**more: Any) -> RealTerminal:
        home, project = place / "home", place / "project"
        for folder in (home, project):
            folder.mkdir(exist_ok=True)
        warm = not plain and more.get("user") != "ordinary"
        opened.append(RealTerminal(home, project, warm=warm_starts if warm else {}, **more))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()
