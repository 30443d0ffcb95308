"""Both databases in turn for the connection class."""

from __future__ import annotations

from tests.support.databases import location, postgres_server, postgres_url

__all__ = ["location", "postgres_server", "postgres_url"]
