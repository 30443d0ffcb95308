"""The one compiled graph with its four nodes, and the stream the runtime drives it by.

The nodes think and read; nothing here changes the world. No checkpointer and no interrupt: the
graph ends while an action request is pending, and the journal is what survives. `think` enters it
again with the observations in the state. Nodes and routes are coroutines: LangGraph would run each
plain function on a thread of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from kogniterm import prompts
from kogniterm.agent.compaction import fit_messages
from kogniterm.agent.graph_state import GraphState, ThinkContext
from kogniterm.agent.messages import (
    PLAN_FIRST,
    fit_to_model,
    images_behind_results,
    images_of,
    is_input,
    last_ai,
    note,
    steering_message,
    unanswered_calls,
)
from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.agent.replies import (
    MAX_MALFORMED_ROUNDS,
    MAX_UNUSABLE,
    ask,
    clean_reply,
    endless,
    hint,
    is_unusable,
    malformed_rounds,
    no_usable_reply,
    open_steps_text,
    read_end_statement,
    send_back,
    steps_left_open,
)
from kogniterm.agent.tool_dispatch import (
    before_run,
    group_calls,
    observe_call,
    offered_tools,
    run_group,
)
from kogniterm.errors import ContextOverflowError, LoopError, ModelError, ModelReplyError
from kogniterm.text.visible import whole
from kogniterm.types import (
    ActionRequest,
    AnswerDelta,
    ModelPurpose,
    ModelRequest,
    ModelRetried,
    NodeUpdate,
    Phrase,
    Plan,
    Reply,
    ThoughtDelta,
    Usage,
)


async def create_plan(state: GraphState, runtime: Runtime[ThinkContext]) -> GraphState:
    """One model call that answers, acts directly, or writes a plan."""
    return await _ask(state, runtime.context, "create_plan")


async def decide_action(state: GraphState, runtime: Runtime[ThinkContext]) -> GraphState:
    """Return the next action, or the answer, from everything observed so far."""
    return await _ask(state, runtime.context, "decide_action")


async def execute_tool(state: GraphState, runtime: Runtime[ThinkContext]) -> GraphState:
    """Answer the open tool calls in order, up to the first that would change the world.

    From there on the calls wait: those that act become action requests and the graph ends;
    the rest is answered when the graph is entered again, so that order means order. Neighbours
    that cannot disturb each other run at the same time. A sub-agent that waits for an action
    leaves its own call open, and goes on then too.
    """
    context = runtime.context
    messages = state["messages"]
    begun = plan = state.get("plan")
    results: list[BaseMessage] = []
    pending: list[ActionRequest] = []
    usage = Usage()
    for group in group_calls(unanswered_calls(messages), plan, context):
        seen = (*messages, *results)
        settled = [before_run(call, plan, seen, context) for call in group]
        inside = [one for one in settled if one is None or not one.pending]
        if pending and inside:
            break
        answers = await run_group(group, settled, plan, seen, context)
        for call, ran in zip(group, answers, strict=True):
            pending.extend(ran.pending)
            usage += ran.usage
            if not pending:
                plan = ran.plan
                results.append(observe_call(call, ran, context))
        if (pending and inside) or (context.plan_only and plan != begun):
            break
    halt = (context.plan_only and plan != begun) or not context.has_room((*messages, *results))
    return {"messages": results, "plan": plan, "pending": pending, "halt": halt, "usage": usage}


async def final_response(state: GraphState) -> GraphState:
    """Return the text of the last AIMessage, or the reason it stated, as the answer."""
    message = last_ai(state["messages"])
    text = message.text if message is not None else ""
    return {"answer": text or str(read_end_statement(state["messages"]).get("why") or "")}


async def _ask(state: GraphState, context: ThinkContext, purpose: ModelPurpose) -> GraphState:
    """Ask the model; unusable replies are sent back a bounded number of times."""
    _stop_endless_loops(state["messages"], context)
    nudge = hint(state["messages"])
    added: list[BaseMessage] = [nudge] if nudge is not None else []
    added.extend(context.instructions_due(context.agent, state["messages"]))
    added.extend(steering_message(text) for text in context.said_meanwhile(context.agent))
    usage, refused, hidden = Usage(), None, context.window.refused
    for attempt in range(1, MAX_UNUSABLE + 1):
        stop = await context.may_continue(context.agent)
        if stop is not None:
            return {"messages": added, "failure": stop, "usage": usage}
        tools = offered_tools(context)
        seen = fit_to_model(context.model.info, [*state["messages"], *added], hidden)
        seen = images_behind_results(seen)
        try:
            history = fit_messages(
                context.system, seen, context.window.room(context.model.info, tools)
            )
        except ContextOverflowError as error:
            raise refused or error from None
        request = ModelRequest(
            history, tools, purpose, agent=context.agent, language=context.language()
        )
        try:
            reply = clean_reply(await _stream(context, request))
        except ContextOverflowError as error:
            refused = error
            if attempt == MAX_UNUSABLE:
                raise
            # Shortened now; before the next round the runtime compacts the history itself.
            context.window.refuse(history, tools)
            _say_again(context, attempt, error.text)
            continue
        except ModelError as error:
            # A provider that refuses an image would refuse every later request of the session.
            shown = {block["base64"] for message in history for block in images_of(message)}
            if type(error) is not ModelError or not shown or attempt == MAX_UNUSABLE:
                raise
            hidden |= shown
            _say_again(context, attempt, error.text)
            continue
        context.window.refused = hidden
        usage += reply.usage
        problem = _problem(reply.message, history, state.get("plan"), context)
        if problem is None and purpose == "create_plan":
            problem = _plan_missing(reply.message, history, context)
        if problem is None:
            told = None
            if attempt < MAX_UNUSABLE and not reply.message.tool_calls:
                told = await context.goes_on(context.agent, reply.message.text)
            if told is None:
                return {"messages": [*added, reply.message], "usage": usage}
            added.extend((reply.message, note(told)))
            continue
        added.extend(send_back(reply.message, problem.for_model))
        if attempt < MAX_UNUSABLE:
            _say_again(context, attempt, problem.for_user)
    if problem is not None and problem.short == _WITHOUT_PLAN:
        raise _no_plan(MAX_UNUSABLE)
    raise no_usable_reply(problem.short if problem is not None else Phrase(""))


def _say_again(context: ThinkContext, attempt: int, reason: Phrase) -> None:
    """Tell the user that the model is asked again, and that what came so far does not count."""
    context.report(ModelRetried(attempt, MAX_UNUSABLE, 0.0, reason))


def _must_plan(context: ThinkContext) -> bool:
    return context.plan_only and not context.agent


def _no_plan(count: int) -> ModelReplyError:
    return ModelReplyError(
        "The model made no plan in {count} replies. Nothing was run; describe the task in more "
        "detail, or choose another model with --model.",
        count=count,
    )


def _stop_endless_loops(messages: Sequence[BaseMessage], context: ThinkContext) -> None:
    if malformed_rounds(messages) >= MAX_MALFORMED_ROUNDS:
        if _must_plan(context):
            raise _no_plan(MAX_MALFORMED_ROUNDS)
        raise ModelReplyError(
            "The model made invalid tool calls {count} times in a row. Try again, or choose "
            "another model with /model or --model.",
            count=MAX_MALFORMED_ROUNDS,
        )
    if count := endless(messages):
        raise LoopError(
            "Stopped: the model made the same calls with the same results "
            "{count} times in a row. Describe the task more precisely, or "
            "choose another model with --model.",
            count=count,
        )


_WITHOUT_PLAN = Phrase("a plan was requested, and it made none")


class _Problem(NamedTuple):
    """The reason why a reply cannot be used.

    `for_model` may name tools, `for_user` is a sentence without them, `short` its reason alone.
    """

    for_model: str
    for_user: Phrase
    short: Phrase


def _unusable(why: str, short: Phrase | None = None) -> _Problem:
    told = short or Phrase(why.rstrip(". "))
    return _Problem(
        why, Phrase("The model's reply could not be used: {problem}.", {"problem": told}), told
    )


def _problem(
    message: AIMessage, history: Sequence[BaseMessage], plan: Plan | None, context: ThinkContext
) -> _Problem | None:
    if (why := is_unusable(message)) is not None:
        return _unusable(why)
    if message.tool_calls:
        return None
    if _must_plan(context):
        return _unusable("only a plan was requested and make_plan was not called", _WITHOUT_PLAN)
    left = () if context.model.info.one_command else steps_left_open(plan, history)
    if not left:
        return None
    steps = ", ".join(left)
    answered_early = Phrase(
        "The model answered while plan steps were open: {steps}.", {"steps": steps}
    )
    short = Phrase("it answered while plan steps were open")
    return _Problem(open_steps_text(left), answered_early, short)


def _plan_missing(
    message: AIMessage, history: Sequence[BaseMessage], context: ThinkContext
) -> _Problem | None:
    if context.model.info.one_command or context.plan_only or context.plan_mode != "always":
        return None
    asked = next((m for m in reversed(history) if is_input(m)), None)
    if asked is None or not prompts.occurs(PLAN_FIRST, asked.text):
        return None
    if message.tool_calls and message.tool_calls[0]["name"] == MAKE_PLAN.name:
        return None
    return _unusable("a plan was requested and make_plan was not called", _WITHOUT_PLAN)


async def _stream(context: ThinkContext, request: ModelRequest) -> Reply:
    """Run one model call, passing its events on as they come."""
    reply: Reply | None = None
    async for event in ask(context.model, request, context.report):
        if isinstance(event, AnswerDelta | ThoughtDelta):
            event = event._replace(text=whole(event.text))
        context.report(event)
        if isinstance(event, Reply):
            reply = event
    if reply is None:
        raise ModelReplyError("The model sent no reply; try again.")
    return reply


async def route_entry(state: GraphState) -> Literal["create_plan", "decide_action", "execute_tool"]:
    """Return the first node: a new input is planned first, an observation continues its step."""
    messages = state["messages"]
    if unanswered_calls(messages):
        return "execute_tool"
    if messages and messages[-1].type == "human":
        return "create_plan"
    return "decide_action"


async def route_decision(state: GraphState) -> str:
    """After a model call: run its tool calls, or finish."""
    if state.get("failure") is not None:
        return END
    last = state["messages"][-1]
    if isinstance(last, AIMessage) and last.tool_calls:
        return "execute_tool"
    return "final_response"


async def route_observed(state: GraphState) -> str:
    """After tool calls: end while anything waits outside or the model ended, else think on."""
    if state.get("pending"):
        return END
    if read_end_statement(state["messages"]):
        return "final_response"
    return END if state.get("halt") else "decide_action"


# The budget in `may_continue` ends a turn; langgraph's own limit would be an error in its middle.
RECURSION_LIMIT = 1_000_000_000


@cache
def compile_graph() -> Any:
    """Return the graph, compiled once per process."""
    return _build(context=None)


def graph_with(context: ThinkContext) -> Any:
    """Return the same graph for a caller that gives it messages as JSON and no context.

    LangGraph's own tools do so, and keep the state of a thread between inputs: what an input left
    behind, such as its answer, is cleared when the next one begins.
    """
    return _build(replace(context, think=think))


def _build(context: ThinkContext | None) -> Any:
    graph: Any = StateGraph(GraphState, context_schema=ThinkContext if context is None else None)
    for node in (create_plan, decide_action, execute_tool):
        graph.add_node(node.__name__, node if context is None else _bound(node, context))
    graph.add_node("final_response", final_response)
    graph.add_conditional_edges(
        START, route_entry, ["create_plan", "decide_action", "execute_tool"]
    )
    for name in ("create_plan", "decide_action"):
        graph.add_conditional_edges(name, route_decision, ["execute_tool", "final_response", END])
    graph.add_conditional_edges(
        "execute_tool", route_observed, ["decide_action", "final_response", END]
    )
    graph.add_edge("final_response", END)
    return graph.compile(name="kogniterm")


_Node = Callable[[GraphState, Runtime[ThinkContext]], Awaitable[GraphState]]


def _bound(node: _Node, context: ThinkContext) -> _Node:
    """Return `node` with a context of its own, in whose update nothing is left of before."""

    async def run(state: GraphState, runtime: Runtime[ThinkContext]) -> GraphState:
        update: GraphState = {"pending": [], "answer": None, "failure": None, "halt": False}
        update.update(await node(state, runtime.override(context=context)))
        return update

    return run


async def think(
    messages: Sequence[BaseMessage], plan: Plan | None, context: ThinkContext
) -> AsyncIterator[NodeUpdate]:
    """Run the graph until it answers or waits for an action; yield what each node adds.

    Model calls, tools that ran inside and the work of sub-agents go to `context.report`. Cancel
    the task to stop it.
    """
    state: GraphState = {"messages": list(messages), "plan": plan, "pending": []}
    config = {"recursion_limit": RECURSION_LIMIT}
    # Sub-agents run through this same graph; handing it down keeps the imports one way.
    context = replace(context, think=think)
    stream = compile_graph().astream(state, config, context=context, stream_mode="updates")
    async for data in stream:
        for node, update in data.items():
            if update:
                yield node_update(node, update)


def node_update(node: str, update: Mapping[str, Any]) -> NodeUpdate:
    """Return a node's state update as the value that is journaled."""
    return NodeUpdate(
        node=node,
        messages=tuple(update.get("messages") or ()),
        plan=update.get("plan"),
        pending=tuple(update.get("pending") or ()),
        answer=update.get("answer"),
        usage=update.get("usage") or Usage(),
        failure=update.get("failure"),
    )
