"""The calls of a model in the records of a session, for a replay of its replies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kogniterm.sessions.history import SessionHistory
from kogniterm.sessions.recording import THINKING, UNUSABLE, without_repeats
from kogniterm.sessions.records import Compacted, InputReceived, NodeRan, Outcome, Record, TurnEnded
from kogniterm.types import NodeUpdate, Phrase
from kogniterm.types.model_calls import RecordedCall
from kogniterm.types.turn_values import RECIPE_NODE

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

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
            case TurnEnded(stop="model_failed"):
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
