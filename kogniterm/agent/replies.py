"""Replies of the model: made fit for the history, or sent back with what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage

from kogniterm.agent.messages import note, tool_message
from kogniterm.errors import ModelReplyError
from kogniterm.text.visible import whole_json
from kogniterm.types import UNUSABLE, Reply

MAX_UNUSABLE = 3
"""Replies in a row that cannot be used, after which a model is given up."""
MALFORMED = "malformed_json"
"""The argument name under which a call keeps arguments that were no JSON."""


def clean_reply(reply: Reply) -> Reply:
    """The reply as text that can be kept and sent, with every tool call answerable: unique ids,
    broken calls kept as calls.

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
    content, calls = whole_json(message.content), whole_json(calls)
    changed = bool(message.invalid_tool_calls) or content != message.content
    changed = changed or calls != message.tool_calls
    for index, call in enumerate(calls):
        if not call.get("id") or call["id"] in seen:
            calls[index] = call = {**call, "id": f"call_{uuid4().hex[:12]}"}
            changed = True
        seen.add(str(call["id"]))
    if not changed:
        return reply
    fixed: AIMessage = message.model_copy(
        update={"content": content, "tool_calls": calls, "invalid_tool_calls": []}
    )
    return replace(reply, message=fixed)


def is_unusable(message: AIMessage) -> str | None:
    """Return why a reply can be neither shown nor acted on, or None."""
    if problem := message.response_metadata.get(UNUSABLE):
        return str(problem)
    if not message.tool_calls and not message.text.strip():
        return "it was empty"
    return None


def no_usable_reply(problem: str) -> ModelReplyError:
    """Return the error of a model whose replies could not be used again and again."""
    return ModelReplyError(
        "The model gave no usable reply {count} times in a row (the last time {problem}); "
        "try again or choose another model with --model.",
        count=MAX_UNUSABLE,
        problem=problem,
    )


def sent_back(message: AIMessage, problem: str) -> list[BaseMessage]:
    """Return a reply and why it cannot be used, as valid history."""
    if message.tool_calls:
        text = f"[not run: {problem}]"
        answers: Sequence[BaseMessage] = [
            tool_message(str(c["id"]), c["name"], text, failed=True) for c in message.tool_calls
        ]
        return [message, *answers]
    nudge = note(f"(Your reply could not be used: {problem}. Reply again.)")
    return [message, nudge] if message.text.strip() else [nudge]
