"""What a replay needs of a recorded session, and where the replay first went another way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kogniterm.sessions import codec
from kogniterm.sessions.records import (
    Compacted,
    Decided,
    InputReceived,
    Intent,
    Judged,
    NodeRan,
    Outcome,
    Record,
    RecordBody,
    Requested,
    TurnEnded,
)
from kogniterm.types import CommandResult, Decision, UserInput

_COMPARED = (
    InputReceived, NodeRan, Requested, Judged, Decided, Intent, Outcome, Compacted, TurnEnded,
)  # fmt: skip
_VARYING = frozenset(
    {
        # What differs between two runs of the same session without meaning anything.
        "call_id",
        "detail",
        "duration",
        "env_hash",
        "id",
        "output_bytes",
        "output_path",
        "repeats",
        "request_id",
        "response_metadata",
        "script_hashes",
        "tool_call_id",
        "usage",
        "usage_metadata",
    }
)


@dataclass(slots=True)
class RecordedTurn:
    """One turn to play again: the input, then what was decided and what came out, in order."""

    turn: int
    input: UserInput
    decisions: list[Decision] = field(default_factory=list)
    results: list[CommandResult] = field(default_factory=list)


def recorded_turns(records: Iterable[Record]) -> list[RecordedTurn]:
    """The turns of a session, with the answers of the approver and of the executor."""
    turns: list[RecordedTurn] = []
    for record in records:
        match record.body:
            case InputReceived(turn=turn, input=given):
                turns.append(RecordedTurn(turn, given))
            case Decided(decision=decision) if turns:
                turns[-1].decisions.append(decision)
            case Outcome(result=result) if turns and result is not None:
                turns[-1].results.append(result)
            case _:
                pass
    return turns


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where two runs differ: the turn, the kind of record, the path of the field
    in it, and both values. A record that only one run has has the path "" and None for a value.
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
    for body in _in_one_order(record.body for record in records):
        if isinstance(body, InputReceived):
            turn = body.turn
        yield turn, codec.kind_of(body), _stable(codec.to_plain(body))


def _in_one_order(bodies: Iterable[RecordBody]) -> Iterator[RecordBody]:
    """What is compared, with the nodes of sub-agents that ran side by side one agent after the
    other: in which order they came in means nothing."""
    aside: list[NodeRan] = []
    for body in bodies:
        if isinstance(body, NodeRan) and body.update.agent:
            aside.append(body)
        elif isinstance(body, _COMPARED):
            yield from sorted(aside, key=lambda node: node.update.agent)
            aside.clear()
            yield body
    yield from sorted(aside, key=lambda node: node.update.agent)


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(item) for key, item in value.items() if key not in _VARYING}
    if isinstance(value, list):
        return [_stable(item) for item in value]
    return value


def _difference(old: Any, new: Any, path: str = "") -> tuple[str, object, object] | None:
    """The path to the first difference, with both values there."""
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
