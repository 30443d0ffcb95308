"""Loops end: repeated calls with the same result, and calls that can never run.

Only an equal call with an equal result counts, so polling whose output changes is no loop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from kogniterm.agent.messages import is_input, note

HINT_AFTER = 3
STOP_AFTER = 5
MAX_MALFORMED_ROUNDS = 3
_DURATION = re.compile(r" after \d+ s\]")

HINT = (
    "(The same call gave the same result {count} times. Do something else, "
    "or answer with what is known.)"
)


def repeated(messages: Sequence[BaseMessage]) -> int:
    """How often the newest call-and-result stands at the tail of the history in a row."""
    newest: tuple[str, ...] | None = None
    count = 0
    for signature in _rounds_backwards(messages):
        if newest is None:
            newest = signature
        if signature != newest:
            break
        count += 1
    return count


def hint(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """What to tell the model when it starts to go in circles, once per circle."""
    if repeated(messages) == HINT_AFTER:
        return note(HINT.format(count=HINT_AFTER))
    return None


def malformed_rounds(messages: Sequence[BaseMessage]) -> int:
    """How many rounds at the tail consist only of calls that could not run."""
    count = 0
    for results in _result_groups_backwards(messages):
        if not all(_is_malformed(result) for result in results):
            break
        count += 1
    return count


def _is_malformed(message: ToolMessage) -> bool:
    return isinstance(message.artifact, Mapping) and bool(message.artifact.get("malformed"))


def _result_groups_backwards(messages: Sequence[BaseMessage]) -> list[list[ToolMessage]]:
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
    return groups


def _rounds_backwards(messages: Sequence[BaseMessage]) -> list[tuple[str, ...]]:
    """Each round's calls with their results, newest first, within the current turn."""
    signatures: list[tuple[str, ...]] = []
    results: dict[str, str] = {}
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = _DURATION.sub("]", message.text)
        elif isinstance(message, AIMessage) and message.tool_calls:
            signatures.append(
                tuple(
                    json.dumps([c["name"], c["args"], results.get(str(c["id"]))], default=str)
                    for c in message.tool_calls
                )
            )
        elif is_input(message):
            break
        if len(signatures) > STOP_AFTER:
            break
    return signatures
