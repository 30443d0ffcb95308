"""A session's records, taken apart for playing it again: what was given, said, decided, seen.

Everything that came into the session from outside stands in the journal: the inputs, the
model's replies, policy's verdicts, people's decisions, what commands and tools gave. A replay
feeds these to the same graph and runtime in the same order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kogniterm.sessions.fold import Note
from kogniterm.sessions.records import (
    Decided,
    InputReceived,
    Intent,
    Judged,
    NodeRan,
    Noted,
    Outcome,
    Record,
    RecordBody,
    Requested,
    SessionOpened,
    TurnEnded,
)
from kogniterm.types import ActionRequest, Plan

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

THINKING = ("create_plan", "decide_action")
UNUSABLE = "(Your reply could not be used:"
"""How the note begins that stands in the journal for a reply without any text."""


@dataclass(slots=True)
class TurnTape:
    """One turn, each queue in the order in which it will be asked for.

    `replies` holds None for a reply that had nothing in it. `ended` is None when a crash ended
    the turn for good. `crashes` are the outcomes that were settled as unknown, by the number
    of the intent they belong to.
    """

    given: InputReceived
    plan: Plan | None = None
    plan_mode: str = ""
    replies: deque[AIMessage | None] = field(default_factory=deque)
    said: deque[list[str]] = field(default_factory=deque)
    judged: deque[Judged] = field(default_factory=deque)
    decided: deque[Decided] = field(default_factory=deque)
    outcomes: deque[Outcome] = field(default_factory=deque)
    inside: dict[str, deque[BaseMessage]] = field(default_factory=lambda: defaultdict(deque))
    proposed: dict[str, deque[ActionRequest]] = field(default_factory=lambda: defaultdict(deque))
    failure: NodeRan | None = None
    ended: TurnEnded | None = None


@dataclass(slots=True)
class Tape:
    """The whole session: turns, and what happened between them (copied as it is)."""

    parts: list[TurnTape | RecordBody] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


def tape_of(records: Iterable[Record]) -> Tape:
    """Take a session's records apart."""
    tape = Tape()
    tape.records = without_repeats(records)
    started = {r.body.request_id for r in tape.records if isinstance(r.body, Intent)}
    plan_mode = "auto"
    turn: TurnTape | None = None
    for record in tape.records:
        body = record.body
        if isinstance(body, InputReceived):
            turn = TurnTape(body, plan_mode=plan_mode)
            tape.parts.append(turn)
        elif isinstance(body, Noted) and body.kind == Note.PLAN_MODE:
            plan_mode = str(body.data.get(body.kind))
        elif turn is None:
            if isinstance(body, NodeRan | Intent | Outcome):
                tape.parts.append(body)
        elif isinstance(body, TurnEnded):
            turn.ended, turn = body, None
        else:
            _take(turn, body, started)
    return tape


def _take(turn: TurnTape, body: RecordBody, started: set[str]) -> None:
    match body:
        case NodeRan():
            _take_node(turn, body)
        case Judged():
            turn.judged.append(body)
        case Decided() if body.decision.by not in ("policy",) and not body.decision.by.startswith(
            "lease "
        ):
            turn.decided.append(body)
        case Outcome() if body.request_id in started:
            turn.outcomes.append(body)
        case _:
            pass


def _take_node(turn: TurnTape, body: NodeRan) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    update = body.update
    for request in update.pending:
        turn.proposed[request.tool].append(request)
    if update.node in THINKING and update.plan is not None and not update.messages:
        turn.plan = update.plan  # a plan the person gave with the input
        return
    if update.node not in THINKING:
        for message in update.messages:
            if isinstance(message, ToolMessage):
                turn.inside[str(message.name)].append(message)
        return
    said: list[str] = []
    last: BaseMessage | None = None
    for message in update.messages:
        if isinstance(message, AIMessage):
            turn.replies.append(message)
        elif isinstance(message, HumanMessage):
            if message.text.startswith(UNUSABLE):
                if not isinstance(last, AIMessage):
                    turn.replies.append(None)
            elif "\n" in message.text and message.text.startswith("(Meanwhile"):
                said.append(message.text.partition("\n")[2])
        last = message
    turn.said.append(said)
    if update.failure is not None:
        turn.failure = body


def without_repeats(records: Iterable[Record]) -> list[Record]:
    """The records without the questions that a crash left open and a resume asked again: those
    of approval, and those that the model asked."""
    kept: list[Record] = []
    for record in records:
        if isinstance(record.body, SessionOpened) and kept:
            open_turn = next(
                (r for r in reversed(kept) if isinstance(r.body, InputReceived | TurnEnded)), None
            )
            if open_turn is not None and isinstance(open_turn.body, InputReceived):
                kept = _without_open_questions(kept)
        kept.append(record)
    return kept


def _without_open_questions(records: list[Record]) -> list[Record]:
    asked = {
        r.body.request.id
        for r in records
        if isinstance(r.body, Requested) and r.body.request.effect == "person"
    }
    ended = {r.body.request_id for r in records if isinstance(r.body, Outcome)}
    started = {r.body.request_id for r in records if isinstance(r.body, Intent)}
    settled = ended | (started - asked)
    return [r for r in records if _request_of(r.body) in settled | {None}]


def _request_of(body: RecordBody) -> str | None:
    match body:
        case Requested(request=request):
            return request.id
        case Judged() | Decided() | Intent():
            return body.request_id
        case _:
            return None
