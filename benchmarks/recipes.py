"""Measure how much of the time a recipe takes when its nodes run side by side.

Each recipe runs twice in one process, in turn: as written, and with everything in order (one item
at a time, no `parallel`, each node after the one before). The model is scripted and answers after
half a second; commands really run. Printed are ratios of the wall times, medians of several runs.

    python -m benchmarks.recipes [--runs 3] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measuring import store_figures
from kogniterm import settings
from kogniterm.addons.recipes.recipe_schema import Recipe, read_recipe
from kogniterm.addons.recipes.run_recipe import run_in_session
from kogniterm.approval import Unattended
from kogniterm.runtime.build import open_session

SCRIPT = """
delays: true
replies: [{text: Done., delay: 0.5, repeat: forever}]
"""

RECIPES: Mapping[str, str] = {
    "four questions to the model": """
name: questions
nodes:
  - {id: a, model: One.}
  - {id: b, model: Two.}
  - {id: c, model: Three.}
  - {id: d, model: Four.}
""",
    "a question for each of eight items, four at a time": """
name: items
nodes:
  - {id: each, map: {over: "1\\n2\\n3\\n4\\n5\\n6\\n7\\n8", do: ask, parallel: 4}}
  - {id: ask, model: "Item {{item}}."}
""",
    "four parallel commands of half a second": """
name: commands
nodes:
  - {id: a, command: sleep 0.5, parallel: true}
  - {id: b, command: sleep 0.5, parallel: true}
  - {id: c, command: sleep 0.5, parallel: true}
  - {id: d, command: sleep 0.5, parallel: true}
""",
}


def in_order(recipe: Recipe) -> Recipe:
    """Return the recipe with each node after the one before, and one item at a time."""
    nodes, before = [], ""
    main = [node.id for node in recipe.main]
    for node in recipe.nodes:
        change: dict[str, object] = {"parallel": False}
        if node.map is not None:
            change["map"] = node.map.model_copy(update={"parallel": 1})
        if node.id in main:
            change["after"] = [before] if before else None
            before = node.id
        nodes.append(node.model_copy(update=change))
    return recipe.model_copy(update={"nodes": nodes})


@contextmanager
def home() -> Iterator[tuple[dict[str, str], Path]]:
    """Yield an environment with folders of its own, and the folder to work in."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        environ = {key: os.environ[key] for key in ("PATH", "HOME")}
        for kind in ("CONFIG", "DATA", "CACHE"):
            environ[f"KOGNITERM_{kind}_DIR"] = str(base / kind.lower())
        (base / "script.yaml").write_text(SCRIPT)
        (base / "work").mkdir()
        yield environ, base


async def seconds(recipe: Recipe, environ: Mapping[str, str], base: Path) -> float:
    """Return the wall time of one run, without opening the session."""
    flags = {"model": f"scripted:{base / 'script.yaml'}", "approval_mode": "auto", "sandbox": "off"}
    loaded = settings.load(flags, environ=environ)
    session = open_session(loaded, folder=str(base / "work"), environ=environ)
    try:
        start = time.perf_counter()
        answer = await run_in_session(
            session, recipe, {}, approver=Unattended(), sink=lambda event: None
        )
        took = time.perf_counter() - start
        assert answer.stop == "done", answer
        await session.finish()
        return took
    finally:
        session.close()


async def ratio(recipe: Recipe, runs: int) -> float:
    """Return the time of `recipe` as a part of the time in order."""
    with home() as (environ, base):
        await seconds(recipe, environ, base)  # what is loaded once counts for neither
        pairs = [
            (await seconds(recipe, environ, base), await seconds(in_order(recipe), environ, base))
            for _ in range(runs)
        ]
    return statistics.median(mine / whole for mine, whole in pairs)


def main() -> None:
    """Print a ratio for each recipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="store the figures")
    options = parser.parse_args()
    print("time with parallel nodes / time in order")
    found = {}
    for name, text in RECIPES.items():
        found[name] = asyncio.run(ratio(read_recipe(text), options.runs))
        print(f"  {name}: {found[name]:.2f}")
    if options.write:
        store_figures("python -m benchmarks.recipes", found)


if __name__ == "__main__":
    main()
