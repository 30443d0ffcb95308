"""Tool calls as text, for models that know no function calling.

There is one form, and no guessing at others (see docs/models.md):

    <tool_call>
    {"name": "execute_command", "arguments": {"command": "ls"}}
    </tool_call>

The JSON object has exactly these two keys, each once. Several calls may follow each other;
text may stand before the first one, and whatever stands behind the last one is dropped, since
models without function calling like to go on and make up the result. A call that does not fit
the form is sent back to the model once, with what is wrong; if that does not help it becomes an
invalid tool call, for the agent to answer. Nothing that is not whole is ever a tool call.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from kogniterm import prompts
from kogniterm.models.calling import WrappedModel
from kogniterm.types import (
    AnswerDelta,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ModelRetried,
    Reply,
    ToolSpec,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

OPEN = "<tool_call>"
CLOSE = "</tool_call>"


class TextCall(NamedTuple):
    """A whole call."""

    name: str
    arguments: dict[str, Any]


class ParsedReply(NamedTuple):
    """A reply taken apart: the text before the calls, the calls, and what is wrong, if anything.

    With a `problem` there are no calls; `raw` is the text from the first mark on.
    """

    text: str
    calls: tuple[TextCall, ...] = ()
    problem: str | None = None
    raw: str = ""


class _FormError(ValueError):
    """A call that does not fit the form; the message goes to the model."""


def parse(reply: str) -> ParsedReply:
    """Take a reply apart. Pure; never raises."""
    start = reply.find(OPEN)
    stray = reply.find(CLOSE)
    if start < 0 and stray < 0:
        return ParsedReply(reply.strip())
    if start < 0 or 0 <= stray < start:
        return ParsedReply(
            reply[:stray].strip(), (), f"{CLOSE} has no {OPEN} before it", reply[stray:]
        )
    text, raw = reply[:start].strip(), reply[start:]
    calls: list[TextCall] = []
    position = 0
    try:
        while raw.startswith(OPEN, position):
            call, position = _call_at(raw, position + len(OPEN))
            calls.append(call)
            position = _skip_space(raw, position)
        if OPEN in raw[position:]:
            raise _FormError("text stands between two calls")
    except _FormError as error:
        return ParsedReply(text, (), str(error), raw)
    return ParsedReply(text, tuple(calls))


def _call_at(text: str, position: int) -> tuple[TextCall, int]:
    """Return the call whose JSON starts at `position`, and the position behind its closing mark."""
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
    position = _skip_space(text, position)
    try:
        value, end = decoder.raw_decode(text, position)
    except _FormError:
        raise
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise _FormError(f"the JSON is not valid ({reason})") from error
    end = _skip_space(text, end)
    if not text.startswith(CLOSE, end):
        raise _FormError(f"{CLOSE} does not follow the JSON object")
    if not isinstance(value, dict):
        raise _FormError("the JSON is not an object")
    if set(value) != {"name", "arguments"}:
        raise _FormError("the object must have exactly the keys name and arguments")
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not name.strip():
        raise _FormError("name must be the name of a tool")
    if not isinstance(arguments, dict):
        raise _FormError("arguments must be an object")
    return TextCall(name, arguments), end + len(CLOSE)


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _FormError("a key stands twice in an object")
    return found


def _no_constant(name: str) -> object:
    raise _FormError(f"{name} is not JSON")


class TextCallModel(WrappedModel):
    """Offers tools to `model` in its system text and reads calls from its replies."""

    @property
    def info(self) -> ModelInfo:
        return self._model.info._replace(calls_tools=True)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        plain = request._replace(tools=(), messages=self._as_text(request))
        if not request.tools:
            async for event in self._model.stream(plain):
                yield event
            return
        gate = _TextGate()
        reply: Reply | None = None
        async for event in self._model.stream(plain):
            if isinstance(event, AnswerDelta):
                if piece := gate.feed(event.text):
                    yield AnswerDelta(piece)
            elif isinstance(event, Reply):
                reply = event
            else:
                if isinstance(event, ModelRetried):
                    gate.reset()
                yield event
        assert reply is not None
        if piece := gate.rest():
            yield AnswerDelta(piece)
        parsed = parse(reply.message.text)
        if parsed.problem is not None:
            async for event in self._ask_again(plain, reply, parsed):
                yield event
            return
        yield reply._replace(message=_message(reply.message, parsed))

    async def _ask_again(
        self, plain: ModelRequest, first: Reply, parsed: ParsedReply
    ) -> AsyncIterator[ModelEvent]:
        """Ask once more, saying what was wrong; only the calls of the second reply count."""
        from langchain_core.messages import AIMessage, HumanMessage

        said = AIMessage(first.message.text)
        repair = HumanMessage(prompts.text("text_calls.repair", problem=parsed.problem))
        again = plain._replace(messages=(*plain.messages, said, repair))
        second: Reply | None = None
        async for event in self._model.stream(again):
            if isinstance(event, Reply):
                second = event
            elif not isinstance(event, AnswerDelta):
                yield event
        assert second is not None
        better = parse(second.message.text)
        usage = first.usage + second.usage
        if better.calls or better.problem is not None:
            better = better._replace(text=parsed.text)
        else:
            yield AnswerDelta(better.text)
        yield Reply(_message(second.message, better), usage)

    def _as_text(self, request: ModelRequest) -> tuple[BaseMessage, ...]:
        """Return the history with tool calls and results as text.

        Each message is written by itself, so that what was sent once is sent the same again.
        """
        from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

        rendered: list[BaseMessage] = []
        for message in request.messages:
            if isinstance(message, ToolMessage):
                result = f"<tool_result>\n{message.text}\n</tool_result>"
                last = rendered[-1] if rendered else None
                if isinstance(last, HumanMessage) and last.name == "tool_results":
                    # Most of these models want the two sides to take turns.
                    result = f"{last.text}\n{result}"
                    rendered.pop()
                rendered.append(HumanMessage(result, name="tool_results"))
            elif isinstance(message, AIMessage) and (
                message.tool_calls or message.invalid_tool_calls
            ):
                rendered.append(AIMessage(_written(message), id=message.id))
            else:
                rendered.append(message)
        if not request.tools:
            return tuple(rendered)
        if rendered and isinstance(rendered[0], SystemMessage):
            system = f"{rendered[0].text}\n\n{_describe_tools(request.tools)}"
            return (SystemMessage(system), *rendered[1:])
        return (SystemMessage(_describe_tools(request.tools)), *rendered)


def _describe_tools(tools: Sequence[ToolSpec]) -> str:
    lines = [f"{prompts.text('text_calls.tools')}\n"]
    for tool in tools:
        schema = json.dumps(dict(tool.parameters), ensure_ascii=False)
        lines.append(f"## {tool.name}\n{tool.description}\nArguments: {schema}\n")
    return "\n".join(lines)


def _written(message: AIMessage) -> str:
    """Return a message with calls as the model wrote it, or would have."""
    calls = [
        json.dumps({"name": call["name"], "arguments": call["args"]}, ensure_ascii=False)
        for call in message.tool_calls
    ]
    blocks = [f"{OPEN}\n{body}\n{CLOSE}" for body in calls]
    for call in message.invalid_tool_calls:
        raw = call["args"] or ""
        # Read from text, it still has its marks; from another model it never had any.
        blocks.append(raw if OPEN in raw or CLOSE in raw else f"{OPEN}\n{raw}\n{CLOSE}")
    return "\n".join(filter(None, [message.text, *blocks]))


def _message(message: AIMessage, parsed: ParsedReply) -> AIMessage:
    from langchain_core.messages import AIMessage
    from langchain_core.messages.tool import invalid_tool_call, tool_call

    calls = [
        tool_call(name=call.name, args=call.arguments, id=f"text_{uuid4().hex}")
        for call in parsed.calls
    ]
    invalid = []
    if parsed.problem is not None:
        call_id = f"text_{uuid4().hex}"
        invalid = [invalid_tool_call(name="", args=parsed.raw, id=call_id, error=parsed.problem)]
    return AIMessage(
        parsed.text,
        id=message.id,
        tool_calls=calls,
        invalid_tool_calls=invalid,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
    )


class _TextGate:
    """Lets streamed text through up to the first call; holds back what may become its mark."""

    def __init__(self) -> None:
        self._held = ""
        self._shut = False

    def reset(self) -> None:
        self._held, self._shut = "", False

    def feed(self, text: str) -> str:
        """Return the part of `text` that is certain to be text."""
        if self._shut:
            return ""
        self._held += text
        starts = [at for at in (self._held.find(OPEN), self._held.find(CLOSE)) if at >= 0]
        if starts:
            self._shut = True
            safe, self._held = self._held[: min(starts)].rstrip(), ""
        else:
            cut = len(self._held) - _possible_mark(self._held)
            safe, self._held = self._held[:cut], self._held[cut:]
        return safe

    def rest(self) -> str:
        """Return the held-back part, which turned out to be text."""
        rest, self._held = self._held, ""
        return rest


def _possible_mark(text: str) -> int:
    """Return the length of the longest end of `text` that begins a mark."""
    for length in range(min(len(text), len(CLOSE) - 1), 0, -1):
        if OPEN.startswith(text[-length:]) or CLOSE.startswith(text[-length:]):
            return length
    return 0
