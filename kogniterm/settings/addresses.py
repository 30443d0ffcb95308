"""Addresses of providers as people write them. `ValueError` says what one must look like."""

from __future__ import annotations

from urllib.parse import urlsplit

OLLAMA_PORT = 11434


def http_url(value: str) -> str:
    """A URL without a slash at its end."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a URL that starts with http:// or https://")
    return value.rstrip("/")


def ollama_url(value: str) -> str:
    """The URL that a host, a host with a port, or a URL means."""
    parts = urlsplit(value if "://" in value else f"http://{value}")
    wanted = "a host, host:port, or URL"
    try:
        port = parts.port or OLLAMA_PORT
    except ValueError:
        raise ValueError(wanted) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(wanted)
    # The variable is shared with the server, which may listen on every address.
    host = "127.0.0.1" if parts.hostname == "0.0.0.0" else parts.hostname
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"
