"""Everything here runs on both databases."""

from __future__ import annotations

from tests.support.databases import (
    backend,
    location,
    open_backend,
    postgres_server,
    postgres_url,
    store,
)

__all__ = ["backend", "location", "open_backend", "postgres_server", "postgres_url", "store"]
