"""The run of a recipe's graph of nodes. Every action goes through its ports."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from kogniterm.addons.recipes import recipe_schema as recipes
from kogniterm.addons.recipes.recipe_order import access_of, follow, side_by_side
from kogniterm.addons.recipes.recipe_schema import REFERENCE, Input, Node, Recipe
from kogniterm.agent.messages import tool_message
from kogniterm.agent.replies import (
    MAX_UNUSABLE,
    clean_reply,
    is_unusable,
    no_usable_reply,
    send_back,
)
from kogniterm.errors import KognitermError, ToolError, UsageError
from kogniterm.text.bounded_regex import Pattern
from kogniterm.types import Phrase, Reply, ToolSpec, Usage

MAX_TOOL_ROUNDS = 12
"""Model calls one model node may make with its tools."""


class NodeResult(NamedTuple):
    """The result of a node: its text, exit code, and a value where it is more than text."""

    text: str
    exit_code: int | None = 0
    value: Any = None

    def part(self, name: str) -> Any:
        if name == "lines":
            return [line for line in self.text.splitlines() if line.strip()]
        if name == "value":
            return self.text.strip() if self.value is None else self.value
        return self.text.rstrip("\n") if name == "text" else self.exit_code


class RecipePorts(Protocol):
    """The actions of a recipe, through the session's approval, executor, journal and budgets."""

    async def command(self, key: str, command: str, purpose: str) -> NodeResult:
        """Run a command that policy or the user approved, for the node `key`."""

    async def tool(self, key: str, name: str, arguments: Mapping[str, Any]) -> NodeResult:
        """Call a tool of the session for the node `key`; one with effects is asked for first."""

    async def ask(
        self, key: str, messages: Sequence[BaseMessage], tools: tuple[ToolSpec, ...]
    ) -> Reply:
        """Ask the session's model for the node `key`."""

    def past(self, key: str) -> Sequence[BaseMessage]:
        """Return the messages of the node `key` before the recipe was interrupted."""

    def note(self, key: str, messages: Sequence[BaseMessage], usage: Usage) -> None:
        """Add `messages` to what the node `key` said and heard, with what they cost."""

    def question(self, text: str) -> HumanMessage:
        """Return a question to the model, as it may be kept and sent."""

    def thread(self, name: str) -> AbstractAsyncContextManager[RecipeThread]:
        """Open the history called `name` for one node at a time."""

    async def agent(
        self, key: str, task: str, tools: str, tokens: int | None, *, alone: bool
    ) -> NodeResult:
        """Let a sub-agent do the task of the node `key`.

        Without `tokens` its budget is that of its kind. `alone`: no other node acts meanwhile.
        """


class RecipeThread(Protocol):
    """A history that model nodes share, also over runs."""

    async def make_room(self, tools: tuple[ToolSpec, ...]) -> None:
        """Compact the history where it nears the model's window."""

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """Return the history so far."""

    def keep(self, messages: Sequence[BaseMessage], *, restored: bool) -> None:
        """Add a question with its answer, and everything between them.

        What an interrupted run said, and this one `restored`, may be there already.
        """


@dataclass(frozen=True, slots=True)
class RecipeScope:
    """The values of references at one place.

    `key` names the node, the item of a map, and the call of a model: each run of a node has its
    own, which is the same when an interrupted recipe continues.
    """

    inputs: Mapping[str, Any]
    results: Mapping[str, NodeResult]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    item: Any = None
    key: str = ""

    def value(self, reference: str) -> Any:
        """Return the value of `reference`. Raises `UsageError` for a node that has not run."""
        kind, _, rest = reference.partition(".")
        if kind == "item":
            return self.item
        if kind == "inputs":
            return self.inputs[rest]
        if kind == "arguments":
            if rest not in self.arguments:
                raise UsageError(
                    "The recipe uses {name}, but no value was specified for it.", name=reference
                )
            return self.arguments[rest]
        node_id, _, part = rest.partition(".")
        if node_id not in self.results:
            raise UsageError(
                "The recipe uses the result of node {id}, which has not run.", id=node_id
            )
        return self.results[node_id].part(part)

    def fill(self, text: str, write: Callable[[Any], str] = str) -> str:
        """Return `text` with every reference replaced by its value, as formatted by `write`."""
        return REFERENCE.sub(lambda match: write(self.value(match[1])), text)

    def fill_value(self, value: Any) -> Any:
        """Return `value` with references replaced; a single reference becomes its value."""
        if isinstance(value, str):
            whole = REFERENCE.fullmatch(value.strip())
            return self.value(whole[1]) if whole else self.fill(value, _as_text)
        if isinstance(value, Mapping):
            return {key: self.fill_value(item) for key, item in value.items()}
        return [self.fill_value(item) for item in value] if isinstance(value, list) else value


def _as_text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _quote_value(value: Any) -> str:
    """Return a value quoted as words of a shell command."""
    if isinstance(value, list):
        return " ".join(map(_quote_value, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return shlex.quote(str(value))


class NodeRunner:
    """Runs single nodes of one recipe with the inputs given."""

    def __init__(self, recipe: Recipe, inputs: Mapping[str, Any], ports: RecipePorts) -> None:
        self.recipe = recipe
        self.inputs = inputs
        self.ports = ports

    async def run(self, node: Node, scope: RecipeScope) -> NodeResult:
        """Return the node's result. Raises `KognitermError` when it failed and may not."""
        result = await getattr(self, f"_{node.kind}")(node, scope)
        if result.exit_code != 0 and not node.may_fail and node.kind in ("command", "tool"):
            if result.exit_code is None:
                raise KognitermError(
                    "The recipe stopped: it is not known how node {id} ended.", id=node.id
                )
            raise KognitermError(
                "The recipe stopped: node {id} ended with exit code {code}.",
                id=node.id,
                code=result.exit_code,
            )
        assert isinstance(result, NodeResult)
        return result

    async def _command(self, node: Node, scope: RecipeScope) -> NodeResult:
        command = scope.fill(node.command or "", _quote_value)
        return await self.ports.command(scope.key, command, node.purpose)

    async def _tool(self, node: Node, scope: RecipeScope) -> NodeResult:
        arguments = scope.fill_value(node.arguments)
        return await self.ports.tool(scope.key, node.tool or "", arguments)

    async def _agent(self, node: Node, scope: RecipeScope) -> NodeResult:
        task = scope.fill(node.agent or "", _as_text)
        tools = node.tools if isinstance(node.tools, str) else "read"
        alone = self.recipe.in_order and access_of(node, self.recipe) == "acts"
        return await self.ports.agent(scope.key, task, tools, node.tokens, alone=alone)

    async def _map(self, node: Node, scope: RecipeScope) -> NodeResult:
        assert node.map is not None
        items = scope.fill_value(node.map.over)
        if not isinstance(items, list):
            items = str(items).splitlines()
        if len(items) > node.map.most:
            raise UsageError(
                "Node {id} of the recipe has {count} items to repeat over; "
                "its key most allows {most}.",
                id=node.id,
                count=len(items),
                most=node.map.most,
            )
        inner = self.recipe.node(node.map.do)

        async def one(at: int, item: Any) -> NodeResult:
            return await self.run(inner, replace(scope, item=item, key=f"{scope.key}/{at + 1}"))

        results = await side_by_side(items, one, node.map.parallel)
        texts = [result.part("value") for result in results]
        return NodeResult("\n".join(map(str, texts)), value=texts)

    async def _model(self, node: Node, scope: RecipeScope) -> NodeResult:
        """Ask until the model answers in text; its tools are nodes."""
        question = self.ports.question(scope.fill(node.model or "", _as_text))
        if node.thread is None:
            return NodeResult((await self._exchange(node, scope, question, ()))[-1].text)
        name = " ".join(scope.fill(node.thread or "", _as_text).split())
        if not 0 < len(name) <= recipes.MAX_THREAD:
            raise UsageError(
                "Node {id} of the recipe needs a thread name of 1 to {most} characters.",
                id=node.id,
                most=recipes.MAX_THREAD,
            )
        async with self.ports.thread(name) as thread:
            await thread.make_room(self._offer_tools(node))
            said = await self._exchange(node, scope, question, thread.messages)
            thread.keep(said, restored=said == [*self.ports.past(scope.key)])
        return NodeResult(said[-1].text)

    def _offer_tools(self, node: Node) -> tuple[ToolSpec, ...]:
        return tuple(_spec(one) for one in self.recipe.used_by(node))

    async def _exchange(
        self,
        node: Node,
        scope: RecipeScope,
        question: HumanMessage,
        past: Sequence[BaseMessage],
    ) -> list[BaseMessage]:
        """Return the question, the answer as the last message, and all between them.

        What was said before the recipe was interrupted is not asked again.
        """
        specs, said, unusable = self._offer_tools(node), list(self.ports.past(scope.key)), 0

        def add(*messages: BaseMessage, usage: Usage | None = None) -> None:
            self.ports.note(scope.key, messages, usage or Usage())
            said.extend(messages)

        if not said:
            add(question)
        last = said[-1]
        if isinstance(last, AIMessage):
            if not last.tool_calls:
                return said
            add(*await self._answers(last, self.recipe.used_by(node), scope, len(said)))
        for _ in range(MAX_TOOL_ROUNDS):
            reply = await self.ports.ask(scope.key, [*past, *said], specs)
            message = clean_reply(reply).message
            problem = is_unusable(message)
            if problem is not None:
                unusable += 1
                add(*send_back(message, problem), usage=reply.usage)
                if unusable == MAX_UNUSABLE:
                    raise no_usable_reply(Phrase(problem.rstrip(". ")))
                continue
            add(message, usage=reply.usage)
            if not message.tool_calls:
                return said
            add(*await self._answers(message, self.recipe.used_by(node), scope, len(said)))
        raise KognitermError(
            "The recipe stopped at node {id}: the model called tools {count} "
            "times without a final reply.",
            id=node.id,
            count=MAX_TOOL_ROUNDS,
        )

    async def _answers(
        self, message: AIMessage, offered: Sequence[Node], scope: RecipeScope, place: int
    ) -> list[BaseMessage]:
        """Return the results of the calls in `message`, which stands at `place` of all said."""
        nodes = {node.id: node for node in offered}
        answers: list[BaseMessage] = []
        for number, call in enumerate(message.tool_calls, 1):
            failed, key = True, f"{scope.key}/{place}-{number}"
            try:
                node = nodes.get(call["name"])
                if node is None:
                    raise ToolError(
                        "Unknown tool {name}; call one of the offered tools.", name=call["name"]
                    )
                arguments = _check_arguments(node, call["args"])
                result = await self.run(node, replace(scope, arguments=arguments, key=key))
                text, failed = result.text, False
            except ToolError as error:
                text = str(error)
            answers.append(tool_message(str(call["id"]), call["name"], text, failed=failed))
        return answers

    async def _condition(self, node: Node, scope: RecipeScope) -> NodeResult:
        assert node.condition is not None
        holds = _holds(node.condition, scope.fill_value(node.condition.value))
        return NodeResult(str(holds).lower(), value=holds)


def _holds(condition: recipes.Condition, value: Any) -> bool:
    text = _as_text(value)
    if condition.contains is not None:
        return condition.contains in text
    if condition.matches is not None:
        return Pattern(condition.matches).search(text) is not None
    if condition.below is None and condition.above is None:
        return value == condition.equals or text == str(condition.equals)
    try:
        number = float(text)
    except ValueError as error:
        raise UsageError(
            "The recipe compares {value}, which is not a number.", value=text
        ) from error
    if condition.below is not None:
        return number < condition.below
    return condition.above is not None and number > condition.above


_JSON_TYPES = {"list": "array"}


def _spec(node: Node) -> ToolSpec:
    properties = {
        name: {"type": _JSON_TYPES.get(one.type, one.type), "description": one.description}
        for name, one in node.parameters.items()
    }
    required = [name for name, one in node.parameters.items() if one.default is None]
    return ToolSpec(
        node.id,
        node.purpose or f"Run {node.id}.",
        {"type": "object", "properties": properties, "required": required},
        effect="command" if node.command is not None else "none",
    )


def _check_arguments(node: Node, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments in the types the node wants. Raises `ToolError`."""
    unknown = sorted(set(given) - set(node.parameters))
    missing = [n for n, one in node.parameters.items() if n not in given and one.default is None]
    if unknown or missing:
        if not node.parameters:
            raise ToolError("Wrong arguments for {id}; it takes none.", id=node.id)
        raise ToolError(
            "Wrong arguments for {id}; it takes: {names}.",
            id=node.id,
            names=", ".join(node.parameters),
        )
    return {
        name: _convert_value(name, one, given[name]) if name in given else one.default
        for name, one in node.parameters.items()
    }


def _convert_value(name: str, wanted: Input, value: Any) -> Any:
    if isinstance(value, str) and wanted.type != "string":
        try:
            return wanted.read(name, value)
        except UsageError as error:
            raise ToolError(error.text.template, **dict(error.text.values)) from error
    kinds: Mapping[str, tuple[type, ...]] = {
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "list": (list,),
    }
    wrong_bool = isinstance(value, bool) and wanted.type != "boolean"
    if not isinstance(value, kinds[wanted.type]) or wrong_bool:
        raise ToolError("{name} must be of type {type}.", name=name, type=wanted.type)
    return value


async def run_recipe(
    recipe: Recipe, inputs: Mapping[str, Any], ports: RecipePorts
) -> dict[str, Any]:
    """Return the recipe's outputs; the last node's text as `result` when it names none.

    Raises `UsageError` for wrong inputs, and whatever a node raises.
    """
    runner = NodeRunner(recipe, checked_inputs(recipe, inputs), ports)
    results: dict[str, NodeResult] = {}
    after = dict(pairwise([*(node.id for node in recipe.main), recipes.END]))

    async def run(node: Node) -> None:
        scope = RecipeScope(runner.inputs, results, key=node.id)
        results[node.id] = await runner.run(node, scope)

    def leads_to(node: Node) -> str:
        if node.condition is None:
            return node.next or after[node.id]
        chosen = node.then if results[node.id].value else node.otherwise
        return chosen or after[node.id]

    await follow(recipe, run, leads_to)
    scope = RecipeScope(runner.inputs, results)
    if recipe.outputs:
        return {name: scope.fill_value(text) for name, text in recipe.outputs.items()}
    last = [node.id for node in recipe.main if node.id in results][-1]
    return {"result": results[last].part("text")}


def checked_inputs(recipe: Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every input of the recipe with its value. Raises `UsageError`."""
    for name in given:
        if not recipe.inputs:
            raise UsageError(
                "Unknown input {name}: the recipe {recipe} has no inputs.",
                recipe=recipe.name,
                name=name,
            )
        if name not in recipe.inputs:
            raise UsageError(
                "Unknown input {name} for the recipe {recipe}; its inputs: {names}.",
                recipe=recipe.name,
                name=name,
                names=", ".join(recipe.inputs),
            )
    values: dict[str, Any] = {}
    for name, wanted in recipe.inputs.items():
        value = given.get(name, wanted.default)
        if value is None:
            raise UsageError(
                "The recipe {recipe} needs the input {name}; add {name}=VALUE.",
                recipe=recipe.name,
                name=name,
            )
        values[name] = wanted.read(name, value) if isinstance(value, str) else value
    return values
