"""The turn: from one input to its answer, along the arrows of docs/architecture.md.

     2  input            -> journal record, message           `_begin`
    3-7 state            -> node updates, action requests     `_think` (the graph)
     8  action request   -> risk report -> verdict            `gate.judge`
     9  verdict          -> decision                          `gate.decide`
    10  approved request -> intent (fsynced) -> run           `runner.act`
    11  outcome          -> ToolMessage, back into the graph  `runner.act`, `journal.settle`
    12  last message     -> answer                            `turn_end.conclude`
    13  finished turn    -> memory                            `context.learn`

The graph never touches a process and the executor never sees the graph: they meet here, in the
only loop. A turn works with four services: journal, gate, runner and context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from kogniterm import prompts
from kogniterm.agent import messages
from kogniterm.agent.graph import think
from kogniterm.agent.plan.plan_steps import open_steps
from kogniterm.agent.plan.plan_tools import MAKE_PLAN, where_we_are
from kogniterm.approval.policy.verdict import only_plans
from kogniterm.errors import KognitermError, OutcomeNotWrittenError
from kogniterm.runtime.budgets import OF_ACTIONS, Budget, TurnCount
from kogniterm.runtime.context import ContextService
from kogniterm.runtime.crash_recovery import recover
from kogniterm.runtime.gate import Gate
from kogniterm.runtime.runner import Approved, Runner
from kogniterm.runtime.side_by_side import Prepared, SideBySide
from kogniterm.runtime.turn_end import (
    cancel_open,
    conclude,
    end_turn,
    failed_answer,
    interrupted_answer,
    limit_that_ends,
    nothing_open,
    planned_answer,
)
from kogniterm.runtime.turn_journal import TurnJournal, secrets_told
from kogniterm.runtime.turn_ports import SessionModes, TurnIO
from kogniterm.sessions.fold import usage_note
from kogniterm.sessions.records import STOPPED, InputReceived, NodeRan
from kogniterm.types import ActionRequest, Answer, NodeUpdate, Phrase, PlanMode, UserInput, events
from kogniterm.types.turn_values import LEFT_OPEN


@dataclass(frozen=True, slots=True)
class TurnServices:
    """The four services of a turn, and the modes and budget that may change between turns."""

    journal: TurnJournal
    gate: Gate
    runner: Runner
    context: ContextService
    modes: SessionModes
    budget: Budget
    beside: SideBySide | None = None
    """None where actions run one after the other only."""

    @property
    def only_plans(self) -> bool:
        """Return whether only a plan is wanted, so that nothing may act."""
        return self.modes.plans.only_planning(self.journal.state)

    def plan_made(self, count: TurnCount) -> bool:
        """Return whether only a plan is wanted and this turn has made it."""
        made = self.only_plans and self.journal.state.plan != count.plan_before
        return made or count.plan_left

    def new_count(self) -> TurnCount:
        """Return the count of a turn that begins now."""
        state, given = self.journal.state, self.modes.plans.given
        before = None if given is not None else state.plan
        return TurnCount(
            self.budget,
            self.journal.clock,
            self.journal.journal.write_held,
            plan_before=before,
            earlier=state.usage,
            others=state.others_usage,
        )


First = Callable[[TurnServices, TurnIO, TurnCount], Awaitable[Answer | None]]
"""Does what comes before the model's first call. Returns an answer where there is no call."""


async def run_turn(
    services: TurnServices, user_input: UserInput | None, io: TurnIO, first: First | None = None
) -> Answer:
    """Take `user_input` to its answer; None resumes the turn that is open.

    `first` is run before the model is asked, also when a turn is resumed.

    Cancelling the task stops the turn: the running command is ended, everything open gets its
    observation, and an `Answer` with stop "interrupted" is returned. A cancel with the message
    `LEFT_OPEN`, at a question, leaves the turn open: a resume asks the question again.
    """
    journal, count = services.journal, services.new_count()
    try:
        await recover(journal, io, count, services.runner.extensions)
        if user_input is not None:
            _begin(services, user_input, io)
        elif not journal.state.open_turn:
            nothing = nothing_open(io, count)
            services.context.learn(nothing, io)
            return nothing
        else:
            state, name = journal.state, services.modes.model.info.name
            cwd = services.runner.executor.cwd
            io.sink(events.TurnResumed(state.session_id, state.turn, name, cwd))
            count.refused += [(one.why, one.by) for one in journal.state.refused]
            count.unasked += journal.state.unasked
            count.plan_before = journal.state.plan_before
        answer = await first(services, io, count) if first is not None else None
        if answer is None:
            answer = await _think_and_act(services, io, count)
    except asyncio.CancelledError as stopped:
        if LEFT_OPEN in stopped.args:
            raise
        cancel_open(journal, "the user stopped the turn")
        told = messages.note(prompts.text("decide_action.user_stopped"))
        journal.record(NodeRan(NodeUpdate(STOPPED, (told,))))
        _note_cut_calls(services, count)
        answer = interrupted_answer(count)
    except OutcomeNotWrittenError:
        raise  # the journal takes no record after the missing one: the turn stays open
    except KognitermError as error:
        cancel_open(journal, "the turn ended early")
        _note_cut_calls(services, count)
        answer = failed_answer(error, count.usage)
    answer = end_turn(journal, count.with_times(answer), io)
    services.context.learn(answer, io)
    return answer


def _note_cut_calls(services: TurnServices, count: TurnCount) -> None:
    """Journal the model calls of a node that did not end: no other record counts them."""
    journal = services.journal
    counted = journal.state.usage - count.earlier
    if count.usage.calls > counted.calls or count.usage.reused > counted.reused:
        name = services.modes.model.info.name
        journal.record(usage_note(count.usage - counted, name, journal.state.turn))


def _begin(services: TurnServices, user_input: UserInput, io: TurnIO) -> None:
    """Arrow 2: journal the input, with the message that the model will see."""
    journal, modes = services.journal, services.modes
    cancel_open(journal, "the user continued with something else")
    clean = journal.redact_input(user_input)
    given, before = modes.plans.take(), journal.state.plan
    beside = services.context.recall(clean, io.user_answers)
    plans = ""
    if given is not None:
        from kogniterm.runtime.plan_edits import plan_as_text

        now = where_we_are(given, lookup=partial(journal.value_of, given=clean))
        plans = f"{prompts.text(messages.GIVEN_PLAN)}\n{plan_as_text(given)}{now}"
    elif before is not None and open_steps(before):
        now = where_we_are(before, lookup=partial(journal.value_of, given=clean))
        plans = f"(A plan is open: {before.goal}. {now} Go on with it only if this is about it.)"
    told = secrets_told(journal.given.untold())
    context = "\n\n".join(filter(None, [beside.text, plans, told]))
    mode: PlanMode = "auto" if given else modes.planning
    only = modes.plans.only
    message = messages.human_message(
        clean, mode, context, beside.images, plan_only=only, in_plan_mode=modes.in_plan_mode
    )
    turn = journal.state.turn + 1
    journal.record(InputReceived(turn, clean, message, only), durable=True)
    if given is not None:
        journal.record(NodeRan(NodeUpdate("create_plan", plan=given)))
    name, cwd = modes.model.info.name, services.runner.executor.cwd
    io.sink(events.TurnStarted(journal.state.session_id, turn, name, cwd, clean.text))
    for notice in beside.notices:
        io.sink(events.Notice(notice, "warning"))
    for news in beside.news:
        io.sink(events.Notice(news))
    if given is not None:
        io.sink(events.PlanChanged(given, before))


async def _think_and_act(services: TurnServices, io: TurnIO, count: TurnCount) -> Answer:
    """Arrows 3 to 12: alternate until the graph has an answer, or the turn has to stop."""
    journal = services.journal
    while True:
        over = await settle(services, io, count)
        if services.plan_made(count):
            break
        end = _out_of_budget(journal, over) if over else await _think(services, io, count)
        if services.plan_made(count):
            break
        if not journal.state.pending and not (end is not None and end.node == "execute_tool"):
            return conclude(journal.state, count, end)
    cancel_open(journal, "only the plan was wanted")
    return planned_answer(journal.state, count)


async def _think(services: TurnServices, io: TurnIO, count: TurnCount) -> NodeUpdate | None:
    """Arrows 3 to 7: run the graph until it answers or waits for an action.

    Returns the last node's update, which holds the answer or the reason why the turn must stop.
    """
    while True:
        await services.context.make_room(io, count)
        try:
            async with count.time_limit() as time_left:
                return await _run_graph(services, io, count)
        except TimeoutError:
            if not time_left.expired():
                raise
        # Where the user allows more time, the model call that was stopped is made again.
        over = await limit_that_ends(services.journal, io, count)
        if over is not None:
            return _out_of_budget(services.journal, over)


async def _run_graph(services: TurnServices, io: TurnIO, count: TurnCount) -> NodeUpdate | None:
    """Journal each node as it ends, so that a crash loses at most the node in flight."""
    journal, last = services.journal, None
    state = journal.state
    history = journal.exact_messages(state.messages)
    async for update in think(history, state.plan, services.context.think_context(io, count)):
        previous, last = journal.state.plan, journal.record_update(update)
        if last.plan is not None and last.plan != previous:
            io.sink(events.PlanChanged(last.plan, previous))
    return last


def _out_of_budget(journal: TurnJournal, over: Phrase) -> NodeUpdate:
    cancel_open(journal, "a budget is used up")
    return NodeUpdate("decide_action", failure=over)


async def settle(
    services: TurnServices,
    io: TurnIO,
    count: TurnCount,
    *,
    apart: bool = False,
    together: Collection[str] = (),
) -> Phrase | None:
    """Arrows 8 to 11 for every pending request, in order; return the budget that stops the turn.

    Behind a call of the same reply that failed or was refused, only what cannot build on it runs;
    of actions `apart`, which nobody proposed in one reply, behind one that was refused. Commands
    declared `together` may run at once, whatever they do.
    """
    journal = services.journal
    judged: dict[str, Prepared] = {}
    for waiting in journal.state.pending:
        if waiting not in journal.state.pending:
            continue  # cancelled by an earlier one, or run beside it
        request = journal.exact(waiting)
        if request is None:
            text = prompts.text("execute_tool.secret_lost")
            journal.settle(waiting, "cancelled", messages.answer(waiting, text, failed=True))
            continue
        agent = journal.state.agents[request.agent] if request.agent else journal.state
        failed = messages.failed_calls(agent.messages, apart=apart)
        gate, executor = services.gate, services.runner.executor
        if failed and not gate.policy.may_follow(request, failed, executor.cwd):
            text = messages.held_up_text(failed[0]["name"], failed[0]["args"])
            journal.settle(request, "cancelled", messages.answer(request, text, failed=True))
            continue
        if request.tool == MAKE_PLAN.name:
            from kogniterm.runtime.session_plans import review_plan

            if not await review_plan(journal, services.modes, request, io, count):
                cancel_open(journal, "the plan was changed")
                return None
        elif services.only_plans and not gate.policy.runs_inside(request):
            gate.refuse_acting(request)
        elif over := await limit_that_ends(journal, io, count, OF_ACTIONS):
            return over
        else:
            beside = () if failed else together
            await _run_at_once(services, request, io, count, judged, beside, alone=bool(failed))
    return None


async def _run_at_once(
    services: TurnServices,
    request: ActionRequest,
    io: TurnIO,
    count: TurnCount,
    judged: dict[str, Prepared],
    together: Collection[str],
    *,
    alone: bool,
) -> None:
    """Arrows 8 to 11 for a request, and unless `alone` for those behind it that may run beside it.

    `judged` gets those that were judged and must wait after all. Where one of those declared
    `together` is refused, none of them starts.
    """
    beside, pending = services.beside, services.journal.state.pending
    approved: Sequence[Approved] = ()
    if beside is not None and request.id not in judged and not alone:
        first = [one.id for one in pending].index(request.id)
        exact = takewhile(lambda one: one is not None, map(services.journal.exact, pending[first:]))
        waiting = [one for one in exact if one is not None]
        found = beside.candidates(services.gate, waiting, io, together)
        approved, before = await beside.admit(services.gate, found, io, count, together)
        judged.update(before)
        refused = [one for key, one in before.items() if one.refused and key in together]
        if refused:
            cause = refused[0].judged.request
            await _approve_and_run(services, cause, io, count, refused[0])
            for run in approved:
                text = messages.held_up_text(cause.tool, cause.arguments)
                told = messages.answer(run.request, text, failed=True)
                services.journal.settle(run.request, "cancelled", told)
            return
    if beside is not None and len(approved) > 1:
        for again in await beside.run(services.runner, approved, io, count, together):
            await _approve_and_run(services, again, io, count)
    if any(one.id == request.id for one in services.journal.state.pending):
        await _approve_and_run(services, request, io, count, judged.get(request.id))


async def _approve_and_run(
    services: TurnServices,
    request: ActionRequest,
    io: TurnIO,
    count: TurnCount,
    known: Prepared | None = None,
) -> None:
    """Arrows 8 to 11 for one request; `known` is what was judged already."""
    gate = services.gate
    judged = known.judged if known else await gate.judge(request, io)
    request, report, verdict = judged.request, judged.report, judged.verdict
    if only_plans(verdict):
        io.sink(gate.decision_event(request, gate.refuse_acting(request)))
        return
    if known is not None and known.decision is not None:
        decision = known.decision
    else:
        decision, report = await gate.decide(request, report, verdict, io, count)
    decision, refusal = gate.check_start(request, decision, io)
    if decision.kind == "reject":
        shown = services.journal.shown_decision(request.id, decision)
        count.refused.append((shown.why, shown.by))
        services.journal.settle(request, "refused", refusal)
        return
    again = await services.runner.act(request, decision, report, io, count)
    if again is not None:
        await _approve_and_run(services, again, io, count)
