"""Amounts of money in one form, wherever they are shown."""

from __future__ import annotations


def money(dollars: float) -> str:
    """Return $0.00, <$0.0001, $0.0123, $0.50 or $12.30: never fewer than two decimals."""
    if 0 < dollars < 0.0001:
        return "<$0.0001"
    if dollars >= 1:
        return f"${dollars:.2f}"
    whole, _point, decimals = f"{dollars:.4f}".partition(".")
    return f"${whole}.{decimals.rstrip('0').ljust(2, '0')}"
