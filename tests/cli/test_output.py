"""JSON output: complete, parseable line by line, redacted, and stable by version."""

from __future__ import annotations

import io
import json
from typing import Any, get_args

import pytest

from kogniterm.cli import verb_helpers
from kogniterm.cli.json_output import JsonSink, StreamJsonSink, failure
from kogniterm.errors import (
    BudgetError,
    KognitermError,
    ModelAuthError,
    RefusedError,
    UsageError,
)
from kogniterm.types import (
    ActionRequest,
    Answer,
    CommandResult,
    Decision,
    Phrase,
    PipeStatus,
    Plan,
    PlanStep,
    RiskReport,
    Usage,
    Verdict,
)
from kogniterm.types import events as ev

REQUEST = ActionRequest("r1", "c1", "execute_command", "echo hi", purpose="greet")
RESULT = CommandResult(
    "echo hi", "exited", 0, "hi\n", 0.01234, "/p", output_bytes=4,
    pipe=(PipeStatus(1, "hi"), PipeStatus(0, "wc")), masked="hi in the pipe ended with exit 1",
)  # fmt: skip
PLAN = Plan("greet", (PlanStep("1", "say hi"),))


def play(
    sink: JsonSink | StreamJsonSink, answer: Answer, *, decision: Decision | None = None
) -> None:
    decision = decision or Decision("approve", REQUEST.command, "person")
    for event in (
        ev.TurnStarted("s1", 1, "scripted:x", "/p"),
        ev.ModelCalled("create_plan", 1),
        ev.AnswerDelta("Hel"),
        ev.ModelAnswered("create_plan", Usage(10, 2, 0, 1), Usage(10, 2, 0, 1)),
        ev.PlanChanged(PLAN),
        ev.ActionProposed(
            REQUEST, RiskReport("echo hi", "safe_readonly"), Verdict("ask", (Phrase("why"),)), "/p"
        ),
        ev.ActionDecided(REQUEST, decision),
    ):
        sink(event)
    if decision.kind != "reject":
        sink(ev.CommandStarted("r1", "echo hi", "/p"))
        sink(ev.CommandOutput("r1", "¡hi".encode()[:1]))
        sink(ev.CommandOutput("r1", "¡hi".encode()[1:] + b"\xff\n\xc3"))
        sink(ev.CommandEnded("r1", RESULT))
    sink(ev.Notice(Phrase("look {there}", {"there": "here"})))
    sink(ev.TurnEnded(answer))
    sink.finish(answer)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("model", "cost"), [("google_genai:gemini-2.5-pro", 0.01125), ("openai:of-tomorrow", None)]
)
def test_the_cost_is_that_of_the_price_list_or_unknown(model: str, cost: float | None) -> None:
    stream = io.StringIO()
    sink = JsonSink(stream)
    sink(ev.TurnStarted("s1", 1, model, "/p"))
    sink.finish(Answer("Done.", usage=Usage(1000, 1000, 0, 1)))
    assert lines(stream)[0]["cost"] == cost


def test_json_is_one_object_with_everything() -> None:
    stream = io.StringIO()
    play(JsonSink(stream), Answer("It said hi.", usage=Usage(10, 2, 0, 1)))
    (result,) = lines(stream)
    assert result == {
        "version": ev.VERSION,
        "type": "result",
        "answer": "It said hi.",
        "stop": "done",
        "exit_code": 0,
        "reason": None,
        "retry_after": None,
        "passes": False,
        "session_id": "s1",
        "model": "scripted:x",
        "folder": "/p",
        "seconds": 0.0,
        "waited_seconds": 0.0,
        "usage": {
            "input": 10,
            "output": 2,
            "cached": 0,
            "calls": 1,
            "written": 0,
            "stored": 0,
            "reused": 0,
            "reused_input": 0,
            "reused_output": 0,
        },
        "cost": 0.0,
        "plan": result["plan"],
        "verified": [],
        "not_verified": [],
        "commands": [
            {
                "id": "r1",
                "tool": "execute_command",
                "command": "echo hi",
                "purpose": "greet",
                "agent": None,
                "agent_name": None,
                "status": "exited",
                "risk": "safe_readonly",
                "decided_by": "person",
                "exit_code": 0,
                "signal": None,
                "output": "hi\n",
                "output_bytes": 4,
                "omitted_bytes": 0,
                "output_path": None,
                "duration": 0.012,
                "cwd": "/p",
                "pipe": [{"program": "hi", "exit_code": 1}, {"program": "wc", "exit_code": 0}],
                "no_evidence": "hi in the pipe ended with exit 1",
            }
        ],
        "actions": [],
        "notices": ["look here"],
        "left_running": [],
    }
    assert result["plan"]["steps"][0]["what"] == "say hi"


def test_a_refusal_and_an_edit_show_in_the_commands() -> None:
    stream = io.StringIO()
    play(
        JsonSink(stream),
        Answer("", "refused", 3, Phrase("no")),
        decision=Decision("reject", "echo hi", "policy", "needs a person"),
    )
    (result,) = lines(stream)
    assert (result["stop"], result["exit_code"], result["reason"]) == ("refused", 3, "no")
    (command,) = result["commands"]
    assert (command["status"], command["reason"]) == ("refused", "needs a person")
    assert "exit_code" not in command

    stream = io.StringIO()
    play(JsonSink(stream), Answer("x"), decision=Decision("edit", "echo ho", "person"))
    (command,) = lines(stream)[0]["commands"]
    assert (command["proposed"], command["command"]) == ("echo hi", "echo ho")


def test_the_stream_has_every_event_and_ends_with_the_result() -> None:
    stream = io.StringIO()
    play(StreamJsonSink(stream), Answer("It said hi."))
    items = lines(stream)
    assert [item["type"] for item in items] == [
        "turn_started",
        "model_called",
        "answer_delta",
        "model_answered",
        "plan_changed",
        "action_proposed",
        "action_decided",
        "command_started",
        "command_output",
        "command_output",
        "command_ended",
        "notice",
        "turn_ended",
        "result",
    ]
    assert {item["version"] for item in items} == {ev.VERSION}
    proposed = items[5]
    assert (proposed["verdict"]["kind"], proposed["verdict"]["reasons"]) == ("ask", ["why"])


def test_characters_are_never_split_and_bad_bytes_are_replaced() -> None:
    stream = io.StringIO()
    play(StreamJsonSink(stream), Answer("x"))
    texts = [item["text"] for item in lines(stream) if item["type"] == "command_output"]
    assert "".join(texts) == "¡hi\ufffd\n\ufffd"


@pytest.mark.parametrize("kind", [JsonSink, StreamJsonSink])
def test_words_are_redacted_and_what_runs_is_not_hidden(
    kind: type[JsonSink] | type[StreamJsonSink],
) -> None:
    """Events of actions are redacted where they are made, by the rule for commands."""
    stream = io.StringIO()
    play(kind(stream, lambda text: text.replace("hi", "[gone]")), Answer("It said hi."))
    assert "said hi" not in stream.getvalue()
    assert "echo hi" in stream.getvalue()
    assert "[gone]" in stream.getvalue()


def test_lone_surrogates_do_not_break_the_output() -> None:
    stream = io.StringIO()
    JsonSink(stream).finish(Answer("file \udcff"))
    assert lines(stream)[0]["answer"] == "file \udcff"
    stream.getvalue().encode("ascii")


def test_every_event_has_a_name_of_its_own_and_is_documented() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "json-output.md").read_text(encoding="utf-8")
    kinds = [ev.event_name(kind) for kind in get_args(ev.Event)]
    assert len(set(kinds)) == len(kinds)
    for kind in (*kinds, "result"):
        assert f"`{kind}`" in page, kind
    assert f"version {ev.VERSION}" in page


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (UsageError("no"), "not_done"),
        (RefusedError("no"), "refused"),
        (BudgetError("no"), "budget"),
        (ModelAuthError("no"), "model_failed"),
    ],
)
def test_a_task_that_could_not_start_still_has_a_result(error: KognitermError, stop: str) -> None:
    stream = io.StringIO()
    JsonSink(stream).finish(failure(error))
    (result,) = lines(stream)
    assert (result["stop"], result["exit_code"], result["reason"]) == (stop, error.exit_code, "no")


def test_whatever_breaks_a_task_has_a_result() -> None:
    assert failure(KeyboardInterrupt()).exit_code == 130
    broken = failure(ZeroDivisionError("by zero"))
    assert (broken.stop, broken.exit_code) == ("not_done", 1)
    assert str(broken.reason) == "ZeroDivisionError: by zero"


def test_columns_stand_under_each_other_whatever_the_letters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb_helpers.write_table([("ab", "日本", "x"), ("é", "cafe\u0301", "y")])
    assert capsys.readouterr().out == "ab  日本  x\né   cafe\u0301  y\n"
