"""`kill -9` at every point of a turn with sub-agents: nothing runs twice, and each continues."""

from __future__ import annotations

import os
import signal

import pytest

from tests.flows.conftest import MakeFlow
from tests.flows.program import replayed, start_run
from tests.support.forge import Forge

ALL = os.environ.get("KOGNITERM_TEST_FAULTS") == "all"
NODES = 17
"""Nodes of the script below, those of its sub-agents included."""

POINTS = [
    f"{when}-{kind}:{number}"
    for when in ("before", "written", "after")
    for kind, count in (
        ("node", NODES), ("request", 3), ("verdict", 3), ("decision", 3), ("intent", 3),
        ("outcome", 3),
    )
    for number in range(1, count + 1)
]  # fmt: skip
SCRIPT = """
replies:
  - when: {turn: 1, last_contains: go}
    calls:
      - {tool: delegate, arguments: {task: Look around}}
      - {tool: delegate, arguments: {task: Look about}}
      - {tool: delegate, arguments: {task: Do first, tools: run}}
      - {tool: delegate, arguments: {task: Do second, tools: run}}
  - when: {last_contains: Look a}
    calls: [{tool: find_files, arguments: {glob: '*'}}]
    repeat: forever
  - {when: {tool: find_files}, text: Nothing., repeat: forever}
  - when: {last_contains: Do first}
    calls: [{run: echo 1 >>count}, {run: echo 2 >>count}]
    repeat: forever
  - {when: {last_contains: Do second}, calls: [{run: echo 3 >>count}], repeat: forever}
  - {when: {tool: execute_command}, text: Result., repeat: forever}
  - {when: {tool: delegate}, text: Done., repeat: forever}
"""


@pytest.mark.parametrize(
    "point", POINTS if ALL else ["written-node:8", "after-node:11", "after-intent:2"]
)
async def test_a_turn_with_sub_agents_goes_on_where_it_was(
    make_flow: MakeFlow, forge: Forge, point: str
) -> None:
    flow = make_flow(SCRIPT)
    killed = start_run(forge, flow, "-y", "go", faults=f"kill:{point}")
    assert killed.wait() == -signal.SIGKILL, killed.said
    again = make_flow(SCRIPT)
    session = again.open("last")
    if not session.state.open_turn:
        return  # nothing had begun, or everything had ended
    answer = await again.run(None)
    assert answer.text == "Done."
    lines = (again.folder / "count").read_text().split()
    lost = 1 if answer.stop == "unknown" else 0
    assert len(lines) == len(set(lines)) >= 3 - lost
    assert lines == sorted(lines)
    assert not session.state.agents
    assert not session.state.pending
    again.close()
    status, report = replayed(forge, again)
    assert (status, report["divergence"]) == (0, None)
