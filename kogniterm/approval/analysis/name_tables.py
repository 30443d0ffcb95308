"""Tables of names, written as text: easier to read and to compare than lists of strings."""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())
