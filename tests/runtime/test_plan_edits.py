"""Edits of a plan's steps by a user, and the parts that they do not change."""

from __future__ import annotations

import pytest

from kogniterm.errors import UsageError
from kogniterm.runtime.plan_edits import PlanDraft, add, drop, move, plan_from_text
from kogniterm.types import Evidence, Plan, PlanStep

THREE = plan_from_text(
    "{goal: g, steps: [{id: s1, what: a}, {id: s2, what: b, inputs: [steps.s1.output]}, "
    "{id: s3, what: c}]}"
)
HALF = Plan(
    "g",
    (
        PlanStep("s1", "a", status="done", evidence=(Evidence("r1", 0),)),
        PlanStep("s2", "b", status="active"),
        PlanStep("s3", "c"),
    ),
)


def shape(plan: Plan) -> list[tuple[str, str]]:
    return [(step.id, step.status) for step in plan.steps]


def test_steps_are_dropped_moved_and_added_by_id_or_number() -> None:
    assert shape(drop(THREE, "s3")) == [("s1", "active"), ("s2", "pending")]
    assert shape(move(THREE, "3", 1))[0] == ("s3", "active")
    grown = add(THREE, "  look\n again ", 2)
    assert [step.what for step in grown.steps] == ["a", "look again", "b", "c"]
    assert shape(grown)[1] == ("s4", "pending")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda: drop(THREE, "s1"), "s2 refers to s1"),
        (lambda: move(THREE, "s1", 3), "s2 refers to s1"),
        (lambda: drop(THREE, "s9"), "the plan has s1, s2, s3"),
        (lambda: drop(HALF, "s1"), "has already ended"),
        (lambda: move(HALF, "1", 2), "has already ended"),
        (lambda: drop(drop(HALF, "s2"), "s3"), "cannot be dropped; add another step first"),
        (lambda: add(THREE, " "), "Describe the step"),
    ],
)
def test_what_cannot_be_done_is_said(change, part: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=part):
        change()


def test_what_has_ended_stays_first() -> None:
    assert shape(move(HALF, "s3", 1)) == [("s1", "done"), ("s3", "active"), ("s2", "pending")]


def test_a_draft_remembers_what_was_proposed() -> None:
    draft = PlanDraft(THREE)
    assert (draft.changed, draft.approve().kind) == (False, "approve")
    draft.choose(1)
    draft.shift(1)
    assert (draft.selected, [s.id for s in draft.plan.steps]) == (2, ["s1", "s3", "s2"])
    draft.add("d")
    draft.drop("s2")
    assert [s.what for s in draft.plan.steps] == ["a", "c", "d"]
    review = draft.approve()
    assert (review.kind, review.plan, review.by) == ("edit", draft.plan, "person")
    assert draft.reject(" no ").plan == THREE


def test_a_text_that_cannot_be_used_is_kept_with_its_mistakes() -> None:
    draft = PlanDraft(THREE, tools=["read_file"])
    assert not draft.take("{goal: '', steps: [{id: s1, what: a, tools: [hammer]}]}")
    said = [str(mistake) for mistake in draft.mistakes]
    assert said[:2] == ["goal is empty", "s1 needs the tool 'hammer', which does not exist"]
    text = draft.text()
    assert "#   goal is empty\n" in text
    assert draft.take(text.replace("goal: ''", "goal: h").replace("hammer", "read_file"))
    assert (draft.plan.goal, draft.mistakes, draft.plan.revision) == ("h", (), 1)
