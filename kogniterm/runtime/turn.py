"""The spine: one input to its answer. This is the only loop; every arrow is one call.

     2  input            -> journal record, message           `_begin`
    3-7 state            -> node updates, action requests     `_think` (the graph)
     8  action request   -> risk report -> verdict            `gate.judge`
     9  verdict          -> decision                          `gate.decide`
    10  approved request -> intent (fsynced) -> run           `runner.act`
    11  what happened    -> ToolMessage, back into the graph  `journal.settle`, `runner.act`
    12  last message     -> answer                            `conclude`

The graph never touches a process and the executor never sees the graph: they meet here. A turn
works with four services: the journal, the gate, the runner, and the context of the model's calls.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kogniterm.agent import messages
from kogniterm.agent.graph import think
from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.agent.subagent import DELEGATE
from kogniterm.errors import KognitermError, OutcomeNotWrittenError
from kogniterm.runtime.budgets import Budget, TurnCount
from kogniterm.runtime.crash_recovery import recover
from kogniterm.runtime.gate import Gate
from kogniterm.runtime.plan_edits import plan_context
from kogniterm.runtime.runner import Runner
from kogniterm.runtime.session_plans import review_plan
from kogniterm.runtime.turn_end import (
    cancel_agent,
    cancel_open,
    conclude,
    failed,
    interrupted,
    nothing_open,
    planned,
)
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import ContextPort, SessionModes, TurnIO, relay
from kogniterm.sessions.records import InputReceived, NodeRan, TurnEnded
from kogniterm.types import Answer, NodeUpdate, Phrase, PlanMode, UserInput, events
from kogniterm.types.turn_values import LEFT_OPEN


@dataclass(frozen=True, slots=True)
class TurnServices:
    """What a turn works with: four services, and what its session may change between turns."""

    journal: TurnJournal
    gate: Gate
    runner: Runner
    context: ContextPort
    modes: SessionModes
    budget: Budget

    @property
    def only_plans(self) -> bool:
        """Return whether nothing may act, because only a plan is wanted."""
        return self.modes.plans.only_planning(self.journal.state)

    def new_count(self) -> TurnCount:
        """Return the count of a turn that begins now."""
        state, given = self.journal.state, self.modes.plans.given
        before = None if given is not None else state.plan
        return TurnCount(self.budget, self.journal.clock, plan_before=before, earlier=state.usage)


async def run_turn(services: TurnServices, user_input: UserInput | None, io: TurnIO) -> Answer:
    """Take `user_input` to its answer, or go on with the turn that was open when None.

    Cancelling the task stops the turn: the running command is ended, everything open is
    answered truthfully, and an `Answer` with stop "interrupted" is returned. Cancelled with the
    message `LEFT_OPEN` at a question, the turn stays open: a resume asks it again.
    """
    journal, count = services.journal, services.new_count()
    try:
        await recover(journal, io, count)
        if user_input is not None:
            _begin(services, user_input, io)
        elif not journal.state.open_turn:
            return nothing_open(io, count)
        else:
            count.refused += [(one.why, one.by) for one in journal.state.refused]
        answer = await _work(services, io, count)
    except asyncio.CancelledError as stopped:
        if LEFT_OPEN in stopped.args:
            raise
        cancel_open(journal, "the person stopped the turn")
        answer = interrupted(count)
    except OutcomeNotWrittenError:
        raise  # nothing can be written behind it: the turn stays open
    except KognitermError as error:
        cancel_open(journal, "the turn ended early")
        answer = failed(error, count)
    answer = count.timed(answer)
    ended = TurnEnded(journal.state.turn, answer.stop, answer.exit_code, answer.text)
    journal.record(ended, durable=True)
    io.sink(events.TurnEnded(answer))
    return answer


async def _work(services: TurnServices, io: TurnIO, count: TurnCount) -> Answer:
    """Think and act until the graph has an answer, or the turn has to stop."""
    journal = services.journal
    while True:
        over = await settle(services, io, count) if journal.state.pending else None
        end = None
        if not _plan_made(services, count):
            end = _out_of_budget(journal, over) if over else await _think(services, io, count)
        if _plan_made(services, count):
            cancel_open(journal, "only the plan was wanted")
            return planned(journal.state, count)
        if not journal.state.pending and not _left_for_room(end):
            return conclude(journal.state, count, end)


def _plan_made(services: TurnServices, count: TurnCount) -> bool:
    """Return whether the plan is there and nothing else was wanted."""
    return services.only_plans and services.journal.state.plan != count.plan_before


def _begin(services: TurnServices, user_input: UserInput, io: TurnIO) -> None:
    """Arrow 2: make what the user said a record, and the message that the model sees."""
    journal, modes = services.journal, services.modes
    cancel_open(journal, "the person went on with something else")
    clean = journal.redact_input(user_input)
    given, before = modes.plans.take(), journal.state.plan
    beside = services.context.recall(clean)
    context = "\n\n".join(filter(None, [beside.text, plan_context(given, before)]))
    mode: PlanMode = "auto" if given else modes.planning
    only = modes.plans.only
    message = messages.human_message(clean, mode, context, beside.images, plan_only=only)
    turn = journal.state.turn + 1
    journal.record(InputReceived(turn, clean, message, only), durable=True)
    if given is not None:
        journal.record(NodeRan(NodeUpdate("create_plan", plan=given)))
    name, cwd = modes.model.info.name, services.runner.executor.cwd
    io.sink(events.TurnStarted(journal.state.session_id, turn, name, cwd))
    for notice in beside.notices:
        io.sink(events.Notice(notice, "warning"))
    if given is not None:
        io.sink(events.PlanChanged(given, before))


async def _think(services: TurnServices, io: TurnIO, count: TurnCount) -> NodeUpdate | None:
    """Arrows 3 to 7: run the graph until it answers or waits; journal each node as it ends.

    Returns the last node's update, which holds the answer or why the turn must stop.
    """
    await services.context.make_room(io, count)
    try:
        async with asyncio.timeout(services.budget.left("seconds")) as time_left:
            return await _graph(services, io, count)
    except TimeoutError:
        over = services.budget.over()
        if not time_left.expired() or over is None:
            raise
        return _out_of_budget(services.journal, over)


def _out_of_budget(journal: TurnJournal, over: Phrase) -> NodeUpdate:
    """End the turn because of a budget: nothing more is done."""
    cancel_open(journal, "a budget is used up")
    return NodeUpdate("decide_action", failure=over)


async def _graph(services: TurnServices, io: TurnIO, count: TurnCount) -> NodeUpdate | None:
    journal = services.journal
    state, last = journal.state, None
    async for item in think(state.messages, state.plan, services.context.think_context(count)):
        if isinstance(item, NodeUpdate):
            if item.agent:
                journal_agent(journal, item, io)
                continue
            previous, last = journal.state.plan, item
            journal.record(NodeRan(item))
            if item.plan is not None and item.plan != previous:
                io.sink(events.PlanChanged(item.plan, previous))
        else:
            relay(item, io.sink, count)
    return last


def journal_agent(journal: TurnJournal, update: NodeUpdate, io: TurnIO) -> None:
    """Let a node of a sub-agent join that one's history."""
    journal.record(NodeRan(update))
    if update.node == DELEGATE.name and update.messages:
        io.sink(events.AgentStarted(update.agent, update.messages[0].text))


def _left_for_room(end: NodeUpdate | None) -> bool:
    """Return whether the graph ended after tool calls only to have its history compacted."""
    return end is not None and end.node == "execute_tool"


async def settle(services: TurnServices, io: TurnIO, count: TurnCount) -> Phrase | None:
    """Arrows 8 to 11 for everything pending, in order; a refusal cancels what waits behind it, of
    the one that asked: a sub-agent may go another way. Returns which budget forbids to go on."""
    journal, gate = services.journal, services.gate
    for request in journal.state.pending:
        if request not in journal.state.pending:
            continue
        if request.tool == MAKE_PLAN.name:
            if not await review_plan(journal, services.modes, request, io, count):
                cancel_open(journal, "the plan was changed")
                return None
            continue
        if services.only_plans:
            gate.refuse_acting(request)
            continue
        over = services.budget.over_acting()
        if over is not None:
            return over
        report, verdict = gate.judge(request, io)
        decision, report = await gate.decide(request, report, verdict, io, count)
        observed = messages.refusal_message(request, decision)
        changed = gate.changed_file(request) if decision.kind == "approve" else None
        if changed is not None:
            decision = gate.withdraw(request, decision, changed, io)
            observed = messages.changed_message(request, changed)
        if decision.kind == "reject":
            count.refused.append((decision.why, decision.by))
            journal.settle(request, "refused", observed)
            if request.agent:
                cancel_agent(journal, request.agent, "an earlier action was refused")
                continue
            cancel_open(journal, "an earlier action was refused")
            return None
        await services.runner.act(request, decision, report, io, count)
    return None
