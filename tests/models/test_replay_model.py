"""The replay model: an exported session or a bug report played again without its provider."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kogniterm.errors import ModelError, UsageError
from kogniterm.models import ModelOptions, open_model
from kogniterm.runtime.operations.recordings import read_recording
from kogniterm.types import AnswerDelta, Reply
from tests.flows.conftest import Flow, MakeFlow, change_to, make_flow, yes
from tests.support.asking import ask

__all__ = ["make_flow"]

SCRIPT = """
model: {context_window: 12000, max_output: 1000}
replies:
  - {when: {purpose: compact}, text: It looked., repeat: forever}
  - {when: {turn: 1, last_contains: go}, text: Let me look., calls: [{run: echo one}],
     usage: {input: 10, output: 5}}
  - {when: {last_contains: one}, calls: [{tool: delegate, arguments: {task: Count}}]}
  - {when: {last_contains: Count}, text: Three.}
  - {when: {tool: delegate}, text: Done.}
  - {when: {last_contains: more}, text: half, error: quota, message: used up}
"""
"""A session with a command, a sub-agent, and a call that fails."""


async def exported(flow: Flow, *inputs: str) -> Path:
    from kogniterm.runtime.operations.stored_data import export_parts

    for text in inputs:
        await flow.run(text)
    assert flow.session is not None
    file = flow.folder.parent / "session.jsonl"
    file.write_text(
        "".join(export_parts(flow.session.archive.store, flow.session.id, "jsonl", str))
    )
    flow.close()
    return file


def options() -> ModelOptions:
    return ModelOptions(read_recording=read_recording)


async def test_each_caller_gets_its_own_replies_in_order(make_flow: MakeFlow) -> None:
    file = await exported(make_flow(SCRIPT, decisions=[yes]), "go", "more")
    model = open_model(f"replay:{file}", options())
    assert (model.info.name, model.info.provider) == (f"replay:{file}", "replay")
    first = await ask(model, "go")
    assert (first.message.text, first.message.tool_calls[0]["name"]) == (
        "Let me look.",
        "execute_command",
    )
    assert [type(event) for event in first.events] == [AnswerDelta, Reply]
    assert (first.reply.usage.input, first.reply.usage.output) == (10, 5)
    second = await ask(model)
    (call,) = second.message.tool_calls
    assert (await ask(model, agent=call["id"])).message.text == "Three."
    assert (await ask(model)).message.text == "Done."
    with pytest.raises(ModelError, match="recorded model call failed"):
        await ask(model)
    with pytest.raises(ModelError, match="ends after 5 calls"):
        await ask(model)
    with pytest.raises(ModelError, match="no response to this model request"):
        await ask(model, purpose="extract_facts")


async def test_a_recorded_session_runs_again_with_its_replies(
    make_flow: MakeFlow, caplog: pytest.LogCaptureFixture
) -> None:
    file = await exported(make_flow(SCRIPT, decisions=[yes], memory="off"), "go")
    again = make_flow(decisions=[yes], model=f"replay:{file}", memory="off")
    assert (await again.run("go")).text == "Done."
    assert [result.command for result in again.results] == ["echo one"]
    assert "differs" not in caplog.text
    again.close()
    other = make_flow(decisions=[change_to("echo two"), yes], model=f"replay:{file}", memory="off")
    await other.run("go")
    assert "differs: call 2, message 1 since the reply before it" in caplog.text


async def test_a_compaction_has_its_recorded_summary(make_flow: MakeFlow) -> None:
    flow = make_flow(SCRIPT, decisions=[yes])
    await flow.run("go")
    assert flow.session is not None
    await flow.session.context.compact_now(asked=True)
    file = await exported(flow)
    model = open_model(f"replay:{file}", options())
    assert (await ask(model, purpose="compact")).message.text == "It looked."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a valid export"),
        ("not json", "not a valid export"),
        ('{"format":"kogniterm.session","version":99}', "newer"),
        (
            json.dumps({"version": 1, "model": {"name": "m"}}),
            "format is missing",
        ),
    ],
)
def test_what_is_no_recording_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        open_model(f"replay:{file}", options())
    assert words in str(caught.value)


def test_without_a_reader_a_recording_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="read_recording"):
        open_model("replay:r.jsonl", ModelOptions(base_folder=tmp_path))
