"""The order of a recipe's nodes: a node starts when those it waits for have ended.

A node waits for the nodes whose results it refers to, and for a condition before it. What acts
(commands, tools with effects, acting sub-agents) and what reads (the other tools and sub-agents)
keeps the order of the file: an acting node runs beside no other of these. Model nodes without
tools, conditions and the calculator see nothing but their values and wait for nothing else.
`after` replaces the order of the file; a `parallel` node counts as one that reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeVar

from kogniterm.addons.recipes import recipe_schema as recipes
from kogniterm.addons.recipes.recipe_schema import Node, Recipe
from kogniterm.agent.plan.plan_steps import ACTING, TOOL_SETS

Access = Literal["none", "reads", "acts"]
"""The part of the world beside its values that a node needs: none, to see it, or to change it."""

PURE_TOOLS = ("calculate",)
_ACCESSES: tuple[Access, ...] = ("none", "reads", "acts")
_Item = TypeVar("_Item")
_T = TypeVar("_T")


def access_of(node: Node, recipe: Recipe) -> Access:
    """Return the access that `node`, and the nodes that it uses, need."""
    if node.parallel:
        return "reads"
    if node.command is not None:
        return "acts"
    if node.tool is not None:
        if node.tool in PURE_TOOLS:
            return "none"
        return "reads" if node.tool in TOOL_SETS["read"] else "acts"
    if node.agent is not None:
        return "acts" if node.tools in ACTING else "reads"
    used = [access_of(one, recipe) for one in recipe.used_by(node)]
    return max(used, key=_ACCESSES.index, default="none")


def waits_for(node: Node, begun: Sequence[Node], recipe: Recipe) -> set[str]:
    """Return those of the nodes before it, which have `begun`, that `node` waits for."""
    threads = _threads(node, recipe)
    found = {one.id for one in begun if threads & _threads(one, recipe)}
    found |= recipe.needs(node)
    if node.after is not None:
        found.update(node.after)
    else:
        own = access_of(node, recipe)
        found |= {one.id for one in begun if _disturb(own, access_of(one, recipe))}
    return found & {one.id for one in begun}


def _threads(node: Node, recipe: Recipe) -> set[str]:
    return {one.thread for one in (node, *recipe.below(node)) if one.thread is not None}


def _disturb(one: Access, other: Access) -> bool:
    return "acts" in (one, other) and "none" not in (one, other)


async def follow(
    recipe: Recipe, run: Callable[[Node], Awaitable[None]], leads_to: Callable[[Node], str]
) -> None:
    """Run the nodes of the main line, each when those that it waits for have ended.

    `leads_to` names the node after one, or `end`; for a condition it is asked once that has
    ended. Raises what the first node to fail raised: nodes that wait do not begin then, and
    those that run are cancelled.
    """
    nodes = {node.id: node for node in recipe.main}
    ended = {name: asyncio.Event() for name in nodes}
    begun: list[Node] = []

    async def one(node: Node, waits: set[str]) -> None:
        for name in waits:
            await ended[name].wait()
        await run(node)
        ended[node.id].set()

    async with together() as group:
        way = recipe.main[0].id
        while way != recipes.END:
            node = nodes[way]
            group.create_task(one(node, waits_for(node, begun, recipe)))
            begun.append(node)
            if node.condition is not None:
                await ended[way].wait()
            way = leads_to(node)


async def side_by_side(
    items: Iterable[_Item], run: Callable[[int, _Item], Awaitable[_T]], most: int
) -> list[_T]:
    """Run the items, at most `most` at a time, and return their results in order.

    Raises the error of the first item that fails; no other item begins then.
    """
    if most == 1:
        return [await run(at, item) for at, item in enumerate(items)]
    room = asyncio.Semaphore(most)

    async def one(at: int, item: _Item) -> _T:
        async with room:
            return await run(at, item)

    async with together() as group:
        tasks = [group.create_task(one(at, item)) for at, item in enumerate(items)]
    return [task.result() for task in tasks]


@asynccontextmanager
async def together() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks as a `TaskGroup` does, and raise the first error itself, not a group of them."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
