"""Fixtures of the memory tests: both databases in turn, and a clock moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kogniterm.memory import Memory, open_memory
from tests.support.databases import location, postgres_server, postgres_url

__all__ = ["location", "postgres_server", "postgres_url"]

DAY = 86_400.0
DATA = Path(__file__).parent / "data"


@dataclass
class HandClock:
    """A clock that moves only when told to."""

    time: float = 1_700_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def advance(self, *, days: float = 0.0, seconds: float = 0.0) -> None:
        self.time += days * DAY + seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


OpenMemory = Callable[..., Memory]


@pytest.fixture
def open_here(location: Path | str, clock: HandClock, tmp_path: Path) -> Iterator[OpenMemory]:
    """Yield a function that opens a user's memory at `location`; close all at the end."""
    with ExitStack() as stack:

        def open_one(user: str = "ana", project: str | None = "shop", **more: Any) -> Memory:
            more.setdefault("clock", clock)
            more.setdefault("key_file", tmp_path / "memory-key")
            return stack.enter_context(open_memory(location, user=user, project=project, **more))

        yield open_one


@pytest.fixture
def memory(open_here: OpenMemory) -> Memory:
    """Return Ana's memory in the project "shop"."""
    return open_here()
