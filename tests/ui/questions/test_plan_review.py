"""Review of a plan by a user: at the prompt with keys, elsewhere line by line."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input.base import PipeInput

from kogniterm.errors import TurnInterruptedError
from kogniterm.runtime.plan_edits import PlanDraft, difference, plan_as_text, plan_from_text
from kogniterm.types import Answer, Check, Evidence, Plan, PlanReview, PlanStep
from kogniterm.types import events as ev
from kogniterm.ui.asking_approver import AskingApprover
from kogniterm.ui.display import Display
from kogniterm.ui.locale import use_language
from kogniterm.ui.questions.lines import LineQuestions
from kogniterm.ui.questions.plan_review import PlanQuestion
from kogniterm.ui.screen import plan_panel
from kogniterm.ui.screen.screen_preferences import Preferences
from kogniterm.ui.screen.status_line import findings
from tests.ui.face import PLAIN, PlayedSession, nothing
from tests.ui.live import Live, live_repl

PLAN = plan_from_text(
    """
goal: Publish the site
steps:
  - {id: s1, what: Back up, why: It overwrites, check: {kind: file, value: b.tar}, fallback: Ask}
  - {id: s2, what: Build, inputs: [steps.s1.output], tools: [read_file], substeps: [one, two]}
  - {id: s3, what: Look}
"""
)
SHIFT_TAB = "\x1b[Z"


def reviewing(
    keys: PipeInput, plan: Plan = PLAN, previous: Plan | None = None, **given: Any
) -> tuple[Live, list[PlanReview]]:
    reviews: list[PlanReview] = []

    async def play(session: PlayedSession, _input: Any, approver: Any, sink: Any) -> None:
        sink(ev.PlanProposed("1-1", plan, previous))
        review = await approver.review_plan(plan, previous)
        reviews.append(review)
        sink(ev.PlanReviewed("1-1", review.kind, review.by, review.reason))
        if review.kind != "reject":
            sink(ev.PlanChanged(review.plan, previous))

    live, _session = live_repl(keys, play, **given)
    live.press("go\r")
    return live, reviews


async def test_enter_works_on_the_plan_that_is_shown(keys: PipeInput) -> None:
    live, reviews = reviewing(keys)
    await live.until("[y] start")
    shown = "\n".join(live.terminal.shown)
    for words in ("Start this plan?  Publish the site", "why: It overwrites", "fallback: Ask",
                  "check: file exists: b.tar", "inputs: steps.s1.output", "tools: Read",
                  "• one"):  # fmt: skip
        assert words in shown
    live.press("\r")
    await live.until("Plan → Publish the site")
    assert reviews == [PlanReview("approve", PLAN, "person")]
    assert live.terminal.text.count("Back up") == 1
    await live.leave()


CHECK = "\n".join(f"true {number}" for number in range(80))
CHECKED = Plan("Check it", (PlanStep("s1", "Check it", check=Check("command", CHECK)),))


async def test_checks_are_granted_only_once_they_were_all_on_the_screen(keys: PipeInput) -> None:
    live, reviews = reviewing(keys, CHECKED)
    await live.until("[c] start with checks unasked")
    live.press("c")
    await live.until("lines left to read")
    await live.ready()
    live.press("c")
    await live.until(lambda: live.prompt.keys.held == "c", "the key is held")
    live.press("\r")
    await live.until("Read all checks first")
    assert reviews == []
    await live.ready()
    live.press("    ")
    await live.until("true 79")
    live.press("c")
    await live.until(lambda: live.prompt.keys.held == "c", "the key is held")
    live.press("\r")
    await live.until(lambda: bool(reviews))
    assert reviews[0].grant == "checks"
    await live.leave()


async def test_a_change_of_mode_changes_the_grants_and_answers_nothing(keys: PipeInput) -> None:
    live, reviews = reviewing(keys, CHECKED)
    await live.until("[f] start and accept edits")
    live.press(SHIFT_TAB)
    live.press(SHIFT_TAB)
    await live.until(lambda: "[c]" not in "\n".join(live.terminal.shown))
    assert reviews == []
    await live.ready()
    live.press("y")
    await live.until(lambda: bool(reviews))
    assert reviews[0].grant == ""
    await live.leave()


async def test_a_long_plan_is_read_to_its_end_and_its_checks_from_their_beginning(
    keys: PipeInput,
) -> None:
    steps = tuple(PlanStep(f"s{n}", f"step {n} of many", check=Check("command", f"true {n}"))
                  for n in range(1, 61))  # fmt: skip
    live, reviews = reviewing(keys, replace(PLAN, steps=steps), rows=16)
    await live.until("[space] more")
    assert "step 60 of many" not in "\n".join(live.terminal.shown)
    live.press("      " * 4)
    await live.until("step 60 of many")
    live.press("c")
    await live.until("true 1")
    await live.until("lines left to read")
    assert reviews == []
    live.press("\x1b")
    await live.until("[y] start")
    await live.ready()
    live.press("y")
    await live.until(lambda: bool(reviews))
    assert reviews[0].grant == ""
    await live.leave()


async def test_nothing_that_was_typed_is_lost(keys: PipeInput) -> None:
    live, reviews = reviewing(keys)
    await live.until("[y] start")
    live.press("z\x1b[200~y\x1b[201~")
    await live.until("Enter: reject with this reason")
    live.press("\x1b")
    await live.ready()
    live.press("n")
    await live.until("What should change?")
    live.press("too long\r")
    await live.until("You rejected the plan: too long")
    assert reviews == [PlanReview("reject", PLAN, "person", "too long")]
    assert "Back up" in live.terminal.text
    await live.until("› zy")  # the typed text is restored to the line
    live.press("\x03")
    await live.leave()


async def test_a_changed_plan_shows_what_is_new_and_what_is_gone(keys: PipeInput) -> None:
    steps = (PLAN.steps[0], replace(PLAN.steps[1], what="Build twice"))
    extra = plan_from_text("{goal: g, steps: [{id: s9, what: Rest}]}").steps
    changed = Plan("Publish the site", (*steps, *extra), 2, "it is late")
    live, reviews = reviewing(keys, changed, PLAN)
    await live.until("Start the changed plan?")
    shown = "\n".join(live.terminal.shown)
    for words in ("Reason for the change: it is late", "Build twice (changed)", "Rest (new)",
                  "Look (dropped)"):  # fmt: skip
        assert words in shown
    await live.ready()
    live.press("y")
    await live.until("Plan, revision 2")
    assert len(reviews) == 1
    await live.leave()


@pytest.mark.parametrize(("columns", "rows"), [(60, 16), (30, 12), (160, 24)])
async def test_a_long_plan_fits_every_screen(keys: PipeInput, columns: int, rows: int) -> None:
    many = ", ".join(f"{{id: s{n}, what: Do number {n}, why: it matters}}" for n in range(1, 31))
    plan = plan_from_text(f"{{goal: g, steps: [{many}]}}")
    live, reviews = reviewing(keys, plan, columns=columns, rows=rows)
    await live.until("[y] start")
    live.press(" " * 20)
    await live.until("○ 30. Do number 30")
    assert all(len(line) <= columns for line in live.terminal.shown)
    live.press("y")
    await live.until(lambda: bool(reviews))
    await live.leave()


async def test_the_editor_is_opened_again_until_the_plan_can_be_used(
    keys: PipeInput, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        "#!/bin/sh\n"
        'if grep -q "^# " "$1"; then sed -i s/steps.s9/steps.s1/ "$1"\n'
        'else sed -i "s/steps.s1/steps.s9/; s/what: Look/what: Look well/; /read_file/d; '
        '/tools:/d" "$1"; fi\n'
    )
    editor.chmod(0o700)
    preferences = Preferences(notify="off", editor=(str(editor),))
    live, reviews = reviewing(keys, preferences=preferences)
    await live.until("[y] start")
    live.press("e")
    await live.until("inputs of s2 refers to s9, which is not an earlier step")
    await live.ready()
    live.press("y")  # an invalid plan cannot be approved
    await live.until("› y")
    live.press("\x7f")
    await live.ready()
    live.press("e")
    await live.until("Look well")
    await live.ready()
    live.press("y")
    await live.until(lambda: bool(reviews))
    assert [step.what for step in reviews[0].plan.steps] == ["Back up", "Build", "Look well"]
    assert reviews[0].plan.steps[1].inputs == ("steps.s1.output",)
    await live.leave()


# --- plain lines -----------------------------------------------------------------------------


class User:
    """A user who answers the prompts of `LineQuestions` from a list."""

    painter = PLAIN

    def __init__(self, *answers: str | None, saved: str | None = None, plan: Plan = PLAN) -> None:
        self.answers = list(answers)
        self.plan = plan
        self.shown = ""
        self.saved = saved
        self.left: list[Plan] = []

    def size(self) -> tuple[int, int]:
        return 24, 70

    async def read_line(self, prompt: str, start: str = "", *, free: bool = False) -> str | None:
        self.shown += prompt
        return self.answers.pop(0)

    def commit(self, text: str) -> None:
        self.shown += text

    async def pause(self) -> None:
        assert "Start this plan?" in self.shown
        assert "Your decision" not in self.shown

    async def edit(self, text: str) -> str | None:
        return self.saved

    async def review(self) -> PlanReview:
        display = Display(Preferences())
        display.plan_shown = self.left.append  # type: ignore[assignment,method-assign]  # keeps it
        session = PlayedSession(nothing)
        lines = LineQuestions(self, edit_text=self.edit)
        asker = AskingApprover(lines, session, display)  # type: ignore[arg-type]  # its face
        return await asker.review_plan(self.plan, None)


async def test_lines_checks_are_shown_before_they_are_granted() -> None:
    user = User("c", "", "", "", "c", plan=CHECKED)
    user.pause = nothing  # type: ignore[method-assign]  # the question is asked twice
    review = await user.review()
    assert review.grant == "checks"
    assert user.shown.count("$ true 0") == 1
    assert user.shown.count("  true 79") == 1


async def test_lines_a_plan_is_read_and_approved() -> None:
    user = User("", "what?", "y")
    assert (await user.review()) == PlanReview("approve", PLAN, "person")
    assert "Start this plan?  Publish the site" in user.shown
    assert "check: file exists: b.tar" in user.shown
    assert user.shown.count("Answer with one of the keys") == 1
    assert user.shown.count("Press Enter to reject with this reason") == 1
    assert "\x1b" not in user.shown
    assert user.left == [PLAN]


@pytest.mark.parametrize("words", ["y it my way", "yes, why?", "so what"])
async def test_lines_words_are_a_reason_that_enter_sends(words: str) -> None:
    assert (await User(words, "").review()) == PlanReview("reject", PLAN, "person", words)


async def test_lines_an_edited_text_is_asked_for_again() -> None:
    user = User("e", "n", "later", saved="{goal: g, steps: []}")
    assert await user.review() == PlanReview("reject", PLAN, "person", "later")
    assert "steps must be a list with at least one entry" in user.shown


async def test_lines_the_end_of_input_is_a_no_and_stop_stops() -> None:
    assert (await User(None).review()).kind == "reject"
    with pytest.raises(TurnInterruptedError):
        await User("s").review()


# --- substeps that are steps of their own ---------------------------------------------------------

NESTED = plan_from_text(
    """
goal: Upgrade the site
steps:
  - {id: s1, what: Back up}
  - id: s2
    what: Test it on all machines
    substeps:
      - {what: Test the pages, delegate: run, writes: [reports/pages], after: [s1]}
      - {what: Test the mail, inputs: [session.preferences.editor]}
"""
)
_ENGLISH = ["after: s1", "sub-agent: run", "may change: reports/pages"]
_SPANISH = ["después de: s1", "subagente: run", "puede cambiar: reports/pages"]


@pytest.mark.parametrize("columns", [60, 100])
@pytest.mark.parametrize(("language", "details"), [("en", _ENGLISH), ("es", _SPANISH)])
def test_substeps_have_rows_and_details_of_their_own(
    columns: int, language: str, details: list[str]
) -> None:
    use_language(language)
    lines = PlanQuestion(PlanDraft(NESTED)).document(PLAIN, columns, 40).lines
    panel = plan_panel.window(NESTED, PLAIN, columns, 6)
    use_language("en")
    assert "  ○ 2. Test it on all machines" in lines
    place = lines.index("    ○ 2.1. Test the pages")
    assert [line.strip() for line in lines[place + 1 : place + 4]] == details
    assert "    ○ 2.2. Test the mail" in lines
    assert panel == [
        " ▸ 1. Back up",
        " ○ 2. Test it on all machines",
        "   ○ 2.1. Test the pages",
        "   ○ 2.2. Test the mail",
    ]
    assert all(len(line) <= columns for line in lines)


def test_a_plan_is_started_with_a_grant_that_is_shown_in_full() -> None:
    long = "pytest -q " + "tests/a_long_name " * 20
    steps = tuple(replace(step, check=Check("command", long)) for step in NESTED.steps)
    question: Any = PlanQuestion(PlanDraft(replace(NESTED, steps=steps)), asks=True)
    shown = question.press("c")
    lines = [line[4:] for line in shown.document(PLAIN, 60, 40).lines]
    assert long.rstrip() in "".join(lines)
    assert question.typed("c").text(PLAIN, 60) == shown.document(PLAIN, 60, 40)
    assert shown.press("c").value.grant == "checks"
    assert shown.confirms
    assert shown.press("y") is shown
    assert shown.back().press("y").value.grant == ""
    assert question.press("f").value.grant == "edits"
    assert question.typed("f").value.grant == "edits"
    bare: Any = PlanQuestion(PlanDraft(NESTED))
    assert bare.press("f") is bare
    assert bare.press("c") is bare


def test_a_plan_with_substeps_is_read_back_as_it_was_written() -> None:
    again = plan_from_text(plan_as_text(NESTED))
    assert again == NESTED
    whole = NESTED.steps[1]
    dropped = replace(NESTED, steps=(NESTED.steps[0], replace(whole, substeps=whole.parts[:1])))
    assert [step.id for step in difference(NESTED, dropped).dropped] == ["s2_2"]


# --- the end of a turn -----------------------------------------------------------------------


def test_what_became_of_a_step_that_nothing_proved_is_told_in_the_language_in_use() -> None:
    lines = ("s1 a [active]", 's2 b [judged] ("x", 3-1)', "s3 c [failed]: no")
    use_language("es")
    shown = findings(Answer("", not_verified=lines), PLAIN)
    use_language("en")
    assert shown is not None
    assert PLAIN.paint(shown, 60).split("\n")[1:4] == [
        " ○ s1 a [sin terminar]",
        ' ○ s2 b [comprobado por el modelo] ("x", 3-1)',
        " ○ s3 c [falló]: no",
    ]


def test_what_was_verified_stands_apart_from_what_was_not() -> None:
    answer = Answer("", verified=("s1 a: make (exit 0)",), not_verified=("s2 b [judged]: x",))
    shown = findings(answer, PLAIN)
    assert shown is not None
    text = PLAIN.paint(shown, 60)
    assert text == (
        "Verified\n ✓ s1 a: make (exit 0)\nNot verified\n ○ s2 b [checked by the model]: x\n\n"
    )
    assert findings(Answer("hello"), PLAIN) is None


def test_a_failed_check_is_told_and_then_the_fallback() -> None:
    step = PlanStep("s1", "Build", fallback="Ask", status="active")
    failed = replace(step, failed_checks=1, evidence=(Evidence("1", 1, "exit 1"),))
    instead = replace(failed, failed_checks=3, on_fallback=True)
    plans = [Plan("g", (one,)) for one in (step, failed, instead)]
    told = [
        str(line)
        for before, after in pairwise(plans)
        for line in plan_panel.changes(before, after, PLAIN)
    ]
    assert told == ["! 1. check failed: exit 1", " → 1. Ask (instead of: Build)"]


def test_the_parts_of_a_step_are_told_before_it_and_the_steps_are_counted() -> None:
    parts = PlanStep("s1_1", "Read", status="done"), PlanStep("s1_2", "Write", status="active")
    step = PlanStep("s1", "Build", status="active", substeps=parts)
    done = replace(parts[1], status="done")
    before = Plan("g", (step,))
    after = Plan("g", (replace(step, status="done", substeps=(parts[0], done)),))
    told = [str(line) for line in plan_panel.changes(before, after, PLAIN)]
    assert told == ["✓ 1.2. Write", "✓ 1. Build (1/1)"]
