"""The evaluator: is a plan step really done? Cheap signals decide; the model is never believed.

`complete_step` is judged here from the history alone. Only a step whose check is a command or
a file leaves the graph, as an action request like any other command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from kogniterm.agent.plan import (
    COMPLETE_STEP,
    MAKE_PLAN,
    close_step,
    find,
    last_evidence,
    open_steps,
    where_we_are,
)
from kogniterm.errors import ToolError
from kogniterm.types import Check, CommandResult, Evidence, Plan, PlanStep, StepStatus

OPEN_STEPS = "the plan has open steps:"
PLAN_TOOLS = (MAKE_PLAN.name, COMPLETE_STEP.name)


def check_command(step: PlanStep) -> str | None:
    """The shell command that proves `step`, if its check is one."""
    if step.check is None:
        return None
    if step.check.kind == "command":
        return step.check.value
    if step.check.kind == "file":
        return f"test -e {shlex.quote(step.check.value)}"
    return None


def complete(
    plan: Plan | None, arguments: Mapping[str, Any], messages: Sequence[BaseMessage]
) -> tuple[Plan, str]:
    """The plan after a `complete_step` call that needs no command, and the observation.

    Raises `ToolError` when the step is unknown or lacks evidence.
    """
    if plan is None:
        raise ToolError("There is no plan; answer, or call make_plan first.")
    step = find(plan, str(arguments.get("step") or ""))
    status: StepStatus = arguments.get("status") or "done"
    note = str(arguments.get("note") or "")
    if status in ("failed", "skipped"):
        if not note:
            raise ToolError("Say in note why {id} is {status}.", id=step.id, status=status)
        updated = close_step(plan, step.id, status, Evidence(None, None, note))
        return updated, f"{step.id} {status}. {_after_failure(step)}{where_we_are(updated)}"
    if status != "done":
        raise ToolError("status must be done, failed or skipped.")
    evidence = _proof(step, messages, note)
    updated = close_step(plan, step.id, "done", evidence)
    return updated, f"{step.id} done. {where_we_are(updated)}"


def _after_failure(step: PlanStep) -> str:
    return f"Fallback: {step.fallback}. " if step.fallback else ""


def _proof(step: PlanStep, messages: Sequence[BaseMessage], note: str) -> Evidence:
    evidence = last_evidence(messages)
    if evidence is None:
        raise ToolError(
            "{id} has no evidence: run a command that does it or shows it is done.", id=step.id
        )
    failure = _contradiction(step.check, evidence, messages)
    if failure:
        raise ToolError(
            "{id} is not done: {failure}. Mend it, or close it as failed with a note.",
            id=step.id,
            failure=failure,
        )
    return Evidence(evidence.request_id, evidence.exit_code, note or evidence.note)


def _contradiction(
    check: Check | None, evidence: Evidence, messages: Sequence[BaseMessage]
) -> str | None:
    """Why the evidence speaks against success, or None."""
    expected = int(check.value) if check and check.kind == "exit_code" else 0
    if evidence.exit_code != expected and (check is None or check.kind != "pattern"):
        return f"the last command ended with exit {evidence.exit_code}, expected {expected}"
    if check and check.kind == "pattern":
        output = next((m.text for m in reversed(messages) if isinstance(m, ToolMessage)), "")
        if not re.search(check.value, output, re.MULTILINE):
            return f"its output does not match /{check.value}/"
    return None


def open_plan_problem(plan: Plan | None, messages: Sequence[BaseMessage]) -> str | None:
    """Why an answer comes too early: open steps of a plan of this turn. Said once a turn."""
    left = open_steps(plan)
    if plan is None or not left:
        return None
    touched = False
    for message in reversed(messages):
        if message.type == "human":
            if OPEN_STEPS in message.text:
                return None
            if not message.text.startswith("("):
                break
        if isinstance(message, ToolMessage) and message.name in PLAN_TOOLS:
            touched = True
    names = ", ".join(step.id for step in left)
    return f"{OPEN_STEPS} {names}; close each with complete_step, then answer" if touched else None


def settle_check(
    plan: Plan, step_id: str, request_id: str, result: CommandResult
) -> tuple[Plan, str]:
    """The plan after the check command of `step_id` ran, and the sentence for the model."""
    step = find(plan, step_id)
    if result.exit_code == 0:
        updated = close_step(plan, step_id, "done", Evidence(request_id, 0, result.command))
        return updated, f"Check passed: {step_id} done. {where_we_are(updated)}"
    how = f"exit {result.exit_code}" if result.exit_code is not None else result.ended
    return plan, (
        f"Check failed ({how}): {step_id} is not done. {_after_failure(step)}"
        "Mend it and complete it again, change the plan, or close it as failed with a note."
    )
