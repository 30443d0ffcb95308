"""The run of a recipe in a session: a turn of its own, with the same approval and journal.

Every command and every tool with effects becomes a tool call in the history and an action
request, so that crashes, refusals and undo work as in any other turn. What nodes request at the
same time is one message with several calls, settled together. What a model node says and hears is
journaled like a sub-agent's history.

The journal has all that an interrupted recipe needs to continue: the recipe with its inputs, and
the result of every action under an id that is made of the turn and the node. A node whose result is
there does not run again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm import prompts
from kogniterm.addons.recipes.calculator import calculator
from kogniterm.addons.recipes.recipe_graph import NodeResult, checked_inputs, run_recipe
from kogniterm.addons.recipes.recipe_progress import (
    RecipeProgress,
    begun_note,
    call_ids,
    found_note,
    recipe_in_progress,
    result_of,
)
from kogniterm.addons.recipes.recipe_schema import Recipe
from kogniterm.addons.recipes.recipe_threads import Thread, Threads
from kogniterm.agent import messages
from kogniterm.agent.compaction import fit_messages
from kogniterm.agent.graph import think
from kogniterm.agent.replies import MAX_UNUSABLE, ask
from kogniterm.agent.subagent import DELEGATE, DelegatedTask, Result, SubAgent, parse_task
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
from kogniterm.runtime.turn import settle
from kogniterm.runtime.turn_end import (
    cancel_open,
    end_turn,
    failed_answer,
    interrupted_answer,
    limit_that_ends,
    unknown_answer,
)
from kogniterm.runtime.turn_ports import TurnIO, relay
from kogniterm.runtime.unattended.parked_turn import Parking
from kogniterm.sessions.records import InputReceived, NodeRan
from kogniterm.text.visible import with_texts
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    AgentState,
    Answer,
    CommandResult,
    Decision,
    EffectClass,
    ModelAsked,
    ModelFailed,
    ModelRequest,
    NodeUpdate,
    Phrase,
    Reply,
    ToolSpec,
    Usage,
    UserInput,
    events,
)
from kogniterm.types.turn_values import LEFT_OPEN, RECIPE_NODE

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession


async def run_in_session(
    session: LiveSession, recipe: Recipe, inputs: Mapping[str, Any], **driver: Any
) -> Answer:
    """Run `recipe` as one turn, with the `driver` of `LiveSession.run`. Cancel the task to stop it.

    Raises `UsageError` for wrong inputs and where only a plan is wanted, before anything is
    recorded.
    """
    _require_acting(session)
    values = checked_inputs(recipe, inputs)
    work = partial(_begin, recipe=recipe, values=values)
    return await session.run(recipe_input(recipe, values), work=work, **driver)


async def _begin(
    session: LiveSession, io: TurnIO, recipe: Recipe, values: Mapping[str, Any]
) -> Answer:
    count = session.services.new_count()
    await recover(session.journal, io, count, session.extensions.port)
    cancel_open(session.journal, "the user continued with a recipe")
    journal, turn = session.journal, session.state.turn + 1
    given = journal.redact_input(recipe_input(recipe, values))
    journal.record(InputReceived(turn, given, messages.human_message(given, "never")))
    journal.record(begun_note(recipe, values, journal.redact), durable=True)
    model = session.modes.model.info.name
    io.sink(events.TurnStarted(session.id, turn, model, session.executor.cwd))
    return await _run(recipe, values, SessionRecipePorts(session, io, count))


async def continue_in_session(session: LiveSession, io: TurnIO) -> Answer:
    """Continue the recipe whose turn is open at the first node without a result.

    A command that was running when KogniTerm ended is not run again, unless the user wants it.
    Raises `UsageError` where only a plan is wanted.
    """
    _require_acting(session)
    count = session.services.new_count()
    await recover(session.journal, io, count, session.extensions.port)
    try:
        recipe, values = recipe_in_progress(session)
    except UsageError as error:
        cancel_open(session.journal, "the recipe cannot be continued")
        return end_turn(session.journal, failed_answer(error, count.usage), io)
    return await _run(recipe, values, SessionRecipePorts(session, io, count), continued=True)


def _require_acting(session: LiveSession) -> None:
    if session.services.only_plans or session.modes.in_plan_mode:
        raise UsageError("A recipe cannot be run with --plan-only or in plan mode.")


async def _run(
    recipe: Recipe, values: Mapping[str, Any], ports: SessionRecipePorts, *, continued: bool = False
) -> Answer:
    journal, count = ports.session.journal, ports.count
    try:
        if continued:
            await ports.take_up()
        outputs = await run_recipe(recipe, values, ports)
        answer = Answer(_shown(outputs), usage=count.usage, verbatim=True)
    except asyncio.CancelledError as stopped:
        await ports.stop()
        if LEFT_OPEN in stopped.args:
            raise
        cancel_open(journal, "the user stopped the recipe")
        answer = interrupted_answer(count)
    except OutcomeNotWrittenError:
        raise
    except TurnInterruptedError as stopped:
        await ports.stop()
        if isinstance(ports.io.approver, Parking) and ports.io.approver.question is not None:
            raise asyncio.CancelledError(LEFT_OPEN) from stopped
        cancel_open(journal, "the user stopped the recipe")
        answer = interrupted_answer(count)
    except KognitermError as error:
        await ports.finish()
        if isinstance(ports.io.approver, Parking) and ports.io.approver.may_wait(error):
            # The turn stays open, to go on at the node that got no reply.
            raise asyncio.CancelledError(LEFT_OPEN) from error
        cancel_open(journal, "the recipe ended early")
        answer = failed_answer(error, count.usage)
    finally:
        ports.threads.close()
    if count.unknown and answer.stop in ("done", "not_done"):
        answer = unknown_answer(answer.text, count)
    said = AIMessage(answer.text or f"(The recipe ended: {answer.reason or answer.stop})")
    journal.record_update(NodeUpdate(RECIPE_NODE, (said,), answer=answer.text))
    return end_turn(journal, answer, ports.io)


def recipe_input(recipe: Recipe, inputs: Mapping[str, Any]) -> UserInput:
    """Return the input of a turn that runs `recipe`. Raises `UsageError` for wrong inputs."""
    values = checked_inputs(recipe, inputs)
    given = " ".join(f"{name}={value}" for name, value in values.items())
    return UserInput(f"Run the recipe {recipe.name} {given}".strip(), source="recipe")


def _shown(outputs: Mapping[str, Any]) -> str:
    """Return the outputs for the user: one alone as it is, several by name."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in outputs.items()
    }
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"{name}: {text}" for name, text in texts.items())


class SessionRecipePorts:
    """The ports of a recipe that runs in a session; see `RecipePorts`."""

    def __init__(self, session: LiveSession, io: TurnIO, count: TurnCount) -> None:
        self.session = session
        self.io = io
        self.count = count
        self.extra: Mapping[str, Tool] = {tool.spec.name: tool for tool in (calculator(),)}
        self.threads = Threads(session, count)
        self._actions = _Actions(session, io, count)
        self._before = RecipeProgress()

    async def take_up(self) -> None:
        """Settle what waited when the recipe was interrupted, and find what its nodes have done."""
        await self._actions.settle(_Action())
        self._before = RecipeProgress.of(self.session)

    async def stop(self) -> None:
        """End the actions that run, because the user stopped the recipe."""
        await self._actions.stop()

    async def finish(self) -> None:
        """Let the actions that run end."""
        await self._actions.finish()

    async def command(self, key: str, command: str, purpose: str) -> NodeResult:
        """Run a command, once it is approved."""
        arguments = {"command": command, "purpose": purpose}
        return await self._act(key, EXECUTE_COMMAND, arguments, command, purpose, "command")

    async def tool(self, key: str, name: str, arguments: Mapping[str, Any]) -> NodeResult:
        """Call a tool; its `ToolError` is a failure of the node."""
        if name == EXECUTE_COMMAND:
            raise UsageError("A tool node cannot run commands; use a command node instead.")
        tool = self.session.context.tools.get(name) or self.extra.get(name)
        if tool is None:
            raise UsageError("The recipe uses the tool {name}, which is not available.", name=name)
        try:
            checked = tool.check(arguments)
            effect = tool.effect_of(checked)
            if effect == "none" and self.session.extensions.tools.holds_back(name, checked):
                effect = "read"
            if effect != "none":
                if with_texts(dict(arguments), self.session.journal.redact) != dict(arguments):
                    raise UsageError(
                        "Node {id} of the recipe would give a secret to the tool {name}; only "
                        "commands can be given secrets.",
                        id=key,
                        name=name,
                    )
                line, purpose = tool.describe(checked)
                detail = tool.detail(checked)
                return await self._act(key, name, checked, line, purpose, effect, detail)
            if key in self._before.found:
                return self._before.found[key]
            await self._may_continue()
            text, code = self.session.journal.redact((await tool.run(checked)).text), 0
        except ToolError as error:
            text, code = str(error), 1
        self.session.journal.record(found_note(key, text, code))
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
            asked = fit_messages(system, messages, window.room(model.info, tools))
            try:
                return await self._ask(ModelRequest(asked, tools, "decide_action", agent=key))
            except ContextOverflowError:
                if attempt == MAX_UNUSABLE:
                    raise
                window.refuse(asked, tools)
                attempt += 1

    async def _ask(self, request: ModelRequest) -> Reply:
        await self._may_continue()
        reply: Reply | None = None

        def tell(item: ModelAsked | ModelFailed) -> None:
            relay(item, self.io.sink, self.count)

        async for event in ask(self.session.modes.model, request, tell):
            if isinstance(event, Reply):
                reply = event
                relay(event, self.io.sink, self.count)
        assert reply is not None
        return reply

    def question(self, text: str) -> HumanMessage:
        """Return a question to the model, with secrets replaced."""
        return HumanMessage(self.session.journal.redact(text))

    def past(self, key: str) -> Sequence[BaseMessage]:
        """Return what a model node said and heard before the recipe was interrupted."""
        return self._before.said.get(key, ())

    def note(self, key: str, messages: Sequence[BaseMessage], usage: Usage) -> None:
        """Journal what a model node said and heard."""
        update = NodeUpdate(RECIPE_NODE, tuple(messages), usage=usage, agent=key)
        self.session.journal.record_update(update)

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
        journal = self.session.journal
        arguments: dict[str, Any] = {"task": journal.redact(task), "tools": tools}
        if tokens is not None:
            arguments["tokens"] = tokens
        delegated, call_id = parse_task(arguments), self._call_id(key)
        if (answered := self._before.answers.get(call_id)) is not None:
            return _of_agent(answered)
        call = {"name": DELEGATE.name, "args": arguments, "id": call_id, "type": "tool_call"}
        asked = (AIMessage("", tool_calls=[call]),)
        if alone and call_id not in self._before.calls:
            journal.record(NodeRan(NodeUpdate(RECIPE_NODE, asked)))
        result = await self._run_agent(call_id, delegated)
        while result.pending:
            await self._actions.settle(_Action(pending=result.pending))
            result = await self._run_agent(call_id, delegated)
        text, broken = journal.redact(result.text), result.status != "ok"
        answer = messages.tool_message(call_id, DELEGATE.name, text, failed=broken)
        told = (answer,) if alone else (*asked, answer)
        journal.record(NodeRan(NodeUpdate(RECIPE_NODE, told)))
        return _of_agent(answer)

    def _call_id(self, key: str) -> str:
        """Return the id of the call of a node: the same when the recipe is continued."""
        return f"{call_ids(self.session)}{key.replace('/', '-')}"

    async def _run_agent(self, key: str, task: DelegatedTask) -> Result:
        context = replace(self.session.context.think_context(self.io, self.count), think=think)
        begun = self.session.state.agents.get(key, AgentState())
        return await SubAgent(key, task, context, begun).run()

    async def _may_continue(self) -> None:
        stop = await limit_that_ends(self.session.journal, self.io, self.count)
        if stop is not None:
            raise BudgetError(stop.template, **dict(stop.values))

    async def _act(
        self,
        key: str,
        tool: str,
        arguments: Mapping[str, Any],
        line: str,
        purpose: str,
        effect: EffectClass,
        detail: str = "",
    ) -> NodeResult:
        """Request an action as the model would, and return its outcome."""
        call_id = self._before.attempt(self._call_id(key))
        if (before := self._before.outcome(call_id)) is not None:
            return before
        await self._may_continue()
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


def _of_agent(answer: ToolMessage) -> NodeResult:
    """Return the result of a sub-agent. Raises `KognitermError` when it failed."""
    if answer.status == "error":
        raise KognitermError("The recipe's sub-agent failed: {why}", why=answer.text)
    return NodeResult(answer.text)


JOINING = 30
"""Turns of the event loop for which requests are gathered, so that nodes which are ready at the
same time ask together, and nodes that are cancelled ask no more."""


@dataclass(frozen=True, slots=True, eq=False)
class _Action:
    """The requests of one node: of a call of its own, or of the sub-agent it runs."""

    call: Mapping[str, Any] | None = None
    pending: tuple[ActionRequest, ...] = ()


class _Actions(events.EventVisitor):
    """The actions of a recipe's nodes: one batch after the other is settled by the runtime."""

    def __init__(self, session: LiveSession, io: TurnIO, count: TurnCount) -> None:
        self._session = session
        self._count = count
        self._sink = io.sink
        self._io = replace(io, sink=self)
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
        if said or pending:
            self._session.journal.record_update(NodeUpdate(RECIPE_NODE, said, pending=pending))
        # Nodes that act are ready at the same time only where the recipe says so.
        own = [request for one in batch if one.call is not None for request in one.pending]
        together = {one.id for one in own if one.effect in ("command", "network", "external")}
        self._over = await settle(
            self._session.services, self._io, self._count, apart=True, together=together
        )

    def __call__(self, event: events.Event) -> None:
        super().__call__(event)
        self._sink(event)

    def on_action_proposed(self, event: events.ActionProposed) -> None:
        self._calls[event.request.id] = event.request.call_id

    def on_action_decided(self, event: events.ActionDecided) -> None:
        self._decisions[event.request.call_id] = event.decision

    def on_command_ended(self, event: events.CommandEnded) -> None:
        if event.request_id in self._calls:
            self._results[self._calls[event.request_id]] = event.result

    def result(self, call_id: str) -> NodeResult:
        """Return how a settled call ended. Raises `RefusedError` and `BudgetError`."""
        if (ran := self._results.get(call_id)) is not None:
            return NodeResult(ran.text, ran.exit_code)
        own = call_ids(self._session)  # of a sub-agent a refused call ends nothing
        decided = (one for key, one in self._decisions.items() if key.startswith(own))
        if (refused := next((one for one in decided if one.kind == "reject"), None)) is not None:
            raise RefusedError("An action was refused: {why}", why=refused.why)
        answered = reversed(self._session.state.messages)
        answer = next((m for m in answered if getattr(m, "tool_call_id", "") == call_id), None)
        if not isinstance(answer, ToolMessage) and self._over is not None:
            raise BudgetError(self._over.template, **dict(self._over.values))
        if not isinstance(answer, ToolMessage) or call_id not in self._decisions:
            raise RefusedError("An earlier action of the recipe was refused.")
        return result_of(answer)

    async def finish(self) -> None:
        """Wait until the batch that runs has ended."""
        if tasks := [task for task in (self._running, self._next) if task is not None]:
            await asyncio.wait(tasks)

    async def stop(self) -> None:
        """Cancel what runs, and wait until it has ended."""
        for task in (self._running, self._next):
            if task is not None:
                task.cancel()
        await self.finish()
