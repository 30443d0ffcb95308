"""Compaction: the one place where history gets shorter, and what it must never lose.

Below the threshold history is append-only. Above it, once: the older rounds become a summary,
while every word the person said, the plan with its evidence, and the last rounds stay as they
were. A round (an AIMessage with all its ToolMessages) is never cut in two, and calls that still
wait for an answer are always in the kept part. Token counts are estimates on the safe side.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from kogniterm.agent.image_blocks import image_tokens
from kogniterm.agent.messages import NOTE, is_input
from kogniterm.types import Plan

CHARS_PER_TOKEN = 3.0
"""Below the 3.5 to 4.5 that tokenizers reach on code and prose, so estimates err upwards."""

START_SHARE = 0.75
"""Share of the window at which history is compacted."""

KEEP_SHARE = 0.30
"""Share of the window that the rounds kept word for word may take."""

OLD_RESULT_CHARS = 600
"""What an old tool result is shortened to when even the kept part is too long."""

SAID_SHARE = 0.15
"""Share of the window that the person's own words may take in the compacted part."""

SAID = "kogniterm_said"
"""Where a compacted message carries the person's words for the next compaction."""

SUMMARY_OPEN = "(Summary of the earlier part of this session, made by KogniTerm; it is data.)"

_COUNTED: dict[int, tuple[weakref.ref[BaseMessage], int]] = {}
"""Sizes of messages by identity. The whole history is measured before every model call, and
messages cannot be the keys of a dictionary."""


def estimate_tokens(messages: Sequence[BaseMessage]) -> int:
    """About how many tokens `messages` take, tool calls included."""
    return sum(message_tokens(message) for message in messages)


def message_tokens(message: BaseMessage) -> int:
    """About how many tokens one message takes. Counted once: messages never change."""
    known = _COUNTED.get(id(message))
    if known is not None and known[0]() is message:
        return known[1]
    tokens = _count(message)
    key = id(message)
    _COUNTED[key] = (weakref.ref(message, lambda _gone: _COUNTED.pop(key, None)), tokens)
    return tokens


def _count(message: BaseMessage) -> int:
    tokens = text_tokens(message.text) + image_tokens(message) + 4
    if isinstance(message, AIMessage):
        tokens += sum(text_tokens(str(call["args"])) + 10 for call in message.tool_calls)
    return tokens


def text_tokens(text: str) -> int:
    """About how many tokens `text` takes, on the safe side for any script.

    Counted in UTF-8 bytes, since a Chinese character or an emoji is a token or more; a digit
    counts as a token, since several tokenizers split numbers into digits.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    digits = sum(map(text.count, "0123456789"))
    return int((size - digits) / CHARS_PER_TOKEN) + digits + 1


def needs_compaction(tokens: int, fixed_tokens: int, window: int) -> bool:
    """Whether a history of `tokens` beside a fixed part is too near the model's window."""
    return tokens + fixed_tokens > window * START_SHARE


def split(
    messages: Sequence[BaseMessage], window: int
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """(older part, part kept word for word), cut between rounds."""
    budget = int(window * KEEP_SHARE)
    starts = [i for i, m in enumerate(messages) if not isinstance(m, ToolMessage)]
    cut = len(messages)
    used = 0
    for start, end in zip(reversed(starts), reversed([*starts[1:], len(messages)]), strict=True):
        used += estimate_tokens(messages[start:end])
        if used > budget and cut < len(messages):
            break
        cut = start
    return list(messages[:cut]), list(messages[cut:])


def shorten_results(messages: Sequence[BaseMessage], window: int) -> list[BaseMessage]:
    """The kept part within its budget: the largest tool results give way, oldest first."""
    kept = list(messages)
    budget = int(window * KEEP_SHARE)
    for index, message in enumerate(kept):
        if estimate_tokens(kept) <= budget:
            break
        if isinstance(message, ToolMessage) and len(message.text) > OLD_RESULT_CHARS * 2:
            kept[index] = message.model_copy(update={"content": clip(message.text)})
    return kept


def clip(text: str, limit: int = OLD_RESULT_CHARS) -> str:
    """Head and tail of `text`, tail-weighted because errors stand at the end."""
    if len(text) <= limit:
        return text
    head, tail = limit // 3, limit - limit // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out} characters left out …]\n{text[-tail:]}"


def compacted(
    older: Sequence[BaseMessage],
    kept: Sequence[BaseMessage],
    summary: str,
    plan: Plan | None,
    window: int,
) -> tuple[BaseMessage, ...]:
    """The new history: what the person said, the summary, the plan, and the kept rounds."""
    said = within(what_was_said(older), int(window * SAID_SHARE * CHARS_PER_TOKEN))
    parts = [SUMMARY_OPEN]
    parts.extend(f"The person said:\n{words}" for words in said)
    parts.append(f"What happened:\n{summary}")
    if plan is not None:
        parts.append(plan_text(plan))
    head = HumanMessage("\n\n".join(parts), additional_kwargs={SAID: said, NOTE: True})
    if kept and isinstance(kept[0], HumanMessage):
        # Providers want human and model to take turns.
        return (head, AIMessage("Understood."), *kept)
    return (head, *kept)


def what_was_said(messages: Sequence[BaseMessage]) -> list[str]:
    """The person's inputs in `messages`, also those an earlier compaction has gathered."""
    said: list[str] = []
    for message in messages:
        if SAID in message.additional_kwargs:
            said.extend(message.additional_kwargs[SAID])
        elif is_input(message):
            said.append(message.text)
    return said


def within(said: Sequence[str], limit: int) -> list[str]:
    """The first input and as many of the newest as fit in `limit` characters, in order.

    The first names the task, the newest correct it. Only inputs that alone are longer than
    half the limit are clipped.
    """
    if not said:
        return []
    first, *rest = [clip(words, limit // 2) for words in said]
    chosen: list[str] = []
    used = len(first)
    for words in reversed(rest):
        used += len(words)
        if used > limit:
            break
        chosen.append(words)
    return [first, *reversed(chosen)]


def plan_text(plan: Plan) -> str:
    """The plan with its evidence, as the model may rely on it."""
    lines = [f"The plan ({plan.goal}):"]
    for step in plan.steps:
        proof = "; ".join(
            f"{e.note or e.request_id} exit {e.exit_code}" if e.exit_code is not None else e.note
            for e in step.evidence
        )
        lines.append(f"- {step.id} [{step.status}] {step.what}" + (f" ({proof})" if proof else ""))
    return "\n".join(lines)


def plain_summary(messages: Sequence[BaseMessage]) -> str:
    """A summary without a model: each call with the end of its result."""
    lines: list[str] = []
    calls: dict[str, str] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            if message.text.strip():
                lines.append(f"Model: {clip(message.text.strip(), 300)}")
            for call in message.tool_calls:
                shown = call["args"].get("command") or call["args"]
                calls[str(call["id"])] = clip(f"{call['name']}: {shown}", 300)
        elif isinstance(message, ToolMessage):
            lines.append(
                f"{calls.get(message.tool_call_id, message.name)} -> "
                f"{clip(message.text.strip(), 200)}"
            )
    return clip("\n".join(lines), 6000)


def transcript(messages: Sequence[BaseMessage], limit: int) -> str:
    """The older part as text for the summary call, at most `limit` characters."""
    lines = []
    for message in messages:
        if isinstance(message, AIMessage):
            calls = "; ".join(f"{c['name']}({c['args']})" for c in message.tool_calls)
            lines.append(f"MODEL: {message.text} {calls}".rstrip())
        elif isinstance(message, ToolMessage):
            lines.append(f"RESULT: {clip(message.text, 1500)}")
        else:
            lines.append(f"PERSON: {message.text}")
    return clip("\n".join(lines), limit)
