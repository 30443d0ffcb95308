"""A limit for one event of a provider's stream, which its client would read whole into memory.

A reply of many events is counted as it comes (`chunks.Gathered`); one event comes to that only
when all of it has been read, and takes several times its size by then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

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
