"""Output in the other language."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kogniterm.ui.locale import use_language


@contextmanager
def in_spanish() -> Iterator[None]:
    """Use Spanish for all messages within the block."""
    use_language("es")
    try:
        yield
    finally:
        use_language("en")
