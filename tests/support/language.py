"""What a person reads in the other language."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kogniterm.ui.locale import use_language


@contextmanager
def in_spanish() -> Iterator[None]:
    """Everything that is told meanwhile is told in Spanish."""
    use_language("es")
    try:
        yield
    finally:
        use_language("en")
