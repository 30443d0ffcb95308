"""The one connection class runs on both databases."""

from __future__ import annotations

from tests.support.databases import location, postgres_server, postgres_url

__all__ = ["location", "postgres_server", "postgres_url"]
