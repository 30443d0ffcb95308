"""The run of a recipe in a session: a turn of its own, with the same approval and journal.

Every command and every tool with effects becomes a tool call in the history and an action
request, so that crashes, refusals and undo work as in any other turn. What nodes request at the
same time is one message with several calls, settled together. What a model node says and hears is
journaled like a sub-agent's history.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

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
    TurnInterruptedError,
    UsageError,
)
from kogniterm.protocols import Tool
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.crash_recovery import recover
from kogniterm.runtime.turn import journal_agent, settle
from kogniterm.runtime.turn_end import cancel_open, end_turn, failed, interrupted
from kogniterm.runtime.turn_limits import limit_that_ends
from kogniterm.runtime.turn_ports import TurnIO, relay
from kogniterm.runtime.use_cases.recipe_threads import Thread, Threads
from kogniterm.sessions.records import InputReceived, NodeRan
from kogniterm.tools.calculator import calculator
from kogniterm.types import (
    ActionRequest,
    AgentState,
    Answer,
    CommandResult,
    Decision,
    EffectClass,
    ModelRequest,
    NodeUpdate,
    Phrase,
    Reply,
    ToolSpec,
    Usage,
    UserInput,
    events,
)
from kogniterm.types.turn_values import RECIPE_NODE

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
        await ports.stop()
        cancel_open(journal, "the user stopped the recipe")
        answer = interrupted(count)
    except OutcomeNotWrittenError:
        raise
    except TurnInterruptedError:
        await ports.stop()
        cancel_open(journal, "the user stopped the recipe")
        answer = interrupted(count)
    except KognitermError as error:
        await ports.settled()
        cancel_open(journal, "the recipe ended early")
        answer = failed(error, count)
    finally:
        ports.threads.close()
    said = AIMessage(answer.text or f"(The recipe ended: {answer.reason or answer.stop})")
    journal.record(NodeRan(NodeUpdate(RECIPE_NODE, (said,), answer=answer.text)))
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
    threads: Threads = field(init=False)
    _actions: _Actions = field(init=False)
    _agents: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.threads = Threads(self.session, self.count)
        self._actions = _Actions(self.session, self.io, self.count)

    async def stop(self) -> None:
        """End the actions that run, because the user stopped the recipe."""
        await self._actions.stop()

    async def settled(self) -> None:
        """Let the actions that run end."""
        await self._actions.settled()

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
            if effect == "none" and self.session.tools.holds_back(name, checked):
                effect = "read"
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

    async def ask(
        self, key: str, messages: Sequence[BaseMessage], tools: tuple[ToolSpec, ...]
    ) -> Reply:
        """Ask the session's model; counted and reported like any other call."""
        window, model = self.session.modes.window, self.session.modes.model
        attempt = 1
        while True:
            system = SystemMessage(prompts.text("recipe"))
            asked = fitted(system, messages, window.room(model.info, tools))
            try:
                return await self._ask(ModelRequest(asked, tools, "decide_action", agent=key))
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
        return reply

    def question(self, text: str) -> HumanMessage:
        """Return a question to the model, with secrets replaced."""
        return HumanMessage(self.session.journal.redact(text))

    def note(self, key: str, messages: Sequence[BaseMessage], usage: Usage) -> None:
        """Journal what a model node said and heard."""
        update = NodeUpdate(RECIPE_NODE, tuple(messages), usage=usage, agent=key)
        self.session.journal.record(NodeRan(update))

    @asynccontextmanager
    async def thread(self, name: str) -> AsyncIterator[Thread]:
        """Open the history called `name` for one node at a time."""
        thread = self.threads.open(name)
        async with thread.used:
            yield thread

    async def agent(
        self, key: str, task: str, tools: str, tokens: int | None, *, alone: bool
    ) -> NodeResult:
        """Delegate a task to a sub-agent, as the model would.

        Its call stands open in the history while it works `alone`. Otherwise other calls may come
        meanwhile, and it is added together with the answer.
        """
        await self._may_continue()
        arguments: dict[str, Any] = {"task": task, "tools": tools}
        if tokens is not None:
            arguments["tokens"] = tokens
        delegated, journal = parse_task(arguments), self.session.journal
        call_id = self._agent_id(key)
        call = {"name": DELEGATE.name, "args": arguments, "id": call_id, "type": "tool_call"}
        asked = (AIMessage("", tool_calls=[call]),)
        if alone:
            journal.record(NodeRan(NodeUpdate(RECIPE_NODE, asked)))
        result = await self._run_agent(call_id, delegated)
        while result.pending:
            await self._actions.settle(_Action(pending=result.pending))
            result = await self._run_agent(call_id, delegated)
        text, broken = journal.redact(result.text), result.status != "ok"
        answer = messages.tool_message(call_id, DELEGATE.name, text, failed=broken)
        told = (answer,) if alone else (*asked, answer)
        journal.record(NodeRan(NodeUpdate(RECIPE_NODE, told)))
        if broken:
            raise KognitermError("The recipe's sub-agent failed: {why}", why=text)
        return NodeResult(text)

    def _agent_id(self, key: str) -> str:
        """Return the id of a sub-agent's call: the same in another run of the recipe."""
        self._agents[key] += 1
        number = f"-{self._agents[key]}" if self._agents[key] > 1 else ""
        return f"recipe-{self.session.state.turn}-{key.replace('/', '-')}{number}"

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
        """Request an action as the model would, and return its outcome."""
        await self._may_continue()
        call_id = _call_id()
        call = {"name": tool, "args": dict(arguments), "id": call_id, "type": "tool_call"}
        request = ActionRequest(
            self.session.journal.new_id(),
            call_id,
            tool,
            line,
            purpose,
            dict(arguments),
            effect,
            detail,
        )
        await self._actions.settle(_Action(call, (request,)))
        return self._actions.result(call_id)


def _call_id() -> str:
    return f"recipe_{uuid4().hex[:12]}"


JOINING = 30
"""Turns of the event loop for which requests are gathered, so that nodes which are ready at the
same time ask together, and nodes that are cancelled ask no more."""


@dataclass(frozen=True, slots=True, eq=False)
class _Action:
    """The requests of one node: of a call of its own, or of the sub-agent it runs."""

    call: Mapping[str, Any] | None = None
    pending: tuple[ActionRequest, ...] = ()


class _Actions:
    """The actions of a recipe's nodes: one batch after the other is settled by the runtime."""

    def __init__(self, session: LiveSession, io: TurnIO, count: TurnCount) -> None:
        self._session = session
        self._count = count
        self._sink = io.sink
        self._io = replace(io, sink=self._tell)
        self._waiting: list[_Action] = []
        self._next: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._over: Phrase | None = None
        self._calls: dict[str, str] = {}
        self._results: dict[str, CommandResult] = {}
        self._decisions: dict[str, Decision] = {}

    async def settle(self, action: _Action) -> None:
        """Request and settle an action, with those of other nodes that ask at the same time."""
        self._waiting.append(action)
        if self._next is None:
            self._next = asyncio.create_task(self._settle_next(self._running))
        batch = self._next
        try:
            await asyncio.shield(batch)
        except asyncio.CancelledError:
            if action in self._waiting:
                self._waiting.remove(action)
            if batch.cancelled():
                raise TurnInterruptedError("The turn was stopped.") from None
            raise

    async def _settle_next(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        for _ in range(JOINING):
            await asyncio.sleep(0)
        batch, self._waiting = self._waiting, []
        self._running, self._next = self._next, None
        if not batch:
            return
        calls = [dict(one.call) for one in batch if one.call is not None]
        said = (AIMessage("", tool_calls=calls),) if calls else ()
        pending = tuple(request for one in batch for request in one.pending)
        self._session.journal.record(NodeRan(NodeUpdate(RECIPE_NODE, said, pending=pending)))
        self._over = await settle(self._session.services, self._io, self._count)

    def _tell(self, event: events.Event) -> None:
        if isinstance(event, events.ActionProposed):
            self._calls[event.request.id] = event.request.call_id
        elif isinstance(event, events.ActionDecided):
            self._decisions[event.request.call_id] = event.decision
        elif isinstance(event, events.CommandEnded) and event.request_id in self._calls:
            self._results[self._calls[event.request_id]] = event.result
        self._sink(event)

    def result(self, call_id: str) -> NodeResult:
        """Return how a settled call ended. Raises `RefusedError` and `BudgetError`."""
        decision, ran = self._decisions.get(call_id), self._results.get(call_id)
        if decision is not None and decision.kind == "reject":
            raise RefusedError("An action was refused: {why}", why=decision.why)
        if ran is not None:
            return NodeResult(ran.text, ran.exit_code)
        answered = reversed(self._session.state.messages)
        answer = next((m for m in answered if getattr(m, "tool_call_id", "") == call_id), None)
        if not isinstance(answer, ToolMessage) and self._over is not None:
            raise BudgetError(self._over.template, **dict(self._over.values))
        if not isinstance(answer, ToolMessage) or call_id not in self._decisions:
            raise RefusedError("An earlier action of the recipe was refused.")
        return NodeResult(clip(answer.text, 100_000), int(answer.status == "error"))

    async def settled(self) -> None:
        """Wait until the batch that runs has ended."""
        if tasks := [task for task in (self._running, self._next) if task is not None]:
            await asyncio.wait(tasks)

    async def stop(self) -> None:
        """Cancel what runs, and wait until it has ended."""
        for task in (self._running, self._next):
            if task is not None:
                task.cancel()
        await self.settled()
