"""Tables of names, written as text: easier to read and to compare than lists of strings."""

from __future__ import annotations


def names(text: str) -> tuple[str, ...]:
    """The words of `text`, in order."""
    return tuple(text.split())
