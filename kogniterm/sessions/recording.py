"""The recording of a session for a replay, its calls of models, and the comparison of two runs.

The journal holds everything that came into the session from outside: the inputs, the model's
replies, the verdicts of the policy, the user's decisions, the results of commands and tools. A
replay feeds these to the same graph and runtime in the same order.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kogniterm.sessions.fold import Note
from kogniterm.sessions.history import PastJudgement, SessionHistory
from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import (
    Compacted,
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
    Rewound,
    SessionOpened,
    TurnClosed,
)
from kogniterm.types import ActionRequest, Decision, NodeUpdate, Phrase, events
from kogniterm.types.model_calls import RecordedCall
from kogniterm.types.turn_values import RECIPE_NODE

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage


_COMPARED = (
    InputReceived, NodeRan, Requested, Judged, Decided, Intent, Outcome, Compacted, TurnClosed,
)  # fmt: skip
_VARYING = frozenset(
    {
        # What differs between two runs of the same session without meaning anything.
        "call_id",
        "detail",
        "digest",
        "duration",
        "env_hash",
        "id",
        "output_bytes",
        "output_path",
        "readable_path",
        "repeats",
        "request_id",
        "response_metadata",
        "script_hashes",
        "tool_call_id",
        "usage",
        "usage_metadata",
    }
)


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference of two runs: the turn, the record's kind, the field and its values.

    The field is named by its path in the record. A record of only one run has the path "" and None
    for the other value.
    """

    turn: int
    kind: str
    path: str
    recorded: object
    replayed: object


def first_divergence(recorded: Iterable[Record], replayed: Iterable[Record]) -> Divergence | None:
    """Compare two runs record by record, without times, ids and costs; None when they agree."""
    old, new = _comparable(recorded), _comparable(replayed)
    turn = 0
    while True:
        first, second = next(old, None), next(new, None)
        if first is None and second is None:
            return None
        turn = (first or second or (turn,))[0]
        if first is None or second is None or first[1] != second[1]:
            kind = (first or second or (0, ""))[1]
            return Divergence(turn, kind, "", first and first[2], second and second[2])
        place = _difference(first[2], second[2])
        if place is not None:
            return Divergence(turn, first[1], *place)


def _comparable(records: Iterable[Record]) -> Iterator[tuple[int, str, Any]]:
    turn = 0
    bodies = (record.body for record in by_request(records))
    for body in _in_one_order(bodies):
        if isinstance(body, InputReceived):
            turn = body.turn
        yield turn, codec.kind_of(body), _stable(codec.to_plain(body))


def _in_one_order(bodies: Iterable[RecordBody]) -> Iterator[RecordBody]:
    """Yield the compared records, with the nodes of parallel sub-agents one agent after the other.

    The order in which these were written means nothing.
    """
    aside: list[NodeRan] = []
    for body in bodies:
        if isinstance(body, NodeRan) and body.update.agent:
            aside.append(body)
        elif isinstance(body, _COMPARED):
            yield from sorted(aside, key=lambda node: node.update.agent)
            aside.clear()
            yield body
    yield from sorted(aside, key=lambda node: node.update.agent)


def by_request(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records with those of each request together, as if no two had run at once.

    What stands between them, such as the resume after a crash, stays with the record before it.
    """
    groups: dict[str, list[Record]] = {}
    key = ""
    for record in records:
        body = record.body
        request = body.request_id if isinstance(body, Intent | Outcome) else _request_of(body)
        if request is None and not isinstance(body, Noted | SessionOpened):
            yield from chain.from_iterable(groups.values())
            groups.clear()
            key = ""
            yield record
            continue
        key = request or key
        groups.setdefault(key, []).append(record)
    yield from chain.from_iterable(groups.values())


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(item) for key, item in value.items() if key not in _VARYING}
    if isinstance(value, list):
        return [_stable(item) for item in value]
    return value


def _difference(old: Any, new: Any, path: str = "") -> tuple[str, object, object] | None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            found = _difference(old.get(key), new.get(key), f"{path}.{key}" if path else key)
            if found is not None:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            found = _difference(one, other, f"{path}[{index}]")
            if found is not None:
                return found
        return None
    return None if old == new else (path, old, new)


THINKING = ("create_plan", "decide_action")
CHANGED = re.compile(r"\[not run: (?P<file>.+?) changed after the command was (?:checked|judged)\.")
"""The message of `agent.messages` that an approved command was withheld."""
UNUSABLE = "(Your reply could not be used:"
"""The beginning of the note that replaces a reply without any text in the journal."""


@dataclass(slots=True)
class PastCall:
    """A tool call of a recorded turn, and what came of it, each queue in the order of its use.

    `answer` is its result where it was answered inside the graph. `taken` is set once a replay has
    used the call: parallel sub-agents may make the same one.
    """

    tool: str
    arguments: Mapping[str, Any]
    request: ActionRequest | None = None
    answer: ToolMessage | None = None
    judged: deque[PastJudgement] = field(default_factory=deque)
    decided: deque[Decision] = field(default_factory=deque)
    outcomes: deque[Outcome] = field(default_factory=deque)
    taken: bool = False


@dataclass(slots=True)
class TurnRecording:
    """One turn: its records, and its tool calls by their IDs.

    `stops` says why agents were stopped before their next model call; the main one has the empty
    name. `withheld` are the files for which approved requests were not started, by request.
    """

    given: InputReceived
    plan_mode: str = ""
    mode: str = ""
    records: list[Record] = field(default_factory=list)
    calls: dict[str, PastCall] = field(default_factory=dict)
    stops: dict[str, Phrase] = field(default_factory=dict)
    withheld: dict[str, str] = field(default_factory=dict)

    @property
    def plan(self) -> NodeRan | None:
        """Return the record of the plan that the user gave with the input, or None."""
        body = self.records[1].body if len(self.records) > 1 else None
        if not isinstance(body, NodeRan) or body.update.node not in THINKING:
            return None
        return body if body.update.plan is not None and not body.update.messages else None

    def read(self) -> None:
        """Read the calls from the records of the whole turn."""
        turn = SessionHistory(self.records).open_turn
        for update in turn.nodes:
            self._read_node(update)
        for action in turn.actions.values():
            call = self.call(action.request.call_id if action.request else "")
            call.judged += action.judgements
            if action.decision is not None and not _automatic(action.decision):
                call.decided.append(action.decision)
            if action.outcome is None:
                continue
            if action.intent is not None or action.effect == "person":
                call.outcomes.append(action.outcome)
            elif changed := CHANGED.match(action.outcome.message.text):
                self.withheld[action.id] = changed["file"]

    def _read_node(self, update: NodeUpdate) -> None:
        for message in update.messages:
            if message.type == "ai":
                for call in cast("AIMessage", message).tool_calls:
                    self.calls[str(call["id"])] = PastCall(call["name"], call["args"])
            elif message.type == "tool":
                answer = cast("ToolMessage", message)
                self.call(answer.tool_call_id).answer = answer
        for request in update.pending:
            self.call(request.call_id).request = request
        if update.node in THINKING and update.failure is not None:
            self.stops[update.agent] = update.failure

    def call(self, call_id: str) -> PastCall:
        """Return the call with this ID; an empty one where its record is damaged."""
        return self.calls.setdefault(call_id, PastCall("", {}))


class CopiedRecord(NamedTuple):
    """A record that a replay copies, with the command that it began."""

    body: RecordBody
    command: str | None = None


@dataclass(slots=True)
class SessionRecording:
    """The whole session: turns, and the records that are copied as they are.

    These are the records between turns, and the turns that the graph did not make alone: those with
    a recipe (its nodes run side by side, in an order that another run need not have), with the
    commands in a custom command, with a sub-agent that the user called, with hooks, with commands
    on hosts, and those that were interrupted or resumed after a crash.
    """

    parts: list[TurnRecording | CopiedRecord] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


def recording_of(records: Iterable[Record]) -> SessionRecording:
    recording = SessionRecording()
    recording.records = list(by_request(without_repeats(records)))
    plan_mode, mode = "auto", ""
    copied, whole = False, _copied_turns(recording.records)
    turn: TurnRecording | None = None
    for record in recording.records:
        body = record.body
        if isinstance(body, InputReceived):
            copied = body.turn in whole
            turn = None if copied else TurnRecording(body, plan_mode=plan_mode, mode=mode)
            recording.parts.append(turn or CopiedRecord(body))
        elif isinstance(body, Noted) and body.kind == Note.PLAN_MODE:
            plan_mode = str(body.data.get(body.kind))
        elif isinstance(body, Noted) and body.kind == Note.MODE:
            mode = str(body.data.get(body.kind))
        elif turn is None:
            between = NodeRan | Intent | Outcome | Compacted | Rewound
            if isinstance(body, between) or (copied and isinstance(body, _COMPARED)):
                command = body.command if isinstance(body, Intent) else None
                recording.parts.append(CopiedRecord(body, command))
            copied = copied and not isinstance(body, TurnClosed)
        if turn is not None:
            turn.records.append(record)
            turn = None if isinstance(body, TurnClosed) else turn
    for part in recording.parts:
        if isinstance(part, TurnRecording):
            part.read()
    return recording


def _copied_turns(records: Iterable[Record]) -> set[int]:
    """Return the numbers of the turns that the graph alone did not make, or not in one go."""
    return {
        turn.number
        for turn in SessionHistory(records).turns
        if turn.end is None
        or turn.end.stop in ("interrupted", "unknown")
        or turn.resumed
        or turn.input.parts
        or turn.input.agent
        or any(node.node == RECIPE_NODE for node in turn.nodes)
        or any(action.effect == "hosts" for action in turn.actions.values())
        or any(note.kind == "hook" for note in turn.notes)
    }


def _automatic(decision: Decision) -> bool:
    """Return whether nobody was asked for `decision`."""
    by = decision.by
    return by in ("policy", events.BY_KOGNITERM, events.BY_HOOK) or by.startswith("lease ")


def without_repeats(records: Iterable[Record]) -> list[Record]:
    """Return the records without questions that a crash left open and a resume asked again.

    These are the questions of approval, and those that the model asked.
    """
    kept: list[Record] = []
    for record in records:
        if isinstance(record.body, SessionOpened) and kept:
            open_turn = next(
                (r for r in reversed(kept) if isinstance(r.body, InputReceived | TurnClosed)), None
            )
            if open_turn is not None and isinstance(open_turn.body, InputReceived):
                settled = {r.body.request_id for r in kept if isinstance(r.body, Intent | Outcome)}
                kept = [r for r in kept if _request_of(r.body) in settled | {None}]
        kept.append(record)
    return kept


def _request_of(body: RecordBody) -> str | None:
    match body:
        case Requested(request=request):
            return request.id
        case Judged() | Decided():
            return body.request_id
        case Noted(kind="hook", data=said):
            return str(said["request_id"]) or None
        case _:
            return None


FAILED = Phrase("The recorded model call failed.")


class _Listening:
    """The messages that each caller has heard since its last reply."""

    def __init__(self, judged: str) -> None:
        self.judged = judged
        self.heard: dict[str, list[BaseMessage]] = defaultdict(list)

    def said_in(self, update: NodeUpdate) -> Iterator[RecordedCall]:
        """Yield the replies in what a node added, the last with what they cost."""
        recipe = update.node == RECIPE_NODE
        thinks = update.node in THINKING or (recipe and bool(update.agent))
        calls: list[RecordedCall] = []
        last = ""
        for message in update.messages:
            unusable = message.type == "human" and message.text.startswith(UNUSABLE)
            if thinks and message.type == "ai":
                calls.append(self._reply(update.agent, message))
            elif thinks and unusable and last != "ai":
                calls.append(self._reply(update.agent, None))
            if message.type == "tool":
                from langchain_core.messages import AIMessage

                artifact = getattr(message, "artifact", None)
                kept = artifact.get(self.judged) if isinstance(artifact, Mapping) else None
                if isinstance(kept, Mapping):
                    yield RecordedCall("judge", AIMessage(str(kept["reply"])))
            if message.type != "ai":
                self.heard[update.agent].append(message)
            last = message.type
        costing = [RecordedCall(c.asker, c.reply, update.usage, c.heard) for c in calls[-1:]]
        yield from (*calls[:-1], *costing)
        if update.agent and update.failure is not None and not thinks:
            yield RecordedCall(update.agent, failure=update.failure)

    def _reply(self, agent: str, message: BaseMessage | None) -> RecordedCall:
        from langchain_core.messages import AIMessage

        reply = message if isinstance(message, AIMessage) else AIMessage("")
        return RecordedCall(agent, reply, heard=tuple(self.heard.pop(agent, ())))


def recorded_calls(records: Iterable[Record], *, judged: str) -> Iterator[RecordedCall]:
    """Yield the calls that got a reply or failed, in order.

    `judged` is the key under which a judged plan step keeps the reply of its judge.
    """
    from langchain_core.messages import AIMessage

    listening = _Listening(judged)
    for record in without_repeats(records):
        match record.body:
            case InputReceived(message=message):
                listening.heard[""].append(message)
            case NodeRan(update=update):
                yield from listening.said_in(update)
            case Outcome() as outcome:
                listening.heard[outcome.agent].extend(outcome.told)
            case Compacted(summary=str() as summary, usage=usage):
                yield RecordedCall("compact", AIMessage(summary), usage)
            case TurnClosed(stop="model_failed"):
                yield RecordedCall("", failure=FAILED)
            case _:
                pass


def compactions(records: Sequence[Record], *, judged: str) -> Iterator[tuple[int, int, Compacted]]:
    """Yield the compactions in a turn, each behind the numbers of main replies and of outcomes."""
    for at, record in enumerate(records):
        if isinstance(record.body, Compacted):
            replies = [one for one in recorded_calls(records[:at], judged=judged) if not one.asker]
            ended = SessionHistory(records[:at]).open_turn.ended
            yield len(replies), len(ended), record.body
