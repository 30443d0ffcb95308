"""Recordings: what is stored, what is replayed, and where a new run diverges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from kogniterm.errors import ModelError, ModelQuotaError, UsageError
from kogniterm.models import ModelOptions, open_model
from kogniterm.models.model_recording import CallDivergence, RecordingModel, open_replay
from kogniterm.models.script_file import read_script
from kogniterm.models.scripted_model import ScriptedModel
from kogniterm.types import ModelRetried, Reply, Usage
from tests.support.asking import TOOLS, ask, request

SCRIPT = """
replies:
- thoughts: hmm
  text: Let me look.
  calls: [{run: ls}, {tool: read_file, raw_arguments: '{'}]
  usage: {input: 10, output: 5, cached: 2}
- error: unavailable
  retry: true
- text: done
- text: half
  error: quota
  message: used up
"""


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[RecordingModel, Path]:
    (tmp_path / "s.yaml").write_text(SCRIPT)
    path = tmp_path / "recording.jsonl"
    return RecordingModel(ScriptedModel(read_script(tmp_path / "s.yaml")), path), path


async def session(model: object) -> list[object]:
    """Make the same three calls, and return their events."""
    first = await ask(model, "go", tools=TOOLS)
    answer = ToolMessage("out", tool_call_id=first.message.tool_calls[0]["id"])
    history = [HumanMessage("go"), first.message, answer]
    second = await ask(model, *history, tools=TOOLS)
    with pytest.raises(ModelQuotaError, match="used up"):
        await ask(model, *history, second.message, "more", tools=TOOLS)
    return [*first.events, *second.events]


async def test_a_recorded_session_plays_again_without_its_model(
    recorded: tuple[RecordingModel, Path],
) -> None:
    model, path = recorded
    old = await session(model)
    replayed = open_replay(path)
    new = await session(replayed)
    assert replayed.divergence is None
    assert replayed.info == model.info

    def plain(events: list[object]) -> list[object]:
        return [
            (event.attempt, str(event.reason)) if isinstance(event, ModelRetried) else event
            for event in events
        ]

    assert plain(new) == plain(old)
    replies = [event for event in new if isinstance(event, Reply)]
    assert replies[0].usage == Usage(10, 5, 2, 1)
    assert replies[0].message.invalid_tool_calls[0]["args"] == "{"
    with pytest.raises(ModelError, match="ends after 3 calls"):
        await ask(replayed)


async def test_the_recording_is_private_and_holds_no_prompt(
    recorded: tuple[RecordingModel, Path],
) -> None:
    model, path = recorded
    await ask(model, "a secret question", tools=TOOLS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" not in path.read_text()
    header = json.loads(path.read_text().splitlines()[0])
    assert header["version"] == 1
    assert header["model"]["provider"] == "scripted"


async def test_those_that_ask_side_by_side_each_get_their_own_replies(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "replies: [Of one., Of two., One again., Of the main one., {when: "
        "{purpose: extract_facts}, text: A fact.}]"
    )
    path = tmp_path / "recording.jsonl"
    model = RecordingModel(ScriptedModel(read_script(tmp_path / "s.yaml")), path)
    for agent in ("c1", "c2", "c1", ""):
        await ask(model, f"task of {agent}", agent=agent)
    await ask(model, "what was said", purpose="extract_facts")
    replayed = open_replay(path)
    fact = await ask(replayed, "what was said", purpose="extract_facts")
    assert fact.message.text == "A fact."
    heard = [
        (await ask(replayed, f"task of {agent}", agent=agent)).message.text
        for agent in ("c2", "", "c1", "c1")
    ]
    assert heard == ["Of two.", "Of the main one.", "Of one.", "One again."]
    assert replayed.divergence is None


async def test_the_first_difference_is_named(recorded: tuple[RecordingModel, Path]) -> None:
    model, path = recorded
    first = await ask(model, "go", tools=TOOLS)
    await ask(model, HumanMessage("go"), first.message, "more", tools=TOOLS)
    cases = [
        (("went",), TOOLS, CallDivergence(1, "messages", 1)),
        (("go", "on"), TOOLS, CallDivergence(1, "messages", 2)),
        (("go",), TOOLS[:1], CallDivergence(1, "tools")),
    ]
    for messages, tools, expected in cases:
        replayed = open_replay(path)
        heard = await ask(replayed, *messages, tools=tools)
        assert heard.message.text == "Let me look."
        assert replayed.divergence == expected
        await ask(replayed, "something else")
        assert replayed.divergence == expected
    replayed = open_replay(path)
    await ask(replayed, "go", tools=TOOLS)
    await ask(replayed, HumanMessage("go"), first.message, "less", tools=TOOLS)
    assert replayed.divergence == CallDivergence(2, "messages", 3)
    other = open_replay(path)
    await ask(other, "go", tools=TOOLS, purpose="create_plan")
    assert other.divergence == CallDivergence(1, "purpose")


async def test_a_cancelled_call_is_not_recorded(recorded: tuple[RecordingModel, Path]) -> None:
    model, path = recorded
    stream = model.stream(request("go"))
    await anext(stream)
    await stream.aclose()
    assert len(path.read_text().splitlines()) == 1


async def test_a_recording_that_cannot_be_written_does_not_stop_the_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "s.yaml").write_text("replies: [a, b]")
    scripted = ScriptedModel(read_script(tmp_path / "s.yaml"))
    model = RecordingModel(scripted, tmp_path / "nowhere" / "r.jsonl")
    assert (await ask(model)).message.text == "a"
    assert (await ask(model)).message.text == "b"
    assert len([r for r in caplog.records if "recording to" in r.message]) == 1


async def test_the_registry_records_and_replays(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("replies: [hello]")
    options = ModelOptions(base_folder=tmp_path, record_to=tmp_path / "r.jsonl")
    assert (await ask(open_model("scripted:s.yaml", options))).message.text == "hello"
    again = open_model("replay:r.jsonl", ModelOptions(base_folder=tmp_path))
    assert (await ask(again)).message.text == "hello"


HEADER = json.dumps(
    {
        "version": 1,
        "model": {"name": "m", "provider": "p", "context_window": 1, "max_output": 1},
    }
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ":1: not a model recording"),
        ("{}", ":1: not a model recording"),
        ("not json", ":1: not valid JSON"),
        ("[1]", ":1: must be a JSON object"),
        ('{"version": 2, "model": {}}', ":1: recording version 2 is not supported"),
        ('{"version": 1, "model": {"nme": 1}}', "is not a valid recording"),
        (HEADER + '\n{"asked": ', ":2: not valid JSON"),
        (HEADER + '\n{"asked": {}}', "is not a valid recording"),
        (HEADER + '\n{"asked": {}, "events": [{"reply": {}}]}', "is not a valid recording"),
        (HEADER + '\n{"asked": {}, "events": []}', "is not a valid recording"),
        (HEADER + '\n{"asked": 3, "events": []}', "is not a valid recording"),
        (HEADER + '\n{"asked": {}, "events": [], "error": 1}', "is not a valid recording"),
    ],
)
def test_a_broken_recording_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        open_replay(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
