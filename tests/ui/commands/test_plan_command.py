"""/plan: show it, change it, write one, start it."""

from __future__ import annotations

import pytest

from kogniterm.errors import UsageError
from kogniterm.ui.commands.plan import EMPTY
from tests.flows.conftest import MakeFlow, make_flow
from tests.ui.commands.commanded import Commanded

__all__ = ["make_flow"]

PLAN = """
replies:
  - plan:
      goal: Make it
      steps:
        - {what: Create, why: somebody must, check: {kind: file, value: made}}
        - {what: Look, inputs: [steps.s1.output]}
        - Tell
  - text: not now
  - text: really not now
"""
WORK = """
  - run: touch made
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - text: Done.
"""


async def test_a_plan_is_shown_with_all_it_says(make_flow: MakeFlow) -> None:
    flow = make_flow(PLAN)
    await flow.run()
    shown = await Commanded(flow.session).type("/plan")
    for words in ("Make it", "> o 1. Create", "why: somebody must", "inputs: steps.s1.output",
                  "check: file exists: made", "Plans: auto.",
                  "Plans need your approval"):  # fmt: skip
        assert words in shown


async def test_a_changed_plan_is_told_and_ends_its_grants(make_flow: MakeFlow) -> None:
    flow = make_flow(PLAN)
    await flow.run()
    assert flow.session is not None
    flow.session.modes.checks = frozenset({"make test"})
    repl = Commanded(flow.session, saves=["{goal: g, steps: [{id: s1, what: Say so}]}"])
    assert "Plan, revision 2" in await repl.type("/plan edit")
    assert not flow.session.modes.checks  # what was granted with a plan ends when it changes
    assert flow.session.state.plan is not None
    assert [step.what for step in flow.session.state.plan.steps] == ["Say so"]
    assert flow.shown[-1].startswith("(The user changed the plan")
    with pytest.raises(UsageError, match="Use one of"):
        await repl.type("/plan hope")


async def test_a_plan_is_edited_until_it_can_be_used(make_flow: MakeFlow) -> None:
    flow = make_flow(PLAN)
    await flow.run()
    bad = "{goal: g, steps: [{id: s1, what: a, tools: [hammer]}]}"
    repl = Commanded(flow.session, ["e"], [bad, bad.replace("hammer", "read_file")])
    await repl.type("/plan edit")
    assert "what: Create" in repl.edited[0]
    assert repl.edited[1].startswith("# KogniTerm:\n#   s1 needs the tool 'hammer'")
    assert "s1 needs the tool 'hammer', which does not exist" in repl.asked[0][1]
    assert flow.session is not None
    assert flow.session.state.plan is not None
    assert flow.session.state.plan.steps[0].tools == ("read_file",)


async def test_a_user_writes_a_plan_and_has_it_done(make_flow: MakeFlow) -> None:
    flow = make_flow(f"replies:{WORK}")
    written = "goal: Mine\nsteps: [{id: s1, what: Create, check: {kind: file, value: made}}]\n"
    repl = Commanded(flow.open(), saves=[written])
    with pytest.raises(UsageError, match="No plan yet"):
        await repl.type("/plan approve")
    await repl.type("/plan edit")
    assert repl.edited == [EMPTY]
    await repl.type("/plan approve")
    (work,) = repl.inputs
    answer = await flow.run(work)
    assert answer.exit_code == 0
    assert answer.verified[0].startswith("s1 Create: test -e made (")
    with pytest.raises(UsageError, match="The plan has no open steps"):
        await repl.type("/plan approve")


async def test_when_plans_are_made_and_asked_about_is_set(make_flow: MakeFlow) -> None:
    flow = make_flow()
    repl = Commanded(flow.open())
    assert "Plans: never." in await repl.type("/plan never")
    assert "without your approval" in await repl.type("/plan approve never")
    assert flow.session is not None
    assert (flow.session.modes.planning, flow.session.modes.plans.approval) == ("never", "never")
    with pytest.raises(UsageError, match="Use one of"):
        await repl.type("/plan approve maybe")
