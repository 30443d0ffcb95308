"""What flows through the graph: the state its nodes share and the context of one invocation."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypedDict

from langchain_core.messages import BaseMessage, SystemMessage

from kogniterm.agent.fitting import Window
from kogniterm.protocols import Model, Tool
from kogniterm.types import (
    ActionRequest,
    AgentState,
    ModelEvent,
    NodeUpdate,
    Plan,
    PlanMode,
    Text,
    ToolCalled,
    Usage,
)


class GraphState(TypedDict, total=False):
    """The session as the nodes see it. `messages` only ever grows."""

    messages: Annotated[list[BaseMessage], operator.add]
    plan: Plan | None
    pending: list[ActionRequest]
    answer: str | None
    usage: Usage
    failure: Text | None
    halt: bool


def _always_room(messages: Sequence[BaseMessage]) -> bool:
    return True


def _nothing_said(agent: str) -> Sequence[str]:
    return ()


Item = NodeUpdate | ModelEvent | ToolCalled | str
"""What a run of the graph reports: see `graph.think`."""

Think = Callable[[Sequence[BaseMessage], Plan | None, "ThinkContext"], AsyncIterator[Item]]


@dataclass(frozen=True, slots=True)
class ThinkContext:
    """The ports of one graph invocation.

    `may_continue` is asked before each model call, with who makes it (empty: the main agent):
    None to go on, or why the turn must stop.
    `new_id` makes action request ids, unique in the session. `clean` makes what a tool inside
    the graph returned fit to be kept and sent. `has_room` tells whether a history may grow on;
    when it may not the graph ends so that the runtime can compact it, and is entered again. With
    `plan_only` nothing that acts is offered or requested, by sub-agents neither, and the graph ends
    once a plan is made; with `review_plans` a plan leaves it as a request, to
    be approved like an action. `delegates` offers sub-agents, which cannot have any themselves;
    `think` is the graph they run through, and `agents` those already at work by the id of their
    call. In the context of a sub-agent `agent` is that id, and `agent_task` what it was asked to
    do, short. `said_meanwhile` gives an agent what the person said while the turn ran, until it
    is journaled. `window` is how long a request may be, which a refusal of the provider changes.
    """

    model: Model
    tools: Mapping[str, Tool]
    system: SystemMessage
    plan_mode: PlanMode
    may_continue: Callable[[str], Text | None]
    new_id: Callable[[], str]
    clean: Callable[[str], str] = str
    has_room: Callable[[Sequence[BaseMessage]], bool] = _always_room
    plan_only: bool = False
    review_plans: bool = False
    delegates: bool = False
    said_meanwhile: Callable[[str], Sequence[str]] = _nothing_said
    window: Window = field(default_factory=Window)
    think: Think | None = None
    agents: Mapping[str, AgentState] = field(default_factory=dict)
    agent: str = ""
    agent_task: str = ""
