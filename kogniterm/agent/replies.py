"""Calls of the model and their replies: cleaned, sent back when unusable, ended when they loop.

Only equal calls with equal results count as a loop, so polling whose output changes is none. A loop
may have several rounds: call A, call B, call A, call B.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent.messages import (
    GIVEN_PLAN,
    artifact_of,
    is_input,
    last_ai,
    note,
    tool_message,
)
from kogniterm.agent.plan.plan_steps import open_work
from kogniterm.agent.plan.plan_tools import PLAN_TOOLS
from kogniterm.errors import ModelError, ModelReplyError
from kogniterm.protocols import Model
from kogniterm.text.visible import whole, with_texts
from kogniterm.types import (
    UNUSABLE,
    AnswerDelta,
    ModelAsked,
    ModelEvent,
    ModelFailed,
    ModelRequest,
    ModelRetried,
    Phrase,
    Plan,
    Reply,
    ThoughtDelta,
    ToolSpec,
)

MAX_UNUSABLE = 3
"""Replies in a row that cannot be used, after which a model is given up."""
MALFORMED = "malformed_json"
"""The argument name under which a call keeps arguments that were no JSON."""
STEPS_OPEN = "final_response.steps_open"
_NUMBERS = itertools.count(1)


async def ask(
    model: Model, request: ModelRequest, tell: Callable[[ModelAsked | ModelFailed], None]
) -> AsyncIterator[ModelEvent]:
    """Make a model call and yield its events, which name it by its id.

    `tell` gets the start of the call, and its end where it has no reply. Raises `ModelError`.
    """
    info = model.info
    number = f"m{next(_NUMBERS)}"
    asked = ModelAsked(request.purpose, number, request.agent, info.name, info.server, info.effort)
    tell(asked)
    began, first = time.monotonic(), None
    try:
        async for event in model.stream(request):
            if isinstance(event, ModelRetried):
                event = event._replace(call=asked.id)
            elif isinstance(event, AnswerDelta | ThoughtDelta):
                first = time.monotonic() - began if first is None else first
            elif isinstance(event, Reply):
                event = event._replace(asked=asked, first=first)
            yield event
    except ModelError as error:
        tell(ModelFailed(asked.id, type(error).__name__))
        raise


def clean_reply(reply: Reply) -> Reply:
    """Return the reply as text that can be kept and sent, with every tool call answerable.

    Providers may repeat an id or leave it out; an observation could then not be told apart. A
    call whose arguments are no JSON becomes a call that its tool will refuse, so that the model
    is told and the history stays valid.
    """
    message = reply.message
    calls: list[Any] = [*message.tool_calls]
    calls.extend(
        {
            "type": "tool_call",
            "name": broken.get("name") or "unknown",
            "args": {MALFORMED: str(broken.get("args") or "")[:200]},
            "id": broken.get("id"),
        }
        for broken in message.invalid_tool_calls
    )
    seen: set[str] = set()
    content, calls = with_texts(message.content, whole), with_texts(calls, whole)
    changed = bool(message.invalid_tool_calls) or content != message.content
    changed = changed or calls != message.tool_calls
    for index, call in enumerate(calls):
        if not call.get("id") or call["id"] in seen:
            calls[index] = {**call, "id": f"call_{uuid4().hex[:12]}"}
            changed = True
            # Anthropic's blocks name their calls too; the first one of an id keeps it.
            blocks = content if isinstance(content, list) else []
            known = [b for b in blocks if isinstance(b, dict) and b.get("type") == "tool_use"]
            for block in [b for b in known if b.get("id") == call.get("id")][1:2]:
                block["id"] = calls[index]["id"]
        seen.add(str(calls[index]["id"]))
    if not changed:
        return reply
    fixed: AIMessage = message.model_copy(
        update={"content": content, "tool_calls": calls, "invalid_tool_calls": []}
    )
    return reply._replace(message=fixed)


def is_unusable(message: AIMessage) -> str | None:
    """Return why a reply can be neither shown nor acted on, or None."""
    if problem := message.response_metadata.get(UNUSABLE):
        return str(problem)
    if not message.tool_calls and not message.text.strip():
        return str(Phrase("it was empty"))
    return None


def no_usable_reply(problem: Phrase) -> ModelReplyError:
    """Return the error of a model whose replies could not be used again and again."""
    return ModelReplyError(
        "The model gave no usable reply {count} times in a row (last: "
        "{problem}); try again or choose another model with --model.",
        count=MAX_UNUSABLE,
        problem=problem,
    )


def send_back(message: AIMessage, problem: str) -> list[BaseMessage]:
    """Return a reply and why it cannot be used, as valid history."""
    if message.tool_calls:
        text = f"[not run: {problem}]"
        answers: Sequence[BaseMessage] = [
            tool_message(str(c["id"]), c["name"], text, failed=True) for c in message.tool_calls
        ]
        return [message, *answers]
    nudge = note(prompts.text("decide_action.unusable_reply", problem=problem))
    return [message, nudge] if message.text.strip() else [nudge]


END_TURN = ToolSpec(
    name="end_turn",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "outcome": {"type": "string", "enum": ["done", "not_done", "blocked"]},
            "why": {"type": "string"},
        },
        "required": ["outcome"],
    },
)
"""Ends a turn with a statement of its outcome, beside the text that answers."""


def read_end_statement(messages: Sequence[BaseMessage]) -> Mapping[str, Any]:
    """Return the statement with which the last reply ended the turn; empty if there is none."""
    last = messages[-1] if messages else None
    if not isinstance(last, ToolMessage) or last.name != END_TURN.name or last.status != "success":
        return {}
    reply = last_ai(messages)
    calls = reply.tool_calls if reply is not None else ()
    return next((call["args"] for call in calls if call["id"] == last.tool_call_id), {})


def steps_left_open(plan: Plan | None, messages: Sequence[BaseMessage]) -> tuple[str, ...]:
    """Return the open steps of this turn's plan that make an answer premature, once a turn."""
    left = open_work(plan)
    if not left:
        return ()
    touched = False
    for message in reversed(messages):
        if message.type == "human":
            if prompts.occurs(STEPS_OPEN, message.text):
                return ()
            if is_input(message):
                touched = touched or prompts.occurs(GIVEN_PLAN, message.text)
                break
        if isinstance(message, ToolMessage) and message.name in PLAN_TOOLS:
            touched = True
    return tuple(step.id for step in left) if touched else ()


def open_steps_text(steps: Sequence[str]) -> str:
    """Return the message about an answer before its `steps` are closed."""
    return prompts.text(STEPS_OPEN, steps=", ".join(steps))


HINT_AFTER = 3
STOP_AFTER = 5
MAX_PERIOD = 4
"""Rounds in the longest cycle that is recognised as a loop."""
MAX_MALFORMED_ROUNDS = 3
_DURATION = re.compile(r" after \d+ s\]")


def endless(messages: Sequence[BaseMessage]) -> int:
    """Return how often the newest rounds stand at the tail of the history, once that is too often.

    0 while it is not. A single round is too often at `STOP_AFTER`, a cycle of several rounds at
    twice that number, because a model that waits and looks in turn may have a reason.
    """
    period, rounds = _cycle(messages)
    most = STOP_AFTER if period == 1 else 2 * STOP_AFTER
    return most if rounds >= most * period else 0


def hint(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """Return a hint for a model that starts to repeat itself, once per loop."""
    period, rounds = _cycle(messages)
    if rounds == HINT_AFTER * period:
        return note(prompts.text("decide_action.repeated_call", count=HINT_AFTER))
    return None


def _cycle(messages: Sequence[BaseMessage]) -> tuple[int, int]:
    """Return the period of the loop at the tail of the history, and how many rounds it has lasted.

    Both are counted in rounds. Without a loop the period is 1.
    """
    source, newest_first = _rounds_backwards(messages), list[tuple[str, ...]]()

    def back(rounds: int) -> tuple[str, ...] | None:
        newest_first.extend(itertools.islice(source, max(0, rounds + 1 - len(newest_first))))
        return newest_first[rounds] if rounds < len(newest_first) else None

    for period in range(1, MAX_PERIOD + 1):
        rounds = period
        while (earlier := back(rounds)) is not None and earlier == back(rounds - period):
            rounds += 1
        if rounds >= HINT_AFTER * period:
            return period, rounds
    return 1, 1


def malformed_rounds(messages: Sequence[BaseMessage]) -> int:
    """Count the rounds at the tail that consist only of calls that could not run."""
    count = 0
    groups: list[list[ToolMessage]] = []
    current: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            current.append(message)
        elif isinstance(message, AIMessage) and current:
            groups.append(current[::-1])
            current = []
        elif is_input(message):
            break
        if len(groups) > STOP_AFTER:
            break
    for results in groups:
        if not all(artifact_of(result).get("malformed") for result in results):
            break
        count += 1
    return count


def _rounds_backwards(messages: Sequence[BaseMessage]) -> Iterator[tuple[str, ...]]:
    """Yield the calls of each round of the current turn with their results, newest first."""
    results: dict[str, str] = {}
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = _DURATION.sub("]", message.text)
        elif isinstance(message, AIMessage) and message.tool_calls:
            yield tuple(
                json.dumps([c["name"], c["args"], results.get(str(c["id"]))], default=str)
                for c in message.tool_calls
            )
        elif is_input(message):
            break
