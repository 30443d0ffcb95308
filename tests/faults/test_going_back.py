"""An agent and a second writer in the same folders, in great number: going back takes no more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.two_writers import TwoWriters

pytestmark = pytest.mark.skipif(
    os.environ.get("KOGNITERM_TEST_FAULTS") != "all", reason="one of the long fault runs"
)


@pytest.mark.parametrize("seed", range(1_000, 1_050))
def test_only_what_is_an_actions_own_goes_back(seed: int, tmp_path: Path) -> None:
    folder = TwoWriters(tmp_path, seed)
    for step in range(200):
        assert folder.step() == [], step
