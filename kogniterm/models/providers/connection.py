"""Where a provider is reached and with which key: checked before anything is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import SplitResult, urlsplit

from kogniterm.errors import ModelAuthError, SettingsError


def silence_tracing() -> None:
    """Switch LangSmith's tracing off for this process, whatever the environment says."""
    import langsmith

    langsmith.configure(enabled=False)


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


LONGEST_EVENT = 16_000_000
"""Bytes of one line of a stream: the longest reply (`chunks.LONGEST_REPLY`) with every character
escaped, and room for signatures of thoughts."""


class LongEventError(Exception):
    """A line of a provider's stream is longer than `LONGEST_EVENT`; the rest was not read."""


def hooks() -> dict[str, list[Callable[..., Awaitable[None]]]]:
    """Return the event hooks for an httpx client whose responses are to be limited."""
    return {"response": [limit]}


async def limit(response: Any) -> None:
    """Let reading `response` raise `LongEventError` as soon as one line of it is too long.

    Takes a response of httpx or of a fork of it, as some providers' clients bring one.
    """
    kinds = type(response.stream).__mro__
    plain = next((kind for kind in kinds if kind.__name__ == "AsyncByteStream"), None)
    if plain is not None:
        stream = type("LimitedStream", (_Limited, plain), {})(response.stream)
        response.stream = stream


class _Limited:
    """A response's bytes, as long as its lines have an end."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for data in self._stream:
            end = data.rfind(b"\n")
            size = size + len(data) if end < 0 else len(data) - end - 1
            if size > LONGEST_EVENT:
                raise LongEventError
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()
