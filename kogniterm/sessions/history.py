"""The history of a session: its turns, and what was asked, done and answered in each.

`SessionHistory` is the one reader of records for those who want to know what happened; `fold` tells
from them how the session goes on. A `Point` is one that the conversation can go back to: the moment
before an input. Going back appends a record with the history of that moment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.fold import Note, fold, usage_of_note
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
    Requested,
    Rewound,
    SessionOpened,
    TurnClosed,
)
from kogniterm.types import (
    ActionRequest,
    CommandResult,
    Decision,
    EffectClass,
    NodeUpdate,
    Plan,
    RiskReport,
    Usage,
    UserInput,
    Verdict,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from kogniterm.sessions.journal.codec import StoredRecord
    from kogniterm.sessions.journal.journal import SessionJournal


class PastCompaction(NamedTuple):
    """A compaction of the history to `kept` messages, which kept `plan`.

    `summary` is the model's text and `usage` its cost, if it was asked.
    """

    plan: Plan | None
    kept: int
    summary: str
    usage: Usage


class PastRewind(NamedTuple):
    """The return of the conversation to before a turn, which began with the record `to_seq`."""

    turn: int
    to_seq: int


class PastDamage(NamedTuple):
    """A record that cannot be read."""

    seq: int


class PastEnd(NamedTuple):
    """The end of a turn."""

    seq: int
    time: float
    stop: str
    exit_code: int
    answer: str


class PastNote(NamedTuple):
    """A note, with the value that it sets if its kind has one.

    `usage` are the model calls that it counts.
    """

    seq: int
    kind: str
    data: Mapping[str, Any]
    usage: Usage

    @property
    def value(self) -> Any:
        """The datum with the name of the kind, or None."""
        return self.data.get(self.kind)


class PastJudgement(NamedTuple):
    """The report and verdict on a request, as it was then and in the folder `cwd`."""

    request_id: str
    request: ActionRequest | None
    cwd: str
    report: RiskReport
    verdict: Verdict


@dataclass(slots=True)
class PastAction:
    """An action request and what came of it; `seq` and `time` are of its first record.

    A command of the user's own has no request. What was edited or asked again has more than one
    judgement. `asked` is when the user could first answer. Times are in seconds since the epoch.
    `decisions` are with the numbers of their records.
    """

    id: str
    seq: int
    time: float
    request: ActionRequest | None = None
    cwd: str = ""
    env_hash: str = ""
    asked: float = 0.0
    judgements: list[PastJudgement] = field(default_factory=list)
    decisions: list[tuple[int, Decision]] = field(default_factory=list)
    decided: float | None = None
    intent: Intent | None = None
    started: float | None = None
    outcome: Outcome | None = None
    ended: float | None = None
    ended_seq: int = 0
    begun: bool = False
    damaged: bool = False

    @property
    def effect(self) -> EffectClass:
        return "command" if self.request is None else self.request.effect

    @property
    def command(self) -> str:
        """The command that was started, as it is recorded, or an empty string."""
        return self.intent.command if self.intent is not None else ""

    @property
    def decision(self) -> Decision | None:
        return self.decisions[-1][1] if self.decisions else None

    @property
    def report(self) -> RiskReport | None:
        return self.judgements[-1].report if self.judgements else None

    @property
    def ran(self) -> bool:
        """True when it was started, as far as is known."""
        result = self.result
        refused = result is not None and result.ended == "not_started"
        return self.intent is not None and not refused

    @property
    def result(self) -> CommandResult | None:
        """The result of a command that has ended."""
        return None if self.outcome is None else self.outcome.result

    @property
    def succeeded(self) -> bool:
        """True for what the model asked for, and not the user, and what ended well."""
        good = self.result is None or self.result.exit_code == 0
        asked = self.request is not None and self.effect != "person"
        return asked and self.status == "finished" and good

    @property
    def status(self) -> str:
        """The status of the outcome; unknown without one of what was started, else empty."""
        if self.outcome is not None and not self.damaged:
            return self.outcome.status
        return "unknown" if self.intent is not None or self.damaged else ""


class PastOutcome(NamedTuple):
    """The end of an action."""

    action: PastAction


Part: TypeAlias = (
    "SessionOpened | NodeUpdate | PastAction | PastOutcome | PastCompaction | PastRewind "
    "| PastDamage | PastNote | PastEnd"
)


class Moment(NamedTuple):
    """A part of a turn with the number and time of its record, and the session's model then."""

    seq: int
    time: float
    model: str
    part: Part


@dataclass(slots=True)
class PastTurn:
    """An input with all that followed until the next one.

    `moments` are in order; an action has one where it began and one where it ended, but none while
    it is only proposed. `message` is the input as the model got it. `ended` are the actions with an
    outcome, in its order. `model` is the session's at the beginning, `models` are the calls by the
    model's name. `last` is the time of the last record, and `away` the seconds before another
    process `resumed` the turn. With `rewound` the conversation went back to before it.
    """

    number: int = 0
    seq: int = 0
    time: float = 0.0
    input: UserInput = field(default_factory=lambda: UserInput(""))
    message: BaseMessage | None = None
    model: str = ""
    actions: dict[str, PastAction] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    ended: list[PastAction] = field(default_factory=list)
    plans: list[tuple[int, Plan]] = field(default_factory=list)
    models: dict[str, Usage] = field(default_factory=dict)
    end: PastEnd | None = None
    last: float = 0.0
    resumed: bool = False
    away: float = 0.0
    rewound: bool = False

    @property
    def nodes(self) -> list[NodeUpdate]:
        return [one.part for one in self.moments if isinstance(one.part, NodeUpdate)]

    @property
    def notes(self) -> list[PastNote]:
        return [one.part for one in self.moments if isinstance(one.part, PastNote)]

    @property
    def seconds(self) -> float:
        """The time from the input to the end, or to the last record of a turn without one."""
        return max((self.last if self.end is None else self.end.time) - self.time, 0)

    def count(self, model: str, usage: Usage) -> None:
        if usage != Usage():
            self.models[model] = self.models.get(model, Usage()) + usage


class SessionHistory:
    """The turns of a session, read from its records or from some of them.

    What happened before the first input is in a turn with the number 0, `before`. `model` is the
    session's.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.before = PastTurn()
        self.turns: list[PastTurn] = []
        self.opened: list[SessionOpened] = []
        self.seq = 0
        self.model = ""
        self._actions: dict[str, PastAction] = {}
        self.read(records)

    @property
    def conversation(self) -> list[PastTurn]:
        """The turns that the conversation did not go back to before."""
        return [turn for turn in self.turns if not turn.rewound]

    @property
    def all_turns(self) -> list[PastTurn]:
        """The turns, after `before`."""
        return [self.before, *self.turns]

    @property
    def open_turn(self) -> PastTurn:
        """The turn that new records belong to."""
        return self.turns[-1] if self.turns else self.before

    @property
    def models(self) -> dict[str, Usage]:
        """The calls of all turns by the model's name."""
        total = PastTurn()
        for turn in self.all_turns:
            for model, usage in turn.models.items():
                total.count(model, usage)
        return total.models

    def read(self, records: Iterable[Record]) -> None:
        """Take later records into account."""
        for record in records:
            self._read(record)
            self.seq, self.open_turn.last = record.seq, record.time

    def read_stored(self, rows: Iterable[StoredRecord]) -> None:
        """Read stored records; of damaged ones only the columns count."""
        for row in rows:
            try:
                self.read([row.record()])
            except StorageCorruptError:
                damage = Moment(row.seq, row.time, self.model, PastDamage(row.seq))
                self.open_turn.moments.append(damage)
                known = self._actions.get(row.request_id or "")
                if known is not None and row.kind in ("intent", "outcome"):
                    known.damaged = True

    def _read(self, record: Record) -> None:
        turn, seq, time = self.open_turn, record.seq, record.time
        part: Part
        match record.body:
            case SessionOpened() as part:
                self.opened.append(part)
                self.model = part.model or self.model
                if turn.number and turn.end is None:
                    turn.resumed = True
                    turn.away += time - turn.last
            case InputReceived(turn=number, input=given, message=message):
                self.turns.append(PastTurn(number, seq, time, given, message, self.model))
                return
            case NodeRan(update=part):
                turn.count(part.model or self.model, part.usage)
                if part.plan is not None:
                    turn.plans.append((seq, part.plan))
                for request in part.pending:
                    self._action(request.id, record).request = request
            case Compacted(plan=plan, usage=usage) as done:
                part = PastCompaction(plan, len(done.messages), done.summary or "", usage)
                turn.count(self.model, usage)
            case Rewound(turn=number, to_seq=back):
                part = PastRewind(number, back)
                for one in self.turns:
                    one.rewound = one.rewound or one.seq >= back
            case TurnClosed(stop=stop, exit_code=code, answer=answer):
                turn.end = part = PastEnd(seq, time, stop, code, answer)
            case Noted() as noted:
                part = PastNote(seq, noted.kind, noted.data, usage_of_note(noted))
                self._read_note(part)
            case Requested() | Judged() | Decided() | Intent() | Outcome() as body:
                self._read_action(body, record)
                return
            case _:
                return
        turn.moments.append(Moment(seq, time, self.model, part))

    def _read_note(self, note: PastNote) -> None:
        if note.kind == Note.MODEL:
            self.model = str(note.value or "")
        # What is learned from a turn afterwards counts as part of it.
        counted = [one for one in self.all_turns if one.number == note.data.get("turn")]
        model = str(note.data.get("model") or self.model)
        (counted or [self.open_turn])[-1].count(model, note.usage)

    def _action(self, key: str, record: Record) -> PastAction:
        """Return the action of a request, a new one at its first record."""
        if key not in self._actions:
            self._actions[key] = PastAction(key, record.seq, record.time, asked=record.time)
            self.open_turn.actions[key] = self._actions[key]
        return self._actions[key]

    def _read_action(
        self, body: Requested | Judged | Decided | Intent | Outcome, record: Record
    ) -> None:
        turn = self.open_turn
        action = self._action(
            body.request.id if isinstance(body, Requested) else body.request_id, record
        )
        if not action.begun:
            action.begun = True
            turn.moments.append(Moment(record.seq, record.time, self.model, action))
        match body:
            case Requested(request=request, cwd=cwd, env_hash=env):
                action.request, action.cwd, action.env_hash = request, cwd, env
            case Judged(report=report, verdict=verdict):
                judgement = PastJudgement(action.id, action.request, action.cwd, report, verdict)
                action.judgements.append(judgement)
                action.asked = record.time
            case Decided(decision=decision):
                action.decisions.append((record.seq, decision))
                action.decided = record.time
            case Intent(cwd=cwd, env_hash=env) as intent:
                action.intent, action.started, action.damaged = intent, record.time, False
                action.cwd, action.env_hash = cwd, env
            case Outcome() as outcome:
                action.outcome, action.ended, action.damaged = outcome, record.time, False
                action.ended_seq = record.seq
                turn.ended.append(action)
                end = PastOutcome(action)
                turn.moments.append(Moment(record.seq, record.time, self.model, end))
                turn.count(self.model, outcome.usage)
                if outcome.plan is not None:
                    turn.plans.append((record.seq, outcome.plan))


def notes(records: Iterable[Record], *kinds: str) -> Iterator[PastNote]:
    """Yield the notes of some kinds, in order."""
    for record in records:
        if isinstance(record.body, Noted) and record.body.kind in kinds:
            body = record.body
            yield PastNote(record.seq, body.kind, body.data, usage_of_note(body))


def before_turns(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records before the first input."""
    return takewhile(lambda record: not isinstance(record.body, InputReceived), records)


@dataclass(slots=True)
class Point:
    """The moment before an input, and the actions that were started from there to the next point.

    `time` is in seconds since the epoch.
    """

    turn: int
    seq: int
    time: float
    input: UserInput
    actions: list[PastAction] = field(default_factory=list)


def points(records: Iterable[Record]) -> list[Point]:
    """Return the points of the conversation, in order, from `records` of its journal.

    An action of a turn that the conversation went behind belongs to the point before it: what it
    did to the machine was not taken back with its words.
    """
    found: list[Point] = []
    for turn in SessionHistory(records).turns:
        if not turn.rewound:
            found.append(Point(turn.number, turn.seq, turn.time, turn.input))
        if found:
            found[-1].actions += [one for one in turn.actions.values() if one.ran]
    return found


def point_at(found: Sequence[Point], moment: float) -> int:
    """Return the index of the point that `moment` (seconds since the epoch) belongs to, or -1."""
    return bisect_right([point.time for point in found], moment) - 1


def step_back(journal: SessionJournal, point: Point) -> Rewound:
    """Return the record that takes the conversation back to `point`."""
    state, seq = journal.state, point.seq
    first = state.history_seq if state.history_seq < seq else 1
    before = fold(takewhile(lambda record: record.seq < seq, journal.records(first)))
    # With the same instructions, the next request begins with the bytes of earlier ones.
    same = max(state.instructions, state.history_seq) < seq
    instructions = state.fixed_instructions if same else state.instructions
    return Rewound(point.turn, seq, tuple(before.messages), before.plan, instructions)
