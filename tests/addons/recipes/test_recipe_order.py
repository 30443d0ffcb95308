"""The order of a recipe's nodes: which of those before it each one waits for."""

from __future__ import annotations

import asyncio

import pytest

from kogniterm.addons.recipes.recipe_order import follow, side_by_side, waits_for
from kogniterm.addons.recipes.recipe_schema import Node, read_recipe
from kogniterm.errors import ToolError, UsageError

EVERYTHING = """
name: r
nodes:
  - {id: make, command: make}
  - {id: look, tool: read_file, arguments: {path: a}}
  - {id: ask, model: Hello.}
  - {id: read, agent: Look.}
  - {id: lint, command: lint, parallel: true}
  - {id: types, command: types, parallel: true}
  - {id: write, tool: write_file, arguments: {path: a, content: "{{nodes.ask.text}}"}}
  - {id: sum, tool: calculate, arguments: {formula: "1+1"}}
  - {id: many, condition: {value: "{{nodes.sum.text}}", equals: 2}, then: each}
  - {id: each, map: {over: "{{nodes.look.lines}}", do: line, parallel: 2}}
  - {id: line, model: "Say {{item}} of {{nodes.read.text}}", thread: talk}
  - {id: then, model: And then, thread: talk}
  - {id: early, command: early, after: [look]}
  - {id: last, agent: Finish., tools: run}
"""
WAITS = {
    "make": "",
    "look": "make",
    "ask": "",
    "read": "make",
    "lint": "make",
    "types": "make",
    "write": "make look ask read lint types",
    "sum": "",
    "many": "sum",
    "each": "look read",
    "then": "each",
    "early": "look",
    "last": "make look read lint types write early",
}


def test_each_node_waits_for_what_it_needs_and_for_what_it_would_disturb() -> None:
    recipe = read_recipe(EVERYTHING)
    main = recipe.main
    waits = {node.id: waits_for(node, main[:at], recipe) for at, node in enumerate(main)}
    assert {name: " ".join(sorted(found)) for name, found in waits.items()} == {
        name: " ".join(sorted(found.split())) for name, found in WAITS.items()
    }


async def test_nodes_that_wait_for_nothing_run_side_by_side() -> None:
    recipe = read_recipe(EVERYTHING)
    running: set[str] = set()
    together: list[set[str]] = []

    async def run(node: Node) -> None:
        running.add(node.id)
        for _ in range(5):
            await asyncio.sleep(0)
        together.append(set(running))
        running.remove(node.id)

    following = {a.id: b.id for a, b in zip(recipe.main, recipe.main[1:], strict=False)}
    await follow(recipe, run, lambda node: following.get(node.id, "end"))
    assert {"look", "read", "lint", "types"} <= set().union(*(t for t in together if "lint" in t))
    assert all(len(t & {"make", "write", "last"}) <= 1 for t in together)


async def test_the_first_failure_is_raised_and_what_waits_does_not_begin() -> None:
    recipe = read_recipe(
        "{name: r, nodes: [{id: a, model: x}, {id: b, model: x}, {id: c, command: x},"
        " {id: d, command: x}]}"
    )
    begun: list[str] = []

    async def run(node: Node) -> None:
        begun.append(node.id)
        if node.id == "b":
            raise ToolError("broken")
        await asyncio.Event().wait()

    following = {"a": "b", "b": "c", "c": "d", "d": "end"}
    with pytest.raises(ToolError, match="broken"):
        await follow(recipe, run, lambda node: following[node.id])
    assert begun == ["a", "b", "c"]


async def test_items_run_within_the_bound_and_their_results_keep_the_order() -> None:
    running = most = 0

    async def run(at: int, item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20 - item):
            await asyncio.sleep(0)
        running -= 1
        return at * 100 + item

    assert await side_by_side([1, 2, 3, 4, 5], run, 3) == [1, 102, 203, 304, 405]
    assert most == 3
    most = 0
    await side_by_side([1, 2, 3], run, 1)
    assert most == 1


@pytest.mark.parametrize(
    ("nodes", "part"),
    [
        ("[{id: a, command: x, thread: t}]", "thread belongs to a model"),
        ("[{id: a, model: x, parallel: true}]", "parallel belongs to command, tool, agent"),
        ("[{id: a, command: x, after: [b]}, {id: b, command: y}]", "cannot run after b"),
        ("[{id: a, command: x, after: [nix]}]", "cannot run after nix"),
        (
            "[{id: a, map: {over: x, do: b}}, {id: b, command: y, after: []}]",
            "after belongs to a node of the main line",
        ),
        (
            "[{id: a, command: '{{nodes.b.text}}'}, {id: b, command: y}]",
            "a refers to the result of b, which does not run before it",
        ),
        (
            "[{id: a, map: {over: x, do: b}}, {id: b, command: 'y {{nodes.c.text}}'},"
            " {id: c, command: z}]",
            "a refers to the result of c, which does not run before it",
        ),
        ("[{id: a, map: {over: x, do: b, parallel: 33}}, {id: b, command: y}]", "too large"),
        ("[{id: a, map: {over: x, do: b}}, {id: b, condition: {value: x, equals: 1}, then: end}]",
         "only command, tool, agent, model nodes"),
        ("[{id: a, model: x, tools: [b]}, {id: b, condition: {value: x, equals: 1}, then: end}]",
         "only command, tool, agent, model, map nodes"),
        ("[{id: c, command: x}, {id: a, model: x, tools: [b]}, {id: b, model: y, tools: [a]}]",
         "a uses itself"),
        ("[{id: a, model: x, thread: t, tools: [b]}, {id: b, map: {over: x, do: c}},"
         " {id: c, model: y, thread: t}]", "c is run by a model, and cannot have a thread"),
        ("[{id: a, model: x, tools: [b]}, {id: b, map: {over: x, do: c}},"
         " {id: c, model: 'y {{nodes.d.text}}'}, {id: d, command: z}]",
         "a refers to the result of d, which does not run before it"),
    ],
)  # fmt: skip
def test_a_wrong_order_is_refused_with_the_reason(nodes: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        read_recipe(f"{{name: r, nodes: {nodes}}}")
