"""The SQL that databases are asked while a test runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kogniterm.storage.database import Database


@contextmanager
def noted_statements() -> Iterator[list[tuple[str, tuple[object, ...]]]]:
    """Yield the list to which each statement is added with its values, in order."""
    noted: list[tuple[str, tuple[object, ...]]] = []
    cursor = Database._cursor

    def note(self: Database, statement: str, values: Sequence[object] = ()) -> object:
        noted.append((statement, tuple(values)))
        return cursor(self, statement, values)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Database, "_cursor", note)
        yield noted
