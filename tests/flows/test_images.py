"""Images named in an input: sent once, stored once, and dropped with a notice."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from kogniterm.agent.compaction import estimate_tokens
from kogniterm.agent.messages import images_of
from kogniterm.runtime.context import attach_files
from kogniterm.runtime.inputs.agent_turn import address_agent
from kogniterm.sessions.forget_words import forget
from kogniterm.sessions.session_transfer import export_lines, import_lines, report_lines
from kogniterm.types import ModelInfo, UserInput, events
from kogniterm.types.images import IMAGE_BYTES
from tests.flows.conftest import Flow, MakeFlow
from tests.support.images import gif, jpeg, png

SEES = "model: {images: true}\nreplies:\n"
RED = png()
IN_BASE64 = base64.b64encode(RED).decode()
ASKED = UserInput("What is @red.png?", attachments=("red.png",))


def looking(make_flow: MakeFlow, replies: str) -> Flow:
    flow = make_flow(SEES + replies)
    (flow.folder / "red.png").write_bytes(RED)
    return flow


def payloads(flow: Flow) -> str:
    return "\n".join(str(record.body) for record in flow.session.journal.records())


async def test_an_image_reaches_the_model_and_stands_once_in_the_journal(
    make_flow: MakeFlow,
) -> None:
    flow = looking(
        make_flow, "- {expect: {images: 1}, text: Red.}\n- {expect: {images: 1}, text: Yes.}"
    )
    assert (await flow.run(ASKED)).text == "Red."
    assert (await flow.run("Sure?")).text == "Yes."
    assert flow.shown[0].startswith(
        'What is @red.png?\n\n<file name="red.png">\n[PNG image, 4x3 pixels,'
    )
    assert payloads(flow).count(IN_BASE64) == 1
    assert (
        flow.session.context.used_tokens > estimate_tokens(flow.session.state.messages[1:]) + 1_600
    )
    assert flow.of(events.Notice) == []


async def test_an_image_that_the_provider_refuses_costs_no_later_turn(make_flow: MakeFlow) -> None:
    flow = looking(
        make_flow,
        "- {error: refused, message: Could not process image}\n"
        "- {expect: {images: 0, any_contains: the provider refused it}, text: I cannot see it.}\n"
        "- {expect: {images: 0}, text: Yes.}",
    )
    assert (await flow.run(ASKED)).text == "I cannot see it."
    assert "Could not process image" in str(flow.of(events.ModelRetried)[0].reason)
    assert (await flow.run("Sure?")).text == "Yes."


async def test_an_input_above_the_window_is_said_to_be_cut(make_flow: MakeFlow) -> None:
    model = "model: {context_window: 16000, max_output: 1000}\n"
    flow = make_flow(model + "replies:\n- {when: {purpose: compact}, text: S.}\n- Done.")
    assert (await flow.run("word " * 40_000)).text == "Done."
    (told,) = flow.of(events.Notice)
    assert "more than this model takes, so the middle of it is left out" in str(told.text)


async def test_a_resumed_session_still_shows_it(make_flow: MakeFlow) -> None:
    flow = looking(make_flow, "- Red.")
    await flow.run(ASKED)
    session_id = flow.session.id
    flow.close()
    (flow.folder / "red.png").unlink()
    again = make_flow(SEES + "- {expect: {images: 1}, text: Still red.}")
    again.open(session_id)
    assert (await again.run("And now?")).text == "Still red."


async def test_a_model_without_image_input_is_told_and_so_is_the_user(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{expect: {images: 0}, text: I see nothing.}]")
    (flow.folder / "red.png").write_bytes(RED)
    await flow.run(ASKED)
    (notice,) = flow.of(events.Notice)
    assert "does not accept images; only the name red.png is sent." in str(notice.text)
    assert "[not shown: PNG image, 4x3 pixels" in flow.shown[0]


async def test_compaction_drops_it_with_a_note(make_flow: MakeFlow) -> None:
    flow = looking(
        make_flow,
        "- Red.\n- {when: {purpose: compact}, text: A red picture was shown.}\n"
        "- {expect: {images: 0, any_contains: 'no longer shown'}, text: I remember.}",
    )
    await flow.run(ASKED)
    before = flow.session.journal.history_tokens
    await flow.session.context.compact_now(asked=True)
    assert flow.session.journal.history_tokens < before - 1_500
    assert (await flow.run("What was it?")).text == "I remember."
    assert payloads(flow).count(IN_BASE64) == 1


async def test_a_full_window_does_not_take_the_image_that_was_just_shown(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(
        "model: {images: true, context_window: 9000, max_output: 1000}\n"
        "replies:\n- Noted.\n- {when: {purpose: compact}, text: Much was said.}\n"
        "- {expect: {images: 1}, text: Red.}"
    )
    (flow.folder / "red.png").write_bytes(RED)
    await flow.run("word " * 3_000)
    assert (await flow.run(ASKED)).text == "Red."


async def test_export_and_import_bring_the_image_back(make_flow: MakeFlow) -> None:
    flow = looking(make_flow, "- Red.")
    await flow.run(ASKED)
    store = flow.session.archive.store
    lines = list(export_lines(store, flow.session.id))
    assert sum(line.count(IN_BASE64) for line in lines) == 1
    copy = import_lines(store, lines)
    again = list(export_lines(store, copy.id))
    assert sum(line.count(IN_BASE64) for line in again) == 1


async def test_a_bug_report_holds_no_picture(make_flow: MakeFlow) -> None:
    flow = looking(make_flow, "- Red.")
    await flow.run(ASKED)
    store = flow.session.archive.store
    lines = "\n".join(report_lines(store, flow.session.id, redact=str, about={}))
    assert IN_BASE64 not in lines
    assert "an image is left out here" in lines


@pytest.mark.parametrize("words", ["red", IN_BASE64[20:30]])
async def test_forgetting_what_was_said_with_it_takes_the_picture_too(
    make_flow: MakeFlow, words: str
) -> None:
    flow = looking(make_flow, "- Fine.\n- {expect: {images: 0}, text: I forgot.}")
    await flow.run(ASKED)
    store, journal = flow.session.archive.store, flow.session.journal.journal
    forget(store, [words], live={flow.session.id: journal})  # type: ignore[dict-item]  # its real kind
    assert IN_BASE64 not in payloads(flow)
    assert images_of(flow.session.state.messages[0]) == []
    assert (await flow.run("And?")).text == "I forgot."


def model(*kinds: str) -> ModelInfo:
    return ModelInfo("a:b", "a", 100_000, 4_000, images=kinds)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("wide.jpg", jpeg(9_000, 10), "wide.jpg is too large to send (0.0 MB, 9000x10 pixels)"),
        ("fat.png", png() + b"\0" * IMAGE_BYTES, "fat.png is too large to send (3.9 MB, 4x3"),
        ("cut.png", png()[:18], "cut.png is a damaged image"),
        (
            "old.bmp",
            b"BM" + b"\0" * 40,
            "does not accept BMP images; only the name old.bmp is sent",
        ),
        ("film.gif", gif(3, 3), "does not accept GIF images; only the name film.gif is sent"),
    ],
)
def test_what_is_not_sent_is_said(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    beside = attach_files([name], tmp_path, 1_000, str, model("image/png", "image/jpeg"))
    assert beside.images == ()
    assert "[not shown: " in beside.text
    (notice,) = beside.notices
    assert said in str(notice)


def test_the_kind_is_told_by_its_bytes_and_not_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(png())
    beside = attach_files(["notes.txt"], tmp_path, 1_000, str, model("image/png"))
    (block,) = beside.images
    assert block["mime_type"] == "image/png"
    assert json.dumps(block)


async def test_a_sub_agent_that_the_user_calls_sees_it(make_flow: MakeFlow, tmp_path: Path) -> None:
    agents = tmp_path / "config" / "agents"
    agents.mkdir(parents=True)
    (agents / "viewer.md").write_text("Look.")
    flow = looking(make_flow, "- {expect: {images: 1}, text: Red., repeat: forever}")
    session = flow.open()
    given = UserInput("@viewer What is @red.png?", attachments=("red.png",))
    answer = await flow.run(address_agent(given, session.extensions.agents.named))
    assert answer.text == "Red."
