"""Tool calls: an action request outside the graph, or an observation inside.

Neighbouring calls of one reply that cannot disturb each other are answered at the same time:
tools that only read, and sub-agents that only read or whose steps declare different paths. Their
observations stand in the order of the calls.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.messages import BaseMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent.graph_state import ThinkContext
from kogniterm.agent.messages import (
    GIVEN_PLAN,
    JOBS,
    NEVER_FILLED_IN,
    ONLY_A_PLAN,
    ImageBlock,
    failed_calls,
    held_up_text,
    is_input,
    last_ai,
    observed_images,
    tool_message,
)
from kogniterm.agent.plan.plan_parse import HiddenFailureError, parse_plan
from kogniterm.agent.plan.plan_steps import (
    active_step,
    apart,
    find,
    may_write,
    waits_for,
)
from kogniterm.agent.plan.plan_tools import (
    COMPLETE_STEP,
    MAKE_PLAN,
    PLAN_TOOLS,
    accepted_plan_text,
    inputs_of,
    own_plan,
)
from kogniterm.agent.replies import END_TURN, MAX_UNUSABLE, open_steps_text, steps_left_open
from kogniterm.agent.subagent import DELEGATE, acts, delegate_spec, run_sub_agent
from kogniterm.errors import ToolError
from kogniterm.protocols import Tool
from kogniterm.text.visible import with_texts
from kogniterm.types import (
    CALL_TOOL,
    ActionRequest,
    Observation,
    Plan,
    PlanStep,
    ToolRan,
    ToolSpec,
    Usage,
)

MAX_CALLS = 16
"""Tool calls one reply may make; more would flood the history at once."""

ALWAYS_ALLOWED = (*PLAN_TOOLS, DELEGATE.name, "ask_user")
"""The calls that a step which names its tools allows as well."""

ONE_BY_ONE = ("remember",)
"""Tools that run inside the graph and keep something: one call at a time."""

Call = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call that was answered inside the graph: the plan after it, and what the model sees.

    "failed" means that the tool ran and could not do it, "refused" that the plan does not allow the
    call now, "malformed" that it could never run: only the last says that the model cannot use its
    tools. A sub-agent leaves the proof of its last action, or has no answer yet because of what is
    `pending`, as has a call that is an action request itself. A judge that was asked
    leaves its reply in `judged`, and what it cost.
    """

    plan: Plan | None
    text: str
    status: Literal["ok", "failed", "malformed", "refused"] = "ok"
    pending: tuple[ActionRequest, ...] = ()
    proof: Mapping[str, Any] | None = None
    judged: Mapping[str, str] | None = None
    images: tuple[ImageBlock, ...] = ()
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0


def offered_tools(context: ThinkContext) -> tuple[ToolSpec, ...]:
    """Return the tools of the model; fixed for a session so that the prompt prefix stays the same.

    Where only a plan is wanted, nothing that could act is offered.
    """
    specs = known_tools(context)
    if not context.plan_only:
        return specs
    return tuple(
        spec for spec in specs if spec.effect == "none" and spec.name != COMPLETE_STEP.name
    )


def known_tools(context: ThinkContext) -> tuple[ToolSpec, ...]:
    """Return all tools of the session, which the steps of a plan may name."""
    specs = tuple(tool.spec for tool in context.tools.values())
    if context.model.info.one_command:
        return specs
    if context.delegates:
        specs = (*specs, delegate_spec(context.named))
    plans = () if context.plan_mode == "never" else (MAKE_PLAN, COMPLETE_STEP)
    ends = () if context.agent else (END_TURN,)
    shown = [
        prompts.describe_tool(spec) for spec in (*plans, *ends) if spec.name not in context.hidden
    ]
    if context.agent:
        shown = [own_plan(spec) if spec.name == MAKE_PLAN.name else spec for spec in shown]
    return (*specs, *shown)


def group_calls(
    calls: Sequence[Call], plan: Plan | None, context: ThinkContext
) -> Iterator[Sequence[Call]]:
    """Return the calls in order; neighbours that cannot disturb each other, as one group."""
    group: list[Call] = []
    for call in calls:
        if group and not (len(group) < context.at_once and _joins(call, group, plan, context)):
            yield group
            group = []
        group.append(call)
    if group:
        yield group


def _joins(call: Call, group: Sequence[Call], plan: Plan | None, context: ThinkContext) -> bool:
    """Return whether `call` can be answered at the same time as those of `group`."""
    if _reads(call, plan, context):
        return _reads(group[-1], plan, context)
    step = _step_of(call, plan)
    if call["name"] != DELEGATE.name or step is None:
        return False
    others = [_step_of(one, plan) if one["name"] == DELEGATE.name else None for one in group]
    return all(one is not None and one != step and apart(one.writes, step.writes) for one in others)


def _reads(call: Call, plan: Plan | None, context: ThinkContext) -> bool:
    """Return whether a call only reads, inside the graph."""
    name, tool = call["name"], context.tools.get(call["name"])
    if name == DELEGATE.name:
        return (context.delegates and context.refusal(DELEGATE.name) is None) and not acts(
            call["args"], _step_of(call, plan), context.named
        )
    if tool is None or name in ONE_BY_ONE:
        return False
    try:
        checked = tool.check(call["args"])
        return tool.effect_of(checked) == "none" and not context.held_back(name, checked)
    except ToolError:
        return False


def _step_of(call: Call, plan: Plan | None) -> PlanStep | None:
    """Return the step of the plan that a sub-agent is to do."""
    steps = plan.walk() if plan is not None else ()
    return next((step for step in steps if step.id == call["args"].get("step")), None)


def before_run(
    call: Call, plan: Plan | None, messages: Sequence[BaseMessage], context: ThinkContext
) -> AnsweredCall | None:
    """Return what becomes of a call without running it, or None when it is run inside the graph.

    It is an action request, or it is refused because it can never run, or not in this step.
    """
    failed = failed_calls(messages)
    builds_on = call["name"] in (COMPLETE_STEP.name, END_TURN.name) or (
        call["name"] == DELEGATE.name and acts(call["args"], _step_of(call, plan), context.named)
    )
    if failed and builds_on:
        return AnsweredCall(plan, held_up_text(failed[0]["name"], failed[0]["args"]), "refused")
    why = _outside_step(call, plan, messages, context)
    if why is not None:
        return AnsweredCall(plan, str(why), "refused")
    try:
        request = as_request(call, plan, messages, context)
    except ToolError as error:
        return _not_made(plan, error)
    return AnsweredCall(plan, "", pending=(request,)) if request is not None else None


def _not_made(plan: Plan | None, error: ToolError) -> AnsweredCall:
    """Return the end of a call that can never run; a plan whose checks hide failures is shown."""
    hides = isinstance(error, HiddenFailureError)
    return AnsweredCall(plan, str(error), "failed" if hides else "malformed")


def _outside_step(
    call: Call, plan: Plan | None, messages: Sequence[BaseMessage], context: ThinkContext
) -> ToolError | None:
    """Return why the plan does not allow a call now, while the plan is being worked on."""
    if plan is None or not _planned_this_turn(messages):
        return None
    handed = _step_of(call, plan) if call["name"] == DELEGATE.name else None
    first = ", ".join(waits_for(plan, handed)) if handed is not None else ""
    if handed is not None and first:
        return ToolError("Not run: {id} waits for {first}.", id=handed.id, first=first)
    step = active_step(plan)
    allowed = step.tools if step is not None and not step.delegate else ()
    known = {spec.name for spec in known_tools(context)}
    if step is None or not allowed or call["name"] in (*allowed, *ALWAYS_ALLOWED):
        return None
    if call["name"] not in known:
        return None
    return ToolError(
        "Not run: {id} allows {tools}. To use {name}, change the tools of {id} with make_plan "
        "and a reason.",
        id=step.id,
        tools=", ".join(allowed),
        name=call["name"],
    )


def as_request(
    call: Call, plan: Plan | None, messages: Sequence[BaseMessage], context: ThinkContext
) -> ActionRequest | None:
    """Return the action request behind a call, or None when the call is answered inside the graph.

    Raises `ToolError` for a call that can never run.
    """
    called, arguments = call["name"], call["args"]
    message = last_ai(messages)
    allowed = message.tool_calls[:MAX_CALLS] if message is not None else ()
    if call["id"] not in [one["id"] for one in allowed]:
        raise ToolError(
            "Not run: at most {count} calls per reply are allowed; make the "
            "others in the next reply.",
            count=MAX_CALLS,
        )
    tool, name = context.tools.get(called), called
    target = context.redirect(called, arguments) if tool is not None else None
    if target is not None:
        tool, arguments = target
        name = tool.spec.name
    off = context.refusal(name) if name not in context.tools else None
    if off is not None:
        raise ToolError("The tool {name} is switched off: {why}", name=name, why=off)
    if context.plan_only:
        _refuse_acting(call, plan, context)
    if name == COMPLETE_STEP.name:
        return _check_request(call, plan, context)
    if tool is None:
        if name not in {spec.name for spec in offered_tools(context)}:
            if name.startswith("mcp__") and CALL_TOOL in context.tools:
                raise ToolError(
                    "Call {name} with call_tool, which takes tool: {name} and arguments.", name=name
                )
            names = ", ".join(spec.name for spec in offered_tools(context))
            raise ToolError("There is no tool {name}; use one of: {names}.", name=name, names=names)
        if name == MAKE_PLAN.name and context.review_plans():
            return _plan_request(call, plan, messages, context)
        return None
    checked = tool.check(arguments)
    effect = tool.effect_of(checked)
    if effect == "none":
        if not context.held_back(name, checked):
            return None
        effect = "read"
    _refuse_other_paths(checked, effect, context)
    if effect != "person":
        _refuse_placeholders(checked, context)
    line, purpose = tool.describe(checked)
    if name == "write_file":
        from kogniterm.agent.held_files import refuse_unread

        folder = context.lookup("session.folder") or ""
        refuse_unread(messages, folder, str(checked["path"]), checked.get("digest_before"))
    return ActionRequest(
        id=context.new_id(),
        call_id=str(call["id"]),
        tool=name,
        command=line,
        purpose=purpose,
        arguments=dict(checked),
        effect=effect,
        detail=tool.detail(checked),
        agent=context.agent,
        agent_task=context.agent_task,
        agent_name=context.agent_name,
        hosts=tool.hosts(checked),
        called=called if target is not None else "",
    )


def _refuse_other_paths(checked: Mapping[str, Any], effect: str, context: ThinkContext) -> None:
    """Raise `ToolError` for an edit of a file that the sub-agent's step does not declare."""
    path, folder = checked.get("path"), context.lookup("session.folder") or ""
    if effect != "edit" or not context.writes or not isinstance(path, str):
        return
    if not may_write(path, context.writes, folder):
        raise ToolError(
            "Not run: your step may change {writes} only; report what else has to change.",
            writes=", ".join(context.writes),
        )


def _refuse_placeholders(arguments: Mapping[str, Any], context: ThinkContext) -> None:
    """Raise `ToolError` for a call that holds the placeholder of a secret: none is filled in."""
    mark = context.placeholder(json.dumps(arguments, ensure_ascii=False, default=str))
    if mark:
        raise ToolError("Not run: " + NEVER_FILLED_IN.template, mark=mark)


def _refuse_acting(call: Call, plan: Plan | None, context: ThinkContext) -> None:
    """Raise `ToolError` for a call that could act where only a plan is wanted."""
    name, tool = call["name"], context.tools.get(call["name"])
    if tool is not None:
        acting = tool.effect_of(tool.check(call["args"])) != "none"
    else:
        acting = name == COMPLETE_STEP.name or (
            name == DELEGATE.name and acts(call["args"], _step_of(call, plan), context.named)
        )
    if acting:
        raise ToolError("Not run: {why}", why=ONLY_A_PLAN)


def _check_request(call: Call, plan: Plan | None, context: ThinkContext) -> ActionRequest | None:
    """Return the command that checks a step, as a request like any other."""
    if plan is None or (call["args"].get("status") or "done") != "done":
        return None
    from kogniterm.agent.plan.evaluate import check_command, refuse_before_parts

    step = find(plan, str(call["args"].get("step") or ""))
    command = check_command(step)
    if command is None:
        return None
    refuse_before_parts(step)
    _refuse_placeholders({"command": command}, context)
    return ActionRequest(
        id=context.new_id(),
        call_id=str(call["id"]),
        tool=COMPLETE_STEP.name,
        command=command,
        purpose=f"Check {step.id}: {step.what}",
        arguments={"step": step.id},
    )


def _plan_request(
    call: Call, plan: Plan | None, messages: Sequence[BaseMessage], context: ThinkContext
) -> ActionRequest:
    """Return a plan as a request to approve it; `arguments` hold it as the model gave it."""
    made = _parse_plan(call["args"], plan, messages, context)
    return ActionRequest(
        id=context.new_id(),
        call_id=str(call["id"]),
        tool=MAKE_PLAN.name,
        command=made.goal,
        purpose=made.reason,
        arguments=dict(call["args"]),
        effect="person",
    )


async def run_group(
    calls: Sequence[Call],
    settled: Sequence[AnsweredCall | None],
    plan: Plan | None,
    messages: Sequence[BaseMessage],
    context: ThinkContext,
) -> list[AnsweredCall]:
    """Answer the calls of one group at the same time, except for those that are `settled`.

    One that fails, or waits for an action, does not disturb the others; a cancel stops all.
    """

    async def answered(call: Call, known: AnsweredCall | None) -> AnsweredCall:
        if known is not None:
            return known
        began = time.monotonic()
        ran = await _run_inside(call, plan, messages, context)
        return replace(ran, seconds=time.monotonic() - began)

    running = [asyncio.create_task(one) for one in map(answered, calls, settled)]
    try:
        return list(await asyncio.gather(*running))
    finally:
        for task in running:
            task.cancel()


async def _delegate(
    call: Call, plan: Plan | None, messages: Sequence[BaseMessage], context: ThinkContext
) -> AnsweredCall:
    if call["id"] not in context.agents:
        why = await context.may_begin(str(call["id"]), call["args"])
        if why is not None:
            return AnsweredCall(plan, why, "refused")
    step = _step_of(call, plan)
    inputs: Sequence[str] = ()
    if step is not None and plan is not None:
        inputs = inputs_of(step, plan, messages, context.lookup)
    result = await run_sub_agent(call, step, inputs, context)
    asked = last_ai(messages)
    beside = asked.tool_calls if asked is not None else (call,)
    alone = [one["name"] for one in beside].count(DELEGATE.name) == 1
    proof: dict[str, Any] | None = None  # one that did not end well proves nothing
    if result.status == "ok":
        proof = dict(result.proof or {})
        if call["args"].get("step"):
            proof["step"] = call["args"]["step"]
        elif not alone:
            proof["beside"] = True
    return AnsweredCall(plan, result.text, result.status, result.pending, proof)


async def _run_inside(
    call: Call,
    plan: Plan | None,
    messages: Sequence[BaseMessage],
    context: ThinkContext,
) -> AnsweredCall:
    name, arguments = call["name"], call["args"]
    if name == DELEGATE.name:
        return await _delegate(call, plan, messages, context)
    if name == MAKE_PLAN.name:
        try:
            made = _parse_plan(arguments, plan, messages, context)
        except ToolError as error:
            return _not_made(plan, error)
        return AnsweredCall(made, accepted_plan_text(made, messages, context.lookup))
    if name == END_TURN.name:
        return await _end_turn(call, plan, messages, context)
    if name == COMPLETE_STEP.name:
        from kogniterm.agent.plan.evaluate import complete
        from kogniterm.agent.plan.judge import Judge

        judge = Judge(context)
        try:
            after, text = await complete(plan, arguments, messages, judge, context.lookup)
        except ToolError as error:
            return AnsweredCall(plan, str(error), "failed")
        return AnsweredCall(after, text, judged=judge.kept, usage=judge.usage)
    try:
        found = await _run_tool(context.tools[name], arguments)
    except ToolError as error:
        return AnsweredCall(plan, str(error), "failed")
    text, images = observed_images(found, context.model.info)
    return AnsweredCall(plan, text, images=images)


async def _end_turn(
    call: Call,
    plan: Plan | None,
    messages: Sequence[BaseMessage],
    context: ThinkContext,
) -> AnsweredCall:
    """End the turn as the model states, unless a step of the plan or a hook speaks against it."""
    arguments, reply = call["args"], last_ai(messages)
    outcome = arguments.get("outcome")
    if reply is None or reply.tool_calls[-1]["id"] != call["id"]:
        return AnsweredCall(plan, "end_turn has to be the last call of a reply.", "malformed")
    if outcome not in END_TURN.parameters["properties"]["outcome"]["enum"]:
        return AnsweredCall(plan, "outcome has to be done, not_done or blocked.", "malformed")
    if outcome == "done" and not reply.text.strip():
        return AnsweredCall(plan, "The text beside the call, the answer, is missing.", "malformed")
    if outcome != "done" and not str(arguments.get("why") or "").strip():
        return AnsweredCall(
            plan, "why is missing: give the reason, and what was tried.", "malformed"
        )
    left = steps_left_open(plan, messages) if outcome == "done" else ()
    if left:
        return AnsweredCall(plan, open_steps_text(left), "failed")
    kept = sum(isinstance(one, ToolMessage) and one.name == END_TURN.name for one in messages[-9:])
    why = await context.goes_on(context.agent, reply.text) if kept < MAX_UNUSABLE else None
    if why is not None:
        return AnsweredCall(plan, why, "refused")
    return AnsweredCall(plan, f"[turn ended: {outcome}]")


async def _run_tool(tool: Tool, arguments: Mapping[str, Any]) -> Observation:
    checked = tool.check(arguments)
    if tool.effect_of(checked) != "none":
        # Where a name leads may have changed since the call was found to need no approval.
        raise ToolError(
            "{name} was not run because its target just changed; call it again.",
            name=tool.spec.name,
        )
    try:
        return await tool.run(checked)
    except ToolError:
        raise
    except Exception as error:
        # A tool's bug must reach the model instead of ending the turn.
        raise ToolError(
            "{name} failed: {kind}: {error}",
            name=tool.spec.name,
            kind=type(error).__name__,
            error=error,
        ) from error


def _parse_plan(
    arguments: Mapping[str, Any],
    plan: Plan | None,
    messages: Sequence[BaseMessage],
    context: ThinkContext,
) -> Plan:
    tools = [spec.name for spec in known_tools(context) if spec.name not in PLAN_TOOLS]
    going_on, inside = _planned_this_turn(messages), bool(context.agent)
    agents = {name: agent.tools for name, agent in context.named.items()}
    return parse_plan(
        arguments, plan, going_on=going_on, tools=tools, inside=inside, agents=agents,
        check_problem=context.check_problem,
    )  # fmt: skip


def _planned_this_turn(messages: Sequence[BaseMessage]) -> bool:
    """Return whether a plan was made or worked on since the user's last input."""
    for message in reversed(messages):
        if is_input(message):
            return prompts.occurs(GIVEN_PLAN, message.text)
        if (
            isinstance(message, ToolMessage)
            and message.name in PLAN_TOOLS
            and message.status == "success"
        ):
            return True
    return False


def observe_call(call: Call, ran: AnsweredCall, context: ThinkContext) -> ToolMessage:
    """Return the message that answers `call`, and announce it to the screens."""
    given = with_texts(call["args"], context.clean)
    arguments = json.dumps(given, ensure_ascii=False, sort_keys=True, default=str)
    text = context.clean(ran.text)
    failed = ran.status != "ok"
    malformed = ran.status in ("malformed", "refused")
    call_id = str(call["id"])
    context.report(
        ToolRan(
            call["name"], arguments, text, failed,
            malformed=malformed, call_id=call_id, seconds=ran.seconds,
        )
    )  # fmt: skip
    return tool_message(
        call_id,
        call["name"],
        text,
        failed=failed,
        artifact=_artifact(call, ran),
        images=ran.images,
    )


def _artifact(call: Call, ran: AnsweredCall) -> dict[str, Any] | None:
    if ran.status == "malformed":
        return {"malformed": True}
    if ran.status == "refused":
        return None
    if call["name"] in (JOBS, END_TURN.name):
        return None
    if call["name"] in PLAN_TOOLS:
        if ran.judged is None:
            return None
        from kogniterm.agent.plan.judge import JUDGED

        return {JUDGED: dict(ran.judged)}
    if ran.proof is not None:
        return dict(ran.proof)
    return {"request_id": str(call["id"]), "exit_code": 0 if ran.status == "ok" else 1}
