"""Stores at addresses: PostgreSQL, and those that other packages name for a scheme.

A package names a function as an entry point of the group `kogniterm.stores`, by the scheme of its
addresses. It takes an address and returns a connection of psycopg, or one that behaves like it, to
a server that speaks PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from kogniterm.errors import KognitermError, StorageError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "kogniterm.stores"
POSTGRES = ("postgresql", "postgres")
"""Schemes that need no other package."""

_SHORTEST_PIECE = 2
_PASSWORD = re.compile(r"(?<=://)([^:/@]*):(.*)@", re.DOTALL)
_QUERY = re.compile(r"\?[\w.%-]+=")
_VALUE = re.compile(r"(?<=[?&])([^=&#]*)=([^&#]*)")
_SECRET_NAME = re.compile(r"pass(?!file)|pwd|secret|token|api_?key", re.IGNORECASE)


# --- addresses -------------------------------------------------------------------------------


def scheme_of(location: Path | str) -> str:
    """Return the scheme of an address in small letters, or "" for a file."""
    found = re.match(r"([a-zA-Z][\w+.-]*)://", str(location))
    return found[1].lower() if found else ""


def lower_scheme(address: str) -> str:
    """Return an address with its scheme in small letters, the only ones that libpq knows."""
    scheme = scheme_of(address)
    return scheme + address[len(scheme) :]


def without_password(url: str) -> str:
    """Return `url` as it may be shown and logged."""
    shown = url
    for start, end in sorted(_secret_spans(url), reverse=True):
        shown = f"{shown[:start]}…{shown[end:]}"
    return shown


def without_secrets(url: str) -> str:
    """Return `url` as it is without a password and secret options: the same for each of them."""
    for start, end in sorted(_secret_spans(url), reverse=True):
        option = max(url.rfind("?", 0, start), url.rfind("&", 0, start))
        if url[start - 1] == ":":
            url = url[: start - 1] + url[end:]
        else:
            url = url[: option + 1] + url[end:].removeprefix("&")
    return url.replace("://@", "://", 1).rstrip("?&")


def without_passwords_of(url: str, text: str) -> str:
    """Return `text` without the secrets of an address, nor parts of them.

    Drivers quote what they take for a name or a port where a password is not escaped.
    """
    secrets = {url[start:end] for start, end in _secret_spans(url)}
    secrets |= {unquote(secret) for secret in secrets}
    secrets |= {piece for secret in secrets for piece in re.split(r"[@:/?#&=]", secret)}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_PIECE:
            text = text.replace(secret, "…")
    return text


def _secret_spans(url: str) -> Iterator[tuple[int, int]]:
    """Yield where the password and secret values of the query stand in an address."""
    query = found.start() if (found := _QUERY.search(url)) else len(url)
    # The last @, because a password may hold one; after a ? too, if there is none before.
    password = _PASSWORD.search(url, 0, query) or _PASSWORD.search(url)
    if password:
        yield password.span(2)
        query = max(query, password.end())
    for value in _VALUE.finditer(url, query):
        if _SECRET_NAME.search(unquote(value[1])):
            yield value.span(2)


# --- packages --------------------------------------------------------------------------------


def known_schemes() -> tuple[str, ...]:
    """Return the schemes of all stores that are installed."""
    return (POSTGRES[0], *sorted(set(_entries()) - set(POSTGRES)))


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


def load_store(scheme: str) -> Callable[[str], Any]:
    """Return the function that connects to addresses of a scheme, from the package that serves it.

    Raises `UsageError` without one, and `StorageError` for one that cannot be loaded, or several.
    """
    require_store(scheme)
    entries = _entries()[scheme]
    if len(modules := sorted({entry.value for entry in entries})) > 1:
        raise StorageError(
            "Several packages serve {scheme}:// addresses ({modules}); uninstall all but one.",
            scheme=scheme,
            modules=", ".join(modules),
        )
    try:
        connect: Callable[[str], Any] = entries[0].load()
        if not callable(connect):
            raise TypeError(f"{type(connect).__name__} is not callable")
    except Exception as error:  # importing runs the package's own code
        raise StorageError(
            "The store for {scheme}:// cannot be loaded from {module}: {why}",
            scheme=scheme,
            module=modules[0],
            why=str(error),
        ) from error
    return connect


def connect_store(
    scheme: str, address: str, known: Callable[[], tuple[type[Exception], ...]]
) -> Any:
    """Return a connection to an address from the package that serves its scheme.

    What it raises but for system errors and `known` kinds becomes a `ConnectionError`.
    """
    connect = load_store(scheme)
    try:
        return connect(address)
    except Exception as error:
        if isinstance(error, (KognitermError, OSError, *known())):
            raise
        raise ConnectionError(str(error) or type(error).__name__) from error


def _entries() -> dict[str, list[EntryPoint]]:
    """Return the entry points of stores by scheme; names that are none serve no address."""
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        if scheme := scheme_of(f"{entry.name}://"):
            found.setdefault(scheme, []).append(entry)
    return found
