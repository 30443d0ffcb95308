"""A session as Markdown, for reading and sharing; JSON Lines is the format that can come back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.records import (
    Compacted,
    Decided,
    InputReceived,
    Intent,
    NodeRan,
    Outcome,
    RecordBody,
    TurnEnded,
)
from kogniterm.sessions.store import SessionStore
from kogniterm.sessions.stored import stored_records
from kogniterm.sessions.texts import content_of, is_image
from kogniterm.types import NodeUpdate, Plan, PlanStep

_MARKS = {"done": "x", "failed": "!", "skipped": "-"}


def markdown(store: SessionStore, reference: str) -> Iterator[str]:
    """The parts of the document, each ending with a blank line."""
    info = store.find(reference)
    began = datetime.fromtimestamp(info.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
    yield f"# {_one_line(info.title) or info.id}\n\n"
    yield f"- Session: `{info.id}`\n- Folder: `{info.folder}`\n"
    yield f"- Model: `{info.model}`\n- Began: {began}\n\n"
    for stored in stored_records(store.backend, info.id):
        try:
            yield from _part(stored.record().body)
        except StorageCorruptError:
            yield f"*Record {stored.seq} is damaged and was left out.*\n\n"


def _part(body: RecordBody) -> Iterator[str]:
    match body:
        case InputReceived(turn=turn, input=given, message=message):
            yield f"## Turn {turn}\n\n{_quoted(given.text)}\n\n"
            if given.data:
                yield _fenced(given.data)
            yield from _images(message.content)
        case NodeRan(update=update):
            if update.plan is not None:
                yield _plan(update.plan)
            if update.agent:
                yield from _of_agent(update)
                return
            for message in update.messages:
                text = content_of(message).strip()
                if text:
                    yield text + "\n\n"
        case Decided(decision=decision) if decision.kind != "approve":
            reason = f": {_one_line(decision.reason)}" if decision.reason else ""
            yield f"*{decision.kind} by {decision.by}{reason}*\n\n"
        case Intent(command=command):
            yield _fenced(command, "sh")
        case Outcome():
            yield from _outcome(body)
        case Compacted():
            yield "*Earlier messages were summarised for the model here.*\n\n"
        case TurnEnded(stop=stop) if stop != "done":
            yield f"*The turn ended: {stop}.*\n\n"
        case _:
            return


def _images(content: str | list[Any]) -> Iterator[str]:
    """Images are named; the JSON Lines export holds them."""
    for block in content if isinstance(content, list) else ():
        if is_image(block):
            known = block.get("extras", {})
            size = f"{known.get('width')}x{known.get('height')} pixels"
            yield f"*Image: {_one_line(str(known.get('name')))}, {size}*\n\n"


def _of_agent(update: NodeUpdate) -> Iterator[str]:
    """What a sub-agent saw and said; its answer comes again as the result of its task."""
    for message in update.messages:
        text = content_of(message).strip()
        if message.type == "human" and text:
            yield f"*A sub-agent is told:*\n\n{_quoted(text)}\n\n"
        elif text and (message.type != "ai" or getattr(message, "tool_calls", False)):
            yield text + "\n\n"


def _outcome(body: Outcome) -> Iterator[str]:
    if body.plan is not None and body.result is None:
        yield _plan(body.plan)
        return
    result = body.result
    text = result.text if result is not None else content_of(body.message)
    if text.strip():
        yield _fenced(text)
    code = result.exit_code if result is not None else None
    yield f"*{body.status}{'' if code is None else f', exit code {code}'}*\n\n"


def _plan(plan: Plan) -> str:
    lines = [f"**Plan: {_one_line(plan.goal)}**", ""]
    for step in plan.steps:
        lines += _steps(step, "")
    return "\n".join(lines) + "\n\n"


def _steps(step: PlanStep, indent: str) -> list[str]:
    line = f"{indent}- [{_MARKS.get(step.status, ' ')}] {_one_line(step.what)}"
    return [line, *(part for sub in step.substeps for part in _steps(sub, indent + "  "))]


def _fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks in `text`."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}\n\n"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines() or [""])


def _one_line(text: str) -> str:
    return " ".join(text.split())
