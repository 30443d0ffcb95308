"""Where a provider is reached: the checked base URL, and its host as messages name it."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from kogniterm.errors import SettingsError


def checked_url(url: str, provider: str) -> str:
    """`url` if it is an http or https address. Raises `SettingsError` for anything else."""
    parts = _split(url)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SettingsError(
            "The base URL {url} of {provider} is no address; write it as https://HOST/PATH.",
            url=url,
            provider=provider,
        )
    return url


def host_of(url: str) -> str:
    """Host and port in `url`, without a user name or password that may stand before them."""
    parts = _split(url)
    return parts.netloc.rpartition("@")[2] if parts is not None else url


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # checked only when it is asked for
    except ValueError:
        return None
    return parts
