"""Folders of a session in a sandbox: a workspace and a home, outside of /tmp."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.executing import outside_tmp


@pytest.fixture
def place() -> Iterator[Path]:
    with outside_tmp() as place:
        (place / "work").mkdir()
        (place / "home").mkdir()
        yield place


@pytest.fixture
def work(place: Path) -> Path:
    return place / "work"
