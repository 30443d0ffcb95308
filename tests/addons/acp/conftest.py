"""A user at an editor, with a home and a folder of their own, and a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.conftest import make_flow
from tests.support.acp_editor import Editor

__all__ = ["MakeEditor", "make_editor", "make_flow"]

MakeEditor = Callable[..., Editor]


@pytest.fixture
def make_editor(tmp_path: Path, warm_starts: dict[str, str]) -> MakeEditor:
    """Return a function that makes an editor whose model follows a script."""

    def make(replies: str, last: str = "{text: All done., repeat: forever}") -> Editor:
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        script = tmp_path / "model.yaml"
        lines = [line for line in replies.strip("\n").split("\n") if line.strip()]
        script.write_text("replies:\n" + "".join(f"{line}\n" for line in [*lines, f"  - {last}"]))
        return Editor(tmp_path, work, f"scripted:{script}", warm_starts)

    return make
