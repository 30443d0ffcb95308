"""Rendering of events: what stays, what is redrawn, and output for pipes and screen readers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from kogniterm.text.visible import without_style
from kogniterm.types import (
    Answer,
    CommandResult,
    Decision,
    Evidence,
    Phrase,
    Plan,
    PlanStep,
    RiskReport,
    RuleTrace,
    Usage,
    Verdict,
    Waiting,
)
from kogniterm.types import events as ev
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen.renderer import ScreenOptions, ScreenSink
from kogniterm.ui.screen.screen_preferences import Preferences, choose_theme
from kogniterm.ui.screen.surface import Attention, LineSurface, LiveSurface
from tests.ui.face import ASK, PLAIN, report, request, show_command
from tests.ui.live import Terminal, until

COLOUR = Painter(choose_theme("dark", color=True, background=None))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(columns: int = 60, painter: Painter = PLAIN) -> tuple[ScreenSink, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    sink = ScreenSink(painter, LineSurface(stream, columns), clock=clock)
    return sink, stream, clock


def begin(sink: ScreenSink) -> None:
    sink(ev.TurnStarted("s", 1, "m", "/w"))
    sink(ev.ModelCalled("create_plan", 1))


def test_a_whole_turn_as_plain_lines() -> None:
    sink, stream, clock = lines()
    begin(sink)
    plan = Plan("look round", (PlanStep("1", "List", status="active"), PlanStep("2", "Tell")))
    sink(ev.PlanChanged(plan))
    sink(ev.AnswerDelta("I **look** first.\n"))
    sink(ev.ModelAnswered("create_plan", Usage(900, 30, 0, 1), Usage(900, 30, 0, 1)))
    show_command(sink, "ls", b"a\nb\n")
    done = PlanStep("1", "List", status="done", evidence=(Evidence("1", 0, "2 files"),))
    sink(ev.PlanChanged(Plan("look round", (done, plan.steps[1])), plan))
    sink(ev.ToolRan("read_file", "README.md", "# x"))
    sink(ev.AnswerDelta("There are *two* files."))
    clock.now += 75
    sink(ev.TurnEnded(Answer("There are *two* files.", usage=Usage(2100, 90, 800, 2))))
    assert stream.getvalue() == (
        "Plan → look round\n"
        " ▸ 1. List\n"
        " ○ 2. Tell\n"
        "\n"
        "I look first.\n\n"
        "╭ $ ls\n│ a\n│ b\n╰ ✓ exit 0 · 0.5 s\n\n"
        "✓ 1. List → exit 0, 2 files (1/2)\n"
        "• Read README.md\n"
        "There are two files.\n\n"
        "1 min 15 s · 2.1k tokens in, 90 out (800 from the cache)\n"
    )


def delegated(task: str, result: str, *, failed: bool = False) -> ev.ToolRan:
    return ev.ToolRan("delegate", json.dumps({"task": task, "tools": "run"}), result, failed)


def test_what_a_sub_agent_does_stands_under_its_task() -> None:
    sink, stream, _clock = lines()
    begin(sink)
    sink(ev.AgentStarted("c1", "Mend it,\nand show that it works"))
    sink(ev.ToolRan("read_file", "a.sh", "x", agent="c1"))
    asked = request("sh a.sh", agent="c1", agent_task="Mend it, and show that it works")
    sink(ev.ActionProposed(asked, report("sh a.sh"), ASK, "/w"))
    show_command(sink, "sh a.sh", b"hello\n\nyou\n")
    edit = request("edit a.sh", id="1-2", tool="edit_file", agent="c1", agent_task="Mend it")
    sink(ev.ActionProposed(edit, report("edit a.sh"), ASK, "/w"))
    sink(ev.ActionDecided(edit, Decision("reject", "edit a.sh", "person", "not there")))
    sink(delegated("Mend it,\nand show that it works", "It greets.\nReally."))
    sink(ev.ToolRan("read_file", "b.sh", "x"))
    assert stream.getvalue() == (
        "▸ sub-agent 1: Mend it, and show that it works\n"
        "  • Read a.sh\n"
        "  ╭ $ sh a.sh\n  │ hello\n  │\n  │ you\n  ╰ ✓ exit 0 · 0.5 s\n\n"
        "  ✗ Rejected: edit a.sh\n    not there\n"
        "✓ sub-agent 1: Mend it, and show that it works\n"
        "  It greets. Really.\n\n"
        "• Read b.sh\n"
    )


def test_several_sub_agents_at_work_are_told_apart() -> None:
    sink, stream, _clock = lines()
    begin(sink)
    sink(ev.AgentStarted("c1", "Look here"))
    sink(ev.AgentStarted("c2", "Look there"))
    sink(ev.ToolRan("read_file", "a", "x", agent="c2"))
    sink(delegated("Look here", "The sub-agent did not finish: Gone.", failed=True))
    sink(ev.ToolRan("read_file", "b", "x", agent="c2"))
    sink(delegated("Look there", "Nothing."))
    assert stream.getvalue() == (
        "▸ sub-agent 1: Look here\n"
        "▸ sub-agent 2: Look there\n"
        "  2 • Read a\n"
        "✗ sub-agent 1: Look here\n"
        "  The sub-agent did not finish: Gone.\n\n"
        "  • Read b\n"
        "✓ sub-agent 2: Look there\n"
        "  Nothing.\n\n"
    )


def test_a_sub_agent_that_began_in_another_process_is_named_when_it_asks() -> None:
    sink, stream, _clock = lines()
    begin(sink)
    asked = request("ls", agent="c1", agent_task="Look here")
    sink(ev.ActionProposed(asked, report("ls"), ASK, "/w"))
    show_command(sink, "ls", b"a\n")
    assert stream.getvalue() == (
        "▸ sub-agent 1: Look here\n  ╭ $ ls\n  │ a\n  ╰ ✓ exit 0 · 0.5 s\n\n"
    )


@pytest.mark.parametrize("columns", [30, 60, 80, 160])
def test_no_line_is_wider_than_the_screen(columns: int) -> None:
    sink, stream, _clock = lines(columns, COLOUR)
    begin(sink)
    sink(ev.PlanChanged(Plan("g " * 80, (PlanStep("1", "w " * 90),))))
    sink(ev.AnswerDelta("word " * 60 + "\n\n- item " + "x" * 200 + "\n\n"))
    sink(ev.AnswerDelta("| a | b |\n|--|--|\n| " + "cell " * 30 + "| c |\n\n"))
    sink(ev.AnswerDelta("```\n" + "y" * 300 + "\n```\n"))
    show_command(sink, "echo " + "z" * 300, b"o" * 500 + b"\n")
    sink(ev.Notice(Phrase("n" * 10 + " " + "words " * 40)))
    sink(ev.TurnEnded(Answer("", "budget", 4, Phrase("reason " * 40))))
    for line in without_style(stream.getvalue()).split("\n"):
        assert len(line) <= columns


def test_an_answer_that_was_not_streamed_is_still_shown_once() -> None:
    sink, stream, _clock = lines()
    begin(sink)
    sink(ev.TurnEnded(Answer("Only here.")))
    assert stream.getvalue().count("Only here.") == 1
    begin(sink)
    sink(ev.AnswerDelta("Streamed."))
    sink(ev.TurnEnded(Answer("Streamed.")))
    assert stream.getvalue().count("Streamed.") == 1


def test_a_printed_answer_keeps_its_lines_and_spaces() -> None:
    sink, stream, _clock = lines()
    begin(sink)
    sink(ev.TurnEnded(Answer("  4 *a*\n 10 ```b\n", verbatim=True)))
    assert "    4 *a*\n   10 ```b\n" in without_style(stream.getvalue())


def test_an_answer_that_is_printed_elsewhere_is_left_out() -> None:
    stream = io.StringIO()
    surface, options = LineSurface(stream, 60), ScreenOptions(answers=False)
    sink = ScreenSink(PLAIN, surface, clock=Clock(), options=options)
    begin(sink)
    sink(ev.AnswerDelta("I look first."))
    sink(ev.ToolRan("read_file", '{"path": "a"}', "x"))
    sink(ev.ModelCalled("decide_action", 2))
    sink(ev.AnswerDelta("Found\n\n# it."))
    sink(ev.TurnEnded(Answer("Found\n\n# it.")))
    begin(sink)
    sink(ev.TurnEnded(Answer("Not streamed.")))
    begin(sink)
    sink(ev.AnswerDelta("Cut off"))
    sink(ev.TurnEnded(Answer("", "interrupted", 130)))
    shown = stream.getvalue()
    assert "I look first." in shown
    assert "Cut off" in shown
    assert "Found" not in shown
    assert "Not streamed." not in shown


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ("budget", "A limit was reached."),
        ("refused", "The task may be incomplete: an action was refused."),
        ("model_failed", "The model failed."),
        ("not_done", "The task was not completed."),
        ("interrupted", "You stopped the turn."),
        ("plan_only", "This is the plan; nothing was changed."),
        ("unknown", "The turn ended early."),
    ],
)
def test_an_early_end_says_why(stop: Any, words: str) -> None:
    sink, stream, _clock = lines()
    begin(sink)
    sink(ev.TurnEnded(Answer("", stop, 1)))
    assert words in stream.getvalue()


def test_refusals_retries_and_failures_are_told() -> None:
    sink, stream, _clock = lines(80)
    begin(sink)
    sink(ev.ModelRetried(2, 5, 3.0, Phrase("Busy.")))
    report = RiskReport("rm -rf /", "dangerous")
    verdict = Verdict("deny", (Phrase("It deletes everything."),))
    asked = request("rm -rf /\u200b")
    sink(ev.ActionProposed(asked, report, verdict, "/w"))
    sink(ev.ActionDecided(asked, Decision("reject", asked.command, "policy", "no")))
    sink(ev.ActionDecided(asked, Decision("reject", asked.command, "person", "not now")))
    sink(ev.ToolRan("read_file", "x", "File x not found.", failed=True))
    sink(ev.ActionEnded("1", "edit_file", "Edited x.\nmore", failed=False))
    text = stream.getvalue()
    assert "! Busy. Retrying in 3 s (2 of 5)." in text
    assert "✗ Refused: rm -rf /\\u{200B}\n  It deletes everything." in text
    assert "✗ Rejected: rm -rf /\\u{200B}\n  not now" in text
    assert text.count("Rejected") == 1
    assert "✗ Read x: File x not found." in text
    assert "• Edited x. more" in text


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ("floor", "Refused by a hard limit:"),
        ("mode auto", "Refused in auto mode:"),
        ("mode plan", "Refused in plan mode:"),
        ("policy.toml:3", "Refused by your rules:"),
    ],
)
def test_a_refusal_names_what_refused(origin: str, words: str) -> None:
    sink, stream, _clock = lines(80)
    begin(sink)
    why = Phrase("Deletes many files at once: ~.")
    passed, refused = (RuleTrace(where, "deny", where == origin, why) for where in ("x:1", origin))
    verdict = Verdict("deny", (why,), (passed, refused))
    report = RiskReport("rm -rf ~", "dangerous")
    sink(ev.ActionProposed(request("rm -rf ~"), report, verdict, "/w"))
    assert f"✗ {words} rm -rf ~\n  Deletes many files at once: ~." in stream.getvalue()


def test_ascii_where_there_is_no_unicode() -> None:
    painter = Painter(
        choose_theme("plain", color=False, background=None), attributes=False, unicode=False
    )
    sink, stream, _clock = lines(60, painter)
    begin(sink)
    sink(ev.PlanChanged(Plan("g", (PlanStep("1", "w", status="active"),))))
    show_command(sink, "ls", b"a\n")
    sink(ev.AnswerDelta("| a | b |\n|---|---|\n| 1 | 2 |\n"))
    sink(ev.TurnEnded(Answer("", "interrupted", 130)))
    assert stream.getvalue().replace("•", "").replace("·", "").isascii()


def test_a_long_turn_calls_the_user_a_short_one_does_not() -> None:
    sent: list[str] = []
    clock = Clock()
    sink = ScreenSink(
        PLAIN, LineSurface(io.StringIO(), 60), clock=clock,
        attention=Attention(Preferences(), sent.append),
    )  # fmt: skip
    begin(sink)
    sink(ev.TurnEnded(Answer("x")))
    assert "\a" not in sent
    begin(sink)
    clock.now += 21
    sink(ev.TurnEnded(Answer("x")))
    assert "\a" in sent


# --- the live region on a terminal -------------------------------------------------------------


def live(rows: int = 12, columns: int = 60) -> tuple[ScreenSink, Terminal, Clock, LiveSurface]:
    terminal, clock = Terminal(rows, columns), Clock()
    # A terminal in line mode turns a line feed into a new line.
    terminal.picture.start_lines_at_the_left()
    surface = LiveSurface(terminal, terminal.size)
    return ScreenSink(PLAIN, surface, clock=clock), terminal, clock, surface


async def drawn(terminal: Terminal, holds: Callable[[], bool]) -> None:
    """Wait until the screen is as expected: it is drawn a moment after an event."""
    await until(holds, lambda: terminal.text)


async def test_the_live_region_is_replaced_and_leaves_no_trace() -> None:
    sink, terminal, clock, _surface = live()
    begin(sink)
    sink(ev.AnswerDelta("Half a sen"))
    clock.now += 3
    await drawn(terminal, lambda: "Half a sen" in terminal.text)
    await drawn(terminal, lambda: "Writing 3.0 s" in terminal.text)
    sink(ev.AnswerDelta("tence.\n\nNext"))
    sink(ev.CommandStarted("1", "make", "/w"))
    sink(ev.CommandOutput("1", b"building\n"))
    await drawn(terminal, lambda: "╰ 0.0 s" in terminal.text)
    result = CommandResult("make", "exited", 0, "building\n", 1.0, "/w", output_bytes=9)
    sink(ev.CommandEnded("1", result))
    sink(ev.TurnEnded(Answer("")))
    left = [
        "Half a sentence.",
        "",
        "Next",
        "",
        "╭ $ make",
        "│ building",
        "╰ ✓ exit 0 · 1.0 s",
        "",
        "3.0 s",
    ]
    await drawn(terminal, lambda: terminal.text.split("\n") == left)


async def test_a_live_region_higher_than_the_screen_is_cut_to_it() -> None:
    sink, terminal, _clock, _surface = live(rows=8)
    begin(sink)
    steps = tuple(PlanStep(str(n), f"step {n}") for n in range(20))
    sink(ev.PlanChanged(Plan("g", steps)))
    sink(ev.AnswerDelta("```\n" + "".join(f"code {n}\n" for n in range(60))))
    await drawn(terminal, lambda: "code 59" in "\n".join(terminal.shown))
    assert len(terminal.shown) <= 8
    sink(ev.AnswerDelta("```\n"))
    sink(ev.TurnEnded(Answer("")))
    assert terminal.text.count("code 30") == 1
    assert terminal.text.count("code 59") == 1


async def test_hidden_the_region_rests_and_lines_still_come() -> None:
    sink, terminal, _clock, surface = live()
    begin(sink)
    await drawn(terminal, lambda: "Understanding" in "\n".join(terminal.shown))
    surface.hide()
    sink.notice(Phrase("words"))
    assert "Understanding" not in "\n".join(terminal.shown)
    assert "words" in terminal.text
    surface.show()
    assert "Understanding" in "\n".join(terminal.shown)
    sink.settle()


async def test_a_flood_of_output_is_drawn_a_few_times_only() -> None:
    sink, terminal, _clock, _surface = live()
    begin(sink)
    sink(ev.CommandStarted("1", "yes", "/w"))
    before = len(terminal.writes)
    for _ in range(20_000):
        sink(ev.CommandOutput("1", b"y\n" * 50))
    assert len(terminal.writes) == before
    await drawn(terminal, lambda: len(terminal.writes) > before)
    assert len(terminal.writes) < before + 20
    sink.settle()


def test_a_reason_to_try_again_is_given_once() -> None:
    sink, stream, _clock = lines(100)
    begin(sink)
    for attempt in (1, 2, 3):
        sink(ev.ModelRetried(attempt, 4, float(2**attempt), Phrase("Cannot reach Gemini.")))
    sink(ev.ModelRetried(1, 3, 0.0, Phrase("Its reply was empty.")))
    sink(ev.TurnEnded(Answer("")))
    text = stream.getvalue()
    assert text.count("Cannot reach Gemini.") == 1
    assert "! Retrying in 8 s (3 of 4)." in text
    assert "! Its reply was empty. Retrying (1 of 3)." in text


def test_what_ended_a_turn_is_not_said_twice() -> None:
    why = Phrase("An action was refused: {why}", {"why": "not now"})
    sink, stream, _clock = lines(120)
    begin(sink)
    sink(ev.TurnEnded(Answer("Then not.", "refused", 3, why, refused_by="person")))
    assert "refused" not in stream.getvalue()
    sink, stream, _clock = lines(120)
    begin(sink)
    sink(ev.TurnEnded(Answer("", "refused", 3, why, refused_by="policy")))
    assert "✗ The task may be incomplete: an action was refused.\n" in stream.getvalue()
    sink, stream, _clock = lines(120)
    begin(sink)
    left = Phrase("Plan steps still open: {steps}", {"steps": "s1"})
    sink(ev.TurnEnded(Answer("", "not_done", 1, left, not_verified=("s1 Do it [active]",))))
    assert stream.getvalue().count("s1") == 1
    assert "✗ The task was not completed." in stream.getvalue()


def test_a_step_that_an_edit_proved_names_no_tool() -> None:
    sink, stream, _clock = lines(120)
    begin(sink)
    proved = ("s1 Correct it: edit_file (exit 0)", "s2 Check it: grep edit_file (exit 0)")
    sink(ev.TurnEnded(Answer("Done.", verified=proved)))
    assert "s1 Correct it: edit of a file\n" in stream.getvalue()
    assert "s2 Check it: grep edit_file (exit 0)\n" in stream.getvalue()


def test_the_wait_for_the_user_stands_beside_the_time() -> None:
    sink, stream, _clock = lines(120)
    begin(sink)
    sink(ev.TurnEnded(Answer("Done.", seconds=20.0, waited=227.0)))
    assert "20 s (and 3 min 47 s waiting for you)" in stream.getvalue()


def test_the_time_on_the_status_line_stands_still_while_the_user_is_asked() -> None:
    sink, _stream, clock = lines(120)
    begin(sink)
    clock.now += 5
    asked = request("ls")
    sink(ev.ActionProposed(asked, report("ls"), ASK, "/w"))
    clock.now += 200
    sink(ev.ActionDecided(asked, Decision("approve", "ls", "person")))
    clock.now += 3
    sink(ev.BudgetUsed({"seconds": (8.0, 60.0)}))
    assert "8.0 s/1 min" in sink.live(120, 10)[-1]


def test_messages_and_plans_end_at_a_readable_width() -> None:
    sink, stream, _clock = lines(columns=160)
    sink(ev.Notice(Phrase("a long message " * 14)))
    begin(sink)
    sink(ev.PlanChanged(Plan("goal", (PlanStep("1", "a long step " * 18),))))
    assert max(map(len, stream.getvalue().splitlines())) in range(85, 101)


@pytest.mark.parametrize(("kind", "diffs"), [("allow", 1), ("ask", 0)])
def test_an_edit_that_was_not_asked_about_shows_its_diff(kind: Any, diffs: int) -> None:
    sink, stream, _clock = lines()
    begin(sink)
    change = "--- /w/a.py\n+++ /w/a.py\n@@ -7,2 +7,2 @@\n keep\n-total = 1\n+count = 1\n"
    edit = request("edit /w/a.py", tool="edit_file", effect="edit", detail=change)
    sink(ev.ActionProposed(edit, report("edit /w/a.py"), Verdict(kind, ()), "/w"))
    sink(ev.ActionEnded("1-1", "edit_file", "Wrote /w/a.py (+1 -1 lines)."))
    shown = "7  keep\n8 -total = 1\n8 +count = 1\n"
    assert stream.getvalue() == "• Wrote a.py (+1 -1 lines)\n" + shown * diffs


def test_the_diff_of_an_edit_that_failed_is_not_shown() -> None:
    sink, stream, _clock = lines()
    begin(sink)
    edit = request("edit /w/a.py", tool="edit_file", effect="edit", detail="+a")
    sink(ev.ActionProposed(edit, report("edit /w/a.py"), Verdict("allow", ()), "/w"))
    sink(ev.ActionEnded("1-1", "edit_file", "The file changed meanwhile.", failed=True))
    assert "+a" not in stream.getvalue()


def several(sink: ScreenSink, *commands: str) -> None:
    begin(sink)
    for number, command in enumerate(commands):
        sink(ev.CommandStarted(str(number), command, "/w"))


def ended(sink: ScreenSink, number: int, command: str, text: str, code: int = 0) -> None:
    result = CommandResult(command, "exited", code, text, 2.0, "/w", output_bytes=len(text))
    sink(ev.CommandEnded(str(number), result))


@pytest.mark.parametrize("columns", [60, 100])
def test_of_several_commands_one_is_live_and_the_others_show_state_and_last_line(
    columns: int,
) -> None:
    sink, stream, clock = lines(columns)
    long = f"mypy {'package/' * 20}"
    several(sink, "pytest", long, "ruff check")
    sink(ev.CommandOutput("0", b"one\ntwo\n"))
    sink(ev.CommandOutput("1", b"first\nChecking\n"))
    sink(ev.CommandOutput("2", b"All good\n"))
    clock.now += 12
    sink(ev.CommandDone("2", 0))
    clock.now += 5
    *frames, status = sink.live(columns, 24)
    assert frames == [
        "╭ $ pytest",
        "│ one",
        "│ two",
        "╰ 17 s",
        f"╭ $ {long}"[: columns - 1] + "…",
        "╰ 17 s · Checking",
        "╭ $ ruff check",
        "╰ ✓ exit 0 · 12 s · All good",
    ]
    assert "Running 2 commands" in status
    assert all(len(line) <= columns for line in frames)
    ended(sink, 0, "pytest", "one\ntwo\n", 1)
    ended(sink, 1, "mypy", "first\nChecking\n")
    ended(sink, 2, "ruff check", "All good\n")
    shown = stream.getvalue()
    whole = ["$ pytest", "two", "exit 1", "$ mypy", "Checking", "exit 0", "$ ruff", "All good"]
    places = [shown.index(text) for text in whole]
    assert places == sorted(places)


def test_the_one_that_asks_is_the_live_one_however_small_the_screen() -> None:
    sink, _stream, _clock = lines()
    several(sink, "cat a", "cat b", "ssh host", "cat c", "cat d")
    sink(ev.CommandWaiting("2", Waiting("password", 3.0, "ssh", "")))
    body = sink.live(60, 9)[:-1]
    assert len(body) <= 8
    text = "\n".join(body)
    assert "$ ssh host" in text
    assert "ssh is waiting for a password" in text
    assert "3 more commands" in text


def test_what_ends_while_another_has_the_keyboard_is_written_after_it() -> None:
    sink, stream, _clock = lines()
    several(sink, "cat a", "ssh host")
    sink(ev.KeyboardMoved("1"))
    assert sink.frame is not None
    assert sink.frame.command == "ssh host"
    sink.hand_over()
    ended(sink, 0, "cat a", "")
    assert "exit 0" not in stream.getvalue()
    sink(ev.CommandDone("1", 0))
    assert stream.getvalue().endswith("╭ $ cat a\n╰ ✓ exit 0 · 2.0 s\n\n")
    ended(sink, 1, "ssh host", "")
    assert stream.getvalue().endswith("╭ $ ssh host\n╰ ✓ exit 0 · 2.0 s\n\n")


def test_a_turn_that_breaks_leaves_no_frame_of_several() -> None:
    sink, stream, _clock = lines()
    several(sink, "cat a", "cat b")
    sink.settle()
    assert sink.frame is None
    assert stream.getvalue() == "╭ $ cat a\n╭ $ cat b\n"
