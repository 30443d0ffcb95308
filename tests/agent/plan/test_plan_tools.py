"""Plans are validated when made, and every problem is named at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from kogniterm.agent.plan import evaluate
from kogniterm.agent.plan.evaluate import check_command, settle_check
from kogniterm.agent.plan.plan_parse import parse_plan
from kogniterm.agent.plan.plan_steps import active_step, ids
from kogniterm.agent.plan.plan_tools import where_we_are
from kogniterm.errors import ToolError
from kogniterm.types import Check, CommandResult, Plan, PlanStep


def steps(*items: dict[str, object]) -> dict[str, object]:
    return {"goal": "Ship it", "steps": list(items)}


async def nobody(plan: Plan, step: PlanStep, messages: Sequence[BaseMessage]) -> None:
    """Decide nothing, so that only the model's own statement counts for a judged step."""


def complete(
    plan: Plan, arguments: Mapping[str, Any], messages: Sequence[BaseMessage]
) -> tuple[Plan, str]:
    return asyncio.run(evaluate.complete(plan, arguments, messages, nobody))


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
        (steps({"id": "1", "what": "a"}), "has the invalid id '1'"),
        (steps({"id": "s1", "what": " "}), "what of step 1 must have 1 to 500"),
        (steps({"id": "s1", "what": "a" * 501}), "what of step 1 must have 1 to 500"),
        (steps("s1"), "is not an object"),  # type: ignore[arg-type]
        (steps({"id": "s1", "what": "a", "inputs": ["steps.s2.output"]}), "not an earlier step"),
        (steps({"id": "s1", "what": "a", "inputs": ["steps.s1.output"]}), "not an earlier step"),
        (steps({"id": "s1", "what": "a", "inputs": ["env.HOME"]}), "session.cwd"),
        (
            steps({"id": "s1", "what": "a", "check": {"kind": "vibes", "value": "x"}}),
            "check of s1 needs kind",
        ),
        (steps({"id": "s1", "what": "a", "check": {"kind": "pattern", "value": "("}}), "regular"),
        (
            steps({"id": "s1", "what": "a", "check": {"kind": "exit_code", "value": "ok"}}),
            "an exit code from 0",
        ),
        (
            steps({"id": "s1", "what": "a", "check": {"kind": "exit_code", "value": "²"}}),
            "an exit code from 0",
        ),
        (
            steps({"id": "s1", "what": "a", "check": {"kind": "exit_code", "value": "256"}}),
            "an exit code from 0 to 255",
        ),
        (
            steps({"id": "s1", "what": "a", "check": {"kind": "exit_code", "value": "9" * 5000}}),
            "more than 2000",
        ),
        (
            steps({"id": "s1", "what": "a", "check": {"kind": "pattern", "value": "(" * 1999}}),
            "regular",
        ),
        ({"goal": "g" * 2001, "steps": [{"id": "s1", "what": "a"}]}, "goal has more"),
        (steps({"id": "s1", "what": "a", "inputs": ["session.cwd"] * 21}), "too long"),
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
    wish = {**steps({"id": "s3", "what": "Test differently"}), "reason": "no network"}
    changed = parse_plan(wish, plan, going_on=True)
    assert ids(changed) == ("s1", "s3")
    assert changed.steps[0].status == "done"
    assert changed.steps[0].evidence[0].exit_code == 0
    assert (changed.revision, changed.reason) == (2, "no network")


def test_a_change_needs_its_reason_and_leaves_finished_steps_alone() -> None:
    plan = parse_plan(TWO, None)
    plan, _ = complete(plan, {"step": "s1"}, ran(0))
    with pytest.raises(ToolError, match="state in reason why it changes"):
        parse_plan(TWO, plan, going_on=True)
    wish = {**steps({"id": "s1", "what": "Deploy"}), "reason": "new idea"}
    with pytest.raises(ToolError, match=r"s1 is already done \(Build\)"):
        parse_plan(wish, plan, going_on=True)
    same = parse_plan({**TWO, "reason": "again"}, plan, going_on=True)
    assert ids(same) == ("s1", "s2")
    assert [step.status for step in same.steps] == ["done", "active"]


def test_the_plan_of_another_task_is_not_taken_over() -> None:
    plan = parse_plan(TWO, None)
    plan, _ = complete(plan, {"step": "s1"}, ran(0))
    fresh = parse_plan(TWO, plan)
    assert [step.status for step in fresh.steps] == ["active", "pending"]
    finished, _ = complete(plan, {"step": "s2", "status": "skipped", "note": "-"}, ran(0))
    assert parse_plan({**TWO, "reason": "x"}, finished).steps[0].status == "active"


def test_one_command_does_not_close_two_steps() -> None:
    plan = parse_plan(TWO, None)
    messages = ran(0)
    plan, text = complete(plan, {"step": "s1"}, messages)
    messages += [AIMessage(""), ToolMessage(text, tool_call_id="c2", name="complete_step")]
    with pytest.raises(ToolError, match="s2 has no evidence"):
        complete(plan, {"step": "s2"}, [*messages, AIMessage("")])


def test_work_done_before_the_step_began_is_no_evidence() -> None:
    plan = parse_plan(TWO, None)
    older = [*ran(0)[1:], AIMessage(""), *ran(0)[1:]]
    older[1] = older[1].model_copy(update={"artifact": {"request_id": "r0", "exit_code": 0}})
    plan, text = complete(plan, {"step": "s1"}, [HumanMessage("go"), *older])
    closed = ToolMessage(text, tool_call_id="c2", name="complete_step")
    with pytest.raises(ToolError, match="s2 has no evidence"):
        complete(
            plan, {"step": "s2"}, [HumanMessage("go"), *older, AIMessage(""), closed, AIMessage("")]
        )


def test_parts_of_a_step_are_kept_and_shown() -> None:
    plan = parse_plan(steps({"id": "s1", "what": "Build", "substeps": ["compile", "link"]}), None)
    assert [part.what for part in plan.steps[0].substeps] == ["compile", "link"]
    alone = [{"what": "compile"}, {"what": "link", "check": None}]
    assert parse_plan(steps({"id": "s1", "what": "Build", "substeps": alone}), None) == plan
    assert where_we_are(plan).endswith("- compile\n- link")
    with pytest.raises(ToolError, match="must be a list"):
        parse_plan(steps({"id": "s1", "what": "Build", "substeps": "compile"}), None)


def test_repeat_then_the_fallback_then_another_plan_then_the_end() -> None:
    plan = parse_plan(
        steps(
            {"id": "s1", "what": "a", "fallback": "use curl"},
            {"id": "s2", "what": "b", "inputs": ["steps.s1.output"]},
        ),
        None,
    )
    said = []
    for number in range(6):
        plan, text = complete(plan, {"step": "s1"}, ran(number + 1, request_id=f"r{number}"))
        said.append(text)
    assert "Find the cause" in said[0]
    assert "Before that: the last command ended with exit 1" in said[1]
    assert "Now s1: use curl (instead of: a)" in said[2]
    assert "change the plan with make_plan" in said[3]
    assert "closed as failed. s2 would use its result: change the plan" in said[5]
    assert plan.steps[0].status == "failed"
    assert [one.exit_code for one in plan.steps[0].evidence] == [1, 2, 3, None, 4, 5, 6, None]


def test_what_failed_once_is_not_judged_again_without_new_work() -> None:
    plan = parse_plan(TWO, None)
    plan, _ = complete(plan, {"step": "s1"}, ran(1))
    with pytest.raises(ToolError, match="no evidence"):
        complete(plan, {"step": "s1"}, ran(1))


def ran(exit_code: int, text: str = "", request_id: str = "r1") -> list[BaseMessage]:
    call = {"name": "execute_command", "args": {"command": "make"}, "id": "c1", "type": "tool_call"}
    result = ToolMessage(
        text,
        tool_call_id="c1",
        artifact={
            "request_id": request_id, "exit_code": exit_code, "command": "make", "cwd": "/there"
        },
    )  # fmt: skip
    return [HumanMessage("go"), AIMessage("", tool_calls=[call]), result]


def test_a_step_is_shown_what_it_uses_of_earlier_ones() -> None:
    inputs = ["steps.s1.output", "steps.s1.exit_code", "session.cwd"]
    plan = parse_plan(
        steps({"id": "s1", "what": "a"}, {"id": "s2", "what": "b", "inputs": inputs}), None
    )
    seen = ran(0, "start " + "x" * 5_000 + " end")
    plan, text = complete(plan, {"step": "s1"}, seen)
    assert plan.steps[0].evidence[0].note == "make"
    assert "\nsteps.s1.output: start xxx" in text
    assert " characters left out" in text
    assert " end\nsteps.s1.exit_code: 0\nsession.cwd: /there" in text
    assert len(text) < 2_000
    assert "steps.s1.output: no longer shown" in where_we_are(plan)


def test_the_output_of_a_checked_step_is_that_of_its_work() -> None:
    check = {"kind": "file", "value": "made"}
    plan = parse_plan(
        steps(
            {"id": "s1", "what": "a", "check": check},
            {"id": "s2", "what": "b", "inputs": ["steps.s1.output"], "expect": "two lines"},
        ),
        None,
    )
    seen = [*ran(0, "worked"), AIMessage("")]
    passed = CommandResult("test -e made", "exited", 0, "", 0.1, "/")
    plan, text = settle_check(plan, "s1", "r2", passed, seen)
    assert [one.request_id for one in plan.steps[0].evidence] == ["r1", "r2"]
    assert "Now s2: b. Expected: two lines." in text
    assert "steps.s1.output: worked" in text


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
    after, observation = complete(plan, {"step": "s1"}, ran(2))
    assert "exit 2, expected 0" in observation
    assert after.steps[0].status == "active"
    assert after.steps[0].failed_checks == 1


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
        after, observation = complete(plan, {"step": "s1", "note": "n"}, ran(exit_code, text))
        assert after.steps[0].status == "done"
        assert "All plan steps are closed" in observation
    else:
        after, observation = complete(plan, {"step": "s1"}, ran(exit_code, text))
        assert after.steps[0].status == "active"
        assert "s1 is not done" in observation


def test_a_pattern_that_never_ends_fails_its_check() -> None:
    check = {"kind": "pattern", "value": "(a|aa)+$"}
    plan = parse_plan(steps({"id": "s1", "what": "a", "check": check}), None)
    after, observation = complete(plan, {"step": "s1"}, ran(0, "a" * 80 + "!"))
    assert "The pattern takes too long to match" in observation
    assert after.steps[0].status == "active"


def test_a_judgement_needs_its_grounds() -> None:
    check = {"kind": "judgement", "value": "looks right"}
    plan = parse_plan(steps({"id": "s1", "what": "a", "check": check}), None)
    with pytest.raises(ToolError, match="what shows that s1"):
        complete(plan, {"step": "s1"}, ran(0))


def test_giving_up_needs_a_reason_and_the_fallback_comes_first() -> None:
    plan = parse_plan(steps({"id": "s1", "what": "a", "fallback": "use curl"}), None)
    with pytest.raises(ToolError, match="note is missing; state in it why s1 is failed"):
        complete(plan, {"step": "s1", "status": "failed"}, ran(1))
    failed = {"step": "s1", "status": "failed", "note": "no wget"}
    tried, observation = complete(plan, failed, ran(1))
    assert (tried.steps[0].status, tried.steps[0].on_fallback) == ("active", True)
    assert "s1 stays open. Now s1: use curl" in observation
    after, _ = complete(tried, {**failed, "note": "no curl"}, ran(1))
    assert after.steps[0].status == "failed"
    assert [one.note for one in after.steps[0].evidence] == ["no wget", "no curl"]
    skipped, _ = complete(plan, {"step": "s1", "status": "skipped", "note": "no need"}, ran(1))
    assert skipped.steps[0].status == "skipped"


def test_an_unknown_step_names_the_known_ones() -> None:
    with pytest.raises(ToolError, match="Step s9 not found; the plan has s1, s2"):
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
    still, note = settle_check(plan, "s1", "r1", failed)
    assert (still.steps[0].status, still.steps[0].failed_checks) == ("active", 1)
    assert note.startswith("Check failed (exit 1)")
    after, note = settle_check(plan, "s1", "r1", passed)
    assert after.steps[0].status == "done"
    assert after.steps[0].evidence[0].request_id == "r1"
    assert note.startswith("Check passed")


# --- substeps that are steps of their own -------------------------------------------------------

NESTED = steps(
    {"id": "s1", "what": "Look"},
    {
        "id": "s2",
        "what": "Install",
        "substeps": [
            {"what": "Stop", "tools": ["execute_command"]},
            {"id": "go", "what": "Start", "inputs": ["steps.s2_1.output"], "fallback": "Reboot"},
        ],
    },
    {"id": "s3", "what": "Tell", "inputs": ["steps.s2.output"]},
)


def closed(plan: Plan, text: str, seen: list[BaseMessage]) -> list[BaseMessage]:
    return [*seen, AIMessage(""), ToolMessage(text, tool_call_id="x", name="complete_step")]


def test_a_step_is_done_when_its_substeps_are_each_with_its_own_evidence() -> None:
    plan = parse_plan(NESTED, None)
    assert ids(plan) == ("s1", "s2", "s2_1", "go", "s3")
    seen = ran(0, request_id="r1")
    plan, text = complete(plan, {"step": "s1"}, seen)
    assert "Now s2_1: Stop (part of s2: Install). Tools: execute_command." in text
    with pytest.raises(ToolError, match="s2 is done when its substeps are; open: s2_1, go"):
        complete(plan, {"step": "s2"}, closed(plan, text, seen))
    seen = [*closed(plan, text, seen), *ran(0, "stopped", "r2")[1:]]
    plan, text = complete(plan, {"step": "s2_1"}, seen)
    assert plan.steps[1].status == "active"
    assert "steps.s2_1.output: stopped" in text
    seen = [*closed(plan, text, seen), *ran(0, "started", "r3")[1:]]
    plan, text = complete(plan, {"step": "go"}, seen)
    assert plan.steps[1].status == "done"
    assert [part.evidence[0].request_id for part in plan.steps[1].parts] == ["r2", "r3"]
    assert "Now s3: Tell." in text
    assert "steps.s2.output: started" in text
    assert evaluate.findings(plan)[0] == (
        "s1 Look: make (exit 0)", "s2_1 Stop: make (exit 0)", "go Start: make (exit 0)",
    )  # fmt: skip


def test_a_failed_substep_fails_its_step_after_both_fallbacks() -> None:
    wish = steps(
        {
            "id": "s1", "what": "a", "fallback": "ask",
            "substeps": [{"id": "s1_1", "what": "b"}, {"id": "s1_2", "what": "c"}],
        },
        {"id": "s2", "what": "d"},
    )  # fmt: skip
    plan = parse_plan(wish, None)
    given_up = {"status": "failed", "note": "no"}
    plan, _text = complete(plan, {"step": "s1_1", **given_up}, ran(1))
    assert active_step(plan) == plan.steps[0].parts[1]
    plan, text = complete(plan, {"step": "s1_2", **given_up}, ran(1))
    assert "Now s1: ask (instead of: a)" in text
    plan, text = complete(plan, {"step": "s1", **given_up}, ran(1))
    assert [step.status for step in plan.walk()] == ["failed", "failed", "failed", "active"]


def test_a_step_with_a_check_of_its_own_is_checked_after_its_substeps() -> None:
    check = {"kind": "file", "value": "out"}
    wish = steps(
        {"id": "s1", "what": "a", "check": check, "substeps": [{"id": "s1_1", "what": "b"}]}
    )
    plan = parse_plan(wish, None)
    plan, text = complete(plan, {"step": "s1_1"}, ran(0))
    assert "Now s1: a. Its substeps are closed; what is left is its own check." in text
    passed = CommandResult("test -e out", "exited", 0, "", 0.1, "/")
    plan, text = settle_check(plan, "s1", "r9", passed)
    assert plan.steps[0].status == "done"
    assert "All plan steps are closed" in text


def test_a_changed_plan_keeps_finished_substeps() -> None:
    plan = parse_plan(NESTED, None)
    plan, text = complete(plan, {"step": "s1"}, ran(0, request_id="r1"))
    seen = [*closed(plan, text, ran(0, request_id="r1")), *ran(0, request_id="r2")[1:]]
    plan, _text = complete(plan, {"step": "s2_1"}, seen)
    again = {"id": "s2", "what": "Install", "substeps": [{"id": "new", "what": "Start slowly"}]}
    changed = parse_plan({**steps(again), "reason": "slow"}, plan, going_on=True)
    assert [(one.id, one.status) for one in changed.walk()] == [
        ("s1", "done"), ("s2", "active"), ("s2_1", "done"), ("new", "active"),
    ]  # fmt: skip
    other = parse_plan({**steps({"id": "s9", "what": "x"}), "reason": "y"}, plan, going_on=True)
    assert ids(other) == ("s1", "s2_1", "s9")


def test_substeps_without_an_id_keep_theirs_when_the_plan_changes() -> None:
    plan = parse_plan(NESTED, None)
    plan, text = complete(plan, {"step": "s1"}, ran(0, request_id="r1"))
    seen = [*closed(plan, text, ran(0, request_id="r1")), *ran(0, request_id="r2")[1:]]
    plan, _text = complete(plan, {"step": "s2_1"}, seen)
    first, second = (part.what for part in plan.steps[1].parts)
    texts = [{"what": "Look", "why": "new"}, {"what": second, "why": "w"}, {"what": first}]
    again = {"id": "s2", "what": "Install", "substeps": texts}
    changed = parse_plan({**steps(again), "reason": "slow"}, plan, going_on=True)
    assert [(one.id, one.what, one.status) for one in changed.steps[1].parts] == [
        ("s2_1", first, "done"), ("s2_2", "Look", "active"), ("go", second, "pending"),
    ]  # fmt: skip
    assert changed.steps[1].parts[0].evidence == plan.steps[1].parts[0].evidence


def test_every_mistake_of_substeps_references_and_tools_is_named_at_once() -> None:
    wish = steps(
        {
            "id": "s1", "what": "a", "delegate": "read", "tools": ["edit_file"],
            "inputs": ["session.preferences.Editor!", "input.text"],
            "substeps": [{"what": "b", "substeps": ["c"]}, {"id": "s1", "what": "d"}],
        },
        {"id": "s2", "what": "e", "after": ["s7"]},
    )  # fmt: skip
    with pytest.raises(ToolError) as caught:
        parse_plan(wish, None, tools=["edit_file", "read_file"])
    for part in (
        "inputs of s1 contains 'session.preferences.Editor!'; use steps.ID.output",
        "s1 is delegated; delegate its substeps instead",
        "s1_1 is a substep and cannot have substeps",
        "the id s1 is used twice",
        "after of s2 names s7",
        "s1 is delegated to read, which has no tool 'edit_file'",
    ):
        assert part in str(caught.value)


def test_references_to_input_session_and_preferences_are_resolved_and_clipped() -> None:
    values = {"input.text": "x" * 5_000, "session.preferences.editor": "vim"}
    names = ["input.text", "session.preferences.editor", "session.preferences.units"]
    plan = parse_plan(steps({"id": "s1", "what": "a", "inputs": names}), None)
    text = where_we_are(plan, lookup=values.get)
    assert " characters left out" in text
    assert text.endswith("session.preferences.editor: vim\nsession.preferences.units: not set")


# --- side by side -------------------------------------------------------------------------------


def delegated(*items: dict[str, object]) -> Plan:
    return parse_plan(steps(*({"what": "a", "delegate": "run", **one} for one in items)), None)


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ({"delegate": "read"}, {"delegate": "search"}, True),
        ({"delegate": "read"}, {"delegate": "read", "after": ["s1"]}, False),
        ({"delegate": "read"}, {"delegate": "read", "inputs": ["steps.s1.output"]}, False),
        ({}, {}, False),
        ({"writes": ["docs"]}, {"writes": ["src/"]}, True),
        ({"writes": ["docs"]}, {"writes": ["docs/a.md"]}, False),
        ({"writes": ["docs/*.md"]}, {"writes": ["docs/a.md"]}, False),
        ({"writes": ["docs"]}, {"writes": ["./docs/../docs"]}, False),
        ({"writes": ["docs"]}, {"writes": ["/home/docs"]}, False),
        ({"writes": ["docs"]}, {"writes": ["docs2"]}, True),
        ({"writes": ["."]}, {"writes": ["src"]}, False),
        ({"writes": ["docs"]}, {"delegate": "read"}, False),
    ],
)
def test_steps_that_are_apart_are_handed_out_together(
    first: dict[str, object], second: dict[str, object], together: bool
) -> None:
    plan = delegated({"id": "s1", **first}, {"id": "s2", **second})
    assert ("In the same reply, hand out: s2." in where_we_are(plan)) is together
