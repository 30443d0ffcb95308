"""Amounts of money as text."""

from __future__ import annotations

import pytest

from kogniterm.text.shorten import money


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [
        (0, "$0.00"),
        (0.00001, "<$0.0001"),
        (0.0001, "$0.0001"),
        (0.0123, "$0.0123"),
        (0.5, "$0.50"),
        (0.99999, "$1.00"),
        (5, "$5.00"),
        (12.346, "$12.35"),
    ],
)
def test_an_amount_has_two_decimals_and_more_where_it_is_small(dollars: float, shown: str) -> None:
    assert money(dollars) == shown
