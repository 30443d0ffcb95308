"""The one compiled graph, and the stream the runtime drives it by.

No checkpointer and no interrupt: the graph simply ends while an action request is pending, and
the journal is what survives. `think` enters it again with the observations in the state.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, StateGraph

from kogniterm.agent.graph_state import GraphState, Item, ThinkContext
from kogniterm.agent.messages import unanswered_calls
from kogniterm.agent.nodes import create_plan, decide_action, execute_tool, final_response
from kogniterm.types import NodeUpdate, Plan, Usage


def route_entry(state: GraphState) -> Literal["create_plan", "decide_action", "execute_tool"]:
    """First node: a new input is understood first; an observation goes on where it stopped."""
    messages = state["messages"]
    if unanswered_calls(messages):
        return "execute_tool"
    if messages and messages[-1].type == "human":
        return "create_plan"
    return "decide_action"


def route_decision(state: GraphState) -> str:
    """After a model call: run its tool calls, or finish."""
    if state.get("failure") is not None:
        return END
    last = state["messages"][-1]
    if isinstance(last, AIMessage) and last.tool_calls:
        return "execute_tool"
    return "final_response"


def route_observed(state: GraphState) -> str:
    """After tool calls: end while anything waits outside, else think on."""
    return END if state.get("pending") or state.get("halt") else "decide_action"


# Each model round is at most two graph steps; the budget in `may_continue` ends a turn long
# before this does.
RECURSION_LIMIT = 10_000


@cache
def compiled() -> Any:
    """The graph, compiled once per process."""
    graph = StateGraph(GraphState, context_schema=ThinkContext)
    graph.add_node("create_plan", create_plan)
    graph.add_node("decide_action", decide_action)
    graph.add_node("execute_tool", execute_tool)
    graph.add_node("final_response", final_response)
    graph.add_conditional_edges(
        START, route_entry, ["create_plan", "decide_action", "execute_tool"]
    )
    for node in ("create_plan", "decide_action"):
        graph.add_conditional_edges(node, route_decision, ["execute_tool", "final_response", END])
    graph.add_conditional_edges("execute_tool", route_observed, ["decide_action", END])
    graph.add_edge("final_response", END)
    return graph.compile(name="kogniterm")


async def think(
    messages: Sequence[BaseMessage], plan: Plan | None, context: ThinkContext
) -> AsyncIterator[Item]:
    """Run the graph until it answers or waits for an action.

    Yields node updates to be journaled, model events as they stream, tools that ran inside, and
    the purpose (a string) of each model call as it begins. Cancel the task to stop it.
    """
    state: GraphState = {"messages": list(messages), "plan": plan, "pending": []}
    config = {"recursion_limit": RECURSION_LIMIT}
    # Sub-agents run through this same graph; handing it down keeps the imports one way.
    context = replace(context, think=think)
    stream = compiled().astream(state, config, context=context, stream_mode=["updates", "custom"])
    async for mode, data in stream:
        if mode == "custom":
            yield data
            continue
        for node, update in data.items():
            if update:
                yield node_update(node, update)


def node_update(node: str, update: Mapping[str, Any]) -> NodeUpdate:
    """A node's state update as the value that is journaled."""
    return NodeUpdate(
        node=node,
        messages=tuple(update.get("messages") or ()),
        plan=update.get("plan"),
        pending=tuple(update.get("pending") or ()),
        answer=update.get("answer"),
        usage=update.get("usage") or Usage(),
        failure=update.get("failure"),
    )
