"""The last turns of a session as the events that the runtime sent, read from its journal.

A screen that is given them draws a resumed session as it drew the live one. Nothing is executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from kogniterm.agent.messages import artifact_of
from kogniterm.agent.plan.evaluate import findings
from kogniterm.agent.plan.plan_parse import parse_plan
from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.agent.subagent import DELEGATE
from kogniterm.errors import ToolError
from kogniterm.runtime.crash_recovery import outcome_unknown
from kogniterm.runtime.gate import withdrawn
from kogniterm.sessions.recording import CHANGED, STOPPED, without_repeats
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
    SessionOpened,
    TurnEnded,
)
from kogniterm.tools.session_tools import reply_in
from kogniterm.types import (
    ActionRequest,
    Answer,
    CommandResult,
    NodeUpdate,
    Plan,
    Usage,
    UserInput,
    events,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

    from kogniterm.runtime.session import LiveSession

MOST_TURNS = 2
_CANCELLED = ("[not run: ", "[stopped: ")
"""The beginnings of messages that answer calls of a stopped turn; no tool ran for them."""
MOST_RECORDS = 500
"""Records that are read of the last turns; of a longer turn, its input and its end."""


@dataclass(frozen=True, slots=True)
class Replied:
    """A question of the model's, and the user's reply; None where they gave none."""

    question: str
    answers: tuple[str, ...]
    reply: str | None


Item: TypeAlias = "UserInput | Replied | events.Event"
"""An item that a screen showed; an input comes from the user's line, not from the runtime."""


@dataclass(frozen=True, slots=True)
class PastTurns:
    """The last turns of a session, each beginning with its input.

    `earlier` counts the turns before them, and `reference` names the session on a command line.
    """

    turns: tuple[tuple[Item, ...], ...]
    earlier: int
    reference: str


def past_turns(
    session: LiveSession, *, most: int = MOST_TURNS, records: int = MOST_RECORDS
) -> PastTurns:
    """Return the last turns of an open session, `most` of them, from at most so many records."""
    store = session.archive.store
    starts = session.archive.inputs()
    items = _items(session, starts[-most:][0], records) if starts else []
    turns: list[list[Item]] = []
    for item in items:
        if isinstance(item, UserInput) and item.source != "shell":
            turns.append([])
        if turns:
            turns[-1].append(item)
    earlier = max(len(starts) - len(turns), 0)
    return PastTurns(tuple(map(tuple, turns)), earlier, store.short_id(session.id))


def _items(session: LiveSession, first: int, most: int) -> list[Item]:
    """Return what was shown from the record `first` on, which is an input."""
    journal, state = session.journal, session.state
    late = state.seq - most
    head = [next(journal.records(first))] if late > first else []
    found = [*head, *journal.records(max(first, late))]
    records = without_repeats(state.conversation(found))
    reader = _Reader(session.id, session.model.name, session.folder)
    return [item for record in records for item in reader.read(record)]


@dataclass(slots=True)
class _Turn:
    """The state of one turn: when it began, how long it waited, and what was refused in it."""

    began: float
    plan_before: Plan | None
    waited: float = 0.0
    away: float = 0.0
    usage: Usage = field(default_factory=Usage)
    refused_by: list[str] = field(default_factory=list)

    def answer(self, ended: TurnEnded, time: float, plan: Plan | None) -> Answer:
        """Return the answer as the screen got it."""
        changed = plan if plan != self.plan_before else None
        verified, not_verified = findings(changed) if changed is not None else ((), ())
        by = sorted(self.refused_by, key=lambda one: one == "person")
        seconds = max(time - self.began - self.waited - self.away, 0.0)
        return Answer(
            ended.answer,
            ended.stop,  # type: ignore[arg-type]  # the records hold it as it was given
            ended.exit_code,
            usage=self.usage,
            verified=verified,
            not_verified=not_verified,
            seconds=seconds,
            waited=self.waited,
            refused_by=by[0] if by and ended.stop == "refused" else "",
        )


class _Reader:
    """Follows the records of some turns and gives, for each, what the screen showed."""

    def __init__(self, session_id: str, model: str, folder: str) -> None:
        self._session = session_id
        self._model = model
        self._folder = folder
        self._turn: _Turn | None = None
        self._plan: Plan | None = None
        self._requests: dict[str, ActionRequest] = {}
        self._folders: dict[str, str] = {}
        self._approved: set[str] = set()
        self._intents: dict[str, Intent] = {}
        self._arguments: dict[str, str] = {}
        self._time = 0.0
        self._asked = 0.0

    def read(self, record: Record) -> Iterator[Item]:
        """Yield the items of one more record."""
        if isinstance(record.body, SessionOpened) and self._turn is not None:
            self._turn.away += record.time - self._time
        self._time = record.time
        yield from self._items(record.body)

    def _items(self, body: RecordBody) -> Iterator[Item]:
        match body:
            case InputReceived():
                self._turn = _Turn(self._time, self._plan)
                yield body.input
                yield events.TurnStarted(self._session, body.turn, self._model, self._folder)
            case NodeRan(update=update):
                yield from self._node(update)
            case Requested(request=request, cwd=cwd):
                self._requests[request.id], self._folders[request.id] = request, cwd
            case Judged():
                yield from self._judged(body)
            case Decided():
                yield from self._decided(body)
            case Intent():
                self._intents[body.request_id] = body
            case Outcome():
                yield from self._outcome(body)
                if self._turn is not None:
                    self._turn.usage = self._turn.usage + body.usage
            case Compacted(plan=plan):
                self._plan = plan
            case TurnEnded():
                if self._turn is not None:
                    yield events.TurnEnded(self._turn.answer(body, self._time, self._plan))
                self._turn = None

    # --- what the model did ---------------------------------------------------------------------

    def _node(self, update: NodeUpdate) -> Iterator[Item]:
        if update.agent and update.node == DELEGATE.name and update.messages:
            yield events.AgentStarted(update.agent, update.messages[0].text, update.agent_name)
        for message in update.messages if update.node != STOPPED else ():
            yield from self._message(message, update.agent)
        if self._turn is not None:
            self._turn.usage = self._turn.usage + update.usage
        for request in update.pending:
            self._requests[request.id] = request
            self._asked = self._time
        if not update.agent:
            yield from self._planned(update.plan)

    def _message(self, message: BaseMessage, agent: str) -> Iterator[Item]:
        if message.type == "ai":
            yield from self._said(message, agent)  # type: ignore[arg-type]  # its type says so
        elif message.type == "tool" and not message.text.startswith(_CANCELLED):
            yield self._ran(message, agent)  # type: ignore[arg-type]  # its type says so

    def _said(self, message: AIMessage, agent: str) -> Iterator[Item]:
        for call in message.tool_calls:
            arguments = json.dumps(call["args"], ensure_ascii=False, default=str)
            self._arguments[str(call["id"])] = arguments
        if message.text.strip() and not agent:
            yield events.AnswerDelta(message.text)
            yield events.ModelAnswered("decide_action", Usage(), Usage())

    def _ran(self, message: ToolMessage, agent: str) -> Item:
        arguments = self._arguments.get(message.tool_call_id, "{}")
        failed = message.status == "error"
        malformed = bool(artifact_of(message).get("malformed"))
        return events.ToolRan(
            str(message.name), arguments, message.text, failed, agent, malformed=malformed
        )

    def _planned(self, plan: Plan | None) -> Iterator[Item]:
        if plan is not None and plan != self._plan:
            before, self._plan = self._plan, plan
            yield events.PlanChanged(plan, before)

    # --- what was asked and decided -------------------------------------------------------------

    def _judged(self, body: Judged) -> Iterator[Item]:
        self._asked = self._time
        request = self._requests.get(body.request_id)
        if request is not None:
            cwd = self._folders.get(request.id, self._folder)
            yield events.ActionProposed(request, body.report, body.verdict, cwd)

    def _decided(self, body: Decided) -> Iterator[Item]:
        request, decision = self._requests.get(body.request_id), body.decision
        if self._turn is not None and decision.by == "person":
            self._turn.waited += self._time - self._asked
        if decision.kind == "approve":
            self._approved.add(body.request_id)
            self._asked = self._time
        if request is None:
            return
        if request.tool == MAKE_PLAN.name:
            yield from self._reviewed(request, body)
            return
        if decision.kind == "reject" and self._turn is not None:
            self._turn.refused_by.append(decision.by)
        yield events.ActionDecided(request, decision)

    def _reviewed(self, request: ActionRequest, body: Decided) -> Iterator[Item]:
        decision = body.decision
        if decision.kind == "reject":
            try:
                proposed = parse_plan(request.arguments, self._plan, agents=None)
            except ToolError:
                return
            yield events.PlanProposed(request.id, proposed, self._plan)
        yield events.PlanReviewed(request.id, decision.kind, decision.by, decision.reason)

    # --- what came of it ------------------------------------------------------------------------

    def _outcome(self, body: Outcome) -> Iterator[Item]:
        request = self._requests.get(body.request_id)
        intent = self._intents.pop(body.request_id, None)
        if body.status == "unknown" and intent is not None:
            yield outcome_unknown(intent)
        elif body.result is not None:
            if request is None:
                yield UserInput(f"!{body.result.command}", source="shell")
            yield from _command(body.request_id, body.result)
        elif request is not None and request.effect == "person":
            if request.tool != MAKE_PLAN.name:
                yield self._replied(request, body)
        elif request is not None and intent is not None:
            yield _action(request, body)
        elif request is not None and request.id in self._approved:
            yield from self._withdrawn(request, body)
        yield from self._planned(body.plan)

    def _replied(self, request: ActionRequest, body: Outcome) -> Item:
        if self._turn is not None:
            self._turn.waited += self._time - self._asked
        if body.status != "finished":
            return _action(request, body)
        answers = tuple(map(str, request.arguments.get("answers", ())))
        return Replied(request.arguments["question"], answers, reply_in(body.message.text))

    def _withdrawn(self, request: ActionRequest, body: Outcome) -> Iterator[Item]:
        changed = CHANGED.match(body.message.text)
        if changed is not None:
            decision = withdrawn(request.command, changed["file"])
            if self._turn is not None:
                self._turn.refused_by.append(decision.by)
            yield events.ActionDecided(request, decision)


def _action(request: ActionRequest, body: Outcome) -> events.ActionEnded:
    """Return the end of an action that is no command."""
    given = ""
    if request.effect == "network":
        given = json.dumps(dict(request.arguments), ensure_ascii=False, default=str)
    failed = body.status == "failed"
    return events.ActionEnded(request.id, request.tool, body.message.text, failed, given)


def _command(request_id: str, result: CommandResult) -> Iterable[events.Event]:
    """Return the events of a command that ran; its output is what the model saw of it.

    The jobs that it left are another process's, and are over or unknown by now.
    """
    output = result.text.encode("utf-8", "replace")
    size = result.output_bytes if result.omitted_bytes else len(output)
    ended = replace(result, jobs=(), output_bytes=size)
    shown: Sequence[events.Event] = (
        events.CommandStarted(request_id, result.command, result.cwd),
        events.CommandOutput(request_id, output),
        events.CommandEnded(request_id, ended),
    )
    return shown
