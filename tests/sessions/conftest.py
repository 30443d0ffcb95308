"""Both databases in turn for every test of this folder."""

from __future__ import annotations

from pathlib import Path

from tests.support.databases import (
    database,
    location,
    open_database,
    postgres_server,
    postgres_url,
    store,
)

__all__ = ["database", "location", "open_database", "postgres_server", "postgres_url", "store"]


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Write into a file as another program or a bad disk does."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
