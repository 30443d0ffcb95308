"""Both databases in turn for every test of this folder."""

from __future__ import annotations

from tests.support.databases import (
    database,
    location,
    open_database,
    postgres_server,
    postgres_url,
    store,
)

__all__ = ["database", "location", "open_database", "postgres_server", "postgres_url", "store"]
