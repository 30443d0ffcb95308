"""Everything here runs on both databases."""

from __future__ import annotations

from tests.flows.conftest import make_flow
from tests.support.databases import (
    backend,
    location,
    open_backend,
    postgres_server,
    postgres_url,
    store,
)

__all__ = [
    "backend",
    "location",
    "make_flow",
    "open_backend",
    "postgres_server",
    "postgres_url",
    "store",
]
