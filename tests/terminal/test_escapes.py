"""Random attacks on the sandbox from a real terminal: nothing outside may change."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from tests.support.escapes import LAYOUTS
from tests.support.executing import KINDS
from tests.support.programs import require_sandbox
from tests.support.real_terminal import User
from tests.terminal.conftest import OpenTerminal

ALL = os.environ.get("KOGNITERM_TEST_FAULTS") == "all"
SEEDS = range(20) if ALL else range(1)
ROUNDS = 200 if ALL else 25
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outside_changes(
    open_terminal: OpenTerminal, place: Path, user: User, kind: str, layout: str, seed: int
) -> None:
    require_sandbox(kind)
    terminal = open_terminal(user=user, environment={"PYTHONPATH": str(ROOT)})
    below = tempfile.mkdtemp(prefix="kt-", dir="/tmp") if layout == "temporary" else None
    try:
        if below is not None:
            Path(below).chmod(0o777)
        folder = f"{below or place / 'home'}/world"
        program = f"python -m tests.support.escapes {folder} {kind} {layout} {seed} {ROUNDS}"
        status, said = terminal.run(f"{program} > ~/report.json")
        assert status == 0, said
        report = json.loads((place / "home" / "report.json").read_text())
        assert report == {"attempts": ROUNDS, "escaped": []}
    finally:
        if below is not None:
            Path(below).rmdir()
