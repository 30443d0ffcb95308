"""A model that answers from a script: tests, demos, bug reports. Needs no key and no network.

docs/scripted.md describes the file. Every call takes the first reply, in file order, that is
not used up and whose condition holds, so unconditional replies come one after the other and
conditional ones wait for their moment. Calls with another purpose than planning and deciding
(a summary, a judgement) are answered only by replies that ask for that purpose by name:
otherwise a side call would eat the reply meant for the next step.

Imports nothing heavy: LangChain's messages, when it answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import ModelError
from kogniterm.models.calling import Caller, ModelOptions
from kogniterm.models.catalog import ANY_IMAGES
from kogniterm.models.script_file import ReplyCondition, Script, ScriptedReply, read_script
from kogniterm.types import (
    AnswerDelta,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Reply,
    ThoughtDelta,
    Usage,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

MAIN_PURPOSES = frozenset({"create_plan", "decide_action"})
CHARACTERS_PER_TOKEN = 4
"""For usage numbers the script does not give; the common rule of thumb for English."""


def open_scripted(path: Path, options: ModelOptions) -> ScriptedModel:
    """The model of the script at `path`. Raises `UsageError` for an error in the file."""
    return ScriptedModel(read_script(path), options)


class ScriptedModel:
    """Answers from `script`. One object is one run through the script.

    `sleep` waits for `delay:` and between tries, if the script keeps its delays at all.
    """

    def __init__(
        self,
        script: Script,
        options: ModelOptions | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._script = script
        name = f"scripted:{script.path}"
        claimed = script.model.model_dump()
        claimed["images"] = ANY_IMAGES if script.model.images else ()
        self._info = ModelInfo(name, "scripted", **claimed)
        self._sleep = sleep if script.delays else _no_wait
        self._caller = Caller(name, options or ModelOptions(), sleep=self._sleep)
        self._left = [reply.repeat for reply in script.replies]
        self._last: ScriptedReply | None = None
        self._calls = 0
        self._ids = 0

    @property
    def info(self) -> ModelInfo:
        return self._info

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        return self._caller.call(lambda: self._attempt(request))

    async def aclose(self) -> None:
        """Do nothing: no connection is held."""

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self._calls += 1
        reply = self._next(request)
        if reply.delay:
            await self._sleep(reply.delay)
        size = reply.chunk or self._script.chunk
        for piece in _pieces(reply.thoughts, size):
            yield ThoughtDelta(piece)
        for piece in _pieces(reply.text, size):
            yield AnswerDelta(piece)
        if reply.failure is not None:
            raise reply.failure
        usage = _usage(request, reply)
        yield Reply(self._message(reply, usage, _call_ids(request.messages)), usage)

    def _next(self, request: ModelRequest) -> ScriptedReply:
        seen = _Seen(request, self._calls)
        for number, reply in enumerate(self._script.replies):
            if self._left[number] == 0 or not _serves(reply, request):
                continue
            if not seen.fulfils(reply.when):
                continue
            left = self._left[number]
            if left is not None:
                self._left[number] = left - 1
            unmet = seen.unmet(reply.expect)
            if unmet:
                raise ModelError(
                    "{path}:{line}: the script expects {key} {wanted}, "
                    "but the model was shown {shown}.",
                    path=self._script.path,
                    line=self._script.line(number),
                    **unmet,
                )
            self._last = reply
            return reply
        return self._at_end(request)

    def _at_end(self, request: ModelRequest) -> ScriptedReply:
        if request.purpose in MAIN_PURPOSES:
            if self._script.at_end == "repeat_last" and self._last is not None:
                return self._last
            used = any(left == 0 for left in self._left)
            if self._script.at_end == "restart" and used:
                self._left = [reply.repeat for reply in self._script.replies]
                return self._next(request)
        raise ModelError(
            "The script {path} has no reply for call {call} ({purpose}); the model was last "
            "shown: {shown}",
            path=self._script.path,
            call=self._calls,
            purpose=request.purpose,
            shown=_short(_Seen(request, self._calls).last),
        )

    def _message(self, reply: ScriptedReply, usage: Usage, taken: set[str]) -> AIMessage:
        from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall
        from langchain_core.messages.tool import invalid_tool_call

        calls: list[ToolCall] = []
        invalid: list[InvalidToolCall] = []
        for call in reply.tool_calls:
            call_id = call.id or self._free_id(taken)
            if not isinstance(call.args, str):
                calls.append(ToolCall(name=call.tool, args=dict(call.args), id=call_id))
            else:
                why = "the arguments are not a JSON object"
                invalid.append(
                    invalid_tool_call(name=call.tool, args=call.args, id=call_id, error=why)
                )
        return AIMessage(
            reply.text,
            tool_calls=calls,
            invalid_tool_calls=invalid,
            response_metadata={"model_provider": "scripted", "finish_reason": "STOP"},
            usage_metadata={
                "input_tokens": usage.input,
                "output_tokens": usage.output,
                "total_tokens": usage.input + usage.output,
            },
        )

    def _free_id(self, taken: set[str]) -> str:
        """The next `call_N` that the history does not hold: a resumed session has some."""
        while True:
            self._ids += 1
            if f"call_{self._ids}" not in taken:
                return f"call_{self._ids}"


async def _no_wait(_: float) -> None:
    """Delays are off: give other tasks their turn and go on."""
    await asyncio.sleep(0)


def _serves(reply: ScriptedReply, request: ModelRequest) -> bool:
    return request.purpose in MAIN_PURPOSES or reply.when.purpose == request.purpose


class _Seen:
    """A request in the terms of a script's conditions."""

    def __init__(self, request: ModelRequest, call: int) -> None:
        self._request = request
        self._call = call

    @property
    def last(self) -> str:
        messages = self._request.messages
        return messages[-1].text if messages else ""

    def fulfils(self, condition: ReplyCondition) -> bool:
        return self.unmet(condition) is None

    def unmet(self, condition: ReplyCondition) -> dict[str, str] | None:
        """The first part that does not hold: its key, what is wanted, what there is."""
        for key, holds, shown in self._parts(condition):
            wanted = getattr(condition, key)
            if wanted is not None and not holds():
                expected = getattr(wanted, "pattern", wanted)
                return {"key": key, "wanted": repr(expected), "shown": _short(str(shown()))}
        return None

    def _parts(
        self, wanted: ReplyCondition
    ) -> Iterator[tuple[str, Callable[[], bool], Callable[[], object]]]:
        """Key, whether it holds, and what to show when it does not; looked at when asked for."""
        request = self._request
        yield "purpose", lambda: request.purpose == wanted.purpose, lambda: request.purpose
        yield "turn", lambda: self._turn() == wanted.turn, self._turn
        yield "call", lambda: self._call == wanted.call, lambda: self._call
        yield "tool", lambda: self._tool() == wanted.tool, self._tool
        yield "images", lambda: self._images() == wanted.images, self._images
        yield "offers", lambda: wanted.offers in self._offered(), self._offered
        yield "last_contains", lambda: str(wanted.last_contains) in self.last, lambda: self.last
        yield (
            "last_matches",
            lambda: wanted.last_matches is not None and bool(wanted.last_matches.search(self.last)),
            lambda: self.last,
        )
        yield (
            "any_contains",
            lambda: any(str(wanted.any_contains) in text for text in self._texts(system=False)),
            lambda: "no such message",
        )
        yield (
            "system_contains",
            lambda: any(str(wanted.system_contains) in text for text in self._texts(system=True)),
            lambda: "no such system message",
        )

    def _turn(self) -> int:
        return sum(message.type == "human" for message in self._request.messages)

    def _images(self) -> int:
        contents = [m.content for m in self._request.messages if not isinstance(m.content, str)]
        blocks = [block for content in contents for block in content if isinstance(block, dict)]
        return sum(block.get("type") == "image" for block in blocks)

    def _offered(self) -> list[str]:
        return [tool.name for tool in self._request.tools]

    def _texts(self, *, system: bool) -> Iterator[str]:
        return (m.text for m in self._request.messages if (m.type == "system") is system)

    def _tool(self) -> str | None:
        return _answered_tool(self._request.messages)


def _call_ids(messages: Sequence[BaseMessage]) -> set[str]:
    from langchain_core.messages import AIMessage

    return {
        str(call["id"])
        for message in messages
        if isinstance(message, AIMessage)
        for call in (*message.tool_calls, *message.invalid_tool_calls)
    }


def _answered_tool(messages: Sequence[BaseMessage]) -> str | None:
    from langchain_core.messages import AIMessage, ToolMessage

    if not messages or not isinstance(messages[-1], ToolMessage):
        return None
    last = messages[-1]
    if last.name:
        return last.name
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                if call["id"] == last.tool_call_id:
                    return call["name"]
    return None


def _pieces(text: str, size: int | None) -> Iterator[str]:
    """`text` as it streams: word by word, or `size` characters at a time."""
    if size is not None:
        yield from (text[start : start + size] for start in range(0, len(text), size))
        return
    start = 0
    while start < len(text):
        end = text.find(" ", start + 1)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end


def _usage(request: ModelRequest, reply: ScriptedReply) -> Usage:
    """The tokens the reply claims, or an estimate in the right order of size."""
    if reply.usage is not None:
        return Usage(calls=1, **reply.usage.model_dump())
    shown = sum(len(message.text) for message in request.messages)
    calls = sum(
        len(call.args if isinstance(call.args, str) else json.dumps(call.args))
        for call in reply.tool_calls
    )
    said = len(reply.text) + len(reply.thoughts) + calls
    return Usage(shown // CHARACTERS_PER_TOKEN, -(-said // CHARACTERS_PER_TOKEN), 0, 1)


def _short(text: str, most: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
