"""Generated commands in great number: what is judged read-only neither runs code nor writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kogniterm.approval import classify
from tests.approval.corpus import WORKSPACE
from tests.approval.generated import FILES, PROGRAM_FILES, evaluated
from tests.approval.real_shell import RealShell, read_only_calls, read_only_rows
from tests.support.programs import needs

pytestmark = [
    needs("bash"),
    pytest.mark.skipif(
        os.environ.get("KOGNITERM_TEST_FAULTS") != "all", reason="one of the long fault runs"
    ),
]


@pytest.mark.parametrize("seed", range(100, 108))
def test_no_generated_command_acts(seed: int, tmp_path: Path) -> None:
    assert RealShell(tmp_path, FILES).changing(read_only_rows(seed, 8_000)) == []


@pytest.mark.parametrize("seed", range(100, 104))
def test_no_option_of_a_reading_program_acts(seed: int, tmp_path: Path) -> None:
    assert RealShell(tmp_path, PROGRAM_FILES).changing(read_only_calls(seed, 1_500)) == []


def test_no_use_of_data_is_read_only() -> None:
    read_only = (c for c in evaluated() if classify(c, cwd=WORKSPACE).label == "safe_readonly")
    assert list(read_only) == []
