"""Measure the agent's time per step beside a bare loop that does the same with the same libraries.

Both run N scripted steps (a model that answers at once, a real `true` in a PTY, an observation)
in a process of their own. Printed are ratios; the milliseconds are of this machine and moment.

    python benchmarks/loop.py [--steps 20 200]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FLOOR = """
import asyncio, json, operator, os, pty, resource, sys, time
from typing import Annotated, TypedDict
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph

steps = int(sys.argv[1])
marks = []

class State(TypedDict, total=False):
    messages: Annotated[list, operator.add]

def model(state):
    marks.append(time.perf_counter())
    n = len(marks)
    if n > steps:
        return {"messages": [AIMessage("done")]}
    call = {"name": "execute_command", "args": {"command": "true"}, "id": f"c{n}"}
    return {"messages": [AIMessage("", tool_calls=[call])]}

def act(state):
    call = state["messages"][-1].tool_calls[0]
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("bash", ["bash", "-c", call["args"]["command"]])
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return {"messages": [ToolMessage(f"[exit {status}]", tool_call_id=call["id"])]}

graph = StateGraph(State)
graph.add_node("model", model)
graph.add_node("act", act)
graph.add_edge(START, "model")
graph.add_conditional_edges("model", lambda s: "act" if s["messages"][-1].tool_calls else END)
graph.add_edge("act", "model")
app = graph.compile()

async def main():
    state = {"messages": [HumanMessage("go")]}
    await app.ainvoke(state, {"recursion_limit": 10_000})

asyncio.run(main())
times = [b - a for a, b in zip(marks, marks[1:])]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"times": times, "peak": peak}))
"""

OURS = """
import asyncio, json, resource, sys, time
from kogniterm import settings
from kogniterm.types import events
from kogniterm.approval import Unattended
from kogniterm.runtime.build import open_session
from kogniterm.types import UserInput

marks = []

def sink(event):
    if isinstance(event, events.ModelCalled):
        marks.append(time.perf_counter())

loaded = settings.load(
    {"model": f"scripted:{sys.argv[2]}", "approval_mode": "auto", "sandbox": "off",
     "max_steps": 100_000},
    environ=settings.environment(),
)
session = open_session(loaded, folder=sys.argv[3])
answer = asyncio.run(
    session.run(UserInput("go"), approver=Unattended(), sink=sink)
)
session.close()
assert answer.exit_code == 0, answer
times = [b - a for a, b in zip(marks, marks[1:])]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"times": times, "peak": peak}))
"""


def script(folder: Path, steps: int) -> Path:
    """Write a script for a model that runs `true` with a changing comment, `steps` times."""
    file = folder / f"steps-{steps}.yaml"
    runs = "".join(f"  - run: 'true # {n}'\n" for n in range(steps))
    file.write_text(f"replies:\n{runs}  - text: done\n")
    return file


def run(code: str, *arguments: str, folder: Path) -> dict[str, object]:
    """Run `code` in a fresh interpreter with state folders of its own."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    for name in ("CONFIG", "DATA", "CACHE"):
        keep[f"KOGNITERM_{name}_DIR"] = str(folder / name.lower())
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=keep, check=True, capture_output=True, text=True,
    )  # fmt: skip
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def milliseconds(times: list[float]) -> float:
    """Return the median step in milliseconds."""
    return statistics.median(times) * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, nargs="+", default=[20, 200])
    options = parser.parse_args()
    print(
        f"{'steps':>6} {'':10} {'ms/step':>8} {'first 10':>9} {'last 10':>8} {'growth':>7} peak MB"
    )
    for steps in options.steps:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            floor = run(FLOOR, str(steps), folder=folder)
            ours = run(OURS, str(steps), str(script(folder, steps)), name, folder=folder)
        for label, result in (("floor", floor), ("kogniterm", ours)):
            times = result["times"]
            assert isinstance(times, list)
            first, last = milliseconds(times[:10]), milliseconds(times[-10:])
            print(
                f"{steps:>6} {label:10} {milliseconds(times):8.1f} {first:9.1f} {last:8.1f} "
                f"{last / first:7.2f} {result['peak']:7.0f}"
            )
        ratio = milliseconds(ours["times"]) / milliseconds(floor["times"])  # type: ignore[arg-type]
        print(f"{steps:>6} ratio      {ratio:8.2f}")


if __name__ == "__main__":
    main()
