"""Helpers that call a model: collect its events, and record its pauses without waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from kogniterm.models.calling import Caller, ModelOptions
from kogniterm.models.providers.gemini import GeminiModel
from kogniterm.protocols import Model
from kogniterm.types import (
    AnswerDelta,
    ModelEvent,
    ModelRequest,
    ModelRetried,
    Reply,
    ThoughtDelta,
    ToolSpec,
)

OpenGemini = Callable[..., GeminiModel]

EXECUTE = ToolSpec(
    "execute_command",
    "Run a shell command.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "shell text"},
            "purpose": {"type": "string"},
        },
        "required": ["command"],
    },
    effect="command",
)
READ = ToolSpec(
    "read_file",
    "Read a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "integer"}},
            "mode": {"type": "string", "enum": ["text", "hex"]},
        },
        "required": ["path"],
    },
)
TOOLS = (EXECUTE, READ)


@dataclass
class Pauses:
    """A replacement for the pauses between tries, which records them without waiting."""

    taken: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)

    def caller(self, name: str, options: ModelOptions, jitter: float = 1.0) -> Caller:
        return Caller(name, options, sleep=self.sleep, jitter=lambda: jitter)


@dataclass
class Heard:
    """The events of one call."""

    events: list[ModelEvent]

    @property
    def reply(self) -> Reply:
        assert isinstance(self.events[-1], Reply)
        assert sum(isinstance(event, Reply) for event in self.events) == 1
        return self.events[-1]

    @property
    def message(self) -> AIMessage:
        return self.reply.message

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, AnswerDelta))

    @property
    def thoughts(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, ThoughtDelta))

    @property
    def retries(self) -> list[ModelRetried]:
        return [event for event in self.events if isinstance(event, ModelRetried)]


def request(
    *messages: BaseMessage | str, tools: Sequence[ToolSpec] = (), **more: Any
) -> ModelRequest:
    """Build a request of these messages; plain strings are the user's."""
    listed = tuple(HumanMessage(m) if isinstance(m, str) else m for m in messages)
    return ModelRequest(listed, tuple(tools), **more)


async def ask(model: Model, *messages: BaseMessage | str, **more: Any) -> Heard:
    """Return all events of one call."""
    return await hear(model, request(*(messages or ("hello",)), **more), [])


async def hear(model: Model, asked: ModelRequest, into: list[ModelEvent]) -> Heard:
    """Return all events of one call, collected in `into`, which survives an error."""
    async with aclosing(model.stream(asked)) as events:
        async for event in events:
            into.append(event)
    return Heard(into)
