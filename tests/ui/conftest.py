"""Terminals in which the program runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input.base import PipeInput

from tests.support.forge import Forge
from tests.ui.live import keyboard
from tests.ui.pty_peer import OpenPeer, PtyPeer


@pytest.fixture
def peer(forge: Forge) -> OpenPeer:
    """Return a function that opens the program on a PTY whose other side the test plays."""

    @contextmanager
    def open_peer(folder: Path, *arguments: str, **more: Any) -> Iterator[PtyPeer]:
        opened = PtyPeer(forge, folder, *arguments, **more)
        try:
            yield opened
        finally:
            opened.close()

    return open_peer


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    """Yield a keyboard for a prompt in this process."""
    with keyboard() as pipe:
        yield pipe
