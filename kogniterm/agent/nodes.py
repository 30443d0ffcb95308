"""The four nodes of the graph. They think and read; nothing here changes the world."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.config import get_stream_writer
from langgraph.runtime import Runtime

from kogniterm.agent.evaluate import check_command, complete, open_plan_problem
from kogniterm.agent.history import clean_reply, is_unusable, request_messages
from kogniterm.agent.loops import (
    MAX_MALFORMED_ROUNDS,
    STOP_AFTER,
    hint,
    malformed_rounds,
    repeated,
)
from kogniterm.agent.messages import PLAN_FIRST, last_ai, tool_message, unanswered_calls
from kogniterm.agent.plan import COMPLETE_STEP, MAKE_PLAN, find, parse_plan, where_we_are
from kogniterm.agent.state import GraphState, ThinkContext
from kogniterm.errors import LoopError, ModelReplyError, ToolError
from kogniterm.types import (
    ActionRequest,
    ModelPurpose,
    ModelRequest,
    Plan,
    Reply,
    ToolCalled,
    ToolSpec,
    Usage,
)

MAX_UNUSABLE = 3


async def create_plan(state: GraphState, runtime: Runtime[ThinkContext]) -> GraphState:
    """One model call that answers, acts directly, or writes a plan."""
    return await _ask(state, runtime.context, "create_plan")


async def decide_action(state: GraphState, runtime: Runtime[ThinkContext]) -> GraphState:
    """The next action, or the answer, from everything observed so far."""
    return await _ask(state, runtime.context, "decide_action")


async def execute_tool(state: GraphState, runtime: Runtime[ThinkContext]) -> GraphState:
    """Answer the open tool calls in order, up to the first that would change the world.

    From there on the calls wait: those that act become action requests and the graph ends;
    the rest is answered when the graph is entered again, so that order means order.
    """
    context = runtime.context
    messages = state["messages"]
    plan = state.get("plan")
    results: list[BaseMessage] = []
    pending: list[ActionRequest] = []
    for call in unanswered_calls(messages):
        try:
            request = _as_request(call, plan, context)
            if request is not None:
                pending.append(request)
                continue
            if pending:
                break
            plan, text = await _run_inside(call, plan, (*messages, *results), context)
            results.append(_observed(call, text, failed=False))
        except ToolError as error:
            if pending:
                break
            results.append(_observed(call, str(error), failed=True))
    return {"messages": results, "plan": plan, "pending": pending}


def final_response(state: GraphState) -> GraphState:
    """The last AIMessage is the answer."""
    message = last_ai(state["messages"])
    return {"answer": message.text if message is not None else ""}


async def _ask(state: GraphState, context: ThinkContext, purpose: ModelPurpose) -> GraphState:
    """Ask the model; unusable replies are sent back a bounded number of times."""
    _stop_endless_loops(state["messages"])
    nudge = hint(state["messages"])
    added: list[BaseMessage] = [nudge] if nudge is not None else []
    usage = Usage()
    for attempt in range(1, MAX_UNUSABLE + 1):
        stop = context.may_continue()
        if stop is not None:
            return {"messages": added, "failure": stop, "usage": usage}
        history = request_messages(context.system, [*state["messages"], *added])
        request = ModelRequest(history, offered_tools(context), purpose)
        reply = clean_reply(await _stream(context, request))
        usage += reply.usage
        problem = _problem(reply.message, history, state.get("plan"), context)
        if problem is None and purpose == "create_plan":
            problem = _plan_missing(reply.message, history, context)
        if problem is None:
            return {"messages": [*added, reply.message], "usage": usage}
        added.extend(_send_back(reply.message, problem))
        if attempt == MAX_UNUSABLE:
            break
    raise ModelReplyError(
        "The model gave no usable reply {count} times in a row (the last time {problem}); "
        "try again or choose another model with --model.",
        count=MAX_UNUSABLE,
        problem=problem,
    )


def _stop_endless_loops(messages: Sequence[BaseMessage]) -> None:
    if malformed_rounds(messages) >= MAX_MALFORMED_ROUNDS:
        raise ModelReplyError(
            "The model made unusable tool calls {count} times in a row (the last: {problem}); "
            "try again or choose another model with --model.",
            count=MAX_MALFORMED_ROUNDS,
            problem=messages[-1].text,
        )
    if repeated(messages) >= STOP_AFTER:
        raise LoopError(
            "Stopped: the model made the same call with the same result {count} times in a row. "
            "Say more exactly what you want, or try another model.",
            count=STOP_AFTER,
        )


def _problem(
    message: AIMessage, history: Sequence[BaseMessage], plan: Plan | None, context: ThinkContext
) -> str | None:
    """Why a reply cannot be used as it is, or None."""
    problem = is_unusable(message)
    if problem is None and not message.tool_calls and not context.model.info.one_command:
        problem = open_plan_problem(plan, history)
    return problem


def _plan_missing(
    message: AIMessage, history: Sequence[BaseMessage], context: ThinkContext
) -> str | None:
    if context.plan_mode != "always" or not any(PLAN_FIRST in m.text for m in history[-3:]):
        return None
    if any(call["name"] == MAKE_PLAN.name for call in message.tool_calls):
        return None
    return "a plan was asked for and make_plan was not called"


def _send_back(message: AIMessage, problem: str) -> list[BaseMessage]:
    """The reply and why it cannot be used, as valid history."""
    if message.tool_calls:
        text = f"[not run: {problem}]"
        answers: Sequence[BaseMessage] = [
            tool_message(str(c["id"]), c["name"], text, failed=True) for c in message.tool_calls
        ]
        return [message, *answers]
    nudge = HumanMessage(f"(Your reply could not be used: {problem}. Reply again.)")
    return [message, nudge] if message.text.strip() else [nudge]


async def _stream(context: ThinkContext, request: ModelRequest) -> Reply:
    """Run one model call, passing its events on as they come."""
    write = get_stream_writer()
    write(request.purpose)
    reply: Reply | None = None
    async for event in context.model.stream(request):
        write(event)
        if isinstance(event, Reply):
            reply = event
    if reply is None:
        raise ModelReplyError("The model ended its stream without a reply; try again.")
    return reply


def offered_tools(context: ThinkContext) -> tuple[ToolSpec, ...]:
    """What the model may call; fixed for a session so that the prompt prefix stays the same."""
    specs = tuple(tool.spec for tool in context.tools.values())
    if context.plan_mode == "never" or context.model.info.one_command:
        return specs
    return (*specs, MAKE_PLAN, COMPLETE_STEP)


def _as_request(
    call: Mapping[str, Any], plan: Plan | None, context: ThinkContext
) -> ActionRequest | None:
    """The action request behind a call, or None when the call is answered inside the graph."""
    name, arguments = call["name"], call["args"]
    if name == COMPLETE_STEP.name:
        return _check_request(call, plan, context)
    tool = context.tools.get(name)
    if tool is None:
        return None
    checked = tool.check(arguments)
    effect = tool.effect_of(checked)
    if effect == "none":
        return None
    line, purpose = tool.describe(checked)
    return ActionRequest(
        id=context.new_id(),
        call_id=str(call["id"]),
        tool=name,
        command=line,
        purpose=purpose,
        arguments=dict(checked),
        effect=effect,
        detail=tool.detail(checked),
    )


def _check_request(
    call: Mapping[str, Any], plan: Plan | None, context: ThinkContext
) -> ActionRequest | None:
    if plan is None or (call["args"].get("status") or "done") != "done":
        return None
    step = find(plan, str(call["args"].get("step") or ""))
    command = check_command(step)
    if command is None:
        return None
    return ActionRequest(
        id=context.new_id(),
        call_id=str(call["id"]),
        tool=COMPLETE_STEP.name,
        command=command,
        purpose=f"Check {step.id}: {step.what}",
        arguments={"step": step.id},
    )


async def _run_inside(
    call: Mapping[str, Any],
    plan: Plan | None,
    messages: Sequence[BaseMessage],
    context: ThinkContext,
) -> tuple[Plan | None, str]:
    """Run an effect-free call: the plan after it, and the observation."""
    name, arguments = call["name"], call["args"]
    if name == MAKE_PLAN.name:
        plan = parse_plan(arguments, plan)
        return plan, f"Plan accepted. {where_we_are(plan)}"
    if name == COMPLETE_STEP.name:
        return complete(plan, arguments, messages)
    tool = context.tools.get(name)
    if tool is None:
        names = ", ".join(spec.name for spec in offered_tools(context))
        raise ToolError("There is no tool {name}; there are: {names}.", name=name, names=names)
    checked = tool.check(arguments)
    try:
        return plan, await tool.run(checked)
    except ToolError:
        raise
    except Exception as error:
        # A tool's bug must reach the model instead of ending the turn.
        raise ToolError(
            "{name} failed: {kind}: {error}", name=name, kind=type(error).__name__, error=error
        ) from error


def _observed(call: Mapping[str, Any], text: str, *, failed: bool) -> ToolMessage:
    arguments = json.dumps(call["args"], ensure_ascii=False, sort_keys=True, default=str)
    get_stream_writer()(ToolCalled(call["name"], arguments, text, failed))
    artifact: dict[str, Any] | None = {"request_id": str(call["id"]), "exit_code": 0}
    if failed:
        artifact = {"malformed": True}
    elif call["name"] in (MAKE_PLAN.name, COMPLETE_STEP.name):
        artifact = None
    return tool_message(str(call["id"]), call["name"], text, failed=failed, artifact=artifact)
