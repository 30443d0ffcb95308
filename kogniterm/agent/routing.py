"""Where the graph goes next, decided from the state alone."""

from __future__ import annotations

from typing import Literal

from langchain_core.messages import AIMessage
from langgraph.graph import END

from kogniterm.agent.messages import unanswered_calls
from kogniterm.agent.state import GraphState


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
