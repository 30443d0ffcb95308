"""Sub-agents: their own history and budget, only a result comes back, side by side."""

from __future__ import annotations

import pytest

from kogniterm.runtime import events
from tests.flows.conftest import MakeFlow

DELEGATE = """
replies:
  - when: {turn: 1, last_contains: Compare them}
    calls:
      - {tool: delegate, arguments: {task: Look at a.txt, tools: read}}
      - {tool: delegate, arguments: {task: Look at b.txt, tools: read}}
  - when: {last_contains: Look at a.txt}
    calls: [{tool: read_file, arguments: {path: a.txt}}]
  - when: {last_contains: Look at b.txt}
    calls: [{tool: read_file, arguments: {path: b.txt}}]
  - {when: {last_contains: first secret word}, text: a.txt is blue.}
  - {when: {last_contains: second secret word}, text: b.txt is green.}
  - {when: {last_contains: b.txt is green.}, text: They differ.}
"""


async def test_only_the_results_come_back_in_order(make_flow: MakeFlow) -> None:
    flow = make_flow(DELEGATE)
    (flow.folder / "a.txt").write_text("first secret word\n")
    (flow.folder / "b.txt").write_text("second secret word\n")
    answer = await flow.run("Compare them")
    assert (answer.text, answer.exit_code) == ("They differ.", 0)
    assert flow.shown[2:4] == ["a.txt is blue.", "b.txt is green."]
    assert not any("secret word" in text for text in flow.shown)
    assert answer.usage.calls == 6
    assert [e.name for e in flow.of(events.ToolRan)].count("read_file") == 2
    assert "blue" not in "".join(e.text for e in flow.of(events.AnswerDelta))


async def test_a_sub_agent_cannot_act_nor_delegate(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls: [{tool: delegate, arguments: {task: Break out}}]
  - when: {last_contains: Break out}
    calls: [{tool: execute_command, arguments: {command: touch broken}}]
  - when: {last_contains: There is no tool execute_command}
    calls: [{tool: delegate, arguments: {task: again}}]
  - when: {last_contains: There is no tool delegate}
    calls: [{tool: read_file, arguments: {path: .env}}]
  - {when: {last_contains: a sub-agent only reads}, text: I could not.}
  - {when: {last_contains: I could not}, text: It could not.}
"""
    flow = make_flow(script)
    (flow.folder / ".env").write_text("KEY=1\n")
    assert (await flow.run()).text == "It could not."
    assert not flow.of(events.ActionProposed)
    assert not (flow.folder / "broken").exists()


async def test_its_token_budget_ends_it_and_the_turn_goes_on(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls: [{tool: delegate, arguments: {task: Dig, tokens: 500}}]
  - when: {last_contains: Dig}
    text: A first finding.
    calls: [{tool: find_files, arguments: {pattern: '*'}}]
    usage: {input: 600, output: 10}
  - {when: {tool: delegate}, text: It ran out.}
"""
    flow = make_flow(script)
    assert (await flow.run()).text == "It ran out."
    assert "budget of 500 tokens is used up" in flow.shown[2]
    assert "A first finding." in flow.shown[2]


async def test_it_counts_towards_the_budget_of_the_turn(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls: [{tool: delegate, arguments: {task: Dig}}]
  - {calls: [{tool: find_files, arguments: {pattern: '*'}}], repeat: forever}
"""
    flow = make_flow(script, max_steps=3)
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("budget", 4)
    assert len(flow.of(events.ModelCalled)) == 3


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("{}", "needs a task"),
        ("{task: x, tools: shell}", "tools must be one of"),
        ("{task: x, tokens: 0}", "tokens must be"),
        ("{task: x, model: y}", "has no model"),
    ],
)
async def test_wrong_tasks_are_said(make_flow: MakeFlow, arguments: str, part: str) -> None:
    flow = make_flow(
        f"replies: [{{calls: [{{tool: delegate, arguments: {arguments}}}]}}, {{text: Oh.}}]"
    )
    assert (await flow.run()).text == "Oh."
    assert part in flow.shown[2]


async def test_a_failing_one_does_not_disturb_the_others(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls:
      - {tool: delegate, arguments: {task: Fail}}
      - {tool: delegate, arguments: {task: Succeed}}
  - {when: {last_contains: Fail}, error: unavailable, message: Gone.}
  - {when: {last_contains: Succeed}, text: Found.}
  - {when: {tool: delegate}, text: Half of it.}
"""
    flow = make_flow(script)
    assert (await flow.run()).text == "Half of it."
    assert flow.shown[2] == "The sub-agent failed: Gone."
    assert flow.shown[3] == "Found."
