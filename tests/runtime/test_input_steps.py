"""The steps between an input and its turn: their order is a promise."""

from __future__ import annotations

from kogniterm.runtime.input_steps import INPUT_STEPS

ORDER = [step.name for step in INPUT_STEPS]


def comes_before(first: str, *others: str) -> bool:
    """Return whether a step comes before the others."""
    return all(ORDER.index(first) < ORDER.index(one) for one in others)


def test_a_model_that_cannot_plan_is_refused_before_anything_happens() -> None:
    assert ORDER[0] == "require a model that can plan"


def test_extensions_see_an_input_before_anything_of_it_is_stored_or_read() -> None:
    later = (
        "forget",
        "set preferences alone",
        "offer what extensions have",
        "let extensions add",
    )
    assert comes_before("open extensions", "ask extensions")
    assert comes_before("ask extensions", *later, "run other turns")


def test_forgetting_comes_before_everything_that_remembers_or_sends() -> None:
    later = ("set preferences alone", "let extensions add", "run other turns")
    assert comes_before("forget", *later)


def test_telemetry_and_the_user_are_there_before_the_first_step_that_answers() -> None:
    first = next(step.name for step in INPUT_STEPS if step.answers)
    for ready in ("let the log watch", "use the session's prompts", "open extensions"):
        assert comes_before(ready, first)
