"""Images that the model opens with read_file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kogniterm.agent.messages import (
    image_block,
    images_behind_results,
    images_of,
    is_input,
    tool_message,
)
from kogniterm.types import Image, events
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import replayed
from tests.flows.test_images import IN_BASE64, RED, SEES, payloads
from tests.support.forge import Forge
from tests.support.images import gif, jpeg, png

LOOK = "- calls: [{tool: read_file, arguments: {path: red.png}}]\n"


def looking(make_flow: MakeFlow, replies: str, head: str = SEES) -> Flow:
    flow = make_flow(head + replies)
    (flow.folder / "red.png").write_bytes(RED)
    return flow


async def test_the_model_sees_what_it_reads_and_it_stands_once_in_the_journal(
    make_flow: MakeFlow,
) -> None:
    flow = looking(
        make_flow,
        LOOK + "- {expect: {images: 1}, text: Red.}\n- {expect: {images: 1}, text: Still red.}",
    )
    assert (await flow.run("Look at red.png")).text == "Red."
    assert (await flow.run("Sure?")).text == "Still red."
    (ran,) = flow.of(events.ToolRan)
    assert ran.observation == f"[PNG image, 4x3 pixels, {len(RED)} bytes]"
    assert payloads(flow).count(IN_BASE64) == 1


async def test_a_model_without_image_input_gets_a_description(make_flow: MakeFlow) -> None:
    flow = looking(make_flow, LOOK + "- {expect: {images: 0}, text: A picture.}", "replies:\n")
    assert (await flow.run("Look at red.png")).text == "A picture."
    assert flow.shown[2].endswith("bytes]\n[red.png is not shown: this model takes no such images]")
    assert IN_BASE64 not in payloads(flow)


async def test_one_outside_the_workspace_is_seen_once_it_is_approved(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    away = tmp_path / "away.png"
    away.write_bytes(RED)
    flow = make_flow(
        SEES
        + f"- calls: [{{tool: read_file, arguments: {{path: '{away}'}}}}]\n"
        + "- {expect: {images: 1}, text: Red.}",
        decisions=[yes],
    )
    assert (await flow.run("Look")).text == "Red."
    assert len(flow.of(events.ActionProposed)) == 1
    assert payloads(flow).count(IN_BASE64) == 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (png()[:18], "is a damaged PNG image"),
        (jpeg(9_000, 10), "is too large to view (JPEG image, 9000x10 pixels"),
    ],
)
async def test_what_no_provider_takes_is_told(make_flow: MakeFlow, data: bytes, said: str) -> None:
    flow = make_flow(SEES + LOOK + "- {expect: {images: 0}, text: I see.}")
    (flow.folder / "red.png").write_bytes(data)
    await flow.run("Look")
    assert said in flow.shown[2]


async def test_a_replay_sees_it_without_the_file(make_flow: MakeFlow, forge: Forge) -> None:
    flow = looking(make_flow, LOOK + "- {expect: {images: 1}, text: Red.}")
    await flow.run("Look at red.png")
    flow.close()
    (flow.folder / "red.png").unlink()
    status, report = replayed(forge, flow)
    assert (status, report["divergence"]) == (0, None)


def test_the_images_of_one_round_come_in_order_and_are_no_words_of_the_user() -> None:
    first, second = (image_block(Image(gif(3, 3), "image/gif", name, 3, 3)) for name in "ab")
    calls = [{"name": "read_file", "args": {}, "id": one} for one in "12"]
    shown = images_behind_results(
        [
            HumanMessage("look"),
            AIMessage("", tool_calls=calls),
            tool_message("1", "read_file", "one", images=[first]),
            tool_message("2", "read_file", "two", images=[second]),
            AIMessage("Two pictures."),
        ]
    )
    assert [type(message) for message in shown] == [
        HumanMessage, AIMessage, ToolMessage, ToolMessage, HumanMessage, AIMessage,
    ]  # fmt: skip
    assert [message.content for message in shown[2:4]] == ["one", "two"]
    assert [block["extras"]["name"] for block in images_of(shown[4])] == ["a", "b"]
    assert not is_input(shown[4])
    assert json.dumps(shown[4].content)
