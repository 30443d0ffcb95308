"""A plan waits until the user has reviewed it: approved, edited, rejected, asked again."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace

import pytest

from kogniterm.runtime.plan_edits import plan_from_text
from kogniterm.runtime.session_plans import give_plan
from kogniterm.sessions.records import Decided, Intent
from kogniterm.types import Plan, PlanReview, PlanStep, events
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import replayed, start_run
from tests.support.forge import Forge
from tests.support.programs import require_sandbox

PLAN = """
  - plan: {goal: Make it, steps: [{id: s1, what: Create}, {id: s2, what: Look}]}
"""
WORK = """
  - run: touch made
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - run: ls
  - calls: [{tool: complete_step, arguments: {step: s2}}]
  - text: Made and seen.
"""


def reject(reason: str):  # type: ignore[no-untyped-def]  # a review by a user
    return lambda plan: PlanReview("reject", plan, "person", reason)


def decided(flow: Flow) -> list[tuple[str, str, str]]:
    records = flow.session.journal.records()
    found = [r.body.decision for r in records if isinstance(r.body, Decided)]
    return [(one.kind, one.by, one.reason) for one in found]


async def test_an_approved_plan_is_worked_on_and_who_approved_it_is_on_record(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(f"replies:{PLAN}{WORK}", decisions=[yes, yes])
    answer = await flow.run()
    assert (answer.text, answer.exit_code) == ("Made and seen.", 0)
    assert [(plan.goal, before) for plan, before in flow.user.plans] == [("Make it", None)]
    assert decided(flow)[0] == ("approve", "person", "")
    told = [e for e in flow.events if type(e).__name__.startswith("Plan")]
    assert [type(event) for event in told[:3]] == [
        events.PlanProposed,
        events.PlanReviewed,
        events.PlanChanged,
    ]
    assert "Plan accepted. Now s1: Create." in flow.shown[2]
    assert answer.verified[0].startswith("s1 Create: touch made (")


async def test_the_model_works_on_what_the_user_made_of_its_plan(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls:
      - {tool: make_plan, arguments: {goal: g, steps: [{id: s1, what: a}, {id: s2, what: b}]}}
      - {tool: execute_command, arguments: {command: touch old}}
  - run: touch new
  - calls: [{tool: complete_step, arguments: {step: s2}}]
  - text: Done.
"""
    flow = make_flow(script, decisions=[yes])
    flow.user.reviews = [
        lambda plan: PlanReview("edit", replace(plan, steps=plan.steps[1:]), "person")
    ]
    answer = await flow.run()
    assert (answer.text, answer.exit_code) == ("Done.", 0)
    assert not (flow.folder / "old").exists()
    assert "The user changed the plan; it is now:" in flow.shown[2]
    assert "the plan was changed" in flow.shown[3]
    plan = flow.session.state.plan
    assert [(s.id, s.status) for s in plan.steps] == [("s2", "done")]
    assert plan.revision == 1


async def test_a_rejected_plan_comes_back_better(make_flow: MakeFlow) -> None:
    again = PLAN.replace("what: Look", "what: Look closely")
    flow = make_flow(f"replies:{PLAN}{again}{WORK}", decisions=[yes, yes])
    flow.user.reviews = [reject("look more closely")]
    answer = await flow.run()
    assert answer.exit_code == 0
    assert "rejected the plan: look more closely" in flow.shown[2]
    assert [plan.steps[1].what for plan, _before in flow.user.plans] == ["Look", "Look closely"]
    assert [before for _plan, before in flow.user.plans] == [None, None]
    assert decided(flow)[0] == ("reject", "person", "look more closely")


async def test_only_a_plan_that_changed_is_shown_again_with_what_it_replaces(
    make_flow: MakeFlow,
) -> None:
    script = f"""
replies:{PLAN}
  - run: touch made
  - calls: [{{tool: complete_step, arguments: {{step: s1}}}}]
  - plan: {{goal: Make it, reason: to be sure, steps: [{{id: s2, what: Look}}]}}
  - plan: {{goal: Make it, reason: no need, steps: [{{id: s3, what: Rest}}]}}
  - run: ls
  - calls: [{{tool: complete_step, arguments: {{step: s3}}}}]
  - text: Done.
"""
    flow = make_flow(script, decisions=[yes, yes])
    assert (await flow.run()).exit_code == 0
    (_first, (second, before)) = flow.user.plans
    assert (second.revision, second.reason) == (3, "no need")
    assert before is not None
    assert [step.status for step in before.steps] == ["done", "active"]
    assert [kind for kind, by, _why in decided(flow) if by == "kogniterm"] == ["approve"]


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ({}, 1),
        ({"plan_approval": "never"}, 0),
        ({"approval_mode": "auto"}, 0),
        ({"approval_mode": "auto", "plan_approval": "always"}, 1),
    ],
)
async def test_when_a_plan_is_asked_about(
    make_flow: MakeFlow, flags: dict[str, object], asked: int
) -> None:
    flow = make_flow(f"replies:{PLAN}{WORK}", decisions=[yes, yes], **flags)
    assert (await flow.run()).exit_code == 0
    assert len(flow.user.plans) == asked


async def test_a_plan_the_user_gave_is_not_asked_about(make_flow: MakeFlow) -> None:
    flow = make_flow(f"replies:{WORK}", decisions=[yes, yes])
    text = "{goal: g, steps: [{id: s1, what: Create}, {id: s2, what: Look}]}"
    give_plan(flow.open().context, plan_from_text(text))
    assert (await flow.run()).exit_code == 0
    assert flow.user.plans == []


async def test_when_unattended_the_plan_goes_on_unless_it_must_be_approved(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(f"replies:{PLAN}  - text: Enough.\n", approval_mode="manual")
    await flow.run()
    assert decided(flow) == [("approve", "unattended", "")]
    strict = make_flow(
        f"replies:{PLAN}  - text: Enough.\n", approval_mode="manual", plan_approval="always"
    )
    answer = await strict.run()
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert strict.session.state.plan is None
    assert "Nobody was there to approve the plan" in strict.shown[2]


async def test_a_stop_at_the_question_leaves_a_valid_session(make_flow: MakeFlow) -> None:
    flow = make_flow(f"replies:{PLAN}{PLAN}{WORK}", decisions=[yes, yes])
    asked = asyncio.Event()

    async def wait(plan: Plan, previous: Plan | None) -> PlanReview:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    flow.open()
    flow.user.review_plan = wait  # type: ignore[method-assign]
    turn = asyncio.ensure_future(flow.run())
    await asked.wait()
    turn.cancel()
    assert (await turn).stop == "interrupted"
    del flow.user.review_plan
    assert (await flow.run("go on")).exit_code == 0


async def test_a_plan_that_a_kill_left_waiting_is_asked_about_again(
    make_flow: MakeFlow, forge: Forge
) -> None:
    first = make_flow(f"replies:{PLAN}")
    started = start_run(forge, first, "make it", faults="kill:after-decision")
    assert started.wait() == -signal.SIGKILL, started.said
    flow = make_flow(f"replies:{WORK}", decisions=[yes, yes])
    session = flow.open("last")
    assert [request.tool for request in session.state.waiting] == ["make_plan"]
    answer = await flow.run(None)
    assert (answer.text, answer.exit_code) == ("Made and seen.", 0)
    assert [plan.goal for plan, _before in flow.user.plans] == ["Make it"]


async def test_a_session_with_reviewed_plans_plays_the_same(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(f"replies:{PLAN}{PLAN}{WORK}", decisions=[yes, yes])
    flow.user.reviews = [
        reject("not like this"),
        lambda plan: PlanReview(
            "edit", replace(plan, steps=(*plan.steps, PlanStep("s3", "Say so"))), "person"
        ),
    ]
    await flow.run()
    await flow.session.finish()
    flow.close()
    status, report = replayed(forge, flow)
    assert (status, report["divergence"]) == (0, None)


# --- grants with a plan ----------------------------------------------------------------------

CHECKED = """
replies:
  - plan:
      goal: Make it
      steps:
        - {id: s1, what: Make it, check: {kind: command, value: python3 -c 1}}
        - {id: s2, what: Test it, check: {kind: command, value: python3 -c 2}}
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - run: python3 -c 1
  - calls: [{tool: complete_step, arguments: {step: s2}}]
  - plan: {goal: Other, steps: [{id: s1, what: A, check: {kind: command, value: python3 -c 1}}]}
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - text: Done.
"""


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_a_grant_lets_exactly_the_checks_of_this_plan_run_in_the_sandbox(
    make_flow: MakeFlow, sandbox: str
) -> None:
    if sandbox == "auto":
        require_sandbox("auto")
    flow = make_flow(CHECKED, decisions=[yes] * 4, approval_mode="manual", sandbox=sandbox)
    flow.user.reviews = [lambda plan: PlanReview("approve", plan, "person", grant="checks")]
    assert (await flow.run()).exit_code == 0
    asked = [(request.tool, request.command) for request, _report, _verdict in flow.user.asked]
    one, two = ("complete_step", "python3 -c 1"), ("complete_step", "python3 -c 2")
    command = ("execute_command", "python3 -c 1")
    assert asked == ([command, one] if sandbox == "auto" else [one, command, two, one])
    bodies = [record.body for record in flow.session.journal.records()]
    assert sum(isinstance(body, Intent) for body in bodies) == 4


async def test_a_plan_that_has_ended_is_asked_about_again_and_its_checks_too(
    make_flow: MakeFlow,
) -> None:
    require_sandbox("auto")
    check = "{kind: command, value: python3 -c 1}"
    plan = f"{{goal: g, steps: [{{id: s1, what: A, check: {check}}}]}}"
    turn = f"{{plan: {plan}}}, {{calls: [{{tool: complete_step, arguments: {{step: s1}}}}]}}, Done."
    flow = make_flow(f"replies: [{turn}, {turn}]", decisions=[yes], sandbox="auto")
    flow.user.reviews = [lambda plan: PlanReview("approve", plan, "person", grant="checks")]
    await flow.run()
    assert (len(flow.user.plans), len(flow.user.asked)) == (1, 0)
    await flow.run("again")
    assert (len(flow.user.plans), len(flow.user.asked)) == (2, 1)


async def test_a_plan_is_started_with_edits_accepted(make_flow: MakeFlow) -> None:
    flow = make_flow(CHECKED, decisions=[yes] * 4, approval_mode="plan")
    flow.user.reviews = [lambda plan: PlanReview("approve", plan, "person", grant="edits")]
    await flow.run()
    assert flow.session.modes.approval == "accept-edits"


STOP = "  - calls: [{tool: end_turn, arguments: {outcome: not_done, why: later}}]\n"


FIRST = "  - calls: [{tool: complete_step"


SPLIT = CHECKED.replace(FIRST, STOP + FIRST, 1)


async def test_granted_checks_do_not_run_in_plan_mode(make_flow: MakeFlow) -> None:
    require_sandbox("auto")
    flow = make_flow(
        SPLIT[: SPLIT.index("  - run")] + STOP,
        decisions=[yes] * 4,
        approval_mode="manual",
        sandbox="auto",
    )
    flow.user.reviews = [lambda plan: PlanReview("approve", plan, "person", grant="checks")]
    await flow.run()
    flow.session.use_mode("plan")
    await flow.run("go on")
    assert not flow.results
