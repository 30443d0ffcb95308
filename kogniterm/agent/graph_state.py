"""The state that the graph's nodes share, and the context of one invocation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from langchain_core.messages import (
    BaseMessage,
    MessageLikeRepresentation,
    SystemMessage,
    convert_to_messages,
)
from typing_extensions import TypedDict

from kogniterm.agent.compaction import Window
from kogniterm.agent.plan.plan_parse import CheckProblem
from kogniterm.protocols import Model, Tool
from kogniterm.types import (
    ActionRequest,
    AgentState,
    ModelAsked,
    ModelEvent,
    ModelFailed,
    NodeUpdate,
    Phrase,
    Plan,
    PlanMode,
    ToolRan,
    Usage,
)


def _append_messages(
    before: Sequence[BaseMessage], new: Sequence[MessageLikeRepresentation]
) -> list[BaseMessage]:
    """Return the messages with `new` at the end, which LangGraph's own tools give as JSON."""
    if all(isinstance(one, BaseMessage) for one in new):
        return [*before, *cast("Sequence[BaseMessage]", new)]  # converting loads more libraries
    return [*before, *convert_to_messages(new)]


class GraphState(TypedDict, total=False):
    """The session as the nodes see it. `messages` only ever grows."""

    messages: Annotated[list[BaseMessage], _append_messages]
    plan: Plan | None
    pending: list[ActionRequest]
    answer: str | None
    usage: Usage
    failure: Phrase | None
    halt: bool


async def _may_begin(call_id: str, arguments: Mapping[str, Any]) -> None:
    return None


async def _may_end(agent: str, answer: str) -> None:
    del agent, answer


@dataclass(frozen=True, slots=True)
class NamedAgent:
    """A sub-agent of the user or of a project: its instructions, its tools and its limits.

    `tools` are names of tools, of which it gets those that the session offers. `open_model` opens
    its own model; without it, it has that of the session. `off` is why it cannot be used any more.
    """

    name: str
    description: str
    instructions: str
    tools: tuple[str, ...]
    tokens: int | None = None
    rounds: int | None = None
    open_model: Callable[[], Model] | None = None
    off: Phrase | None = None


Item = NodeUpdate | ModelEvent | ToolRan | ModelAsked | ModelFailed
"""A report of a run of the graph; node updates are those of sub-agents."""

Think = Callable[[Sequence[BaseMessage], Plan | None, "ThinkContext"], AsyncIterator[NodeUpdate]]


@dataclass(frozen=True, slots=True)
class ThinkContext:
    """The ports and modes of one graph invocation."""

    model: Model
    tools: Mapping[str, Tool]
    system: SystemMessage
    plan_mode: PlanMode
    may_continue: Callable[[str], Awaitable[Phrase | None]]
    """Asked before each model call, with the agent that makes it: why the turn must stop."""
    new_id: Callable[[], str]
    """Make the id of an action request, unique in the session."""
    report: Callable[[Item], None] = lambda item: None
    """Takes what happens in a node as it happens."""
    clean: Callable[[str], str] = str
    """Make what a tool inside the graph returned fit to be kept and sent."""
    has_room: Callable[[Sequence[BaseMessage]], bool] = lambda messages: True
    """A check of whether a history may grow; if not, the graph ends to have it compacted."""
    plan_only: bool = False
    """Offer and request nothing that acts, and end once a plan is made."""
    review_plans: Callable[[], bool] = lambda: False
    """Asked at each plan whether it leaves the graph as a request, to be approved like an action.
    The mode that decides this may change while the graph runs."""
    hidden: Collection[str] = ()
    """Tools of plans that are switched off, and not offered."""
    refusal: Callable[[str], Phrase | None] = lambda tool: None
    """Asked at each call: why the tool of this name is switched off."""
    held_back: Callable[[str, Mapping[str, Any]], bool] = lambda tool, arguments: False
    """Asked at each call without an effect: whether a rule decides on it, outside of the graph."""
    placeholder: Callable[[str], str] = lambda text: ""
    """Finds the first placeholder of a secret in a text; empty without one."""
    redirect: Callable[[str, Mapping[str, Any]], tuple[Tool, Mapping[str, Any]] | None] = (
        lambda tool, arguments: None
    )
    """Asked at each call: the tool that it stands for, and that tool's arguments."""
    delegates: bool = False
    """Offer sub-agents, which cannot have any themselves."""
    said_meanwhile: Callable[[str], Sequence[str]] = lambda agent: ()
    """Gives what the user said to an agent while the turn ran, until it is journaled."""
    instructions_due: Callable[[str, Sequence[BaseMessage]], Sequence[BaseMessage]] = (
        lambda agent, messages: ()
    )
    """Gives the notes with instructions of folders that an agent's history shows it at work in."""
    may_begin: Callable[[str, Mapping[str, Any]], Awaitable[str | None]] = _may_begin
    """Asked before a sub-agent begins, with its call's ID and arguments: why it may not."""
    goes_on: Callable[[str, str], Awaitable[str | None]] = _may_end
    """Asked at the answer of an agent: what it is told so that it goes on, None where it ends."""
    window: Window = field(default_factory=Window)
    """The length a request may have, which a refusal of the provider changes."""
    language: Callable[[], str] = str
    """Gives the language of answers by its code; empty for that of the input."""
    think: Think | None = None
    """The graph that sub-agents run through."""
    agents: Mapping[str, AgentState] = field(default_factory=dict)
    """The sub-agents already at work, by the id of their call."""
    agent: str = ""
    """The id of the call whose sub-agent this is; empty: the main agent."""
    agent_task: str = ""
    """The sub-agent's task, short."""
    agent_name: str = ""
    """The sub-agent's name, where it has one."""
    catalogues: Callable[[Collection[str]], Sequence[str]] = lambda tools: ()
    """Gives a sub-agent with these tools the catalogues of use to it; the main agent has all."""
    named: Mapping[str, NamedAgent] = field(default_factory=dict)
    """The sub-agents of the user and the project, by name; fixed for a session."""
    writes: tuple[str, ...] = ()
    """The paths that a sub-agent may edit, if its step declares them."""
    lookup: Callable[[str], str | None] = lambda name: None
    """Gives the value of a reference in a plan that is no step's; None where there is none."""
    check_problem: CheckProblem | None = None
    """Finds why the check of a plan step proves nothing; None if it does."""
    at_once: int = 16
    """Calls of one reply that may run at the same time; 1: one after the other."""
