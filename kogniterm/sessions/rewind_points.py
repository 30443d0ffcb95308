"""The points of a conversation that it can go back to, and the record that goes back.

A point is the moment before an input. The journal keeps everything: going back appends a record
with the history of that moment, and the later records are no longer part of the conversation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from kogniterm.sessions.fold import fold
from kogniterm.sessions.history import PastAction, SessionHistory
from kogniterm.sessions.records import Record, Rewound

if TYPE_CHECKING:
    from kogniterm.sessions.journal.journal import Journal
    from kogniterm.types import UserInput


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


def step_back(journal: Journal, point: Point) -> Rewound:
    """Return the record that takes the conversation back to `point`."""
    state, seq = journal.state, point.seq
    first = state.history_seq if state.history_seq < seq else 1
    before = fold(takewhile(lambda record: record.seq < seq, journal.records(first)))
    # With the same instructions, the next request begins with the bytes of earlier ones.
    same = max(state.instructions, state.history_seq) < seq
    instructions = state.fixed_instructions if same else state.instructions
    return Rewound(point.turn, seq, tuple(before.messages), before.plan, instructions)
