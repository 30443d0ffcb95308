"""A session for readers: as Markdown, and turn by turn as values. It cannot be imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from kogniterm.sessions.history import (
    Part,
    PastAction,
    PastCompaction,
    PastDamage,
    PastEnd,
    PastRewind,
    SessionHistory,
)
from kogniterm.sessions.journal.codec import readable_records, stored_records
from kogniterm.sessions.session_search import content_of, is_image
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.text.visible import code_block
from kogniterm.types import NodeUpdate, Phrase, Plan, PlanStep, events
from kogniterm.types.turn_values import RECIPE_NODE

_MARKS = {"done": "x", "failed": "!", "skipped": "-"}
_DECIDED = {
    "edit": Phrase("Changed by {who}{reason}"),
    "reject": Phrase("Rejected by {who}{reason}"),
}
_DECIDERS = {
    "person": Phrase("the user"),
    "policy": Phrase("your rules"),
    events.BY_KOGNITERM: Phrase("KogniTerm"),
    events.BY_HOOK: Phrase("a hook"),
    events.BY_PROGRAM: Phrase("the program that ran KogniTerm"),
    "unattended": Phrase("KogniTerm (no user available)"),
    "start check": Phrase("the check before execution"),
}
_ENDED = {
    "finished": Phrase("finished{code}"),
    "failed": Phrase("failed{code}"),
    "refused": Phrase("refused{code}"),
    "cancelled": Phrase("stopped{code}"),
    "unknown": Phrase("outcome unknown{code}"),
}
_STOPPED = {
    "not_done": Phrase("The task was not completed."),
    "refused": Phrase("The turn ended because an action was refused."),
    "budget": Phrase("The turn ended because a limit was reached."),
    "model_failed": Phrase("The model failed."),
    "storage_unavailable": Phrase("The database was not available."),
    "interrupted": Phrase("The turn was stopped."),
    "plan_only": Phrase("Only a plan was requested."),
    "unknown": Phrase("The outcome of a command is unknown."),
}

Say = Callable[[Phrase], str]
"""Translates a sentence into the reader's language."""


def markdown(store: SessionStore, reference: str, say: Say = str) -> Iterator[str]:
    """Yield the parts of the document, each ending with a blank line."""
    info = store.find(reference)
    began = datetime.fromtimestamp(info.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
    yield f"# {_one_line(info.title) or info.id}\n\n"
    facts = (
        Phrase("Session: `{id}`", {"id": info.id}),
        Phrase("Folder: `{folder}`", {"folder": info.folder}),
        Phrase("Model: `{model}`", {"model": info.model}),
        Phrase("Started: {time}", {"time": began}),
    )
    yield "".join(f"- {say(fact)}\n" for fact in facts) + "\n"
    history = SessionHistory()
    history.read_stored(stored_records(store.database, info.id))
    plan: Plan | None = None
    for turn in history.all_turns:
        if turn.message is not None:
            title = say(Phrase("Turn {number}", {"number": turn.number}))
            yield f"## {title}\n\n{_quote_text(turn.input.typed)}\n\n"
            yield code_block(turn.input.data) + "\n\n" if turn.input.data else ""
            yield from _images(turn.message.content, say)
        for part in (moment.part for moment in turn.moments):
            yield from _part(part, say)
            changed = part.plan if isinstance(part, NodeUpdate) else None
            if isinstance(part, PastAction) and part.outcome is not None:
                changed = part.outcome.plan
            if changed is not None:
                yield from _plan(changed, plan, say)
                plan = changed


def _part(part: Part, say: Say) -> Iterator[str]:
    match part:
        case NodeUpdate():
            if part.agent:
                yield from _of_agent(part, say)
                return
            for message in part.messages:
                text = content_of(message).strip()
                if text:
                    yield text + "\n\n"
        case PastAction():
            yield from _action(part, say)
        case PastCompaction():
            summarised = Phrase("Earlier messages were summarised for the model here.")
            yield f"*{say(summarised)}*\n\n"
        case PastRewind(turn=turn):
            back = Phrase("The conversation went back to before turn {turn} here.", {"turn": turn})
            yield f"*{say(back)}*\n\n"
        case PastDamage(seq=number):
            damaged = Phrase("Record {number} is damaged and was omitted.", {"number": number})
            yield f"*{say(damaged)}*\n\n"
        case PastEnd(stop=stop) if stop != "done":
            yield f"*{say(_STOPPED[stop])}*\n\n"
        case _:
            return


def _images(content: str | list[Any], say: Say) -> Iterator[str]:
    """Name the images; the JSON Lines export holds them."""
    for block in content if isinstance(content, list) else ():
        if is_image(block):
            known = block.get("extras", {})
            values = {"name": _one_line(str(known.get("name"))), "width": known.get("width"),
                      "height": known.get("height")}  # fmt: skip
            yield f"*{say(Phrase('Image: {name}, {width}x{height} pixels', values))}*\n\n"


def _of_agent(update: NodeUpdate, say: Say) -> Iterator[str]:
    """Yield the messages of a sub-agent, without its answer, which is the result of its task."""
    for message in update.messages:
        text = content_of(message).strip()
        if update.node == RECIPE_NODE and text:
            asks = Phrase("Question to the model in the node {node}:", {"node": update.agent})
            asked = f"*{say(asks)}*\n\n{_quote_text(text)}"
            yield (asked if message.type == "human" else text) + "\n\n"
        elif message.type == "human" and text:
            yield f"*{say(Phrase('Task for a sub-agent:'))}*\n\n{_quote_text(text)}\n\n"
        elif text and (message.type != "ai" or getattr(message, "tool_calls", False)):
            yield text + "\n\n"


def _action(action: PastAction, say: Say) -> Iterator[str]:
    decision, outcome = action.decision, action.outcome
    if decision is not None and decision.kind != "approve":
        reason = f": {_one_line(decision.reason)}" if decision.reason else ""
        who = _DECIDERS.get(decision.by, decision.by)
        if decision.kind == "reject":
            yield code_block(decision.command) + "\n\n"
        told = _DECIDED[decision.kind].template
        yield f"*{say(Phrase(told, {'who': who, 'reason': reason}))}*\n\n"
    if action.intent is not None:
        yield code_block(action.command, "sh") + "\n\n"
    # A rejection showed the command and the reason: the outcome only repeats them.
    if outcome is None or (decision is not None and decision.kind == "reject"):
        return
    result = outcome.result
    if outcome.plan is not None and result is None:
        return
    text = result.text if result is not None else content_of(outcome.message)
    if text.strip():
        yield code_block(text) + "\n\n"
    code = result.exit_code if result is not None else None
    exited = "" if code is None else Phrase(", exit code {code}", {"code": code})
    yield f"*{say(Phrase(_ENDED[outcome.status].template, {'code': exited}))}*\n\n"


def _plan(plan: Plan, before: Plan | None, say: Say) -> Iterator[str]:
    """Yield the whole plan when it is new; of one shown `before`, the steps that ended since."""
    lines = [line for step in plan.steps for line in _steps(step, "")]
    old = [line for step in before.steps for line in _steps(step, "")] if before else []
    same = before is not None and before.goal == plan.goal
    if same and [what for what, _mark in lines] == [what for what, _mark in old]:
        ended = [now for now, then in zip(lines, old, strict=True) if now != then]
        parts = [f"- [{mark}] {what.strip()}" for what, mark in ended]
    else:
        parts = [f"**{say(Phrase('Plan: {goal}', {'goal': _one_line(plan.goal)}))}**", ""]
        parts += [
            f"{what[: -len(what.lstrip())]}- [{mark}] {what.lstrip()}" for what, mark in lines
        ]
    if parts:
        yield "\n".join(parts) + "\n\n"


def _steps(step: PlanStep, indent: str) -> list[tuple[str, str]]:
    """Return a step and its parts: the indented words, and the mark of the state."""
    own = (indent + _one_line(step.what), _MARKS.get(step.status, " "))
    return [own, *(part for sub in step.substeps for part in _steps(sub, indent + "  "))]


def _quote_text(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines() or [""])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def outline(database: Database, session_id: str) -> list[dict[str, Any]]:
    """Return the turns of a session for JSON, in order; damaged records are left out.

    Each has the task, the commands with their exit codes, and the answer (None: not ended). With
    `rewound` the conversation went back to before it: it is no longer part of it.
    """
    kinds = ("input", "intent", "outcome", "turn_ended", "rewound")
    return [
        {
            "turn": turn.number,
            "time": turn.time,
            "task": turn.input.typed,
            "commands": [
                _start_fields(action) for action in turn.actions.values() if action.intent
            ],
            "answer": turn.end.answer if turn.end else None,
            "stop": turn.end.stop if turn.end else None,
            "rewound": turn.rewound,
        }
        for turn in SessionHistory(readable_records(database, session_id, kinds=kinds)).turns
    ]


def _start_fields(action: PastAction) -> dict[str, Any]:
    known = {"id": action.id, "command": action.command, "status": action.status}
    code = action.result.exit_code if action.result is not None else None
    return known if action.outcome is None else {**known, "exit_code": code}
