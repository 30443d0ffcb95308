"""Recipes as data: the schema of a graph of nodes, and what is checked before anything runs.

The main line leads through the nodes in the order they stand in, unless `next` or a condition leads
further down; never back up, so a recipe always ends. A node that a map repeats or that a model
is offered as a tool is not in the main line. `{{…}}` refers to values: `inputs.NAME`,
`nodes.ID.text`, `.exit_code`, `.lines`, `.value`, `item` in a map, `arguments.NAME` in a tool.
A node starts when the nodes it waits for have ended (`agent.recipe_order`); the others run side by
side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from kogniterm.errors import ToolError, UnusableValueError, UsageError
from kogniterm.settings.user_files import yaml_text, yaml_values
from kogniterm.text.bounded_regex import Pattern
from kogniterm.types import DelegateKind, Phrase
from kogniterm.types.actions import current_tool

NAME = r"^[a-z][a-z0-9_-]{0,39}$"
ID = r"^[a-z][a-z0-9_]{0,23}$"
END = "end"
MAX_NODES = 50
MAX_PARALLEL = 32
MAX_THREAD = 60
"""Characters of a thread's name."""
REFERENCE = re.compile(
    r"\{\{\s*(inputs\.\w+|arguments\.\w+|item|nodes\.\w+\.(?:text|exit_code|lines|value))\s*\}\}"
)

Type = Literal["string", "integer", "number", "boolean", "list"]
_THE_RECIPE = Phrase("The recipe")
_READERS: Mapping[str, type] = {"integer": int, "number": float}


class _RecipeModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Input(_RecipeModel):
    """A value given when the recipe is run, or to a node used as a tool."""

    type: Type = "string"
    description: str = ""
    default: Any = None

    def read(self, name: str, text: str) -> Any:
        """Return the value written as `text`. Raises `UsageError`."""
        try:
            if self.type in _READERS:
                return _READERS[self.type](text)
            if self.type == "boolean":
                return {"true": True, "false": False}[text.lower()]
        except (ValueError, KeyError) as error:
            raise UsageError(
                "{name} must be of type {type}; {value} is not.",
                name=name,
                type=self.type,
                value=text,
            ) from error
        return text.split(",") if self.type == "list" else text


class Condition(_RecipeModel):
    """A value and one thing that is asked of it."""

    value: str
    equals: Any = None
    contains: str | None = None
    matches: str | None = None
    below: float | None = None
    above: float | None = None

    @model_validator(mode="after")
    def _one_question(self) -> Condition:
        if len(self.model_fields_set - {"value"}) != 1:
            raise UnusableValueError("needs one of equals, contains, matches, below, above")
        if self.matches is not None:
            try:
                Pattern(self.matches)
            except ToolError as error:
                raise UnusableValueError("matches is not a valid regular expression") from error
        return self


class Over(_RecipeModel):
    """The list a map goes over, and the node it runs for each `item`.

    At most `parallel` items run at the same time.
    """

    over: str
    do: str = Field(pattern=ID)
    most: int = Field(default=100, ge=1, le=1000)
    parallel: int = Field(default=1, ge=1, le=MAX_PARALLEL)


class Node(_RecipeModel):
    """One node: exactly one of command, tool, model, agent, condition and map.

    `thread` names the history that a model node continues. A `parallel` node changes nothing that
    others rely on; with `after` a node waits for these nodes instead of those before it.
    """

    id: str = Field(pattern=ID)
    command: str | None = None
    tool: str | None = None
    model: str | None = None
    agent: str | None = None
    condition: Condition | None = None
    map: Over | None = None

    purpose: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    may_fail: bool = False
    tools: list[str] | DelegateKind | None = None
    tokens: int | None = Field(default=None, gt=0, le=400_000)
    parameters: dict[str, Input] = Field(default_factory=dict)
    thread: str | None = Field(default=None, min_length=1, max_length=200)
    parallel: bool = False
    after: list[str] | None = None
    next: str | None = None
    then: str | None = None
    otherwise: str | None = Field(default=None, alias="else")

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @model_validator(mode="after")
    def _one_kind(self) -> Node:
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            raise UnusableValueError("needs exactly one of {kinds}", kinds=", ".join(KINDS))
        if (kinds[0] == "condition") != (self.then is not None):
            raise UnusableValueError("then belongs to a condition, and a condition needs it")
        if self.otherwise is not None and kinds[0] != "condition":
            raise UnusableValueError("else belongs to a condition")
        if self.condition is not None and self.next is not None:
            raise UnusableValueError("a condition continues with then and else, not with next")
        if self.thread is not None and kinds[0] != "model":
            raise UnusableValueError("thread belongs to a model")
        if self.parallel and kinds[0] not in ORDERED:
            raise UnusableValueError(
                "parallel belongs to {kinds}; a map has it inside map, as a number",
                kinds=", ".join(ORDERED),
            )
        return self

    @field_validator("tool")
    @classmethod
    def _current_tool_name(cls, name: str | None) -> str | None:
        return None if name is None else current_tool(name)

    def texts(self) -> Iterator[str]:
        """Every text of this node that may hold references."""
        for text in (self.command, self.model, self.agent, self.thread):
            if text is not None:
                yield text
        if self.condition is not None:
            yield self.condition.value
        if self.map is not None:
            yield self.map.over
        yield from _texts_in(self.arguments)


KINDS = ("command", "tool", "model", "agent", "condition", "map")
ORDERED = ("command", "tool", "agent")
"""The kinds that may change something and keep the order of the file."""


class Recipe(_RecipeModel):
    """A graph of nodes with inputs and outputs."""

    name: str = Field(pattern=NAME)
    description: str = ""
    inputs: dict[str, Input] = Field(default_factory=dict)
    nodes: list[Node] = Field(min_length=1, max_length=MAX_NODES)
    outputs: dict[str, str] = Field(default_factory=dict)

    @property
    def main(self) -> tuple[Node, ...]:
        """The main line, in order."""
        maps = {node.map.do for node in self.nodes if node.map is not None}
        offered = {name for node in self.nodes if node.model for name in node.tools or ()}
        aside = maps | offered
        return tuple(node for node in self.nodes if node.id not in aside)

    def node(self, node_id: str) -> Node:
        return next(node for node in self.nodes if node.id == node_id)

    def used_by(self, node: Node) -> tuple[Node, ...]:
        """Return the node that a map repeats, or those that a model may call."""
        return tuple(self.node(name) for name in _names_used(node))

    def below(self, node: Node) -> tuple[Node, ...]:
        """Return all nodes that `node` uses, and that these use in turn, each once."""
        known = {one.id: one for one in self.nodes}
        found: dict[str, Node] = {}
        names = [*_names_used(node)]
        while names:
            name = names.pop(0)
            if name in known and name not in found:
                found[name] = known[name]
                names += _names_used(known[name])
        return tuple(found.values())

    def needs(self, node: Node) -> set[str]:
        """Return the nodes whose results `node`, or a node that it uses, refers to."""
        texts = [text for one in (node, *self.below(node)) for text in one.texts()]
        return {
            match[1].split(".")[1]
            for text in texts
            for match in REFERENCE.finditer(text)
            if match[1].startswith("nodes.")
        }

    @property
    def in_order(self) -> bool:
        """Return whether nothing that changes something runs beside anything else that acts."""
        maps = (node.map.parallel for node in self.nodes if node.map is not None)
        released = (node.parallel or node.after is not None for node in self.nodes)
        return not any(released) and all(most == 1 for most in maps)

    @model_validator(mode="after")
    def _whole(self) -> Recipe:
        problems = tuple(_problems(self))
        if problems:
            raise UnusableValueError("{problems}", problems=problems)
        return self


def _problems(recipe: Recipe) -> Iterator[Phrase]:
    ids = [node.id for node in recipe.nodes]
    for one in sorted({i for i in ids if ids.count(i) > 1}):
        yield Phrase("the ID {id} is used twice", {"id": one})
    if END in ids:
        yield Phrase("no node can have the ID {id}, which ends the recipe", {"id": END})
    main = [node.id for node in recipe.main]
    if not main:
        yield Phrase("no node is in the main line")
    for node in recipe.nodes:
        yield from _bad_ways(node, main)
        yield from _bad_uses(node, recipe, ids)
        yield from _bad_order(node, recipe, ids, main)
        for text in node.texts():
            yield from _bad_references(text, Phrase("node {node}", {"node": node.id}), recipe, ids)
        if node.command is not None and _quoted_references(node.command):
            yield Phrase(
                "node {node}: leave out the quotes round the placeholder; values are quoted",
                {"node": node.id},
            )
        if node.command is not None and _in_here_document(node.command):
            yield Phrase(
                "node {node}: a placeholder cannot stand in a here-document; use printf",
                {"node": node.id},
            )
    for name, text in recipe.outputs.items():
        yield from _bad_references(text, Phrase("output {name}", {"name": name}), recipe, ids)


def _bad_ways(node: Node, main: list[str]) -> Iterator[Phrase]:
    for way in (node.next, node.then, node.otherwise):
        if way is None or way == END:
            continue
        if way not in main:
            yield Phrase(
                "node {node} leads to {way}, which is not in the main line",
                {"node": node.id, "way": way},
            )
        elif node.id not in main or main.index(way) <= main.index(node.id):
            yield Phrase(
                "node {node} leads back to {way}; a recipe only goes forward",
                {"node": node.id, "way": way},
            )


def _bad_uses(node: Node, recipe: Recipe, ids: list[str]) -> Iterator[Phrase]:
    if node.model is not None and isinstance(node.tools, str):
        yield Phrase("node {node}: tools of a model is a list of nodes", {"node": node.id})
    for name in _names_used(node):
        if name not in ids:
            yield Phrase(
                "node {node} uses {name}, which does not exist", {"node": node.id, "name": name}
            )
        elif recipe.node(name).kind not in (*ORDERED, "model", *(("map",) if node.model else ())):
            yield Phrase(
                "node {node} cannot use {name}: only {kinds} nodes",
                {
                    "node": node.id,
                    "name": name,
                    "kinds": ", ".join((*ORDERED, "model", *(("map",) if node.model else ()))),
                },
            )
    below = recipe.below(node)
    if node in below:
        yield Phrase("node {node} uses itself", {"node": node.id})
    # The one that calls it may hold the history that it would wait for.
    for one in below if node.model is not None else ():
        if one.thread is not None:
            yield Phrase(
                "node {node}: {name} is run by a model, and cannot have a thread",
                {"node": node.id, "name": one.id},
            )
    if node.agent is not None and not isinstance(node.tools, str | None):
        yield Phrase(
            "node {node}: tools of an agent is read, search, edit or run", {"node": node.id}
        )


def _bad_order(node: Node, recipe: Recipe, ids: list[str], main: list[str]) -> Iterator[Phrase]:
    """Yield what `node` waits for or refers to and what does not run before it."""
    if node.after is not None and node.id not in main:
        yield Phrase("node {node}: after belongs to a node of the main line", {"node": node.id})
    if node.id not in main or any(one not in ids for one in _names_used(node)):
        return
    before = main[: main.index(node.id)]
    for name in node.after or ():
        if name not in before:
            yield Phrase(
                "node {node} cannot run after {name}: name an earlier node of the main line",
                {"node": node.id, "name": name},
            )
    for name in sorted(recipe.needs(node)):
        if name in ids and name not in before:
            yield Phrase(
                "node {node} refers to the result of {name}, which does not run before it",
                {"node": node.id, "name": name},
            )


def _names_used(node: Node) -> list[str]:
    if node.map is not None:
        return [node.map.do]
    return node.tools if node.model is not None and isinstance(node.tools, list) else []


def _bad_references(text: str, where: Phrase, recipe: Recipe, ids: list[str]) -> Iterator[Phrase]:
    for match in REFERENCE.finditer(text):
        kind, _, rest = match[1].partition(".")
        name = rest.partition(".")[0]
        if kind == "inputs" and name not in recipe.inputs:
            yield Phrase(
                "{where} refers to the input {name}, which does not exist",
                {"where": where, "name": name},
            )
        elif kind == "nodes" and name not in ids:
            yield Phrase(
                "{where} refers to the node {name}, which does not exist",
                {"where": where, "name": name},
            )


_HERE_DOCUMENT = re.compile(r"(?<!<)<<(?!<)")


def open_quotes(command: str) -> str:
    """Return `command` with its quotes closed before each reference and opened again behind it.

    Nothing changes where an expansion inside the quotes may have quotes of its own.
    """
    if any(sign in command for sign in ("$(", "${", "`")) or _HERE_DOCUMENT.search(command):
        return command
    for start, end, quote in reversed(_quoted_references(command)):
        before, after = command[:start], command[end:]
        opened = before.endswith(quote) and not before.endswith("\\" + quote)
        before = before[:-1] if opened else before + quote
        after = after[1:] if after.startswith(quote) else quote + after
        command = before + command[start:end] + after
    return command


def _in_here_document(command: str) -> bool:
    """Return whether a reference may stand in a here-document, where quotes protect nothing."""
    found = _HERE_DOCUMENT.search(command)
    return found is not None and REFERENCE.search(command, found.end()) is not None


def _quoted_references(command: str) -> list[tuple[int, int, str]]:
    """Return where references stand inside quotes, where a quoted value would end them."""
    ends = {match.start(): match.end() for match in REFERENCE.finditer(command)}
    found = []
    quote = ""
    escaped = False
    for position, character in enumerate(command):
        if quote and position in ends:
            found.append((position, ends[position], quote))
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
    return found


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)


def read_recipe(text: str, name: Path | Phrase = _THE_RECIPE) -> Recipe:
    """Return the recipe in `text`, YAML or JSON, which messages call `name`.

    Raises `UsageError` that names every problem.
    """
    try:
        return Recipe.model_validate(yaml_values(name, text).data)
    except ValidationError as error:
        found = []
        for item in error.errors(include_url=False):
            place, what = ".".join(map(str, item["loc"])), _problem(item)
            found.append(
                Phrase("{place}: {problem}", {"place": place, "problem": what}) if place else what
            )
        raise UsageError(
            "{file} cannot be used: {problems}.", file=name, problems=tuple(found)
        ) from error


def _problem(item: ErrorDetails) -> Phrase:
    """Return one of pydantic's complaints in our words."""
    context, kind = item.get("ctx", {}), item["type"]
    own = context.get("error")
    if isinstance(own, UnusableValueError):
        return own.text
    if kind == "literal_error":
        choices = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return Phrase("must be one of {choices}", {"choices": choices})
    if kind == "string_pattern_mismatch":
        return Phrase("must match {pattern}", {"pattern": context["pattern"]})
    for starts, text in _COMPLAINTS.items():
        if kind.startswith(starts):
            return text
    return Phrase("has a value that cannot be used")


_COMPLAINTS: Mapping[str, Phrase] = {
    "missing": Phrase("is missing"),
    "extra_forbidden": Phrase("unknown key"),
    "string": Phrase("must be text"),
    "int": Phrase("must be a whole number"),
    "float": Phrase("must be a number"),
    "bool": Phrase("must be true or false"),
    "list": Phrase("must be a list"),
    "dict": Phrase("must be a mapping"),
    "model": Phrase("must be a mapping"),
    "too_short": Phrase("is empty"),
    "too_long": Phrase("has too many entries"),
    "greater": Phrase("is too small"),
    "less": Phrase("is too large"),
}
"""Complaints in our words, by the beginning of the name that pydantic has for them."""


def recipe_text(recipe: Recipe) -> str:
    """Return `recipe` as YAML, which `read_recipe` reads."""
    return yaml_text(recipe.model_dump(by_alias=True, exclude_defaults=True))


def recipe_schema() -> dict[str, Any]:
    """Return the JSON schema of recipes, for editors."""
    return Recipe.model_json_schema(by_alias=True)
