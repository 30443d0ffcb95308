"""Stores at addresses: PostgreSQL, and those that other packages name for a scheme.

A package names a function as an entry point of the group `kogniterm.stores`, by the scheme of its
addresses. It takes an address and returns a connection of psycopg, or one that behaves like it, to
a server that speaks PostgreSQL.
"""

from __future__ import annotations

from typing import Any

from kogniterm.errors import StorageError, UsageError

GROUP = "kogniterm.stores"
POSTGRES = ("postgresql", "postgres")
"""Schemes that need no other package."""


def known_schemes() -> tuple[str, ...]:
    """Return the schemes of all stores that are installed."""
    from importlib.metadata import entry_points

    return (POSTGRES[0], *sorted(entry_points(group=GROUP).names))


def is_served(scheme: str) -> bool:
    """Return whether a store serves the addresses of a scheme."""
    return scheme in POSTGRES or scheme in known_schemes()


def require_store(scheme: str) -> None:
    """Raise `UsageError` unless a store serves the addresses of a scheme."""
    if not is_served(scheme):
        raise UsageError(
            "No store serves {scheme}:// addresses; use one of these schemes: {known}.",
            scheme=scheme,
            known=", ".join(known_schemes()),
        )


def connect_store(scheme: str, address: str) -> Any:
    """Return a connection to an address from the package that serves its scheme."""
    from importlib.metadata import entry_points

    require_store(scheme)
    (entry, *_others) = entry_points(group=GROUP, name=scheme)
    try:
        connect = entry.load()
    except (ImportError, AttributeError) as error:
        raise StorageError(
            "The store for {scheme}:// cannot be loaded from {module}: {why}",
            scheme=scheme,
            module=entry.value,
            why=str(error),
        ) from error
    return connect(address)
