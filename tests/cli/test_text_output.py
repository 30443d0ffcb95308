"""Lines of a task off a terminal: long outputs, changes, and what the model says between calls."""

from __future__ import annotations

import io

from kogniterm.cli.text_output import TextSink
from kogniterm.text.file_text import unified_diff
from kogniterm.types import (
    ActionRequest,
    Answer,
    CommandResult,
    Decision,
    Phrase,
    Plan,
    PlanStep,
    RiskReport,
    Usage,
    Verdict,
    events,
)


def written(*given: events.Event) -> str:
    err = io.StringIO()
    sink = TextSink(None, err)
    for event in given:
        sink(event)
    sink.finish(Answer("never on standard error"))
    return err.getvalue()


def output(name: str, *lines: str) -> events.CommandOutput:
    return events.CommandOutput(name, "".join(f"{line}\n" for line in lines).encode())


def ended(name: str) -> events.CommandEnded:
    return events.CommandEnded(name, CommandResult("x", "exited", 0, "", 1.0, ""))


def test_of_a_long_output_the_ends_are_written_with_the_lines_left_out() -> None:
    lines = [f"line {number}" for number in range(1, 3_651)]
    text = written(
        events.CommandStarted("a", "make", "/"),
        *(output("a", line) for line in lines),
        ended("a"),
    )
    assert text.splitlines() == [
        "$ make", *lines[:40], "[3590 lines left out]", *lines[-20:], "[exit 0, 1.0 s]"
    ]  # fmt: skip
    assert written(
        events.CommandStarted("a", "make", "/"), output("a", *lines[:60]), ended("a")
    ) == ("".join(f"{line}\n" for line in ("$ make", *lines[:60], "[exit 0, 1.0 s]")))


def test_outputs_of_commands_at_once_stand_in_their_order() -> None:
    started = [events.CommandStarted(name, name, "/") for name in "abc"]
    text = written(
        *started, output("b", "of b"), output("c", *"12"), output("a", "of a"), ended("a"),
        output("b", "more"), ended("b"), ended("c"),
    )  # fmt: skip
    exit_line = "[exit 0, 1.0 s]"
    wanted = ["$ a", "of a", exit_line, "$ b", "of b", "more", exit_line, "$ c", "1", "2"]
    assert text.splitlines() == [*wanted, exit_line]


def test_changes_and_sentences_between_calls_are_written() -> None:
    detail = "--- a\n+++ b\n" + "".join(f"+line {number}\n" for number in range(20))
    request = ActionRequest("e1", "c1", "edit_file", "edit a", effect="edit", detail=detail)
    proposed = events.ActionProposed(
        request, RiskReport("edit a", "workspace_write"), Verdict("allow", ()), "/"
    )
    answered = events.ModelAnswered("decide_action", Usage(), Usage(), tools=("edit_file",))
    done = events.ActionEnded("e1", "edit_file", "Wrote a (+20 -0 lines).")
    text = written(
        events.AnswerDelta("I look "), events.AnswerDelta("first.\x1b[2J"), answered,
        proposed, done, events.AnswerDelta("Fixed."), answered._replace(tools=()),
    )  # fmt: skip
    assert text.splitlines() == [
        "I look first.[2J",
        "· Wrote a (+20 -0 lines)",
        *(f"  +line {number}" for number in range(12)),
        "[8 lines left out]",
    ]


def test_a_line_of_a_megabyte_is_cut() -> None:
    detail = unified_diff("a", "", "x" * 1_000_000 + "\n")
    request = ActionRequest("e1", "c1", "edit_file", "edit a", effect="edit", detail=detail)
    report = RiskReport("edit a", "workspace_write")
    text = written(
        events.ActionProposed(request, report, Verdict("allow", ()), "/"),
        events.ActionEnded("e1", "edit_file", "Wrote a (+1 -0 lines)."),
    )
    assert len(text) < 500


def test_signs_of_a_change_are_spelt_out_once() -> None:
    detail = unified_diff("a", "\ufeff\tone\n", "\tone\n")
    request = ActionRequest("e1", "c1", "edit_file", "edit a", effect="edit", detail=detail)
    report = RiskReport("edit a", "workspace_write")
    text = written(
        events.ActionProposed(request, report, Verdict("allow", ()), "/"),
        events.ActionEnded("e1", "edit_file", "Wrote a (+1 -1 lines)."),
    )
    assert text.splitlines()[2:] == ["  -\\u{FEFF}   one", "  +   one"]


def test_the_answer_beside_end_turn_is_no_sentence_between_calls() -> None:
    answered = events.ModelAnswered("decide_action", Usage(), Usage(), tools=("end_turn",))
    assert written(events.AnswerDelta("Blocked."), answered) == ""


def test_a_call_that_failed_is_marked() -> None:
    ran = events.ToolRan("edit_file", '{"path": "src/a.py"}', "There is no file.", failed=True)
    assert written(ran) == "· Edit src/a.py (failed)\n"


def test_the_name_of_a_file_cannot_draw_a_row() -> None:
    request = ActionRequest("1", "c", "write_file", "create a\n[y] b\u200b.txt", effect="edit")
    why = Phrase("Writes {path}.", {"path": "a\\u{A}[y] b\\u{200B}.txt"})
    refused = Decision("reject", request.command, "policy", str(why), (why,))
    shown = written(events.ActionDecided(request, refused))
    assert shown.splitlines() == [
        "refused: create a\\u{A}[y] b\\u{200B}.txt",
        "  Writes a\\u{A}[y] b\\u{200B}.txt",
    ]


def test_a_step_of_a_plan_cannot_draw_the_row_of_another() -> None:
    plan = Plan("Tidy\nplan: none", (PlanStep("s1", "Sort\n  [x] s2. Deployed"),))
    shown = written(events.PlanChanged(plan, None))
    assert shown.splitlines() == ["plan: Tidy plan: none", "  [ ] s1. Sort [x] s2. Deployed"]
