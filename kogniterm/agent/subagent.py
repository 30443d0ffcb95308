"""Sub-agents: a task of its own for a nested graph, which returns a result and no history.

A sub-agent has its own small history, only tools that read, and a token budget. It cannot act:
a call that would leave the graph is refused inside it, so approval and executor are never
passed by. Those asked for in one reply run side by side. None has sub-agents of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.config import get_stream_writer

from kogniterm import prompts
from kogniterm.agent.compaction import clip
from kogniterm.agent.messages import cancel_messages, last_ai, tool_message
from kogniterm.agent.state import ThinkContext
from kogniterm.errors import KognitermError, ToolError
from kogniterm.protocols import Tool
from kogniterm.types import NodeUpdate, Plan, Reply, Text, ToolCalled, ToolSpec, Usage

TOOL_SETS: Mapping[str, tuple[str, ...]] = {
    "read": ("read_file", "find_files", "search_text", "read_output", "recall_history"),
    "search": ("find_files", "search_text", "read_file"),
}
"""What each kind of sub-agent may use, of the tools the session has."""

DEFAULT_TOKENS = 40_000
MAX_TOKENS = 400_000
MAX_ROUNDS = 25
MAX_RESULT = 6_000
"""Characters of a result; the main history must stay small."""

DELEGATE = ToolSpec(
    name="delegate",
    description=(
        "Give a task that only reads to a sub-agent; only its result comes back. Several in one "
        "reply run side by side."
    ),
    parameters={
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "everything it must know"},
            "tools": {"type": "string", "enum": list(TOOL_SETS)},
            "tokens": {"type": "integer", "description": "budget"},
        },
        "required": ["task"],
    },
)


@dataclass(frozen=True, slots=True)
class Result:
    """What a sub-agent found, or why it could not."""

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A checked `delegate` call."""

    text: str
    tools: tuple[str, ...]
    tokens: int


def parse_task(arguments: Mapping[str, Any]) -> Task:
    """The task in a `delegate` call. Raises `ToolError` that says what is wrong."""
    text = arguments.get("task")
    if not isinstance(text, str) or not text.strip():
        raise ToolError("delegate needs a task.")
    unknown = set(arguments) - {"task", "tools", "tokens"}
    if unknown:
        raise ToolError("delegate has no {names}.", names=", ".join(sorted(unknown)))
    kind = arguments.get("tools", "read")
    if kind not in TOOL_SETS:
        raise ToolError("tools must be one of {names}.", names=", ".join(TOOL_SETS))
    tokens = arguments.get("tokens", DEFAULT_TOKENS)
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not 0 < tokens <= MAX_TOKENS:
        raise ToolError("tokens must be a number from 1 to {most}.", most=MAX_TOKENS)
    return Task(text.strip(), TOOL_SETS[kind], tokens)


async def run_side_by_side(
    calls: Sequence[Mapping[str, Any]], context: ThinkContext
) -> list[Result]:
    """One result a call, in order; a failing sub-agent does not disturb the others."""
    outer, tell = contextvars.copy_context(), get_stream_writer()

    def write(item: Any) -> None:
        # The writer finds its stream through the context of the node it was made in.
        outer.run(tell, item)

    return list(await asyncio.gather(*(_run(call, context, write) for call in calls)))


async def _run(
    arguments: Mapping[str, Any], context: ThinkContext, write: Callable[[Any], None]
) -> Result:
    try:
        agent = SubAgent(parse_task(arguments), context, write)
    except ToolError as error:
        return Result(str(error), failed=True)
    # A context of its own: the nested graph must not take the outer node's stream for its own.
    running = asyncio.create_task(agent.run(), context=contextvars.Context())
    try:
        return await running
    except asyncio.CancelledError:
        running.cancel()
        raise
    except KognitermError as error:
        return Result(f"The sub-agent failed: {error}", failed=True)


@dataclass(slots=True)
class SubAgent:
    """One task on its way through a graph of its own. `write` tells the turn what it costs."""

    task: Task
    context: ThinkContext
    write: Callable[[Any], None]
    usage: Usage = field(default_factory=Usage)
    rounds: int = 0
    messages: list[BaseMessage] = field(default_factory=list)

    async def run(self) -> Result:
        """Its answer, clipped; or what it had found when its budget was used up."""
        inner, think = self._context(), self.context.think
        if think is None:
            raise ToolError("There are no sub-agents here; do it yourself.")
        self.messages.append(HumanMessage(self.task.text))
        plan: Plan | None = None
        while True:
            last: NodeUpdate | None = None
            async for item in think(self.messages, plan, inner):
                if isinstance(item, NodeUpdate):
                    last = item
                    self.messages += item.messages
                else:
                    self._tell(item)
            if last is None or last.answer is not None:
                return Result(clip(last.answer or "" if last else "", MAX_RESULT))
            if last.failure is not None:
                return self._cut_short(last.failure)
            for request in last.pending:
                text = f"[not run: a sub-agent only reads; it may not {request.effect}]"
                self.messages.append(tool_message(request.call_id, request.tool, text, failed=True))

    def _context(self) -> ThinkContext:
        tools: dict[str, Tool] = {
            name: self.context.tools[name] for name in self.task.tools if name in self.context.tools
        }
        return replace(
            self.context,
            tools=tools,
            system=SystemMessage(prompts.load("subagent")),
            plan_mode="never",
            may_continue=self._may_continue,
            plan_only=False,
            delegates=False,
            has_room=lambda _: True,
            said_meanwhile=tuple,
        )

    def _may_continue(self) -> Text | None:
        stop = self.context.may_continue()
        if stop is not None:
            return stop
        if self.usage.input + self.usage.output >= self.task.tokens:
            return Text("Its budget of {tokens} tokens is used up.", {"tokens": self.task.tokens})
        if self.rounds >= MAX_ROUNDS:
            return Text("Its {rounds} rounds are used up.", {"rounds": MAX_ROUNDS})
        return None

    def _tell(self, item: object) -> None:
        """Pass on what costs and what was looked at; its text is not the turn's answer."""
        if isinstance(item, str):
            self.rounds += 1
            self.write(item)
        elif isinstance(item, Reply):
            self.usage += item.usage
            self.write(item)
        elif isinstance(item, ToolCalled):
            self.write(item)

    def _cut_short(self, why: Text) -> Result:
        self.messages += cancel_messages(self.messages, "[not run]")
        message = last_ai(self.messages)
        said = message.text.strip() if isinstance(message, AIMessage) else ""
        found = f"\nSo far: {clip(said, MAX_RESULT)}" if said else ""
        return Result(f"The sub-agent did not finish. {why}{found}", failed=True)
