"""The points of a conversation that it can go back to, and the record that goes back.

A point is the moment before an input. The journal keeps everything: going back appends a record
with the history of that moment, and the later records are no longer part of the conversation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.sessions.fold import SessionState, fold
from kogniterm.sessions.records import (
    InputReceived,
    Intent,
    Judged,
    Outcome,
    Record,
    Requested,
    Rewound,
)

if TYPE_CHECKING:
    from kogniterm.sessions.journal.journal import Journal
    from kogniterm.types import RiskReport, UserInput
    from kogniterm.types.actions import EffectClass


class PastAction(NamedTuple):
    """An action that was started; `report` is None for a command of the user's own."""

    request_id: str
    command: str
    effect: EffectClass = "command"
    report: RiskReport | None = None


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


def points(state: SessionState, records: Iterable[Record]) -> list[Point]:
    """Return the points of the conversation, in order, from `records` of its journal.

    An action of a turn that the conversation went behind belongs to the point before it: what it
    did to the machine was not taken back with its words.
    """
    found: list[Point] = []
    kinds: dict[str, EffectClass] = {}
    reports: dict[str, RiskReport] = {}
    for record in records:
        match record.body:
            case InputReceived(turn=turn, input=given) if state.in_force(record.seq):
                found.append(Point(turn, record.seq, record.time, given))
            case Requested(request=requested):
                kinds[requested.id] = requested.effect
            case Judged(request_id=request, report=report):
                reports[request] = report
            case Intent(request_id=request, command=command) if found:
                kind = kinds.get(request, "command")
                action = PastAction(request, command, kind, reports.get(request))
                found[-1].actions.append(action)
            case Outcome(request_id=request, result=result) if found:
                if result is not None and result.ended == "not_started":
                    acts = found[-1].actions
                    acts[:] = [action for action in acts if action.request_id != request]
    return found


def point_at(found: Sequence[Point], moment: float) -> int:
    """Return the index of the point that `moment` (seconds since the epoch) belongs to, or -1."""
    return bisect_right([point.time for point in found], moment) - 1


def step_back(journal: Journal, point: Point) -> Rewound:
    """Return the record that takes the conversation back to `point`."""
    state, seq = journal.state, point.seq
    first = state.history_seq if state.history_seq < seq else 1
    before = fold(takewhile(lambda record: record.seq < seq, journal.records(first)))
    # With the same instructions, the next request begins with the bytes of earlier ones.
    same = max(state.instructions, state.history_seq) < seq
    instructions = state.fixed_instructions if same else state.instructions
    return Rewound(point.turn, seq, tuple(before.messages), before.plan, instructions)
