"""Evaluation of plan steps: exit codes and outputs decide, never the model's own statement.

`complete_step` is judged here from the history alone. A step whose check is a command or a file
leaves the graph, as an action request like any other command; one that only judgement can check
is sent to a separate model call (`agent/judge`), after the cheap checks.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent.messages import artifact_of
from kogniterm.agent.plan.judge import StepJudgement
from kogniterm.agent.plan.plan_steps import (
    activate_next,
    close_step,
    find,
    needs,
    with_step,
    without_work,
)
from kogniterm.agent.plan.plan_tools import (
    Lookup,
    fresh_evidence,
    nothing_known,
    where_we_are,
)
from kogniterm.errors import ToolError
from kogniterm.text.bounded_regex import Pattern
from kogniterm.types import Check, CommandResult, Evidence, Plan, PlanStep, StepStatus
from kogniterm.types.command_results import ALWAYS_SUCCEEDS

Judging = Callable[[Plan, PlanStep, Sequence[BaseMessage]], Awaitable[StepJudgement | None]]
"""Judge a step by its outputs alone; None without a judge."""

CHANGE_AFTER = 3
"""Failed checks of one step after which repeating is no longer offered."""

FAIL_AFTER = 6
"""Failed checks of one step after which it is closed as failed."""


def check_command(step: PlanStep) -> str | None:
    """Return the shell command that proves `step`, if its check is one."""
    if step.check is None:
        return None
    if step.check.kind == "command":
        return step.check.value
    if step.check.kind == "file":
        return f"test -e {shlex.quote(step.check.value)}"
    return None


def check_commands(plan: Plan) -> tuple[str, ...]:
    """Return the commands that check steps, each once."""
    return tuple(dict.fromkeys(filter(None, map(check_command, plan.walk()))))


async def complete(
    plan: Plan | None,
    arguments: Mapping[str, Any],
    messages: Sequence[BaseMessage],
    judge: Judging,
    lookup: Lookup = nothing_known,
) -> tuple[Plan, str]:
    """Return the plan after a `complete_step` call that needs no command, and the observation.

    `judge` is asked only about a step that is to be judged, and only when the cheap signals do
    not speak against it; `lookup` gives what the next step uses. Raises `ToolError` when the step
    is unknown or there is nothing to judge it by.
    """
    if plan is None:
        raise ToolError("No plan exists; answer, or call make_plan first.")
    step = find(plan, str(arguments.get("step") or ""))
    status: StepStatus = arguments.get("status") or "done"
    note = str(arguments.get("note") or "").strip()
    if status in ("failed", "skipped"):
        return _given_up(plan, step, status, note, messages, lookup)
    if status != "done":
        raise ToolError("status must be done, failed or skipped.")
    if step.status == "done":
        raise ToolError("{id} is already done. {now}", id=step.id, now=where_we_are(plan))
    refuse_before_parts(step)
    found = fresh_evidence(plan, messages, step)
    if found is None:
        raise ToolError(
            "{id} has no evidence; run a command that does it or shows that it is done. A "
            "sub-agent's work counts only for the step named in its delegate call.",
            id=step.id,
        )
    judged = step.check is not None and step.check.kind == "judgement"
    if judged and step.check is not None and not note:
        raise ToolError(
            "note is missing; state in it what shows that {id} meets its check: {value}",
            id=step.id,
            value=step.check.value,
        )
    evidence, message = found
    failure = _contradiction(step.check, evidence, message)
    if failure:
        return _check_failed(plan, step, replace(evidence, note=failure), messages, lookup)
    proof = replace(evidence, note=note or evidence.note)
    if judged:
        judgement = await judge(plan, step, messages)
        if judgement is not None and judgement.verdict != "met":
            failed = replace(evidence, note=f"{judgement.verdict}: {judgement}")
            again = judgement.verdict == "cannot tell" and step.failed_checks + 1 < CHANGE_AFTER
            plan, text = _check_failed(plan, step, failed, messages, lookup)
            return plan, f"{text} {prompts.text('plan_steps.show_evidence')}" if again else text
        if judgement is not None:
            proof = replace(evidence, note=judgement.reason, quote=judgement.quote)
    updated = close_step(plan, step.id, "done", proof)
    return updated, f"{step.id} done. {where_we_are(updated, messages, lookup)}"


def refuse_before_parts(step: PlanStep) -> None:
    """Raise `ToolError` for a step that its substeps have to close first."""
    still = ", ".join(part.id for part in step.parts if part.open)
    if still:
        raise ToolError("{id} is done when its substeps are; open: {ids}.", id=step.id, ids=still)


def _given_up(
    plan: Plan,
    step: PlanStep,
    status: StepStatus,
    note: str,
    messages: Sequence[BaseMessage],
    lookup: Lookup,
) -> tuple[Plan, str]:
    """Return a step the model gives up: its fallback comes first, and dependent steps are named."""
    if not note:
        raise ToolError(
            "note is missing; state in it why {id} is {status}.", id=step.id, status=status
        )
    if status == "failed" and step.fallback and not step.on_fallback:
        plan = _fall_back(plan, step, note)
        return plan, f"{step.id} stays open. {where_we_are(plan, messages, lookup)}"
    updated = close_step(plan, step.id, status, Evidence(None, None, note))
    needed = _missing_result(updated, step)
    return updated, f"{step.id} {status}. {needed}{where_we_are(updated, messages, lookup)}"


def _fall_back(plan: Plan, step: PlanStep, why: str) -> Plan:
    tried = (*step.evidence, Evidence(None, None, why))
    step = replace(without_work(step), on_fallback=True, evidence=tried)
    return activate_next(with_step(plan, step))


def _missing_result(plan: Plan, step: PlanStep) -> str:
    using = [one.id for one in plan.walk() if one.open and step.id in needs(one)]
    if not using:
        return ""
    return prompts.text("plan_steps.result_missing", steps=", ".join(using)) + " "


def _check_failed(
    plan: Plan,
    step: PlanStep,
    attempt: Evidence,
    messages: Sequence[BaseMessage],
    lookup: Lookup = nothing_known,
) -> tuple[Plan, str]:
    """Return the plan with a failed attempt; each failure leaves fewer options for the next one.

    Repeat, then the fallback, then another plan; in the end the step is closed as failed.
    """
    before = "; ".join(dict.fromkeys(one.note for one in step.evidence if one.note))
    step = replace(step, failed_checks=step.failed_checks + 1, evidence=(*step.evidence, attempt))
    plan = with_step(plan, step)
    if step.failed_checks >= FAIL_AFTER:
        summary = f"check failed {step.failed_checks} times: {attempt.note}"
        plan = close_step(plan, step.id, "failed", Evidence(None, None, summary))
        now = f"{_missing_result(plan, step)}{where_we_are(plan, messages, lookup)}"
        return plan, _failure(step, attempt, prompts.text("plan_steps.given_up", now=now))
    if step.failed_checks < CHANGE_AFTER:
        then = prompts.text("plan_steps.try_again")
    elif step.fallback and not step.on_fallback:
        plan = _fall_back(plan, step, f"check failed {step.failed_checks} times")
        then = prompts.text("plan_steps.use_fallback", now=where_we_are(plan, messages, lookup))
    else:
        then = prompts.text("plan_steps.change_plan", count=step.failed_checks)
    known = f"Before that: {before}. " if before else ""
    return plan, _failure(step, attempt, f"{known}{then}")


def _failure(step: PlanStep, attempt: Evidence, then: str) -> str:
    return prompts.text("plan_steps.check_failed", reason=attempt.note, step=step.id, then=then)


def _contradiction(check: Check | None, evidence: Evidence, message: ToolMessage) -> str | None:
    expected = int(check.value) if check and check.kind == "exit_code" else 0
    if evidence.exit_code != expected and (check is None or check.kind != "pattern"):
        return f"the last command ended with exit {evidence.exit_code}, expected {expected}"
    masked = artifact_of(message).get("masked") or ""
    if check is None or check.kind != "pattern" or masked.endswith(ALWAYS_SUCCEEDS):
        return _no_evidence(evidence.exit_code, masked) if masked else None
    try:
        found = Pattern(check.value).search(message.text)
    except ToolError as error:
        return str(error).rstrip(".")
    return None if found else f"the output does not match /{check.value}/"


def _no_evidence(exit_code: int | None, why: str) -> str:
    return f"exit {exit_code} is no evidence, because {why}"


def settle_check(
    plan: Plan,
    step_id: str,
    request_id: str,
    result: CommandResult,
    messages: Sequence[BaseMessage] = (),
    lookup: Lookup = nothing_known,
) -> tuple[Plan, str]:
    """Return the plan after the check command of `step_id` ran, and the sentence for the model.

    The command that did the step stays among its evidence, so that others can use its output.
    """
    step = find(plan, step_id)
    if result.exit_code != 0 or result.masked:
        how = f"exit {result.exit_code}" if result.exit_code is not None else result.ended
        how = _no_evidence(0, result.masked) if result.exit_code == 0 else how
        attempt = Evidence(request_id, result.exit_code, how)
        return _check_failed(plan, step, attempt, messages, lookup)
    work = fresh_evidence(plan, messages, step)
    if work is not None:
        plan = with_step(plan, replace(step, evidence=(*step.evidence, work[0])))
    updated = close_step(plan, step_id, "done", Evidence(request_id, 0, result.command))
    now = where_we_are(updated, messages, lookup)
    return updated, f"Check passed: {step_id} done. {now}"


def findings(plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (what was verified, what was not) of a plan, a line a step.

    Verified is what a command or a check proved. A step that was judged is not, even if it is
    done: its line quotes the output that this rests on. Without a judge, the model that did it
    claims it. A step with a plan of its own is told through its substeps.
    """
    verified: list[str] = []
    other: list[str] = []
    for step in plan.walk():
        if step.parts and not step.evidence:
            continue
        proof = step.evidence[-1] if step.evidence else None
        judged = step.check is not None and step.check.kind == "judgement"
        note = f": {proof.note}" if proof is not None and proof.note else ""
        if step.status == "done" and proof is not None and proof.request_id and not judged:
            verified.append(f"{step.id} {step.what}{note} (exit {proof.exit_code})")
            continue
        state: str = step.status
        if step.status == "done" and proof is not None:
            state = "judged" if proof.quote else "claimed"
            note += f' ("{proof.quote}", {proof.request_id})' if proof.quote else ""
        other.append(f"{step.id} {step.what} [{state}]{note}")
    return tuple(verified), tuple(other)
