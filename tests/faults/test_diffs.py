"""Diffs of random bytes in great number: with the old bytes they give the new ones."""

from __future__ import annotations

import os

import pytest

from tests.text.test_diff import check_diffs

pytestmark = pytest.mark.skipif(
    os.environ.get("KOGNITERM_TEST_FAULTS") != "all", reason="one of the long fault runs"
)


@pytest.mark.parametrize("seed", range(100, 110))
def test_the_diff_and_the_old_bytes_give_the_new_ones(seed: int) -> None:
    check_diffs(seed, 4_000)
