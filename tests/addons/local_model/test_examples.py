"""Approved commands that worked are examples for the embedded model."""

from __future__ import annotations

import json

import pytest

from tests.flows.conftest import Flow, MakeFlow, change_to, make_flow, no, yes
from tests.flows.test_learning import ONE

__all__ = ["make_flow"]


def learned(flow: Flow) -> list[tuple[str, str]]:
    file = flow.data / "examples.jsonl"
    if not file.exists():
        return []
    pairs = map(json.loads, file.read_text().splitlines())
    return [(pair["request"], pair["command"]) for pair in pairs]


async def test_an_approved_command_that_worked_becomes_an_example(make_flow: MakeFlow) -> None:
    flow = make_flow(ONE % "echo long" + "\n", decisions=[change_to("echo short"), yes])
    await flow.run("say it")
    assert learned(flow) == [("say it", "echo short")]


async def test_a_look_at_the_files_before_it_does_not_count(make_flow: MakeFlow) -> None:
    looks = "{calls: [{tool: find_files, arguments: {glob: '*'}}]}"
    script = f"replies: [{looks}, {{run: 'echo x'}}, {{text: Done.}}]"
    flow = make_flow(script, decisions=[yes])
    await flow.run("say it")
    assert learned(flow) == [("say it", "echo x")]


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
    make_flow: MakeFlow, script: str, decisions: list, flags: dict[str, object]
) -> None:
    flow = make_flow(script, decisions=decisions, **flags)
    await flow.run("say it")
    assert learned(flow) == []


async def test_a_secret_never_becomes_an_example(make_flow: MakeFlow) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    flow = make_flow(ONE % f"echo {secret}", decisions=[yes])
    await flow.run(f"say {secret}")
    assert learned(flow) == []
