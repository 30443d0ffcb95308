"""A model that answers from a script: tests, demos, bug reports. Needs no key and no network.

docs/scripted.md describes the file. Every call takes the first reply, in file order, that is
not used up and whose condition holds, so unconditional replies come one after the other and
conditional ones wait for their moment. Calls with another purpose than planning and deciding
(a summary, a judgement) are answered only by replies that ask for that purpose by name:
otherwise a side call would eat the reply meant for the next step. `settings.user_files` reads the
file, with the line of every key.

Imports nothing heavy: LangChain's messages, when it answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from kogniterm.errors import (
    ContextOverflowError,
    FileValues,
    ModelAuthError,
    ModelBlockedError,
    ModelError,
    ModelNotFoundError,
    ModelQuotaError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from kogniterm.models.calling import Caller, ModelOptions
from kogniterm.models.catalog import ANY_IMAGES
from kogniterm.settings.user_files import plain
from kogniterm.settings.yaml_parts import (
    Count,
    Often,
    Pattern,
    Seconds,
    Text,
    YamlPart,
    read_values,
)
from kogniterm.text.shorten import gist
from kogniterm.types import (
    EXECUTE_COMMAND,
    AnswerDelta,
    ModelEvent,
    ModelInfo,
    ModelPurpose,
    ModelRequest,
    Reply,
    ThoughtDelta,
    Usage,
)
from kogniterm.types.turn_values import NOTE

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage


MAIN_PURPOSES = frozenset({"create_plan", "decide_action"})
CHARACTERS_PER_TOKEN = 4
"""For usage numbers the script does not give; the common rule of thumb for English."""

_SHOWN = 200
"""Characters shown of a text that was not expected."""


def open_scripted(path: Path, options: ModelOptions) -> ScriptedModel:
    """Return the model of the script at `path`. Raises `UsageError` for an error in the file."""
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
        # The usual longest reply would leave a request no part of a small window.
        claimed["max_output"] = min(script.model.max_output, script.model.context_window // 2)
        claimed["images"] = ANY_IMAGES if script.model.images else ()
        claimed["finds_facts"] = any(
            reply.when.purpose == "extract_facts" for reply in script.replies
        )
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
        return self._caller.call(lambda: self._attempt(request), request)

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
        for number, reply in enumerate(self._script.replies):
            side_call = request.purpose not in MAIN_PURPOSES
            if self._left[number] == 0 or (side_call and reply.when.purpose != request.purpose):
                continue
            if _unmet(reply.when, request, self._calls) is not None:
                continue
            left = self._left[number]
            if left is not None:
                self._left[number] = left - 1
            unmet = _unmet(reply.expect, request, self._calls)
            if unmet is not None:
                raise ModelError(
                    "{path}:{line}: the script expects {key} {wanted}, "
                    "but the model was shown {shown}.",
                    path=self._script.path,
                    line=self._script.line(number),
                    **unmet,
                )
            self._last = reply
            return reply
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
            shown=gist(_last_text(request), _SHOWN),
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
        """Return the next `call_N` that the history does not hold: a resumed session has some."""
        while True:
            self._ids += 1
            if f"call_{self._ids}" not in taken:
                return f"call_{self._ids}"


async def _no_wait(_: float) -> None:
    """Skip the delay, and let other tasks run."""
    await asyncio.sleep(0)


def _last_text(request: ModelRequest) -> str:
    return request.messages[-1].text if request.messages else ""


def _unmet(condition: ReplyCondition, request: ModelRequest, call: int) -> dict[str, str] | None:
    """Return the first part that does not hold: its key, the wanted value, the value there is."""
    messages, last = request.messages, _last_text(request)
    offered = [tool.name for tool in request.tools]
    checks: Mapping[str, Callable[[Any], tuple[bool, object]]] = {
        "purpose": lambda wanted: (request.purpose == wanted, request.purpose),
        "turn": lambda wanted: ((turn := _count_turns(messages)) == wanted, turn),
        "call": lambda wanted: (call == wanted, call),
        "tool": lambda wanted: ((tool := _answered_tool(messages)) == wanted, tool),
        "sub_agent": lambda wanted: (bool(request.agent) == wanted, bool(request.agent)),
        "images": lambda wanted: ((images := _count_images(messages)) == wanted, images),
        "offers": lambda wanted: (wanted in offered, offered),
        "last_contains": lambda wanted: (wanted in last, last),
        "last_matches": lambda wanted: (bool(wanted.search(last)), last),
        "any_contains": lambda wanted: (
            any(wanted in m.text for m in messages if m.type != "system"),
            "no such message",
        ),
        "system_contains": lambda wanted: (
            any(wanted in m.text for m in messages if m.type == "system"),
            "no such system message",
        ),
    }
    for key, check in checks.items():
        wanted = getattr(condition, key)
        if wanted is None:
            continue
        holds, shown = check(wanted)
        if not holds:
            expected = repr(getattr(wanted, "pattern", wanted))
            return {"key": key, "wanted": expected, "shown": gist(str(shown), _SHOWN)}
    return None


def _count_turns(messages: Sequence[BaseMessage]) -> int:
    return sum(m.type == "human" and NOTE not in m.additional_kwargs for m in messages)


def _count_images(messages: Sequence[BaseMessage]) -> int:
    contents = [m.content for m in messages if not isinstance(m.content, str)]
    blocks = [block for content in contents for block in content if isinstance(block, dict)]
    return sum(block.get("type") == "image" for block in blocks)


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
    """Yield `text` as it streams: word by word, or `size` characters at a time."""
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
    """Return the tokens the reply claims, or an estimate in the right order of size."""
    if reply.usage is not None:
        return Usage(calls=1, **reply.usage.model_dump())
    shown = sum(
        len(message.content if isinstance(message.content, str) else message.text)
        for message in request.messages
    )
    calls = sum(
        len(call.args if isinstance(call.args, str) else json.dumps(call.args))
        for call in reply.tool_calls
    )
    said = len(reply.text) + len(reply.thoughts) + calls
    return Usage(shown // CHARACTERS_PER_TOKEN, -(-said // CHARACTERS_PER_TOKEN), 0, 1)


PLAN_TOOL = "make_plan"
ERRORS: Mapping[str, type[ModelError]] = {
    "auth": ModelAuthError,
    "not_found": ModelNotFoundError,
    "quota": ModelQuotaError,
    "unavailable": ModelUnavailableError,
    "timeout": ModelTimeoutError,
    "blocked": ModelBlockedError,
    "reply": ModelReplyError,
    "overflow": ContextOverflowError,
    "refused": ModelError,
}


class ReplyCondition(YamlPart):
    """Conditions on the request; every part that is given must hold."""

    purpose: ModelPurpose | None = None
    turn: Count | None = None
    call: Count | None = None
    tool: Text | None = None
    offers: Text | None = None
    last_contains: Text | None = None
    last_matches: Pattern | None = None
    any_contains: Text | None = None
    system_contains: Text | None = None
    images: int | None = Field(default=None, ge=0)
    sub_agent: bool | None = None

    @model_validator(mode="after")
    def _some(self) -> ReplyCondition:
        if not self.model_fields_set:
            raise ValueError("holds no condition.")
        return self


class ScriptedCall(YamlPart):
    """One tool call: a `tool` with its arguments, or a command to `run`."""

    tool: Text = EXECUTE_COMMAND
    arguments: Annotated[Any, BeforeValidator(plain)] = Field(default_factory=dict)
    raw_arguments: Text | None = None
    id: Text | None = None
    run: Text | None = None
    purpose: Text | None = None

    @property
    def args(self) -> Mapping[str, Any] | str:
        """The arguments; text when they are no JSON object, to be kept as invalid."""
        if self.run is not None:
            return {"command": self.run} | ({"purpose": self.purpose} if self.purpose else {})
        if self.raw_arguments is not None:
            return self.raw_arguments
        given: Any = self.arguments
        return given if isinstance(given, dict) else json.dumps(given)

    @model_validator(mode="after")
    def _one_way(self) -> ScriptedCall:
        given = self.model_fields_set
        if "run" in given:
            self.refuse("does not go with run.", "tool", "arguments", "raw_arguments")
            return self
        if "tool" not in given:
            raise ValueError("names no tool; give tool or run.")
        self.refuse("only goes with run; put it into arguments.", "purpose")
        if "raw_arguments" in given:
            self.refuse("does not go with raw_arguments.", "arguments")
        return self


class StepCheck(YamlPart):
    """The check of a plan step."""

    kind: Text = ""
    value: Text = ""


def _steps(value: Any) -> Any:
    """Return steps with ids; one written as plain text gets the next id and no more."""
    if not isinstance(value, list):
        return value
    given = ({"what": step} if isinstance(step, str) else step for step in value)
    return [
        {"id": f"s{number}", **step} if isinstance(step, dict) else step
        for number, step in enumerate(given, 1)
    ]


def _substeps(value: Any) -> Any:
    """Return substeps with those in plain text as such; ids are left to the plan."""
    if not isinstance(value, list):
        return value
    return [ScriptStep.in_words(item) if isinstance(item, str) else item for item in value]


class ScriptStep(YamlPart):
    """A step of a scripted plan."""

    id: Text = ""
    what: Text
    why: Text = ""
    inputs: list[Text] = Field(default=[])
    tools: list[Text] = Field(default=[])
    expect: Text = ""
    check: StepCheck | None = None
    fallback: Text = ""
    delegate: Text = ""
    after: list[Text] = Field(default=[])
    writes: list[Text] = Field(default=[])
    substeps: Annotated[list[ScriptStep], BeforeValidator(_substeps)] = Field(default=[])
    _words: bool = PrivateAttr(default=False)

    @classmethod
    def in_words(cls, what: str) -> ScriptStep:
        """Return a substep that is plain text, and is given to the plan as such."""
        step = cls(what=what)
        step._words = True
        return step

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> Any:
        return self.what if self._words else handler(self)


class ScriptedPlan(YamlPart):
    """The arguments of a call of `make_plan`."""

    goal: Text
    reason: Text = ""
    steps: Annotated[list[ScriptStep], BeforeValidator(_steps)]


class TokenCounts(YamlPart):
    """The tokens a reply claims to have used."""

    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)


class ScriptedReply(YamlPart):
    """One entry of `replies`; without a number in `repeat` it is never used up."""

    when: ReplyCondition = ReplyCondition.model_construct()
    expect: ReplyCondition = ReplyCondition.model_construct()
    text: Text = ""
    thoughts: Text = ""
    run: Text | None = None
    purpose: Text | None = None
    calls: list[ScriptedCall] = Field(default=[])
    plan: ScriptedPlan | None = None
    error: Text | None = None
    message: Text = ""
    retry: bool = False
    retry_after: Seconds | None = None
    delay: Seconds = 0.0
    repeat: Often = 1
    chunk: Count | None = None
    usage: TokenCounts | None = None

    @property
    def tool_calls(self) -> list[ScriptedCall]:
        if self.run is not None:
            return [ScriptedCall(run=self.run, purpose=self.purpose)]
        if self.plan is not None:
            arguments = self.plan.model_dump(exclude_unset=True)
            return [ScriptedCall(tool=PLAN_TOOL, arguments=arguments)]
        return self.calls

    @property
    def failure(self) -> ModelError | None:
        """The error to raise; with `retry` it passes through the visible retries."""
        if self.error is None:
            return None
        message = self.message or f"the script fails with {self.error}"
        failure = ERRORS[self.error]("{message}", message=message)
        failure.retryable, failure.retry_after = self.retry, self.retry_after
        return failure

    @model_validator(mode="before")
    @classmethod
    def _plain_text(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value

    @field_validator("error")
    @classmethod
    def _kind(cls, value: str) -> str:
        if value not in ERRORS:
            raise ValueError(f"{value} is none of {', '.join(ERRORS)}.")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> ScriptedReply:
        given = self.model_fields_set
        if self.error is None:
            self.refuse("only goes with error.", "message", "retry", "retry_after")
        ways = [name for name in ("run", "calls", "plan") if name in given]
        if len(ways) > 1:
            self.refuse(f"does not go with {ways[0]}; use calls.", ways[1])
        if "run" not in given:
            self.refuse("only goes with run.", "purpose")
        if not self.calls:
            self.refuse("holds no call.", "calls")
        if ways:
            self.refuse("a reply that fails makes no calls.", "error")
        elif self.error is None and not self.text:
            raise ValueError("says nothing: give text, run, calls, plan or error.")
        return self


class ScriptedInfo(YamlPart):
    """The properties the model claims."""

    context_window: Count = 1_000_000
    max_output: Count = 100_000
    calls_tools: bool = True
    local: bool = False
    one_command: bool = False
    search_host: str = ""
    images: bool = False


class Script(YamlPart):
    """A whole script. Delays are kept only when the file says `delays: true`."""

    model: ScriptedInfo = ScriptedInfo()
    replies: list[ScriptedReply] = Field(min_length=1)
    at_end: Literal["fail", "repeat_last", "restart"] = "fail"
    delays: bool = False
    chunk: Count | None = None

    _file: FileValues = PrivateAttr(default=FileValues(Path("inline"), None))

    @property
    def path(self) -> Path:
        return Path(str(self._file.name))

    def line(self, number: int) -> int:
        """Return the line where the reply of that number (from 0) begins."""
        return self._file.line(("replies", number))


def read_script(path: Path) -> Script:
    """Return the script at `path`. Raises `UsageError` naming file, line and key."""
    script, file = read_values(Script, path)
    script._file = file
    return script
