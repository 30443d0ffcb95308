"""Recordings: keep every exchange with a model, and play them again without it.

A recording is a JSON Lines file (version 1): a header with the model's `ModelInfo`, then one
line a call: who asked what (as hashes, with one hash a message), the pieces that streamed,
and the reply or the failure. Calls that were cancelled are left out. What the model was shown
is not in the file; what it said is. A replay plays the session again and
reports at which call, and at which message of it, the new run first differs from the old one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm import errors
from kogniterm.errors import ModelError, UsageError
from kogniterm.models.calling import WrappedModel
from kogniterm.protocols import Model
from kogniterm.types import (
    AnswerDelta,
    ModelEvent,
    ModelInfo,
    ModelLoading,
    ModelRequest,
    ModelRetried,
    Phrase,
    Reply,
    ThoughtDelta,
    Usage,
    WebSource,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

VERSION = 1
WHAT = Phrase("recording")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallDivergence:
    """The place where a replayed session first asked something else than the recorded one.

    `call` counts from 1; `part` is "messages", "tools" or "purpose"; `message` is the position
    of the first other message (from 1), None for the other parts.
    """

    call: int
    part: str
    message: int | None = None


class RecordingModel(WrappedModel):
    """Passes every call on to `model` and appends the exchange to the file at `path`.

    If the recording cannot be written, it ends with a warning and the session continues.
    """

    def __init__(self, model: Model, path: Path) -> None:
        super().__init__(model)
        self._path = path
        self._broken = False
        self._append({"version": VERSION, "model": asdict(model.info)}, first=True)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        events: list[dict[str, Any]] = []
        exchange: dict[str, Any] = {"asked": asked(request), "events": events}
        try:
            async for event in self._model.stream(request):
                if not isinstance(event, ModelLoading):  # not part of the exchange
                    events.append(_event_to_json(event))
                if isinstance(event, Reply):
                    # Before the event is passed on: the consumer may stop listening here.
                    self._append(exchange)
                yield event
        except ModelError as error:
            failed = {"kind": type(error).__name__, "message": str(error)}
            self._append({**exchange, "error": failed})
            raise

    def _append(self, line: Mapping[str, Any], *, first: bool = False) -> None:
        if self._broken:
            return
        data = json.dumps(line, ensure_ascii=False, default=str).encode() + b"\n"
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "ab", buffering=0) as file:
                if not (first and os.fstat(handle).st_size):
                    file.write(data)
        except OSError as error:
            self._broken = True
            log.warning("recording to %s stopped: %s", self._path, error)


def open_replay(path: Path) -> ReplayModel:
    """Return the model recorded at `path`. Raises `UsageError` naming the file and the line."""
    from kogniterm.models.script_file import read_text

    lines = read_text(path, WHAT).splitlines()
    parsed = [_parse(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not parsed or "model" not in parsed[0]:
        raise UsageError("{path}:1: not a model recording.", path=path)
    if parsed[0].get("version") != VERSION:
        raise UsageError(
            "{path}:1: recording version {version} is not supported; the "
            "supported version is {known}.",
            path=path,
            version=parsed[0].get("version"),
            known=VERSION,
        )
    try:
        model = parsed[0]["model"]
        listed = {name: tuple(model.get(name, ())) for name in ("images", "efforts")}
        info = ModelInfo(**{**model, **listed})
        exchanges = [Exchange.from_json(number, line) for number, line in enumerate(parsed[1:], 1)]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise UsageError(
            "{path} is not a valid recording ({detail}).", path=path, detail=error
        ) from error
    return ReplayModel(info, exchanges, str(path))


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise UsageError(
            "{path}:{line}: not valid JSON ({detail}).", path=path, line=number, detail=error
        ) from error
    if not isinstance(value, dict):
        raise UsageError("{path}:{line}: must be a JSON object.", path=path, line=number)
    return value


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded call: what was asked (hashed), what came, or the failure instead.

    `number` counts from 1; `asker` tells which of those that ask side by side it was.
    """

    number: int
    asker: str
    asked: Mapping[str, Any]
    events: tuple[ModelEvent, ...]
    error: ModelError | None

    @classmethod
    def from_json(cls, number: int, line: Mapping[str, Any]) -> Exchange:
        found = line.get("error")
        return cls(
            number,
            line["asked"].get("asker", ""),
            {part: line["asked"][part] for part in ("purpose", "messages", "tools")},
            tuple(_event_from_json(event) for event in line["events"]),
            None if found is None else _error_from_json(found),
        )


class ReplayModel:
    """Gives recorded replies in order; `divergence` tells the first difference, if any.

    A run that differs goes on all the same: times and paths differ between machines, and the rest
    of the session is still worth seeing.
    """

    def __init__(self, info: ModelInfo, exchanges: Sequence[Exchange], path: str) -> None:
        self._info = info
        self._left = list(exchanges)
        self._calls = len(exchanges)
        self._path = path
        self.divergence: CallDivergence | None = None

    @property
    def info(self) -> ModelInfo:
        return self._info

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if not self._left:
            raise ModelError(
                "The recording {path} ends after {calls} calls, but the session made one more.",
                path=self._path,
                calls=self._calls,
            )
        # Concurrent callers come in any order; each gets its own exchanges in order.
        own = (at for at, one in enumerate(self._left) if one.asker == _asker(request))
        exchange = self._left.pop(next(own, 0))
        if self.divergence is None:
            self.divergence = _difference(exchange.number, exchange.asked, asked(request))
            if self.divergence is not None:
                log.warning("replay of %s diverges: %s", self._path, asdict(self.divergence))
        for event in exchange.events:
            yield event
        if exchange.error is not None:
            raise exchange.error


ASIDE = ("extract_facts", "web_search")
"""Calls that are made beside the answer's path."""


def _asker(request: ModelRequest) -> str:
    """Return the name of the caller among concurrent ones; the main agent has none."""
    return request.purpose if request.purpose in ASIDE else request.agent


def asked(request: ModelRequest) -> dict[str, Any]:
    """Return the identity of a request: asker, purpose, one hash a message, one for all tools."""
    tools = [(tool.name, tool.description, dict(tool.parameters)) for tool in request.tools]
    return {
        "asker": _asker(request),
        "purpose": request.purpose,
        "messages": [_hash(_identity(message)) for message in request.messages],
        "tools": _hash(tools),
    }


def _identity(message: BaseMessage) -> list[object]:
    """Return the parts of a message that a model is shown; ids and counts are not among them."""
    calls = [(call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]
    return [message.type, message.content, calls]


def _hash(value: object) -> str:
    data = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(data.encode(errors="surrogatepass")).hexdigest()[:16]


def _difference(call: int, old: Mapping[str, Any], new: Mapping[str, Any]) -> CallDivergence | None:
    if old["messages"] != new["messages"]:
        pairs = zip(old["messages"], new["messages"], strict=False)
        place = next((at for at, (a, b) in enumerate(pairs, 1) if a != b), None)
        shorter = min(len(old["messages"]), len(new["messages"]))
        return CallDivergence(call, "messages", place or shorter + 1)
    for part in ("tools", "purpose"):
        if old[part] != new[part]:
            return CallDivergence(call, part)
    return None


def _event_to_json(event: AnswerDelta | ThoughtDelta | ModelRetried | Reply) -> dict[str, Any]:
    if isinstance(event, AnswerDelta):
        return {"text": event.text}
    if isinstance(event, ThoughtDelta):
        return {"thought": event.text}
    if isinstance(event, ModelRetried):
        retry = {"attempt": event.attempt, "of": event.of, "wait": event.wait}
        return {"retry": retry, "reason": str(event.reason)}
    from langchain_core.messages import message_to_dict

    reply = {"reply": message_to_dict(event.message), "usage": asdict(event.usage)}
    sources = [asdict(one) for one in event.sources]
    return {**reply, "sources": sources} if sources else reply


def _event_from_json(value: Mapping[str, Any]) -> ModelEvent:
    if "text" in value:
        return AnswerDelta(value["text"])
    if "thought" in value:
        return ThoughtDelta(value["thought"])
    if "retry" in value:
        # A replay does not repeat the wait.
        retry = {**value["retry"], "wait": 0.0}
        return ModelRetried(**retry, reason=Phrase("{reason}", {"reason": value["reason"]}))
    from langchain_core.messages import AIMessage, messages_from_dict

    message = messages_from_dict([value["reply"]])[0]
    if not isinstance(message, AIMessage):
        raise ValueError(f"a reply cannot be a {message.type} message")
    sources = tuple(WebSource(**one) for one in value.get("sources", ()))
    return Reply(message, Usage(**value["usage"]), sources)


def _error_from_json(value: Mapping[str, Any]) -> ModelError:
    kind = getattr(errors, value["kind"], ModelError)
    if not (isinstance(kind, type) and issubclass(kind, ModelError)):
        kind = ModelError
    return kind("{message}", message=value["message"])
