"""What is learnt from turns: approved commands as examples; and models without tool calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kogniterm.runtime import events
from tests.flows.conftest import Flow, MakeFlow, change_to, no, yes

ONE = "replies: [{run: '%s'}, {text: Done.}]"


def learned(tmp_path: Path) -> list[tuple[str, str]]:
    file = tmp_path / "data" / "examples.jsonl"
    if not file.exists():
        return []
    pairs = map(json.loads, file.read_text().splitlines())
    return [(pair["request"], pair["command"]) for pair in pairs]


async def test_an_approved_command_that_worked_becomes_an_example(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    flow = make_flow(ONE % "echo long" + "\n", decisions=[change_to("echo short"), yes])
    await flow.run("say it")
    assert learned(tmp_path) == [("say it", "echo short")]


@pytest.mark.parametrize(
    ("script", "decisions", "flags"),
    [
        (ONE % "exit 3", [yes], {}),
        (ONE % "echo x", [no("")], {}),
        (ONE % "echo x", None, {}),
        ("replies: [{run: 'true'}, {run: 'echo x'}, {text: Done.}]", [yes, yes], {}),
        (ONE % "echo x", [yes], {"learn_commands": False}),
        (ONE % "echo x", [yes], {"memory": "off"}),
    ],
    ids=["failed", "refused", "nobody approved", "several", "switched off", "no memory"],
)
async def test_nothing_else_does(
    make_flow: MakeFlow, tmp_path: Path, script: str, decisions: list, flags: dict[str, object]
) -> None:
    await make_flow(script, decisions=decisions, **flags).run("say it")
    assert learned(tmp_path) == []


async def test_a_secret_never_becomes_an_example(make_flow: MakeFlow, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    flow = make_flow(ONE % "echo [secret:1]", decisions=[yes])
    await flow.run(f"say {secret}")
    assert learned(tmp_path) == []


# --- models without tool calls ---------------------------------------------------------------

TEXT = """
model: {calls_tools: false}
replies:
  - text: |
      I look first.
      <tool_call>
      {"name": "make_plan", "arguments": {"goal": "g", "steps": [
        {"id": "s1", "what": "Make it", "check": {"kind": "file", "value": "made"}}]}}
      </tool_call>
  - text: |
      <tool_call>
      {"name": "execute_command", "arguments": {"command": "touch made; echo the-$((20 + 2))"}}
      </tool_call>
      <tool_result>invented</tool_result>
  - when: {last_contains: the-22}
    text: '<tool_call>{"name": "complete_step", "arguments": {"step": "s1"}}</tool_call>'
  - {when: {last_contains: "Check passed: s1 done."}, text: Made.}
"""


async def test_a_model_without_tool_calls_drives_the_same_graph(make_flow: MakeFlow) -> None:
    flow = make_flow(TEXT)
    answer = await flow.run("make it")
    assert (answer.text, answer.exit_code) == ("Made.", 0)
    assert [r.exit_code for r in flow.results] == [0, 0]
    assert flow.session.plan.steps[0].status == "done"  # type: ignore[union-attr]
    shown = "".join(event.text for event in flow.of(events.AnswerDelta))
    assert "tool_call" not in shown
    assert "invented" not in shown


async def test_the_setting_puts_tools_into_the_text_for_any_model(make_flow: MakeFlow) -> None:
    flow: Flow = make_flow(TEXT.replace("model: {calls_tools: false}\n", ""), text_calls=True)
    assert (await flow.run("make it")).text == "Made."


async def test_a_broken_call_is_repaired_once_then_answered_as_an_error(
    make_flow: MakeFlow,
) -> None:
    script = """
model: {calls_tools: false}
replies:
  - text: '<tool_call>{"name": "execute_command"</tool_call>'
  - text: '<tool_call>{"name": "execute_command"</tool_call>'
  - {when: {last_contains: There is no tool}, text: I give up.}
"""
    flow = make_flow(script)
    assert (await flow.run()).text == "I give up."
    assert not flow.results
