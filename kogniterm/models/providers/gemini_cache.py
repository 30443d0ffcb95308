"""The beginning of requests as content that Gemini keeps (`cachedContents`).

Gemini caches equal beginnings by itself, but does not promise to. Where it did not although a
request began like the one before, the system text, the tools and the history so far are stored
there for some minutes, and later requests carry only its name and what is new. This is done after
a reply, in the background, and again when the history has doubled; a request never waits for it.
Whatever fails, the whole request is sent as usual.

The content lies outside this machine: it is deleted at the end of the session, expires by itself
soon after a process was killed, and is listed in a folder, by name only, for forgetting to delete
it.

https://ai.google.dev/api/caching
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from kogniterm.models.catalog import GEMINI_API
from kogniterm.storage.folders import read_own_json, write_private
from kogniterm.types import Usage

log = logging.getLogger(__name__)
SECONDS = 300
"""Time to live of stored content, after it was stored or used last."""
SERVED = 0.5
"""Share of the request before that Gemini's own cache must have served to be relied on."""
CLOSING_SECONDS = 3.0
"""Seconds by which deleting the content may delay the end of a session."""
FIXED = ("systemInstruction", "tools", "toolConfig")
"""Parts of a request that stored content takes the place of."""
GONE = frozenset({403, 404})
"""Status of a request about content that is not there any more."""

Send = Callable[[str, str, Mapping[str, Any] | None], Awaitable[tuple[int, Mapping[str, Any]]]]
"""Sends (method, path, body) and returns (status, reply); raises `OSError` when that fails."""


class Stored(NamedTuple):
    """Stored content: its name, what it takes the place of, its size, and when it expires.

    `rest` is the part of the head that requests still carry; `groups` are in wire form.
    """

    name: str
    head: object
    rest: bytes
    groups: tuple[bytes, ...]
    tokens: int
    expires: float


class _CachedRequest(NamedTuple):
    """A request that was answered, and the tokens of its input."""

    head: object
    groups: tuple[bytes, ...]
    tokens: int


class PrefixCache:
    """Stores the beginning of the requests to one model, of at least `least` tokens.

    `listed` is the list of stored content on this machine. `owed` is the usage of what was stored,
    until a reply takes it along.
    """

    def __init__(
        self,
        model: str,
        url: str,
        least: int,
        send: Send,
        listed: ProviderCaches | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.model, self.url, self.least = model, url, least
        self.send, self.listed, self.now = send, listed, now
        self.owed = Usage()
        self._stored: Stored | None = None
        self._before: _CachedRequest | None = None
        self._off = False
        self._work: asyncio.Task[None] | None = None

    def covering(self, head: object, groups: Sequence[bytes]) -> Stored | None:
        """Return the content that a request begins with, if there is more in the request."""
        one = self._stored
        if one is None or one.head != head or one.expires <= self.now():
            return None
        size = len(one.groups)
        return one if size < len(groups) and one.groups == tuple(groups[:size]) else None

    def note_lost(self, stored: Stored) -> None:
        """Note that Gemini does not have the content any more."""
        if self._stored is stored:
            self._stored = None
        if self.listed is not None:
            self.listed.remove(stored.name)

    def note_reply(
        self, head: object, fixed: bytes, groups: Sequence[bytes], *, tokens: int, cached: int
    ) -> None:
        """Store the request that was answered, where that pays, or extend what is stored.

        `tokens` are those of its input, of which `cached` came from a cache.
        """
        before, self._before = self._before, _CachedRequest(head, tuple(groups), tokens)
        if self._off or (self._work is not None and not self._work.done()):
            return
        used = self.covering(head, groups)
        if used is not None and tokens < 2 * used.tokens:
            if used.expires - self.now() < SECONDS / 2:
                self._work = asyncio.create_task(self._extend(used))
            return
        if used is None and not self._worth_it(before, head, groups, cached):
            return
        if tokens >= self.least:
            self._work = asyncio.create_task(self._store(head, fixed, tuple(groups)))

    def _worth_it(
        self, before: _CachedRequest | None, head: object, groups: Sequence[bytes], cached: int
    ) -> bool:
        """Return whether the request went on from the one before, and no cache served that."""
        other = self._stored
        if other is not None and other.head != head and other.expires > self.now():
            return False  # a sub-agent asks beside the main agent, whose content stays
        if before is None or before.head != head or before.tokens < self.least:
            return False
        size = len(before.groups)
        return before.groups == tuple(groups[:size]) and cached < SERVED * before.tokens

    async def _store(self, head: object, fixed: bytes, groups: tuple[bytes, ...]) -> None:
        parts: dict[str, Any] = json.loads(b"{" + fixed.rstrip(b",") + b"}")
        rest = {name: value for name, value in parts.items() if name not in FIXED}
        body = {name: value for name, value in parts.items() if name in FIXED}
        body |= {
            "model": f"models/{self.model}",
            "contents": json.loads(b"[" + b",".join(groups) + b"]"),
            "ttl": f"{SECONDS}s",
        }
        reply = await self._ask("POST", "cachedContents", body)
        name, counted = reply.get("name"), reply.get("usageMetadata")
        tokens = counted.get("totalTokenCount") if isinstance(counted, Mapping) else None
        if not isinstance(name, str) or not isinstance(tokens, int):
            self._off = True  # not allowed, too small or unknown there: it would fail again
            return
        kept = json.dumps(rest, ensure_ascii=False, separators=(",", ":")).encode()[1:-1]
        expires = self.now() + SECONDS
        old, self._stored = (
            self._stored,
            Stored(name, head, kept + b"," if kept else b"", groups, tokens, expires),
        )
        self.owed += Usage(input=tokens, written=tokens, stored=tokens * SECONDS)
        if self.listed is not None:
            self.listed.add(ListedCache(name, self.url, expires))
        if old is not None:
            await self._delete(old)

    async def _extend(self, stored: Stored) -> None:
        path = f"{stored.name}?updateMask=ttl"
        reply = await self._ask("PATCH", path, {"ttl": f"{SECONDS}s"})
        if not reply.get("name"):
            self.note_lost(stored)
            return
        left = max(stored.expires - self.now(), 0)
        expires = self.now() + SECONDS
        self._stored = stored._replace(expires=expires)
        self.owed += Usage(stored=int(stored.tokens * (SECONDS - left)))
        if self.listed is not None:
            self.listed.add(ListedCache(stored.name, self.url, expires))

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        """Return the reply; nothing when the request failed, which is logged."""
        try:
            status, reply = await self.send(method, path, body)
        except OSError as error:
            log.info("content at Gemini: %s failed: %s", method, error)
            return {}
        if status >= 400:
            log.info("content at Gemini: %s gave status %s", method, status)
            return {}
        return reply

    async def _delete(self, stored: Stored) -> None:
        try:
            status, _reply = await self.send("DELETE", stored.name, None)
        except OSError as error:
            log.info("content at Gemini could not be deleted: %s", error)
            return
        if (status < 400 or status in GONE) and self.listed is not None:
            self.listed.remove(stored.name)

    async def aclose(self) -> None:
        """Delete what is stored, within a bounded time; it expires by itself otherwise."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                if self._work is not None:
                    await asyncio.wait([self._work])
                if self._stored is not None:
                    stored, self._stored = self._stored, None
                    await self._delete(stored)

    def take_owed(self) -> Usage:
        """Return the usage of what was stored since the last time."""
        owed, self.owed = self.owed, Usage()
        return owed


# --- the list of stored content ------------------------------------------------------------------


class ListedCache(NamedTuple):
    """Stored content: its name, the address of the service, and when it expires."""

    name: str
    url: str
    expires: float


class ProviderCaches:
    """The list of content that this user's processes have stored, a private file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, one: ListedCache) -> None:
        """List stored content; one that cannot be listed expires by itself."""
        try:
            write_private(self._file(one.name), json.dumps(one._asdict()).encode())
        except OSError as error:
            log.warning("content at Gemini could not be listed: %s", error)

    def remove(self, name: str) -> None:
        """Remove content that is not stored any more."""
        with suppress(OSError):
            self._file(name).unlink(missing_ok=True)

    def current(self, now: float) -> Iterator[ListedCache]:
        """Yield the caches that have not expired; the others are removed from the list."""
        for file in sorted(self.folder.glob("*.json")):
            try:
                one = ListedCache(**read_own_json(file))
                alive = one.expires > now
            except TypeError:
                alive = False
            if alive:
                yield one
            else:
                with suppress(OSError):
                    file.unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"


def delete_listed(one: ListedCache, key: str) -> bool:
    """Delete stored content; return whether it is gone."""
    address = f"{one.url.rstrip('/')}/{GEMINI_API}/{one.name}"
    request = Request(address, headers={"x-goog-api-key": key}, method="DELETE")
    try:
        with urlopen(request, timeout=CLOSING_SECONDS):
            return True
    except HTTPError as error:
        with error:
            # Of content that is not there the service says so with status 403, too.
            told = error.read(10_000).lower()
            return error.code == 404 or (error.code == 403 and b"not found" in told)
    except (OSError, ValueError):
        return False
