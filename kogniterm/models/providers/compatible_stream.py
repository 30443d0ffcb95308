"""Streams of services that speak OpenAI's protocol almost, mended before the client reads them.

Such services leave out the finish reason or the index of a call, repeat the name of a call or the
usage so far with each piece, or send the whole reply as one JSON object. The client would lose the
reply or the call, or count the usage many times.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

_DATA = b"data:"
_MOST_CALLS = 1_000
"""Calls of a reply; a number from here on, or a negative one, counts none."""


class MendedStream:
    """The bytes of a response, whose events are as OpenAI sends them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._last: dict[str, Any] = {}
        self._finished = False
        self._usage: Any = None
        self._calls: list[dict[str, Any]] = []

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest, whole = b"", False
        async for data in self._stream:
            rest += data
            whole = whole or rest.lstrip()[:1] == b"{"
            if not whole:
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    yield self._line(line) + b"\n"
        yield self._whole(rest) if whole else self._line(rest)
        yield self._report_usage()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _whole(self, data: bytes) -> bytes:
        """Return the reply in one JSON object as a stream."""
        try:
            reply = json.loads(data)
            for choice in reply.get("choices") or ():
                choice["delta"] = choice.pop("message")
        except (ValueError, KeyError, TypeError, AttributeError):
            return data
        event = _DATA + json.dumps(reply).encode()
        return b"\n\n".join((self._line(event), self._line(b"data: [DONE]"), b""))

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(_DATA):
            return line
        text = line.removeprefix(_DATA).strip()
        if text == b"[DONE]":
            end = b""
            if self._last and not self._finished:
                finish = "tool_calls" if self._calls else "stop"
                choice = {"index": 0, "delta": {}, "finish_reason": finish}
                end = self._event({**self._last, "choices": [choice]}) + b"\n\n"
            return end + self._report_usage() + line
        try:
            event = json.loads(text)
            choices = event.get("choices") or ()
            for choice in choices:
                choice["finish_reason"] = choice.get("finish_reason") or None
                self._finished = self._finished or choice["finish_reason"] is not None
                for piece in (choice.get("delta") or {}).get("tool_calls") or ():
                    self._mend_call(piece)
            # Usage that is reported more than once is that of the reply so far.
            self._usage = event.pop("usage", None) or self._usage
        except (ValueError, AttributeError, TypeError, KeyError):
            return line
        if choices:
            self._last = {name: event.get(name) for name in ("id", "object", "created", "model")}
        return self._event(event)

    def _report_usage(self) -> bytes:
        """Return the usage as the event of its own that OpenAI sends last; once."""
        usage, self._usage = self._usage, None
        if not usage:
            return b""
        return b"\n\n" + self._event({**self._last, "choices": [], "usage": usage}) + b"\n\n"

    def _event(self, event: dict[str, Any]) -> bytes:
        return _DATA + b" " + json.dumps(event).encode()

    def _mend_call(self, piece: dict[str, Any]) -> None:
        """Give a piece the index of its call, and only the first one the call's id and name."""
        index, function = piece.get("index"), piece.get("function") or {}
        call_id, name = piece.get("id"), function.get("name")
        if isinstance(function.get("arguments"), dict):
            function["arguments"] = json.dumps(function["arguments"])
        same = [n for n, call in enumerate(self._calls) if call_id and call["id"] == call_id]
        if not isinstance(index, int) or not 0 <= index < _MOST_CALLS:
            # Without a number, a piece goes on with the last call unless it begins another one.
            begins = not self._calls or bool(call_id or name)
            index = same[0] if same else len(self._calls) - (not begins)
        elif index < len(self._calls) and call_id and not same and self._calls[index]["id"]:
            index = len(self._calls)
        while index >= len(self._calls):
            self._calls.append({"id": None, "name": None})
        piece["index"], call = index, self._calls[index]
        if call["id"] and call["id"] == call_id:
            piece.pop("id")
        if call["name"] and call["name"] == name:
            function.pop("name")
        call["id"], call["name"] = call["id"] or call_id, call["name"] or name
