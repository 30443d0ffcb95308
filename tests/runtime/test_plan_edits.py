"""A plan that the user edits as text."""

from __future__ import annotations

from kogniterm.runtime.plan_edits import PlanDraft, plan_from_text

THREE = plan_from_text(
    "{goal: g, steps: [{id: s1, what: a}, {id: s2, what: b, inputs: [steps.s1.output]}, "
    "{id: s3, what: c}]}"
)


def test_a_draft_remembers_what_was_proposed() -> None:
    draft = PlanDraft(THREE)
    assert (draft.changed, draft.approve().kind) == (False, "approve")
    assert draft.take(draft.text().replace("what: c", "what: d"))
    assert [s.what for s in draft.plan.steps] == ["a", "b", "d"]
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
