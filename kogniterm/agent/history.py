"""History towards the model: append-only, so that request n is a prefix of request n+1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from kogniterm.types import Reply


def request_messages(
    system: SystemMessage, messages: Sequence[BaseMessage]
) -> tuple[BaseMessage, ...]:
    """What one model call sees."""
    return (system, *messages)


def clean_reply(reply: Reply) -> Reply:
    """The reply with every tool call carrying an id that is unique in its message.

    Providers may repeat an id or leave it out; an observation could then not be told apart.
    """
    message = reply.message
    seen: set[str] = set()
    calls: list[Any] = []
    changed = False
    for call in message.tool_calls:
        call_id = call.get("id")
        if not call_id or call_id in seen:
            call = {**call, "id": f"call_{uuid4().hex[:12]}"}
            changed = True
        seen.add(str(call["id"]))
        calls.append(call)
    if not changed:
        return reply
    fixed: AIMessage = message.model_copy(update={"tool_calls": calls})
    return replace(reply, message=fixed)


def is_unusable(message: AIMessage) -> str | None:
    """Why a reply can be neither shown nor acted on, or None."""
    if message.invalid_tool_calls and not message.tool_calls:
        broken = message.invalid_tool_calls[0]
        return (
            f"the arguments of {broken.get('name') or 'the tool call'} are not valid JSON"
            f" ({broken.get('error') or 'malformed'})"
        )
    if not message.tool_calls and not message.text.strip():
        return "it was empty"
    return None
