"""The end of a turn: at a limit, its answer with stop reason and exit code, and what still waits.

At a limit that is used up, the user at the prompt decides whether the turn goes on. The question is
journaled before it is asked, so after a crash at the question whoever resumes the session is asked
again. Where no user is there, the turn ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.messages import BaseMessage

from kogniterm import prompts
from kogniterm.agent import messages
from kogniterm.agent.messages import last_ai
from kogniterm.agent.plan.plan_steps import open_work
from kogniterm.agent.replies import read_end_statement
from kogniterm.agent.subagent import actions_done
from kogniterm.approval.policy.verdict import AUTO_HINT, UNATTENDED_HINT
from kogniterm.errors import (
    EXIT_BUDGET,
    EXIT_INTERRUPTED,
    EXIT_NOT_DONE,
    EXIT_REFUSED,
    BudgetError,
    KognitermError,
    ModelError,
    RefusedError,
    StorageLockedError,
    StorageLostError,
)
from kogniterm.runtime.budgets import NOTHING, TurnCount, limit_text
from kogniterm.runtime.fixed_questions import LimitQuestion
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import TurnIO
from kogniterm.sessions.fold import SessionState, limit_note
from kogniterm.sessions.records import STOPPED, NodeRan, Outcome, TurnClosed
from kogniterm.types import (
    ActionRequest,
    Answer,
    ApprovalMode,
    LimitReached,
    NodeUpdate,
    Phrase,
    StopReason,
    Usage,
    events,
)

_MOST_HOSTS = 20
"""Hosts that the reason of an answer names."""


def conclude(state: SessionState, count: TurnCount, last: NodeUpdate | None) -> Answer:
    """Arrow 12: return the graph's answer, or the plan's state when a budget ended the turn."""
    answer = _end_turn(state, count, last)
    if state.plan is None or state.plan == count.plan_before:
        return answer
    from kogniterm.agent.plan.evaluate import findings

    verified, not_verified = findings(state.plan)
    return answer._replace(verified=verified, not_verified=not_verified)


def _end_turn(state: SessionState, count: TurnCount, last: NodeUpdate | None) -> Answer:
    if last is not None and last.failure is not None:
        return Answer(_left_over(state), "budget", EXIT_BUDGET, last.failure, count.usage)
    text = (last.answer if last is not None else None) or ""
    if count.unknown:
        return unknown_answer(text, count)
    statement = read_end_statement(state.messages)
    outcome, why = statement.get("outcome"), " ".join(str(statement.get("why") or "").split())
    if outcome == "not_done":
        reason = Phrase("Not done: {why}", {"why": why})
        return Answer(text, "not_done", EXIT_NOT_DONE, reason, count.usage)
    if outcome == "blocked" and not (count.refused or count.unasked):
        reason = Phrase("Blocked: {why}", {"why": why})
        return Answer(text, "not_done", EXIT_NOT_DONE, reason, count.usage)
    if count.refused and outcome != "done":
        return refused_answer(text, count, state.mode)
    if count.unasked and outcome != "done":
        question = " ".join(count.unasked[0].split())
        reason = Phrase("No user was available to answer: {question}", {"question": question})
        return Answer(text, "refused", EXIT_REFUSED, reason, count.usage)
    good = ("answered", "failed") if outcome == "done" else ("answered",)
    if wrong := [host for host, answer in state.host_states.items() if answer not in good]:
        named = ", ".join(wrong[:_MOST_HOSTS]) + (", …" if len(wrong) > _MOST_HOSTS else "")
        reason = Phrase("Hosts that failed or did not answer: {hosts}", {"hosts": named})
        return Answer(text, "not_done", EXIT_NOT_DONE, reason, count.usage)
    message = last_ai(state.messages[-3:])
    if message is not None and message.response_metadata.get("task_done") is False:
        reason = Phrase("The local model did not complete the task.")
        return Answer(text, "not_done", EXIT_NOT_DONE, reason, count.usage)
    changed = state.plan if state.plan != count.plan_before else None
    steps = changed.steps if changed else ()  # to skip what failed its check does not mend it
    bad = [s for s in steps if s.status == "failed" or (s.status == "skipped" and s.failed_checks)]
    left = [step.id for step in open_work(changed)]
    if bad:
        reason = Phrase("Plan steps failed: {steps}", {"steps": ", ".join(s.id for s in bad)})
    elif left:
        reason = Phrase("Plan steps still open: {steps}", {"steps": ", ".join(left)})
    else:
        return Answer(text, usage=count.usage)
    return Answer(text, "not_done", EXIT_NOT_DONE, reason, count.usage)


def refused_answer(text: str, count: TurnCount, mode: ApprovalMode) -> Answer:
    """Return the answer of a turn in which something was refused.

    The first refusal is the reason; one by anybody but the user comes before theirs.
    """
    others = [one for one in count.refused if one[1] != "person"]
    why, by = (others or count.refused)[0]
    reason = Phrase("An action was refused: {why}", {"why": why})
    if by == "unattended":
        hint = AUTO_HINT if mode == "auto" else UNATTENDED_HINT
        reason = Phrase("{refused} {hint}", {"refused": reason, "hint": hint})
    return Answer(text, "refused", EXIT_REFUSED, reason, count.usage, refused_by=by)


def planned_answer(state: SessionState, count: TurnCount) -> Answer:
    """Return the plan as the answer, in the form that can be edited and run."""
    from kogniterm.runtime.plan_edits import plan_as_text

    assert state.plan is not None
    return Answer(plan_as_text(state.plan), "plan_only", usage=count.usage)


def nothing_open(io: TurnIO, count: TurnCount) -> Answer:
    """Return the answer where no turn is open to resume; what a crash left is settled by now."""
    answer = unknown_answer("", count) if count.unknown else Answer("", usage=count.usage)
    io.sink(events.TurnEnded(answer))
    return answer


def unknown_answer(text: str, count: TurnCount) -> Answer:
    """Return the answer of a turn that found a command whose outcome nobody knows."""
    reason = Phrase(
        "The outcome of this command is unknown: {command}", {"command": count.unknown[0]}
    )
    return Answer(text, "unknown", EXIT_REFUSED, reason, count.usage)


def interrupted_answer(count: TurnCount) -> Answer:
    """Return the answer of a turn that the user stopped."""
    return Answer("", "interrupted", EXIT_INTERRUPTED, Phrase("The turn was stopped."), count.usage)


def failed_answer(error: KognitermError, usage: Usage) -> Answer:
    """Return the answer of a turn that ended with an error."""
    stop: StopReason = "not_done"
    if isinstance(error, ModelError):
        stop = "model_failed"
    elif isinstance(error, RefusedError):
        stop = "refused"
    elif isinstance(error, BudgetError):
        stop = "budget"
    elif isinstance(error, StorageLostError | StorageLockedError):
        stop = "storage_unavailable"
    wait = error.retry_after if isinstance(error, ModelError) else None
    passes = isinstance(error, ModelError) and error.passes
    code = error.exit_code
    return Answer("", stop, code, error.text, usage, retry_after=wait, passes=passes)


def end_turn(journal: TurnJournal, answer: Answer, io: TurnIO) -> Answer:
    """Record the end of the turn, report it, and return its answer, with secrets replaced."""
    answer = answer._replace(text=journal.redact(answer.text))
    ended = TurnClosed(journal.state.turn, answer.stop, answer.exit_code, answer.text)
    journal.record(ended, durable=True)
    io.sink(events.TurnEnded(answer))
    return answer


def _left_over(state: SessionState) -> str:
    """Return the done and open steps of the plan: the model is not asked any more."""
    if state.plan is None:
        return ""
    done = [f"- {s.id} {s.what}" for s in state.plan.walk() if s.status == "done"]
    left = [f"- {s.id} {s.what}" for s in open_work(state.plan)]
    parts = []
    if done:
        parts.append("Done:\n" + "\n".join(done))
    if left:
        parts.append("Left:\n" + "\n".join(left))
    return "\n\n".join(parts)


def cancel_open(journal: TurnJournal, why: str) -> None:
    """End everything that waits, of the main agent and of sub-agents, each with its observation.

    Raises `OutcomeNotWrittenError` while the database does not take an outcome that is kept.
    """
    journal.settle_kept()
    for agent in journal.state.agents:
        cancel_agent(journal, agent, why)
    _cancel_pending(journal, None, why)
    rest: list[BaseMessage] = []
    for call in messages.unanswered_calls(journal.state.messages):
        key = str(call["id"])
        begun = journal.state.agents.get(key)
        text = f"[not run: {why}]" if begun is None else f"[stopped: {why}]{actions_done(begun)}"
        rest.append(messages.tool_message(key, call["name"], text, failed=True))
    if rest:
        journal.record(NodeRan(NodeUpdate("execute_tool", tuple(rest))))


def cancel_agent(journal: TurnJournal, agent: str, why: str) -> None:
    """End everything that waits of one sub-agent, which may go on with that."""
    _cancel_pending(journal, agent, why)
    history = journal.state.agents[agent].messages
    rest = tuple(messages.cancel_messages(history, f"[not run: {why}]"))
    if rest:
        journal.record(NodeRan(NodeUpdate(STOPPED, rest, agent=agent)))


def _cancel_pending(journal: TurnJournal, agent: str | None, why: str) -> None:
    started = {intent.request_id for intent in journal.state.unknown}
    for request in journal.state.pending:
        if agent is not None and request.agent != agent:
            continue
        if request.id in started:
            journal.record(started_and_stopped(request, why), durable=True)
            continue
        message = messages.answer(request, f"[not run: {why}]", failed=True)
        journal.settle(request, "cancelled", message)


def started_and_stopped(request: ActionRequest, why: str) -> Outcome:
    """Return the outcome of an action that was started, and whose end nobody waits for."""
    text = prompts.text("execute_tool.outcome_unknown", why=why)
    message = messages.answer(request, text, failed=True)
    return Outcome(request.id, "unknown", message, agent=request.agent)


async def limit_that_ends(
    journal: TurnJournal, io: TurnIO, count: TurnCount, names: Iterable[str] = NOTHING
) -> Phrase | None:
    """Return which of these limits ends the turn, or None when none does.

    At a limit the user is asked, where one is there. Sub-agents that run side by side reach a limit
    together: one question is asked, and its answer holds for all.
    """
    async with count.asking:
        while (reached := _reached_limit(journal, count, tuple(names))) is not None:
            if count.ended is None and not await _goes_on(journal, io, count, reached):
                count.ended = reached
            if count.ended is not None:
                return limit_text(count.ended)
    return None


def _reached_limit(
    journal: TurnJournal, count: TurnCount, names: tuple[str, ...]
) -> LimitReached | None:
    """Return the limit that is used up: in this process, or before a crash at its question."""
    asked = journal.state.limit
    if asked is None or asked.name not in NOTHING:  # a limit that earlier versions had
        return count.budget.over(names)
    limit = count.budget.limit(asked.name, of_session=asked.of_session)
    if limit is None or limit > asked.limit:  # it was raised for the resume
        journal.record(limit_note(asked, "more"))
        return count.budget.over(names)
    return asked


async def _goes_on(
    journal: TurnJournal, io: TurnIO, count: TurnCount, reached: LimitReached
) -> bool:
    """Ask the user about a limit that is used up, and apply the answer."""
    if io.at_limit is None:
        journal.record(limit_note(reached, "end"))
        io.sink(events.LimitDecided(reached, "end", "unattended"))
        return False
    journal.record(limit_note(reached), durable=True)
    with count.waiting():
        choice = await io.at_limit(LimitQuestion(reached))
    journal.record(limit_note(reached, choice), durable=True)
    io.sink(events.LimitDecided(reached, choice, "person"))
    if choice == "more":
        count.budget.grant(reached)
    elif choice == "unlimited":
        count.budget.set_limit(reached.name, None, of_session=reached.of_session)
    return choice != "end"
