"""The recording of a session for a replay, and the comparison of two runs.

The journal holds everything that came into the session from outside: the inputs, the model's
replies, the verdicts of the policy, the user's decisions, the results of commands and tools. A
replay feeds these to the same graph and runtime in the same order.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kogniterm.sessions.fold import Note
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
    TurnEnded,
)
from kogniterm.types import ActionRequest, Decision, NodeUpdate, Phrase, Plan, Usage, events
from kogniterm.types.turn_values import RECIPE_NODE

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

_COMPARED = (
    InputReceived, NodeRan, Requested, Judged, Decided, Intent, Outcome, Compacted, TurnEnded,
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
        request = _request_ran(record.body)
        if request is None and not isinstance(record.body, Noted | SessionOpened):
            yield from chain.from_iterable(groups.values())
            groups.clear()
            key = ""
            yield record
            continue
        key = request or key
        groups.setdefault(key, []).append(record)
    yield from chain.from_iterable(groups.values())


def _request_ran(body: RecordBody) -> str | None:
    """Return the request that a record belongs to, once it was proposed."""
    return body.request_id if isinstance(body, Intent | Outcome) else _request_of(body)


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
STOPPED = "stopped"
"""The node of what was stopped from outside: open calls of a sub-agent, a turn."""

CHANGED = re.compile(r"\[not run: (?P<file>.+?) changed after the command was (?:checked|judged)\.")
"""The message of `agent.messages` that an approved command was withheld."""
NESTED = "kogniterm_instructions"
"""Marks a note with the instructions of a folder, see `runtime/trust/instruction_texts`."""
UNUSABLE = "(Your reply could not be used:"
"""The beginning of the note that replaces a reply without any text in the journal."""


class Voice:
    """The model's replies to one agent in a turn.

    `replies` holds None for an empty reply, each with its usage. `said` is the user's input before
    each step, `instructions` what was given of folders then. `stop` is why the agent was stopped
    before its next model call, `error` how that call failed.
    """

    def __init__(self) -> None:
        self.replies: deque[tuple[AIMessage | None, Usage]] = deque()
        self.stop: Phrase | None = None
        self.error: Phrase | None = None
        self.said: deque[list[str]] = deque()
        self.instructions: deque[list[BaseMessage]] = deque()
        self.calls: dict[str, Mapping[str, Any]] = {}

    def say(self, message: AIMessage | None) -> None:
        """Add a reply."""
        self.replies.append((message, Usage(calls=1)))
        for call in message.tool_calls if message is not None else ():
            self.calls[str(call["id"])] = call["args"]


class Answered(NamedTuple):
    """A tool call that was answered inside the graph: its arguments and its result."""

    arguments: Mapping[str, Any]
    message: ToolMessage


class Shortened(NamedTuple):
    """A compaction, with the numbers of main-agent replies and of outcomes before it."""

    replies: int
    outcomes: int
    body: Compacted


class TurnRecording:
    """One turn, each queue in the order of its use.

    `voices` are by agent, with the main one under the empty name. `judged`, `decided` and
    `outcomes` are by the ID of the call that they are about; `calls` has it for each request.
    `inside` and `proposed` are by tool; parallel sub-agents ask for them in any order. `withheld`
    are the files for which approved requests were not started, by request.
    """

    def __init__(self, given: InputReceived, plan_mode: str = "", mode: str = "") -> None:
        self.given = given
        self.plan: Plan | None = None
        self.plan_mode = plan_mode
        self.mode = mode
        self.voices: dict[str, Voice] = defaultdict(Voice)
        self.compactions: deque[Shortened] = deque()
        self.calls: dict[str, str] = {}
        self.judged: dict[str, deque[Judged]] = defaultdict(deque)
        self.decided: dict[str, deque[Decided]] = defaultdict(deque)
        self.outcomes: dict[str, deque[Outcome]] = defaultdict(deque)
        self.inside: dict[str, list[Answered]] = defaultdict(list)
        self.proposed: dict[str, list[ActionRequest]] = defaultdict(list)
        self.withheld: dict[str, str] = {}
        self.settled = 0

    def call_of(self, request_id: str) -> str:
        """Return the ID of the call behind a request."""
        return self.calls.get(request_id, "")


@dataclass(slots=True)
class SessionRecording:
    """The whole session: turns, and the records that are copied as they are.

    These are the records between turns, and the turns that the graph did not make alone: those with
    a recipe (its nodes run side by side, in an order that another run need not have), with the
    commands in a custom command, with a sub-agent that the user called, with hooks, with commands
    on hosts, and those that were interrupted or resumed after a crash.
    """

    parts: list[TurnRecording | RecordBody] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


def recording_of(records: Iterable[Record]) -> SessionRecording:
    """Return the recording of a session's records."""
    recording = SessionRecording()
    recording.records = list(by_request(without_repeats(records)))
    started = {r.body.request_id for r in recording.records if isinstance(r.body, Intent)}
    started |= {
        r.body.request.id
        for r in recording.records
        if isinstance(r.body, Requested) and r.body.request.effect == "person"
    }
    plan_mode, mode = "auto", ""
    copied, whole = False, _copied_turns(recording.records)
    turn: TurnRecording | None = None
    for record in recording.records:
        body = record.body
        if isinstance(body, InputReceived):
            copied = body.turn in whole
            turn = None if copied else TurnRecording(body, plan_mode=plan_mode, mode=mode)
            recording.parts.append(turn or body)
        elif isinstance(body, Noted) and body.kind == Note.PLAN_MODE:
            plan_mode = str(body.data.get(body.kind))
        elif isinstance(body, Noted) and body.kind == Note.MODE:
            mode = str(body.data.get(body.kind))
        elif turn is None:
            between = NodeRan | Intent | Outcome | Compacted | Rewound
            if isinstance(body, between) or (copied and isinstance(body, _COMPARED)):
                recording.parts.append(body)
            copied = copied and not isinstance(body, TurnEnded)
        elif isinstance(body, TurnEnded):
            turn = None
        else:
            _take(turn, body, started)
    return recording


def _copied_turns(records: Iterable[Record]) -> set[int]:
    """Return the numbers of the turns that the graph alone did not make."""
    turn, found, running = 0, set(), False
    for record in records:
        body = record.body
        if isinstance(body, InputReceived):
            if running:
                found.add(turn)  # a crash ended the turn before
            turn, running = body.turn, True
            if body.input.parts or body.input.agent:
                found.add(turn)
        elif isinstance(body, TurnEnded):
            running = False
            if body.stop in ("interrupted", "unknown"):
                found.add(turn)
        elif (running and isinstance(body, SessionOpened)) or _is_outside(body):
            found.add(turn)
    return found | {turn} if running else found


def _is_outside(body: RecordBody) -> bool:
    """Return whether a record comes from a recipe, a hook or a command on hosts."""
    if isinstance(body, NodeRan):
        hosts = any(one.effect == "hosts" for one in body.update.pending)
        return hosts or body.update.node == RECIPE_NODE
    return isinstance(body, Noted) and body.kind == "hook"


def _automatic(decision: Decision) -> bool:
    """Return whether nobody was asked for `decision`."""
    by = decision.by
    return by in ("policy", events.BY_KOGNITERM, events.BY_HOOK) or by.startswith("lease ")


def _take(turn: TurnRecording, body: RecordBody, started: set[str]) -> None:
    match body:
        case NodeRan():
            _take_node(turn, body)
        case Requested(request=request):
            turn.calls[request.id] = request.call_id
        case Judged():
            turn.judged[turn.call_of(body.request_id)].append(body)
        case Decided(decision=made) if not _automatic(made):
            turn.decided[turn.call_of(body.request_id)].append(body)
        case Outcome():
            turn.settled += 1
            if body.request_id in started:
                turn.outcomes[turn.call_of(body.request_id)].append(body)
            elif changed := CHANGED.match(body.message.text):
                turn.withheld[body.request_id] = changed["file"]
        case Compacted():
            said = len(turn.voices[""].replies)
            turn.compactions.append(Shortened(said, turn.settled, body))
        case _:
            pass


def _take_node(turn: TurnRecording, body: NodeRan) -> None:
    update = body.update
    for request in update.pending:
        turn.proposed[request.tool].append(request)
        turn.calls[request.id] = request.call_id
    if update.node in THINKING and update.plan is not None and not update.messages:
        turn.plan = update.plan  # given by the user with the input
        return
    voice = turn.voices[update.agent]
    if update.node in THINKING:
        _take_thought(turn, voice, update)
        return
    voice.error = update.failure or voice.error
    for message in update.messages:
        if message.type == "tool":
            answer = cast("ToolMessage", message)
            arguments = voice.calls.get(answer.tool_call_id, {})
            turn.inside[str(answer.name)].append(Answered(arguments, answer))


def _take_thought(turn: TurnRecording, voice: Voice, update: NodeUpdate) -> None:
    from langchain_core.messages import AIMessage, HumanMessage

    said: list[str] = []
    instructions: list[BaseMessage] = []
    last: BaseMessage | None = None
    for message in update.messages:
        if isinstance(message, AIMessage):
            voice.say(message)
        elif isinstance(message, HumanMessage):
            if NESTED in message.additional_kwargs:
                instructions.append(message)
            elif message.text.startswith(UNUSABLE):
                if not isinstance(last, AIMessage):
                    voice.say(None)
            elif "\n" in message.text and message.text.startswith("(Meanwhile"):
                said.append(message.text.partition("\n")[2])
        last = message
    if voice.replies:
        voice.replies[-1] = (voice.replies[-1][0], update.usage)
    voice.stop = update.failure
    voice.said.append(said)
    voice.instructions.append(instructions)


def without_repeats(records: Iterable[Record]) -> list[Record]:
    """Return the records without questions that a crash left open and a resume asked again.

    These are the questions of approval, and those that the model asked.
    """
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
    settled = {r.body.request_id for r in records if isinstance(r.body, Intent | Outcome)}
    return [r for r in records if _request_of(r.body) in settled | {None}]


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
