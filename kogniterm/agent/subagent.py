"""Sub-agents: a task of its own for a nested graph, which returns a result and no history.

A sub-agent has its own small history in the session's journal, a chosen set of tools and a
budget. What it wants to do to the world leaves the outer graph like any other action request;
the graph ends with it pending, and the sub-agent goes on from its journaled history when the
graph is entered again. Those that only read run side by side, and so do others whose plan steps
declare different paths. None has sub-agents of its own; one that may act can make a plan of its
own, which stays in its history.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent.compaction import Window
from kogniterm.agent.graph_state import Item, NamedAgent, ThinkContext
from kogniterm.agent.messages import ImageBlock, artifact_of, last_ai
from kogniterm.agent.plan.plan_steps import ACTING, EDITING, READING, RUNNING, TOOL_SETS
from kogniterm.errors import KognitermError, StorageError, ToolError
from kogniterm.protocols import Model, Tool
from kogniterm.text.shorten import gist, head_and_tail
from kogniterm.types import (
    CALL_TOOL,
    USE_SKILL,
    ActionRequest,
    AgentState,
    ModelAsked,
    ModelFailed,
    NodeUpdate,
    Phrase,
    PlanStep,
    Reply,
    ToolRan,
    ToolSpec,
    Usage,
)

DEFAULT_TOKENS: Mapping[str, int] = {
    kind: 1_000_000 if kind in ACTING else 300_000 for kind in TOOL_SETS
}
MAX_DEFAULT = 1_000_000
MAX_TOKENS = 4_000_000
MAX_ROUNDS = 200
MAX_RESULT = 6_000
"""Characters of a result; the main history must stay small."""

ANY = "any"
"""The kind of a sub-agent that has tools of its own."""
NO_NAMED: Mapping[str, NamedAgent] = {}

SHORT_TASK = 80
"""Characters of a task where only its gist is shown."""

DELEGATE = ToolSpec(
    name="delegate",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "task": {"type": "string"},
            "tools": {"type": "string", "enum": list(TOOL_SETS)},
            "tokens": {"type": "integer"},
            "step": {"type": "string"},
        },
        "required": ["task"],
    },
)


def delegate_spec(named: Mapping[str, NamedAgent]) -> ToolSpec:
    """Return `delegate` as the model sees it, with the sub-agents that have a name."""
    spec = prompts.describe_tool(DELEGATE)
    if not named:
        return spec
    listed = "\n".join(f"- {one.name}: {one.description}" for one in named.values())
    told = f"{spec.description}\n\n{prompts.text('subagent.named', agents=listed)}"
    properties = {**spec.parameters["properties"]}
    properties["agent"] = {"type": "string", "enum": list(named)}
    return spec._replace(description=told, parameters={**spec.parameters, "properties": properties})


class DelegatedTask(NamedTuple):
    """A checked `delegate` call.

    `step` is the step of a plan that it does, `agent` the sub-agent with a name that does it.
    """

    text: str
    kind: str
    tokens: int
    step: PlanStep | None = None
    agent: NamedAgent | None = None

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the tools it may use: of its kind, and if its step names tools, only those.

        A sub-agent with a name has its own tools, of which a kind takes only the ones it knows.
        """
        wanted = self.step.tools if self.step is not None else ()
        whole = TOOL_SETS.get(self.kind, ())
        if self.agent is not None:
            whole = tuple(n for n in self.agent.tools if self.kind == ANY or n in whole)
        return tuple(name for name in whole if not wanted or name in wanted)

    @property
    def acting(self) -> bool:
        """Return whether it may change something."""
        if self.agent is None:
            return self.kind in ACTING
        return not set(self.tools) <= {*READING, USE_SKILL}

    @property
    def rounds(self) -> int:
        """Return how often it may ask the model."""
        own = self.agent.rounds if self.agent is not None else None
        return min(own or MAX_ROUNDS, MAX_ROUNDS)

    def own_model(self) -> Model | None:
        """Return its own model; None where it has that of the session. Raises `KognitermError`."""
        opened = self.agent.open_model if self.agent is not None else None
        return opened() if opened is not None else None

    @property
    def short(self) -> str:
        """Return its gist in one line, for the screen."""
        return gist(self.text, SHORT_TASK)


class Result(NamedTuple):
    """A sub-agent's findings, or why there are none; or the requests it waits for, without an end.

    `proof` is what its last action left as evidence, as in the artifact of a `ToolMessage`.
    """

    text: str = ""
    status: Literal["ok", "failed", "malformed"] = "ok"
    pending: tuple[ActionRequest, ...] = ()
    proof: Mapping[str, Any] | None = None


def parse_task(
    arguments: Mapping[str, Any],
    step: PlanStep | None = None,
    named: Mapping[str, NamedAgent] = NO_NAMED,
) -> DelegatedTask:
    """Return the task in a `delegate` call. Raises `ToolError` that says what is wrong."""
    text = arguments.get("task")
    if not isinstance(text, str) or not text.strip():
        raise ToolError("delegate needs a task: all that the sub-agent needs to know.")
    unknown = set(arguments) - {"task", "tools", "tokens", "step", "agent"}
    if unknown:
        raise ToolError(
            "Unknown arguments for delegate: {names}; use {known}.",
            names=", ".join(sorted(unknown)),
            known=", ".join(("task", "tools", "tokens", "step", *(["agent"] if named else []))),
        )
    agent = _find_agent(arguments, step, named)
    kind = arguments.get("tools") or ANY if agent is not None else kind_of(arguments, step)
    if kind not in TOOL_SETS and kind != ANY:
        raise ToolError("tools must be one of: {names}.", names=", ".join(TOOL_SETS))
    most = agent.tokens if agent is not None else None
    tokens = arguments.get("tokens", most or DEFAULT_TOKENS.get(kind, MAX_DEFAULT))
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not 0 < tokens <= MAX_TOKENS:
        raise ToolError("tokens must be a whole number from 1 to {most}.", most=MAX_TOKENS)
    if not isinstance(arguments.get("step", ""), str):
        raise ToolError("step must be the id of a plan step.")
    task = DelegatedTask(text.strip(), kind, min(tokens, most or tokens), step, agent)
    if not task.tools and (agent is None or agent.tools):
        raise ToolError(
            "{id} allows no tool of {kind}; use other tools, or change the plan with make_plan.",
            id=step.id if step is not None else "",
            kind=kind,
        )
    return task


def _find_agent(
    arguments: Mapping[str, Any], step: PlanStep | None, named: Mapping[str, NamedAgent]
) -> NamedAgent | None:
    """Return the sub-agent with a name that a call or its step asks for. Raises `ToolError`."""
    name = str(arguments.get("agent") or (step.delegate if step is not None else "") or "")
    if name in named:
        agent = named[name]
        if agent.off is not None:
            raise ToolError(
                "The sub-agent {name} cannot be used: {why}", name=agent.name, why=agent.off
            )
        return agent
    if name and name not in TOOL_SETS:
        raise ToolError(
            "There is no sub-agent {name}; use one of: {names}.",
            name=name,
            names=", ".join((*named, *TOOL_SETS)),
        )
    return None


def kind_of(arguments: Mapping[str, Any], step: PlanStep | None) -> Any:
    """Return the kind of sub-agent asked for; without one, that of the step, or one that reads."""
    return arguments.get("tools") or (step.delegate if step is not None else None) or "read"


def acts(
    arguments: Mapping[str, Any],
    step: PlanStep | None,
    named: Mapping[str, NamedAgent] = NO_NAMED,
) -> bool:
    """Return whether the sub-agent asked for could change something."""
    try:
        return parse_task({**arguments, "task": "-"}, step, named).acting
    except ToolError:
        return kind_of(arguments, step) in ACTING


async def run_sub_agent(
    call: Mapping[str, Any], step: PlanStep | None, inputs: Sequence[str], context: ThinkContext
) -> Result:
    """Start or go on with the sub-agent of `call`, with the `inputs` of the step that it does."""
    try:
        task = parse_task(call["args"], step, context.named)
        model = task.own_model()
    except ToolError as error:
        return Result(str(error), "malformed")
    except KognitermError as error:
        return Result(f"The sub-agent could not begin: {error}", "failed")
    key = str(call["id"])
    begun = context.agents.get(key, AgentState())
    agent = SubAgent(key, task, context, begun, tuple(inputs), model)
    # A context of its own: the nested graph must not take the outer node's stream for its own.
    running = asyncio.create_task(agent.run(), context=contextvars.Context())
    try:
        return await running
    except asyncio.CancelledError:
        running.cancel()
        raise


@dataclass(slots=True)
class SubAgent:
    """One task on its way through a graph of its own.

    `state` is how far it has come. `context` is that of the agent which handed the task over, and
    is reported what it adds and costs; `inputs` is what its step uses.
    """

    key: str
    task: DelegatedTask
    context: ThinkContext
    state: AgentState = field(default_factory=AgentState)
    inputs: tuple[str, ...] = ()
    model: Model | None = None
    """A model of its own."""
    images: tuple[ImageBlock, ...] = ()
    """The images that the user gives with the task."""
    _unbooked: Usage = field(default_factory=Usage)

    async def run(self) -> Result:
        """Work until there is an end, or an action to wait for."""
        if not self.state.messages:
            given = "\n".join(self.inputs)
            text = f"{self.task.text}\n\n{given}" if given else self.task.text
            shown: Any = [{"type": "text", "text": text}, *self.images] if self.images else text
            self._add(NodeUpdate(DELEGATE.name, (HumanMessage(shown),), agent_name=self._name))
        if not has_ended(self.state):
            try:
                pending = await self._think()
            except StorageError:  # its journal takes no more, so it has no end there either
                raise
            except KognitermError as error:
                self._add(NodeUpdate(DELEGATE.name, failure=error.text))
            else:
                if pending:
                    return Result(pending=pending)
        return result_of(self.state)

    @property
    def _name(self) -> str:
        return self.task.agent.name if self.task.agent is not None else ""

    @property
    def _priced_as(self) -> str:
        """Return the name of its model, where it has another than the session."""
        own = self.model.info.name if self.model is not None else ""
        return own if own != self.context.model.info.name else ""

    async def _think(self) -> tuple[ActionRequest, ...]:
        """Let the nested graph run to its end: what waits outside of it then."""
        think = self.context.think
        assert think is not None, "sub-agents are offered only where there is a graph for them"
        pending: tuple[ActionRequest, ...] = ()
        async for update in think(self.state.messages, self.state.plan, self._context()):
            pending = update.pending
            self._add(update)
        return pending

    def _report(self, item: Item) -> None:
        """Pass on what the nested graph reports; its words are not shown as they come."""
        if isinstance(item, Reply):
            self._unbooked += item.usage
            self.context.report(item._replace(model=self._priced_as))
        elif isinstance(item, ToolRan):
            self.context.report(item._replace(agent=self.key))
        elif isinstance(item, ModelAsked | ModelFailed):
            self.context.report(item)

    def _context(self) -> ThinkContext:
        found = ((name, self._tool(name)) for name in self.task.tools)
        tools = {name: tool for name, tool in found if tool is not None}
        acting, step = self.task.acting, self.task.step
        planned = acting and self.context.plan_mode != "never"
        system = prompts.text(f"subagent.{'acting' if acting else 'reading'}")
        if self.task.agent is not None:
            system = f"{system}\n\n{self.task.agent.instructions}"
        system = "\n\n".join((system, *self.context.catalogues(tools)))
        other = self.model is not None and self.model is not self.context.model
        return replace(
            self.context,
            model=self.model or self.context.model,
            window=Window() if other else self.context.window,
            tools=tools,
            system=SystemMessage(system),
            plan_mode="auto" if planned else "never",
            may_continue=self._may_continue,
            report=self._report,
            review_plans=lambda: False,
            delegates=False,
            has_room=lambda _: True,
            agents={},
            agent=self.key,
            agent_task=self.task.short,
            agent_name=self._name,
            named={},
            writes=step.writes if step is not None else (),
        )

    def _tool(self, name: str) -> Tool | None:
        """Return a tool of the session, also one that is only found and called by its name."""
        if name in self.context.tools:
            return self.context.tools[name]
        try:
            target = self.context.redirect(CALL_TOOL, {"tool": name})
        except ToolError:
            return None
        return target[0] if target is not None else None

    async def _may_continue(self, agent: str) -> Phrase | None:
        stop = await self.context.may_continue(agent)
        if stop is not None:
            return stop
        used = self.state.usage + self._unbooked
        if used.input + used.output >= self.task.tokens:
            return Phrase("Its limit of {tokens} tokens is reached.", {"tokens": self.task.tokens})
        if used.calls >= self.task.rounds:
            return Phrase("Its limit of {rounds} rounds is reached.", {"rounds": self.task.rounds})
        return None

    def _add(self, update: NodeUpdate) -> None:
        """Put a node's messages into its history, here and in the journal.

        What waits outside is not part of it: the outer graph ends with that, in call order.
        """
        if not update.messages and update.failure is None:
            return
        self._unbooked = Usage()
        made = update.plan if update.plan != self.state.plan else None
        self.state = self.state.grow(update.messages, update.usage, update.failure, made)
        mine = replace(update, agent=self.key, pending=(), plan=None, answer=None, own_plan=made)
        self.context.report(replace(mine, model=self._priced_as))


def has_ended(state: AgentState) -> bool:
    """Return whether it answered or was given up, so that only its result is left to be told."""
    last = state.messages[-1] if state.messages else None
    return state.failure is not None or (isinstance(last, AIMessage) and not last.tool_calls)


def result_of(state: AgentState) -> Result:
    """Return the result of a sub-agent that has ended: its answer, or its findings until then."""
    last = last_ai(state.messages)
    said = last.text.strip() if last is not None else ""
    if state.failure is None:
        return Result(head_and_tail(said, MAX_RESULT), proof=_proof(state.messages))
    found = f"\nSo far: {head_and_tail(said, MAX_RESULT)}" if said else ""
    did = actions_done(state)
    return Result(f"The sub-agent did not finish: {state.failure}{found}{did}", "failed")


def _proof(messages: Sequence[BaseMessage]) -> Mapping[str, Any] | None:
    used = [m for m in reversed(messages) if isinstance(m, ToolMessage)]
    for message in (*(m for m in used if m.name in (*EDITING, *RUNNING)), *used):
        artifact = artifact_of(message)
        if artifact.get("request_id"):
            kept = ("request_id", "exit_code", "command", "masked")
            return {key: artifact[key] for key in kept if key in artifact}
    return None


def actions_done(state: AgentState) -> str:
    """Return its changes, a line each, for an end that its own words do not mention."""
    calls: dict[str, str] = {}
    lines: list[str] = []
    for message in state.messages:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                shown = call["args"].get("command") or call["args"].get("path") or call["args"]
                calls[str(call["id"])] = head_and_tail(f"{call['name']}: {shown}", 300)
        elif isinstance(message, ToolMessage) and message.name in (*EDITING, *RUNNING):
            ended = head_and_tail(message.text.strip(), 200)
            lines.append(f"- {calls.get(message.tool_call_id, message.name)} -> {ended}")
    return "\nWhat it did:\n" + head_and_tail("\n".join(lines), MAX_RESULT) if lines else ""
