"""Plans are validated when made, and every problem is named at once."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kogniterm.agent.evaluate import check_command, complete, settle_check
from kogniterm.agent.plan import active_step, ids, parse_plan, where_we_are
from kogniterm.errors import ToolError
from kogniterm.types import Check, CommandResult, PlanStep


def steps(*items: dict[str, object]) -> dict[str, object]:
    return {"goal": "Ship it", "steps": list(items)}


TWO = steps(
    {"id": "s1", "what": "Build"}, {"id": "s2", "what": "Test", "inputs": ["steps.s1.output"]}
)


def test_a_new_plan_starts_with_its_first_step() -> None:
    plan = parse_plan(TWO, None)
    assert ids(plan) == ("s1", "s2")
    assert active_step(plan) == plan.steps[0]
    assert where_we_are(plan).startswith("Now s1: Build")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"goal": "x", "steps": []}, "at least one"),
        ({"goal": "x", "steps": "s1"}, "must be a list"),
        ({"goal": "", "steps": [{"id": "s1", "what": "a"}]}, "goal is empty"),
        (steps({"id": "s1", "what": "a"}, {"id": "s1", "what": "b"}), "used twice"),
        (steps({"id": "1", "what": "a"}), "has the id '1'"),
        (steps({"id": "s1", "what": " "}), "must say what it does"),
        (steps({"id": "s1", "what": "a" * 501}), "at most 500"),
        (steps("s1"), "is not an object"),  # type: ignore[arg-type]
        (steps({"id": "s1", "what": "a", "inputs": ["steps.s2.output"]}), "not an earlier step"),
        (steps({"id": "s1", "what": "a", "inputs": ["steps.s1.output"]}), "not an earlier step"),
        (steps({"id": "s1", "what": "a", "inputs": ["env.HOME"]}), "session.cwd"),
        (
            steps({"id": "s1", "what": "a", "check": {"kind": "vibes", "value": "x"}}),
            "needs a kind",
        ),
        (steps({"id": "s1", "what": "a", "check": {"kind": "pattern", "value": "("}}), "regular"),
        (steps({"id": "s1", "what": "a", "check": {"kind": "exit_code", "value": "ok"}}), "number"),
        (steps(*({"id": f"s{n}", "what": "a"} for n in range(31))), "at most 30"),
    ],
)
def test_a_wrong_plan_is_refused_with_the_reason(arguments: dict[str, object], part: str) -> None:
    with pytest.raises(ToolError, match=part.replace("(", r"\(")):
        parse_plan(arguments, None)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ToolError) as caught:
        parse_plan(
            {"goal": "", "steps": [{"id": "x y", "what": "a"}, {"id": "s2", "what": ""}]}, None
        )
    assert [part in str(caught.value) for part in ("goal", "step 1", "step 2")] == [True] * 3


def test_a_new_revision_keeps_finished_steps_and_their_evidence() -> None:
    plan = parse_plan(TWO, None)
    plan, _ = complete(plan, {"step": "s1"}, ran(0))
    changed = parse_plan(steps({"id": "s3", "what": "Test differently"}), plan)
    assert ids(changed) == ("s1", "s3")
    assert changed.steps[0].status == "done"
    assert changed.steps[0].evidence[0].exit_code == 0
    assert changed.revision == 2


def ran(exit_code: int, text: str = "") -> list[object]:
    call = {"name": "execute_command", "args": {"command": "make"}, "id": "c1", "type": "tool_call"}
    result = ToolMessage(
        text, tool_call_id="c1", artifact={"request_id": "r1", "exit_code": exit_code}
    )
    return [HumanMessage("go"), AIMessage("", tool_calls=[call]), result]


def test_a_step_without_evidence_is_not_done() -> None:
    plan = parse_plan(TWO, None)
    with pytest.raises(ToolError, match="no evidence"):
        complete(plan, {"step": "s1"}, [HumanMessage("go")])


def test_evidence_of_an_earlier_turn_does_not_count() -> None:
    plan = parse_plan(TWO, None)
    with pytest.raises(ToolError, match="no evidence"):
        complete(plan, {"step": "s1"}, [*ran(0), AIMessage("ok"), HumanMessage("again")])


def test_a_failing_command_is_no_evidence_of_success() -> None:
    plan = parse_plan(TWO, None)
    with pytest.raises(ToolError, match="exit 2, expected 0"):
        complete(plan, {"step": "s1"}, ran(2))


@pytest.mark.parametrize(
    ("check", "exit_code", "text", "done"),
    [
        ({"kind": "exit_code", "value": "3"}, 3, "", True),
        ({"kind": "exit_code", "value": "3"}, 0, "", False),
        ({"kind": "pattern", "value": "^3 passed"}, 0, "3 passed", True),
        ({"kind": "pattern", "value": "^3 passed"}, 0, "2 passed", False),
        ({"kind": "judgement", "value": "looks right"}, 0, "", True),
    ],
)
def test_the_check_decides(check: dict[str, str], exit_code: int, text: str, done: bool) -> None:
    plan = parse_plan(steps({"id": "s1", "what": "a", "check": check}), None)
    if done:
        after, observation = complete(plan, {"step": "s1"}, ran(exit_code, text))
        assert after.steps[0].status == "done"
        assert "All plan steps are closed" in observation
    else:
        with pytest.raises(ToolError, match="s1 is not done"):
            complete(plan, {"step": "s1"}, ran(exit_code, text))


def test_failed_and_skipped_need_a_reason_and_name_the_fallback() -> None:
    plan = parse_plan(steps({"id": "s1", "what": "a", "fallback": "use curl"}), None)
    with pytest.raises(ToolError, match="note why"):
        complete(plan, {"step": "s1", "status": "failed"}, ran(1))
    after, observation = complete(
        plan, {"step": "s1", "status": "failed", "note": "no wget"}, ran(1)
    )
    assert after.steps[0].status == "failed"
    assert "Fallback: use curl" in observation


def test_an_unknown_step_names_the_known_ones() -> None:
    with pytest.raises(ToolError, match="it has s1, s2"):
        complete(parse_plan(TWO, None), {"step": "s9"}, ran(0))


def test_file_checks_become_commands_with_the_path_quoted() -> None:
    step = PlanStep("s1", "a", check=Check("file", "my file; rm -rf x"))
    assert check_command(step) == "test -e 'my file; rm -rf x'"


def test_a_check_command_closes_the_step_only_with_exit_zero() -> None:
    plan = parse_plan(
        steps({"id": "s1", "what": "a", "check": {"kind": "command", "value": "true"}}), None
    )
    failed = CommandResult("true", "exited", 1, "", 0.1, "/")
    passed = CommandResult("true", "exited", 0, "", 0.1, "/")
    assert settle_check(plan, "s1", "r1", failed)[0] is plan
    after, note = settle_check(plan, "s1", "r1", passed)
    assert after.steps[0].status == "done"
    assert after.steps[0].evidence[0].request_id == "r1"
    assert note.startswith("Check passed")
