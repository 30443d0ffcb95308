"""What a whole session has spent, read from its journal when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kogniterm.runtime.limits import NOTHING
from kogniterm.sessions.records import Compacted, InputReceived, NodeRan, Outcome, Record, TurnEnded
from kogniterm.types import Usage


def session_spent(records: Iterable[Record]) -> tuple[Mapping[str, float], Usage]:
    """The sums over all turns, by the names of the limits, and the tokens behind the dollars.

    Seconds are those of turns, by the journal's clock; dollars are left to who knows the price.
    """
    spent, usage = dict(NOTHING), Usage()
    begun: float | None = None
    last = 0.0
    for record in records:
        match record.body:
            case InputReceived():
                if begun is not None:
                    spent["seconds"] += max(last - begun, 0)
                begun = record.time
            case TurnEnded() if begun is not None:
                spent["seconds"] += max(record.time - begun, 0)
                begun = None
            case NodeRan(update=update):
                usage += update.usage
            case Compacted(usage=summary):
                usage += summary
            case Outcome(result=result) if result is not None:
                spent["commands"] += 1
                spent["output_bytes"] += result.output_bytes
        last = record.time
    if begun is not None:
        spent["seconds"] += max(last - begun, 0)
    spent["steps"], spent["tokens"] = usage.calls, usage.input + usage.output
    return spent, usage
