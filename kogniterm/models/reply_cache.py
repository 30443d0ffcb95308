"""Replies kept on disk, so that the same call of a model is not made twice.

Kept are summaries, judgements and readings for memory: data that KogniTerm asked for, of which a
second reply would be no better. What decides, acts or answers the user is always asked anew. A
reply is found by a hash of the model, the options, the purpose and the whole request; the request
itself is not kept, and a reply in which something has to be redacted is not either.

Each reply is a private file in a folder of its session, so that deleting a session deletes it.
Files appear whole or not at all; one that is damaged counts as none. The least recently used go
first when all of them are too large. Forgetting anything deletes everything, because a reply may
say in other words what was forgotten.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.models.calling import ModelOptions, WrappedModel
from kogniterm.paths import SessionId
from kogniterm.protocols import Model
from kogniterm.storage.drivers import storage_errors
from kogniterm.storage.folders import write_private
from kogniterm.types import (
    UNUSABLE,
    ModelEvent,
    ModelInfo,
    ModelPurpose,
    ModelRequest,
    Reply,
    Usage,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

log = logging.getLogger(__name__)
VERSION = 1
PURPOSES: frozenset[ModelPurpose] = frozenset({"compact", "judge", "extract_facts"})
"""The purposes whose replies are kept."""
NOT_KEPT = frozenset({"local", "scripted", "replay"})
"""Providers whose models cost nothing and are there to be asked."""
UNFINISHED_SECONDS = 3600.0
"""Age at which the file of a write that did not end is deleted: its process was killed."""
CLEARED = "cleared"
"""File that is replaced when everything is deleted, for calls in flight to notice."""

Mark = tuple[int, int] | None


class KeptReply(NamedTuple):
    """A reply's text, and the tokens that the call took."""

    text: str
    input: int
    output: int

    def as_bytes(self) -> bytes:
        """Return the content of the file, with a checksum."""
        body = json.dumps([VERSION, self._asdict()])
        return f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}\n".encode()

    @staticmethod
    def read(data: bytes) -> KeptReply | None:
        """Return the reply in a file's content; None when it is damaged or of another version."""
        digest, _newline, body = data.partition(b"\n")
        if digest.decode("ascii", "replace") != hashlib.sha256(body.rstrip(b"\n")).hexdigest():
            return None
        version, fields = json.loads(body)
        return KeptReply(**fields) if version == VERSION else None


class ReplyCache:
    """The kept replies below `folder`: `quota` bytes at most, for `max_age` seconds after a use.

    Nothing is kept before the session is known whose calls are made. Several processes may use the
    folder at once.
    """

    def __init__(
        self,
        folder: Path,
        *,
        quota: int = 16_000_000,
        max_age: float = 30 * 86_400.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._session = ""
        self._folder = folder
        self._quota = quota
        self._max_age = max_age
        self._redact: Callable[[str], str] = str
        self._now = now

    @property
    def in_use(self) -> bool:
        """Return whether it is known whose calls are made."""
        return bool(self._session)

    def use(self, session: SessionId, redact: Callable[[str], str]) -> None:
        """Keep the replies to the calls of a session, unless `redact` changes them."""
        self._session, self._redact = session, redact

    def get(self, key: str) -> KeptReply | None:
        """Return the reply to a call, which then belongs to this session too; None for none."""
        own = self._file(key)
        for file in (own, *self._folder.glob(f"*/{own.name}")):
            kept = self._read(file)
            if kept is None:
                continue
            if file == own:
                with suppress(OSError):
                    file.touch()
            else:
                self.put(key, kept, self.mark())
            return kept
        return None

    def _read(self, file: Path) -> KeptReply | None:
        try:
            if self._now() - file.stat().st_mtime > self._max_age:
                return None
            kept = KeptReply.read(file.read_bytes())
        except OSError:
            return None
        except (ValueError, TypeError):
            kept = None
        if kept is None:
            with suppress(OSError):
                file.unlink()
        return kept

    def mark(self) -> Mark:
        """Return a value that changes when everything is deleted."""
        try:
            info = (self._folder / CLEARED).stat()
        except OSError:
            return None
        return info.st_ino, info.st_mtime_ns

    def put(self, key: str, kept: KeptReply, since: Mark) -> None:
        """Keep the reply of a call, unless everything was deleted since the mark `since`.

        A reply that cannot be written is not kept.
        """
        if self._redact(kept.text) != kept.text:
            return
        file = self._file(key)
        try:
            write_private(file, kept.as_bytes())
            if self.mark() != since:
                file.unlink(missing_ok=True)
            self.prune()
        except OSError as error:
            log.warning("a reply could not be kept: %s", error)

    def prune(self) -> None:
        """Delete what is too old, and the least recently used replies above the quota."""
        now, total = self._now(), 0
        files: list[tuple[float, int, Path]] = []
        for file in self._files():
            with suppress(OSError):
                info = file.stat()
                files.append((info.st_mtime, info.st_size, file))
        for used, size, file in sorted(files, reverse=True):
            whole = file.suffix == ".json"
            total += size
            age = now - used
            if age > (self._max_age if whole else UNFINISHED_SECONDS) or total > self._quota:
                with suppress(OSError):
                    file.unlink(missing_ok=True)
                    file.parent.rmdir()  # refuses while other files are there

    def clear(self) -> int:
        """Delete everything; return the number of replies. Raises `StorageError`."""
        count = 0
        if not self._folder.is_dir():
            return 0
        with storage_errors(self._folder):
            write_private(self._folder / CLEARED, b"")
            for file in list(self._files()):
                file.unlink(missing_ok=True)
                count += file.suffix == ".json"
                with suppress(OSError):
                    file.parent.rmdir()
        return count

    def size(self) -> tuple[int, int]:
        """Return the number of replies kept, and their bytes."""
        sizes = []
        for file in self._files():
            with suppress(OSError):
                sizes.append(file.stat().st_size if file.suffix == ".json" else 0)
        return len(sizes), sum(sizes)

    def _file(self, key: str) -> Path:
        return self._folder / self._session / f"{key}.json"

    def _files(self) -> Iterator[Path]:
        yield from (file for file in self._folder.glob("*/*") if file.is_file())


class CachingModel(WrappedModel):
    """A model whose replies for `PURPOSES` are kept, and taken from what was kept."""

    def __init__(self, model: Model, cache: ReplyCache, options: ModelOptions) -> None:
        super().__init__(model)
        self._cache = cache
        self._options = options

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the kept reply, or that of the model."""
        kept_here = request.purpose in PURPOSES and not request.tools and self._cache.in_use
        key = _key_of(self.info, self._options, request) if kept_here else ""
        kept = await asyncio.to_thread(self._cache.get, key) if key else None
        if kept is not None:
            from langchain_core.messages import AIMessage

            usage = Usage(reused=1, reused_input=kept.input, reused_output=kept.output)
            yield Reply(AIMessage(kept.text), usage)
            return
        since = self._cache.mark()
        async for event in self._model.stream(request):
            if key and isinstance(event, Reply) and _is_whole(event.message):
                usage = event.usage
                found = KeptReply(event.message.text, usage.input, usage.output)
                await asyncio.to_thread(self._cache.put, key, found, since)
            yield event


def _is_whole(message: AIMessage) -> bool:
    """Return whether a reply is text alone, and can be used."""
    called = message.tool_calls or message.invalid_tool_calls
    return not called and UNUSABLE not in message.response_metadata and bool(message.text.strip())


def _key_of(info: ModelInfo, options: ModelOptions, request: ModelRequest) -> str:
    """Return the hash of everything that a reply depends on."""
    told = [
        VERSION,
        info.name,
        info.effort,
        options.base_urls.get(info.provider),
        options.temperature,
        options.max_output,
        request.purpose,
        request.schema,
        [[message.type, message.content] for message in request.messages],
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=dict).encode()).hexdigest()


def caching(model: Model, cache: ReplyCache | None, options: ModelOptions) -> Model:
    """Return `model` with its replies kept in `cache`, where that is of use."""
    if cache is None or model.info.provider in NOT_KEPT:
        return model
    return CachingModel(model, cache, options)
