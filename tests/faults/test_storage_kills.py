"""`kill -9` at every boundary of the journal: nothing acknowledged is lost, nothing runs twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_loop.py")
ROOT = Path(__file__).parents[2]
ALL = os.environ.get("KOGNITERM_TEST_FAULTS") == "all"
KILLS = 300 if ALL else 20


@pytest.mark.parametrize("seed", range(4 if ALL else 1))
def test_no_kill_loses_or_repeats_anything(location: Path | str, tmp_path: Path, seed: int) -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), str(location), str(tmp_path), str(KILLS), str(seed)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["wrong"] == []
    assert report["commands"] > KILLS // 2
    assert report["unknown"] > 0
