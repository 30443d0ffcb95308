"""The spine: one input to its answer. This is the only loop; every arrow is one call.

     2  input            -> journal record, message           `_begin`
    3-7 state            -> node updates, action requests     `_think` (the graph)
     8  action request   -> risk report -> verdict            `_judge`
     9  verdict          -> decision                          `_decide`
    10  approved request -> intent (fsynced) -> run           `_act`
    11  what happened    -> ToolMessage, back into the graph  `_observe`
    12  last message     -> answer                            `_conclude`

The graph never touches a process and the executor never sees the graph: they meet here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

from kogniterm.agent import evaluate, messages
from kogniterm.agent.graph import think
from kogniterm.agent.images import ImageBlock, observed_images
from kogniterm.agent.plan import COMPLETE_STEP, MAKE_PLAN
from kogniterm.agent.subagent import DELEGATE
from kogniterm.approval import render
from kogniterm.errors import KognitermError, OutcomeNotWrittenError, PathChangedError, ToolError
from kogniterm.runtime import events
from kogniterm.runtime.asking import LEFT_OPEN
from kogniterm.runtime.conclude import conclude, failed, interrupted, nothing_open, planned
from kogniterm.runtime.front import Front, relay
from kogniterm.runtime.open_calls import cancel_agent, cancel_open
from kogniterm.runtime.outcomes import record_outcome
from kogniterm.runtime.plan_review import review_plan
from kogniterm.runtime.plans import only_plans, plan_context
from kogniterm.runtime.ports import SessionPorts, TurnCount
from kogniterm.runtime.recovery import recover, runs_settled
from kogniterm.runtime.run_command import run_command, tell_what_was_missing
from kogniterm.sessions.records import (
    Decided,
    InputReceived,
    Intent,
    Judged,
    NodeRan,
    Noted,
    Outcome,
    OutcomeStatus,
    Requested,
    TurnEnded,
)
from kogniterm.types import (
    ActionRequest,
    Answer,
    CommandResult,
    Decision,
    NodeUpdate,
    PlanMode,
    RiskReport,
    Text,
    UserInput,
    Verdict,
)


async def run_turn(session: SessionPorts, user_input: UserInput | None, front: Front) -> Answer:
    """Take `user_input` to its answer, or go on with the turn that was open when None.

    Cancelling the task stops the turn: the running command is ended, everything open is
    answered truthfully, and an `Answer` with stop "interrupted" is returned. Cancelled with the
    message `LEFT_OPEN` at a question, the turn stays open: a resume asks it again.
    """
    before = None if session.plans.given is not None else session.state.plan
    count = TurnCount(
        session.budget,
        session.clock,
        session.price,
        plan_before=before,
        earlier=session.state.usage,
    )
    try:
        await recover(session, front, count)
        if user_input is not None:
            _begin(session, user_input, front)
        elif not session.state.open_turn:
            return nothing_open(front, count)
        else:
            count.refused += [(one.why, one.by) for one in session.state.refused]
        while True:
            over = await settle(session, front, count) if session.state.pending else None
            end = None
            if not _plan_made(session, count):
                end = _out_of_budget(session, over) if over else await _think(session, front, count)
            if _plan_made(session, count):
                cancel_open(session, "only the plan was wanted")
                answer = planned(session.state, count)
                break
            if not session.state.pending and not _left_for_room(end):
                answer = conclude(session.state, count, end)
                break
    except asyncio.CancelledError as stopped:
        if LEFT_OPEN in stopped.args:
            raise
        cancel_open(session, "the person stopped the turn")
        answer = interrupted(count)
    except OutcomeNotWrittenError:
        raise  # nothing can be written behind it: the turn stays open
    except KognitermError as error:
        cancel_open(session, "the turn ended early")
        answer = failed(error, count)
    answer = count.timed(answer)
    session.record(
        TurnEnded(session.state.turn, answer.stop, answer.exit_code, answer.text), durable=True
    )
    front.sink(events.TurnEnded(answer))
    return answer


def _plan_made(session: SessionPorts, count: TurnCount) -> bool:
    """Return whether the plan is there and nothing else was wanted."""
    return only_plans(session) and session.state.plan != count.plan_before


def _begin(session: SessionPorts, user_input: UserInput, front: Front) -> None:
    """Arrow 2: what the person said becomes a record and the message the model sees."""
    cancel_open(session, "the person went on with something else")
    clean = session.redact_input(user_input)
    given, before = session.plans.take(), session.state.plan
    beside = session.recall(clean)
    context = "\n\n".join(filter(None, [beside.text, plan_context(given, before)]))
    mode: PlanMode = "auto" if given else session.plan_mode
    only = session.plans.only
    message = messages.human_message(clean, mode, context, beside.images, plan_only=only)
    turn = session.state.turn + 1
    session.record(InputReceived(turn, clean, message, only), durable=True)
    if given is not None:
        session.record(NodeRan(NodeUpdate("create_plan", plan=given)))
    front.sink(
        events.TurnStarted(
            session.state.session_id, turn, session.chat_model.info.name, session.cwd
        )
    )
    for notice in beside.notices:
        front.sink(events.Notice(notice, "warning"))
    if given is not None:
        front.sink(events.PlanChanged(given, before))


async def _think(session: SessionPorts, front: Front, count: TurnCount) -> NodeUpdate | None:
    """Arrows 3 to 7: run the graph until it answers or waits; journal each node as it ends.

    Returns the last node's update, which holds the answer or why the turn must stop.
    """
    await session.make_room(front, count)
    try:
        async with asyncio.timeout(session.budget.left("seconds")) as time_left:
            return await _graph(session, front, count)
    except TimeoutError:
        over = session.budget.over()
        if not time_left.expired() or over is None:
            raise
        return _out_of_budget(session, over)


def _out_of_budget(session: SessionPorts, over: Text) -> NodeUpdate:
    """A budget ended the turn while it acted or thought: nothing more is done."""
    cancel_open(session, "a budget is used up")
    return NodeUpdate("decide_action", failure=over)


async def _graph(session: SessionPorts, front: Front, count: TurnCount) -> NodeUpdate | None:
    state, last = session.state, None
    async for item in think(state.messages, state.plan, session.think_context(count)):
        if isinstance(item, NodeUpdate):
            if item.agent:
                journal_agent(session, item, front)
                continue
            previous, last = session.state.plan, item
            session.record(NodeRan(item))
            if item.plan is not None and item.plan != previous:
                front.sink(events.PlanChanged(item.plan, previous))
        else:
            relay(item, front.sink, count)
    return last


def journal_agent(session: SessionPorts, update: NodeUpdate, front: Front) -> None:
    """A node of a sub-agent joins that one's history."""
    session.record(NodeRan(update))
    if update.node == DELEGATE.name and update.messages:
        front.sink(events.AgentStarted(update.agent, update.messages[0].text))


def _left_for_room(end: NodeUpdate | None) -> bool:
    """Whether the graph ended after tool calls only to have its history compacted."""
    return end is not None and end.node == "execute_tool"


async def settle(session: SessionPorts, front: Front, count: TurnCount) -> Text | None:
    """Arrows 8 to 11 for everything pending, in order; a refusal cancels what waits behind it, of
    the one that asked: a sub-agent may go another way. Returns which budget forbids to go on."""
    for request in session.state.pending:
        if request not in session.state.pending:
            continue
        if request.tool == MAKE_PLAN.name:
            if not await review_plan(session, request, front, count):
                cancel_open(session, "the plan was changed")
                return None
            continue
        if only_plans(session):
            _refuse_acting(session, request)
            continue
        over = session.budget.over_acting()
        if over is not None:
            return over
        report, verdict = _judge(session, request, front)
        decision, report = await _decide(session, request, report, verdict, front, count)
        observed = messages.refusal_message(request, decision)
        changed = session.changed_file(request) if decision.kind == "approve" else None
        if changed is not None:
            decision = _withdraw(request, decision, changed, front)
            observed = messages.changed_message(request, changed)
        if decision.kind == "reject":
            count.refused.append((decision.why, decision.by))
            _observe(session, request, "refused", observed)
            if request.agent:
                cancel_agent(session, request.agent, "an earlier action was refused")
                continue
            cancel_open(session, "an earlier action was refused")
            return None
        await _act(session, request, decision, report, front, count)
    return None


def _refuse_acting(session: SessionPorts, request: ActionRequest) -> None:
    """Refuse a request of a turn that only plans, before it is judged or anybody is asked."""
    refusal = Decision("reject", request.command, "policy", messages.ONLY_A_PLAN)
    _observe(session, request, "refused", messages.refusal_message(request, refusal))


def _judge(
    session: SessionPorts, request: ActionRequest, front: Front
) -> tuple[RiskReport, Verdict]:
    """Arrow 8: facts about the request, then policy's word on it."""
    report = session.assess(request)
    verdict = session.judge(request, report)
    states = session.file_states(request, report)
    session.record(Requested(request, session.cwd, session.env_hash, states))
    session.record(Judged(request.id, report, verdict))
    front.sink(events.ActionProposed(request, report, verdict, session.cwd))
    return report, verdict


async def _decide(
    session: SessionPorts,
    request: ActionRequest,
    report: RiskReport,
    verdict: Verdict,
    front: Front,
    count: TurnCount,
) -> tuple[Decision, RiskReport]:
    """Arrow 9: policy decides what it can, the approver the rest. An edit is judged again."""
    proposed = request
    while True:
        if verdict.kind == "deny":
            decision = Decision("reject", request.command, "policy", reasons=verdict.reasons)
            decision = replace(decision, reason=str(decision.why))
        elif verdict.kind == "allow":
            by = f"lease {verdict.lease_id}" if verdict.lease_id else "policy"
            decision = Decision("approve", request.command, by)
        else:
            with count.waiting():
                decision = await front.approver.decide(request, report, verdict)
        if decision.kind != "edit":
            break
        request = replace(request, command=decision.command)
        report, verdict = _judge(session, request, front)
        if verdict.kind == "allow":
            decision = Decision("approve", request.command, decision.by)
            break
    # The intent or the refusal that follows reaches the disk, and this before it.
    session.record(Decided(request.id, decision))
    front.sink(events.ActionDecided(proposed, decision))
    return decision, report


def _withdraw(request: ActionRequest, decision: Decision, changed: str, front: Front) -> Decision:
    """Take an approval back because a file that decides what would run is another one now."""
    why = Text(
        "{file} changed after this was judged, so it was not run. Check the file, then ask for it "
        "again.",
        {"file": render(changed)},
    )
    withdrawn = Decision("reject", decision.command, events.START_CHECK, str(why), (why,))
    front.sink(events.ActionDecided(request, withdrawn))
    return withdrawn


async def _act(
    session: SessionPorts,
    request: ActionRequest,
    decision: Decision,
    report: RiskReport,
    front: Front,
    count: TurnCount,
) -> None:
    """Arrow 10: what was approved, byte for byte, and durable before it starts."""
    if request.effect == "person":
        # Nothing is started, so nothing can be unknown: after a crash the question is asked again.
        with count.waiting():
            await _act_tool(session, request, front, count)
        return
    session.keep_preimages(request, report)
    command = request.effect == "command"
    output = session.executor.next_output if command else None
    session.record(
        Intent(
            request.id,
            decision.command,
            session.cwd,
            session.env_hash,
            output,
            runs_settled(session, decision.command, shell=command),
        ),
        durable=True,
    )
    if command:
        await _act_command(session, request, decision, report, front, count)
    else:
        await _act_tool(session, request, front, count)


async def _act_command(
    session: SessionPorts,
    request: ActionRequest,
    decision: Decision,
    report: RiskReport,
    front: Front,
    count: TurnCount,
) -> None:
    front.sink(events.CommandStarted(request.id, decision.command, session.cwd))
    box = session.confine(decision, report)
    result, cancelled = await run_command(session, request, decision.command, front)
    result = session.redact_result(result)
    seen = session.policy.after_run(decision.command, result, box)
    note = seen.note
    count.add_command(result)
    plan, previous = None, session.state.plan
    if request.tool == COMPLETE_STEP.name and previous is not None:
        step = str(request.arguments["step"])
        plan, found = evaluate.settle_check(
            previous, step, request.id, result, session.state.messages
        )
        note = "\n".join(filter(None, (found, note)))
    message = messages.command_message(request, result, decision, note)
    outcome = Outcome(request.id, _status(result), message, result, plan, request.agent)
    # Only what is safe on the disk is told: nobody may see an end that a crash could undo.
    try:
        await record_outcome(session, outcome, front.sink)
    except OutcomeNotWrittenError:
        # What is known is told all the same; the error says whether it is safe.
        front.sink(events.CommandEnded(request.id, result))
        raise
    if seen.changed:
        session.record(Noted("steering_files", {"changed": list(seen.changed)}))
    front.sink(events.CommandEnded(request.id, result))
    for notice in seen.notices:
        front.sink(events.Notice(notice, "warning"))
    if plan is not None and plan != previous:
        front.sink(events.PlanChanged(plan, previous))
    tell_what_was_missing(result, front.sink)
    session.learn_outcome(result)
    if cancelled:
        raise asyncio.CancelledError


async def _act_tool(
    session: SessionPorts, request: ActionRequest, front: Front, count: TurnCount
) -> None:
    images: Sequence[ImageBlock] = ()
    try:
        found, failure = await session.tools[request.tool].run(request.arguments), False
        observation, images = observed_images(found, session.chat_model.info)
    except PathChangedError as error:
        _refuse_changed(session, request, error.text, front, count)
        return
    except ToolError as error:
        observation, failure = str(error), True
        if request.effect == "person":
            count.unasked.append(request.command)
    observation = session.redact(observation)
    message = messages.action_message(request, observation, failed=failure, images=images)
    status: OutcomeStatus = "failed" if failure else "finished"
    outcome = Outcome(request.id, status, message, agent=request.agent)
    await record_outcome(session, outcome, front.sink)
    given = ""
    if request.effect == "network":
        given = session.redact(json.dumps(dict(request.arguments), ensure_ascii=False, default=str))
    front.sink(events.ActionEnded(request.id, request.tool, observation, failure, given))


def _refuse_changed(
    session: SessionPorts, request: ActionRequest, reason: Text, front: Front, count: TurnCount
) -> None:
    """What was approved is not what would happen now: refused, and the user is told."""
    refusal = Decision("reject", request.command, "policy", str(reason), reasons=(reason,))
    count.refused.append((reason, events.START_CHECK))
    front.sink(events.Notice(reason, "warning"))
    _observe(session, request, "refused", messages.refusal_message(request, refusal))


def _observe(
    session: SessionPorts, request: ActionRequest, status: OutcomeStatus, message: messages.Observed
) -> None:
    """Arrow 11: the one outcome of a request, with the message the model will see."""
    session.record(Outcome(request.id, status, message, agent=request.agent), durable=True)


def _status(result: CommandResult) -> OutcomeStatus:
    if result.ended in ("exited", "signaled", "detached"):
        return "finished"
    return "failed" if result.ended == "not_started" else "cancelled"
