"""Measure calls of one reply one after the other and side by side, in one run.

Three plan steps are handed to sub-agents whose model takes a fixed time for each reply, as a
provider does. Both ways run the same script through the graph, alternating. Printed is the ratio of
the wall times; the milliseconds are of this machine and moment.

    python -m benchmarks.delegated_steps [--agents 3] [--delay 0.3] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from langchain_core.messages import HumanMessage, SystemMessage

from kogniterm.agent.graph import think
from kogniterm.agent.graph_state import ThinkContext
from kogniterm.execution.command_output import OutputStore
from kogniterm.models.calling import ModelOptions
from kogniterm.models.scripted_model import open_scripted
from kogniterm.tools.file_tools import read_file
from kogniterm.types import Phrase


def script(folder: Path, agents: int, delay: float) -> Path:
    """Write a script whose model hands out `agents` tasks of two replies each."""
    names = [f"part{n}" for n in range(1, agents + 1)]
    calls = "".join(
        f"      - {{tool: delegate, arguments: {{task: Look at {name}.txt, tools: read}}}}\n"
        for name in names
    )
    looks = "".join(
        f"  - {{when: {{last_contains: Look at {name}.txt}}, delay: {delay}, calls: "
        f"[{{tool: read_file, arguments: {{path: {name}.txt}}}}]}}\n"
        f"  - {{when: {{last_contains: text of {name}}}, delay: {delay}, text: found {name}}}\n"
        for name in names
    )
    for name in names:
        (folder / f"{name}.txt").write_text(f"text of {name}\n")
    file = folder / "script.yaml"
    first = f"  - when: {{last_contains: go}}\n    calls:\n{calls}"
    file.write_text(
        f"delays: true\nreplies:\n{first}{looks}  - {{when: {{tool: delegate}}, text: done}}\n"
    )
    return file


async def seconds(folder: Path, file: Path, at_once: int) -> float:
    """Return how long the turn takes with `at_once` calls at a time."""
    ids = count(1)

    async def go_on(agent: str) -> Phrase | None:
        del agent
        return None

    outputs = OutputStore(folder / "outputs")
    tool = read_file(lambda: str(folder), str(folder), lambda _path: False, outputs)
    context = ThinkContext(
        model=open_scripted(file, ModelOptions()),
        tools={tool.spec.name: tool},
        system=SystemMessage("You are measured."),
        plan_mode="auto",
        may_continue=go_on,
        new_id=lambda: f"r{next(ids)}",
        delegates=True,
    )
    started, answer = time.perf_counter(), None
    async for update in think([HumanMessage("go")], None, replace(context, at_once=at_once)):
        answer = update.answer or answer
    assert answer == "done", answer
    return time.perf_counter() - started


async def measured(agents: int, delay: float, rounds: int) -> Mapping[str, float]:
    """Return the median seconds of both ways."""
    times: dict[str, list[float]] = {"serial": [], "side by side": []}
    for _round in range(rounds):
        for way, at_once in (("serial", 1), ("side by side", agents)):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                file = script(folder, agents, delay)
                times[way].append(await seconds(folder, file, at_once))
    return {way: statistics.median(found) for way, found in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = asyncio.run(measured(options.agents, options.delay, options.rounds))
    for way, taken in found.items():
        print(f"{options.agents} sub-agents {way:12} {taken:6.2f} s")
    print(f"{'ratio':27} {found['serial'] / found['side by side']:6.2f}")


if __name__ == "__main__":
    main()
