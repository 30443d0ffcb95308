"""The run of a recipe in a session: a turn of its own, with the same approval and journal.

Every command and every tool with effects becomes a tool call in the history and an action
request, so that crashes, refusals and undo work as in any other turn.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent import messages
from kogniterm.agent.compaction import clip, fitted
from kogniterm.agent.graph import think
from kogniterm.agent.graph_state import Item
from kogniterm.agent.recipe_graph import NodeResult, checked_inputs, run_recipe
from kogniterm.agent.recipe_schema import Recipe
from kogniterm.agent.replies import MAX_UNUSABLE
from kogniterm.agent.subagent import DELEGATE, Result, SubAgent, Task, parse_task
from kogniterm.errors import (
    BudgetError,
    ContextOverflowError,
    KognitermError,
    OutcomeNotWrittenError,
    RefusedError,
    ToolError,
    UsageError,
)
from kogniterm.protocols import Tool
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.crash_recovery import recover
from kogniterm.runtime.turn import journal_agent, settle
from kogniterm.runtime.turn_end import cancel_open, end_turn, failed, interrupted
from kogniterm.runtime.turn_limits import limit_that_ends
from kogniterm.runtime.turn_ports import TurnIO, relay
from kogniterm.sessions.records import InputReceived, NodeRan
from kogniterm.tools.calculator import calculator
from kogniterm.types import (
    ActionRequest,
    AgentState,
    Answer,
    EffectClass,
    ModelRequest,
    NodeUpdate,
    Reply,
    ToolSpec,
    UserInput,
    events,
)

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession

COMMAND = "execute_command"


async def run_in_session(
    session: LiveSession, recipe: Recipe, inputs: Mapping[str, Any], io: TurnIO
) -> Answer:
    """Run `recipe` as one turn. Cancel the task to stop it.

    Raises `UsageError` for wrong inputs and where only a plan is wanted, before anything is
    recorded.
    """
    services, journal = session.services, session.journal
    if services.only_plans or session.modes.in_plan_mode:
        raise UsageError("A recipe cannot be run with --plan-only or in plan mode.")
    values = checked_inputs(recipe, inputs)
    count = services.new_count()
    await recover(journal, io, count)
    cancel_open(journal, "the user continued with a recipe")
    _begin(session, recipe, values, io)
    ports = SessionRecipePorts(session, io, count)
    try:
        outputs = await run_recipe(recipe, values, ports)
        answer = Answer(_shown(outputs), usage=count.usage)
    except asyncio.CancelledError:
        cancel_open(journal, "the user stopped the recipe")
        answer = interrupted(count)
    except OutcomeNotWrittenError:
        raise
    except KognitermError as error:
        cancel_open(journal, "the recipe ended early")
        answer = failed(error, count)
    said = AIMessage(answer.text or f"(The recipe ended: {answer.reason or answer.stop})")
    journal.record(NodeRan(NodeUpdate("recipe", (said,), answer=answer.text)))
    return end_turn(journal, answer, io)


def _begin(session: LiveSession, recipe: Recipe, values: Mapping[str, Any], io: TurnIO) -> None:
    given = " ".join(f"{name}={value}" for name, value in values.items())
    text = f"Run the recipe {recipe.name} {given}".strip()
    clean = session.journal.redact_input(UserInput(text, source="run"))
    turn = session.state.turn + 1
    session.journal.record(
        InputReceived(turn, clean, messages.human_message(clean, "never")), durable=True
    )
    io.sink(
        events.TurnStarted(session.id, turn, session.modes.model.info.name, session.executor.cwd)
    )


def _shown(outputs: Mapping[str, Any]) -> str:
    """Return the outputs for the user: one alone as it is, several by name."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in outputs.items()
    }
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"{name}: {text}" for name, text in texts.items())


@dataclass(slots=True)
class SessionRecipePorts:
    """The ports of a recipe that runs in a session; see `RecipePorts`."""

    session: LiveSession
    io: TurnIO
    count: TurnCount
    extra: Mapping[str, Tool] = field(
        default_factory=lambda: {tool.spec.name: tool for tool in (calculator(),)}
    )

    async def command(self, command: str, purpose: str) -> NodeResult:
        """Run a command, once it is approved."""
        return await self._act(
            COMMAND, {"command": command, "purpose": purpose}, command, purpose, "command"
        )

    async def tool(self, name: str, arguments: Mapping[str, Any]) -> NodeResult:
        """Call a tool; its `ToolError` is a failure of the node."""
        if name == COMMAND:
            raise UsageError("A tool node cannot run commands; use a command node instead.")
        tool = self.session.context.tools.get(name) or self.extra.get(name)
        if tool is None:
            raise UsageError("The recipe uses the tool {name}, which is not available.", name=name)
        try:
            checked = tool.check(arguments)
            effect = tool.effect_of(checked)
            if effect != "none":
                line, purpose = tool.describe(checked)
                return await self._act(name, checked, line, purpose, effect, tool.detail(checked))
            await self._may_continue()
            text, code = self.session.journal.redact((await tool.run(checked)).text), 0
        except ToolError as error:
            text, code = str(error), 1
        shown = json.dumps(dict(arguments), ensure_ascii=False, default=str)
        self.io.sink(events.ToolRan(name, self.session.journal.redact(shown), text, code != 0))
        return NodeResult(text, code)

    async def ask(self, history: Sequence[BaseMessage], tools: tuple[ToolSpec, ...]) -> Reply:
        """Ask the session's model; counted and reported like any other call."""
        window, model = self.session.modes.window, self.session.modes.model
        attempt = 1
        while True:
            system = SystemMessage(prompts.text("recipe"))
            asked = fitted(system, history, window.room(model.info, tools))
            try:
                return await self._ask(ModelRequest(asked, tools, "decide_action"))
            except ContextOverflowError:
                if attempt == MAX_UNUSABLE:
                    raise
                window.refuse(asked, tools)
                attempt += 1

    async def _ask(self, request: ModelRequest) -> Reply:
        await self._may_continue()
        relay(request.purpose, self.io.sink, self.count)
        reply: Reply | None = None
        async for event in self.session.modes.model.stream(request):
            if isinstance(event, Reply):
                reply = event
                relay(event, self.io.sink, self.count)
        assert reply is not None
        self.session.journal.record(NodeRan(NodeUpdate("recipe", usage=reply.usage)))
        return reply

    async def agent(self, task: str, tools: str, tokens: int | None) -> NodeResult:
        """Delegate a task to a sub-agent, as the model would."""
        await self._may_continue()
        arguments: dict[str, Any] = {"task": task, "tools": tools}
        if tokens is not None:
            arguments["tokens"] = tokens
        delegated, key, session = parse_task(arguments), _call_id(), self.session
        call = {"name": DELEGATE.name, "args": arguments, "id": key, "type": "tool_call"}
        session.journal.record(NodeRan(NodeUpdate("recipe", (AIMessage("", tool_calls=[call]),))))
        result = await self._run_agent(key, delegated)
        while result.pending:
            session.journal.record(NodeRan(NodeUpdate("recipe", pending=result.pending)))
            await settle(session.services, self.io, self.count)
            result = await self._run_agent(key, delegated)
        text, broken = session.journal.redact(result.text), result.status != "ok"
        answer = messages.tool_message(key, DELEGATE.name, text, failed=broken)
        session.journal.record(NodeRan(NodeUpdate("recipe", (answer,))))
        if broken:
            raise KognitermError("The recipe's sub-agent failed: {why}", why=text)
        return NodeResult(text)

    async def _run_agent(self, key: str, task: Task) -> Result:
        context = replace(self.session.context.think_context(self.io, self.count), think=think)
        begun = self.session.state.agents.get(key, AgentState())
        return await SubAgent(key, task, context, self._take, begun).run()

    def _take(self, item: Item) -> None:
        if isinstance(item, NodeUpdate):
            journal_agent(self.session.journal, item, self.io)
        else:
            relay(item, self.io.sink, self.count)

    async def _may_continue(self) -> None:
        stop = await limit_that_ends(self.session.journal, self.io, self.count)
        if stop is not None:
            raise BudgetError(stop.template, **dict(stop.values))

    async def _act(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        line: str,
        purpose: str,
        effect: EffectClass,
        detail: str = "",
    ) -> NodeResult:
        """Request an action as the model would, settle the request, and read its outcome."""
        await self._may_continue()
        session, call_id, refused = self.session, _call_id(), len(self.count.refused)
        call = {"name": tool, "args": dict(arguments), "id": call_id, "type": "tool_call"}
        request = ActionRequest(
            session.journal.new_id(), call_id, tool, line, purpose, dict(arguments), effect, detail
        )
        message = AIMessage("", tool_calls=[call])
        session.journal.record(NodeRan(NodeUpdate("recipe", (message,), pending=(request,))))
        watched = _Watched(self.io)
        await settle(session.services, watched.io, self.count)
        if len(self.count.refused) > refused:
            raise RefusedError("An action was refused: {why}", why=self.count.refused[-1][0])
        if watched.text is not None:
            return NodeResult(watched.text, watched.exit_code)
        observed = session.state.messages[-1]
        failed_ = isinstance(observed, ToolMessage) and observed.status == "error"
        return NodeResult(clip(observed.text, 100_000), 1 if failed_ else 0)


def _call_id() -> str:
    return f"recipe_{uuid4().hex[:12]}"


class _Watched:
    """A `TurnIO` that also keeps the command's result, without the notes to the model."""

    def __init__(self, io: TurnIO) -> None:
        self.text: str | None = None
        self.exit_code: int | None = None
        self._sink = io.sink
        self.io = replace(io, sink=self._tell)

    def _tell(self, event: events.Event) -> None:
        if isinstance(event, events.CommandEnded):
            self.text, self.exit_code = event.result.text, event.result.exit_code
        self._sink(event)
