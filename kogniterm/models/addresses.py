"""Where a provider is reached and with which key: checked before anything is sent."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from kogniterm.errors import ModelAuthError, SettingsError


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


def checked_key(key: str, provider: str) -> str:
    """`key` without white space around it, if it can go into a header. Never repeats the key.

    Raises `ModelAuthError`.
    """
    key = key.strip()
    if not key:
        raise ModelAuthError("{provider} needs an API key.", provider=provider)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ModelAuthError(
            "The API key for {provider} holds characters that no key has; copy it again.",
            provider=provider,
        )
    return key


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # checked only when it is asked for
    except ValueError:
        return None
    return parts
