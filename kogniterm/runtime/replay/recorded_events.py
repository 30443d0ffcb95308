"""The last turns of a session as the events that the runtime sent, read from its journal.

A screen that is given them draws a resumed session as it drew the live one. Nothing is executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from kogniterm.agent.messages import artifact_of
from kogniterm.agent.plan.evaluate import findings
from kogniterm.agent.plan.plan_parse import parse_plan
from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.agent.subagent import DELEGATE
from kogniterm.errors import ToolError
from kogniterm.runtime.crash_recovery import outcome_unknown
from kogniterm.runtime.gate import withdrawn
from kogniterm.sessions.history import (
    PastAction,
    PastCompaction,
    PastEnd,
    PastTurn,
    SessionHistory,
)
from kogniterm.sessions.recording import CHANGED, without_repeats
from kogniterm.sessions.records import STOPPED, Outcome
from kogniterm.tools.session_tools import reply_in
from kogniterm.types import (
    ActionRequest,
    Answer,
    CommandResult,
    Decision,
    NodeUpdate,
    Plan,
    Usage,
    UserInput,
    events,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, ToolMessage

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
    reader = _Reader(session.id, session.model.name, session.folder)
    history = SessionHistory(without_repeats(state.conversation(found)))
    return [item for turn in history.turns for item in reader.read(turn)]


class _Reader:
    """Gives what the screen showed of one turn after the other."""

    def __init__(self, session_id: str, model: str, folder: str) -> None:
        self._session = session_id
        self._model = model
        self._folder = folder
        self._plan: Plan | None = None
        self._arguments: dict[str, str] = {}
        self._refused_by: list[str] = []
        self._printed = ""

    def read(self, turn: PastTurn) -> Iterator[Item]:
        """Yield the items of a turn, and of what the user did after its end."""
        plan_before, self._refused_by = self._plan, []
        of_recipe = turn.end is not None and turn.input.source == "recipe"
        self._printed = turn.end.answer if of_recipe and turn.end is not None else ""
        yield turn.input
        yield events.TurnStarted(self._session, turn.number, self._model, self._folder)
        for moment in turn.moments:
            match moment.part:
                case NodeUpdate() as update:
                    yield from self._node(update)
                case PastAction() as action:
                    yield from self._action(action)
                case PastCompaction(plan=plan):
                    self._plan = plan
                case PastEnd() as end:
                    yield events.TurnEnded(self._answer(turn, end, plan_before))

    def _answer(self, turn: PastTurn, ended: PastEnd, plan_before: Plan | None) -> Answer:
        """Return the answer as the screen got it."""
        changed = self._plan if self._plan != plan_before else None
        verified, not_verified = findings(changed) if changed is not None else ((), ())
        by = sorted(self._refused_by, key=lambda one: one == "person")
        used = [node.usage for node in turn.nodes]
        used += [one.outcome.usage for one in turn.ended if one.outcome is not None]
        waited = sum(map(_waiting_seconds, turn.actions.values()))
        return Answer(
            ended.answer,
            ended.stop,  # type: ignore[arg-type]  # the records hold it as it was given
            ended.exit_code,
            usage=sum(used, Usage()),
            verified=verified,
            not_verified=not_verified,
            seconds=max(turn.seconds - waited - turn.away, 0.0),
            waited=waited,
            refused_by=by[0] if by and ended.stop == "refused" else "",
            verbatim=bool(self._printed),
        )

    # --- what the model did ---------------------------------------------------------------------

    def _node(self, update: NodeUpdate) -> Iterator[Item]:
        if update.agent and update.node == DELEGATE.name and update.messages:
            yield events.AgentStarted(update.agent, update.messages[0].text, update.agent_name)
        for message in update.messages if update.node != STOPPED else ():
            if message.type == "ai":
                yield from self._said(message, update.agent)  # type: ignore[arg-type]  # its type says so
            elif message.type == "tool" and not message.text.startswith(_CANCELLED):
                yield self._ran(message, update.agent)  # type: ignore[arg-type]  # its type says so
        if not update.agent:
            yield from self._plan_events(update.plan)

    def _said(self, message: AIMessage, agent: str) -> Iterator[Item]:
        for call in message.tool_calls:
            arguments = json.dumps(call["args"], ensure_ascii=False, default=str)
            self._arguments[str(call["id"])] = arguments
        if message.text.strip() and not agent and message.text != self._printed:
            yield events.AnswerDelta(message.text)
            yield events.ModelAnswered("decide_action", Usage(), Usage())

    def _ran(self, message: ToolMessage, agent: str) -> Item:
        arguments = self._arguments.get(message.tool_call_id, "{}")
        failed = message.status == "error"
        malformed = bool(artifact_of(message).get("malformed"))
        return events.ToolRan(
            str(message.name), arguments, message.text, failed, agent, malformed=malformed
        )

    def _plan_events(self, plan: Plan | None) -> Iterator[Item]:
        if plan is not None and plan != self._plan:
            before, self._plan = self._plan, plan
            yield events.PlanChanged(plan, before)

    # --- what was asked, decided and done -------------------------------------------------------

    def _action(self, action: PastAction) -> Iterator[Item]:
        request, decision = action.request, action.decision
        if request is not None:
            for one in action.judgements:
                proposed = one.request or request
                yield events.ActionProposed(
                    proposed, one.report, one.verdict, one.cwd or self._folder
                )
            if decision is not None and request.tool == MAKE_PLAN.name:
                yield from self._review_events(request, decision)
            elif decision is not None:
                if decision.kind == "reject":
                    self._refused_by.append(decision.by)
                yield events.ActionDecided(request, decision)
        if action.outcome is not None:
            yield from self._outcome(action, action.outcome)
            yield from self._plan_events(action.outcome.plan)

    def _review_events(self, request: ActionRequest, decision: Decision) -> Iterator[Item]:
        if decision.kind == "reject":
            try:
                proposed = parse_plan(request.arguments, self._plan, agents=None)
            except ToolError:
                return
            yield events.PlanProposed(request.id, proposed, self._plan)
        yield events.PlanReviewed(request.id, decision.kind, decision.by, decision.reason)

    def _outcome(self, action: PastAction, outcome: Outcome) -> Iterator[Item]:
        request = action.request
        if outcome.status == "unknown" and action.intent is not None:
            yield outcome_unknown(action.intent)
        elif outcome.result is not None:
            if request is None:
                yield UserInput(f"!{outcome.result.command}", source="shell")
            yield from _command(action.id, outcome.result)
        elif request is None:
            return
        elif action.effect == "person":
            if request.tool == MAKE_PLAN.name:
                return
            answers = tuple(map(str, request.arguments.get("answers", ())))
            yield (
                Replied(request.arguments["question"], answers, reply_in(outcome.message.text))
                if outcome.status == "finished"
                else _end_event(request, outcome)
            )
        elif action.intent is not None:
            yield _end_event(request, outcome)
        elif action.decision is not None and action.decision.kind == "approve":
            changed = CHANGED.match(outcome.message.text)
            if changed is not None:
                decision = withdrawn(request.command, changed["file"])
                self._refused_by.append(decision.by)
                yield events.ActionDecided(request, decision)


def _waiting_seconds(action: PastAction) -> float:
    """Return the seconds that a question waited for the user."""
    decision, decided = action.decision, action.decided
    if decided is not None and decision is not None and decision.by == "person":
        return decided - action.asked
    questioned = action.request is not None and action.effect == "person"
    return action.ended - action.asked if questioned and action.ended is not None else 0.0


def _end_event(request: ActionRequest, body: Outcome) -> events.ActionEnded:
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
