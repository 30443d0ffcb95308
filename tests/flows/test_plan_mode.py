"""Plan mode: a turn reads and plans; nothing changes by any road until the user starts the plan."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from kogniterm import prompts
from kogniterm.agent.messages import PLAN_MODE, PLAN_MODE_OVER
from kogniterm.errors import UsageError
from kogniterm.runtime.plan_edits import plan_from_text
from kogniterm.runtime.session_plans import replace_plan
from kogniterm.types import ActionRequest, Decision, PlanReview, UserInput, events
from kogniterm.ui.repl import next_mode
from tests.flows.conftest import Flow, MakeFlow, User, change_to, yes
from tests.flows.program import replayed, start_run
from tests.support.forge import Forge

STEP = {"id": "s1", "what": "Create it", "tools": ["execute_command"]}
PLAN = {"plan": {"goal": "Make it", "steps": [STEP]}}
ACT = {"run": "touch acted", "purpose": "Act"}
LOOK = {"run": "cat notes", "purpose": "Look"}
DONE = {"text": "Done."}
CLOSE = {"calls": [{"tool": "complete_step", "arguments": {"step": "s1", "evidence": "acted"}}]}


def planning(make_flow: MakeFlow, *replies: dict[str, Any], **more: Any) -> Flow:
    more = {"decisions": [], "approval_mode": "plan", **more}
    flow = make_flow(json.dumps({"replies": list(replies)}), **more)
    (flow.folder / "notes").write_text("beware of the dog\n")
    return flow


def mode(flow: Flow) -> str:
    return flow.session.modes.approval


def acted(flow: Flow) -> bool:
    return (flow.folder / "acted").exists()


def user(flow: Flow) -> User:
    return flow.user


def reject(reason: str) -> Any:
    return lambda plan: PlanReview("reject", plan, "person", reason)


# --- nothing changes ------------------------------------------------------------------------------


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"calls": [{"tool": tool, "arguments": arguments}]}


@pytest.mark.parametrize(("attended", "attempt"), [(False, ACT), *((True, one) for one in (
    ACT,
    {"run": "touch 'not here' 2>/dev/null; cat notes"},
    {"run": "cat notes > acted"},
    {"run": "python3 -c 'open(\"acted\", \"w\")'"},
    {"run": "sed -i s/a/b/ notes"},
    {"run": "rm -rf ."},
    call("write_file", path="acted", content="x"),
    call("edit_file", path="notes", old="beware", new="be brave"),
    call("web_fetch", url="https://example.org/"),
    call("delegate", task="Do it", tools="edit"),
    call("delegate", task="Do it", tools="run"),
))])  # fmt: skip
async def test_nothing_that_changes_something_runs(
    make_flow: MakeFlow, attempt: dict[str, Any], attended: bool
) -> None:
    # A sub-agent gets the second reply, as its own.
    flow = planning(make_flow, attempt, ACT, DONE, DONE, allow_reads=True)
    flow.user = flow.user if attended else None
    answer = await flow.run()
    assert answer.stop == "done"
    assert not acted(flow)
    assert (flow.folder / "notes").read_text() == "beware of the dog\n"
    assert flow.of(events.CommandStarted) == []
    assert any("only a plan was requested" in text for text in flow.shown) or flow.of(
        events.AgentStarted
    )


async def test_no_rule_and_no_permission_lets_anything_through(make_flow: MakeFlow) -> None:
    flow = planning(make_flow, ACT, DONE)
    session = flow.open()
    request = ActionRequest("r", "c", "execute_command", "touch acted")
    report = session.policy.assess(request, str(flow.folder))
    session.policy.grant(
        report, session.policy.offers(request, report, str(flow.folder))[0], session.executor.cwd
    )
    await flow.run()
    assert not acted(flow)


async def test_the_check_of_a_step_does_not_run(make_flow: MakeFlow) -> None:
    step = {**STEP, "check": {"kind": "command", "value": "touch acted"}}
    plan = plan_from_text(json.dumps({"goal": "Make it", "steps": [step]}), None)
    flow = planning(make_flow, CLOSE, DONE)
    replace_plan(flow.open().journal, plan, flow.tell)
    await flow.run("close it")
    assert any("only a plan was requested" in text for text in flow.shown)
    assert not acted(flow)


async def test_a_command_edited_into_one_that_writes_is_refused(make_flow: MakeFlow) -> None:
    def edited(request: ActionRequest) -> Decision:
        flow.session.use_mode("plan")
        return change_to("touch acted")(request)

    flow = planning(make_flow, LOOK, DONE, decisions=[edited], approval_mode="manual")
    await flow.run()
    assert len(user(flow).asked) == 1
    assert not acted(flow)


async def test_a_switch_in_the_middle_of_a_turn_holds_from_the_next_action(
    make_flow: MakeFlow,
) -> None:
    flow = planning(make_flow, ACT, {"run": "touch later"}, DONE, approval_mode="auto")
    session = flow.open()

    def tell(event: object) -> None:
        flow.tell(event)
        if isinstance(event, events.CommandEnded):
            session.use_mode("plan")

    await session.run(UserInput("go"), approver=user(flow), sink=tell)
    assert acted(flow)
    assert not (flow.folder / "later").exists()
    assert sum(prompts.text(PLAN_MODE) in text for text in flow.shown) == 1


# --- the plan -------------------------------------------------------------------------------------


async def test_an_approved_plan_starts_in_ask_mode(make_flow: MakeFlow) -> None:
    flow = planning(make_flow, ACT, PLAN, ACT, CLOSE, DONE, decisions=[yes])
    answer = await flow.run()
    assert len(user(flow).plans) == 1
    assert [request.command for request, _r, _v in user(flow).asked] == ["touch acted"]
    assert (acted(flow), mode(flow), answer.stop) == (True, "manual", "done")
    assert any("The mode is now ask" in str(notice.text) for notice in flow.of(events.Notice))
    assert flow.session.state.mode == "manual"
    assert sum(prompts.text(PLAN_MODE_OVER) in text for text in flow.shown) == 1


@pytest.mark.parametrize("approval", ["auto", "never"])
async def test_the_plan_is_always_offered(make_flow: MakeFlow, approval: str) -> None:
    flow = planning(make_flow, PLAN, ACT, DONE, plan_approval=approval, plan="never")
    user(flow).reviews = [reject("too short")]
    await flow.run()
    assert len(user(flow).plans) == 1
    assert (acted(flow), mode(flow)) == (False, "plan")


async def test_without_a_user_the_plan_is_the_answer(make_flow: MakeFlow) -> None:
    flow = planning(make_flow, ACT, PLAN, ACT)
    flow.user = None
    answer = await flow.run()
    assert (answer.stop, answer.exit_code, mode(flow)) == ("plan_only", 0, "plan")
    assert answer.text.startswith("goal: Make it")
    assert not acted(flow)


async def test_the_model_is_told_at_the_end_and_only_there(make_flow: MakeFlow) -> None:
    flow = planning(make_flow, DONE, DONE, DONE)
    await flow.run("one")
    flow.session.use_mode("manual")
    await flow.run("two")
    assert sum(prompts.text(PLAN_MODE) in text for text in flow.shown) == 1
    assert prompts.text(PLAN_MODE) not in str(flow.session.context.system.content)


async def test_a_small_model_cannot_be_put_into_plan_mode(make_flow: MakeFlow) -> None:
    flow = make_flow("model: {one_command: true}\nreplies: [{text: Done.}]", [])
    session = flow.open()
    with pytest.raises(UsageError, match="too small"):
        session.use_mode("plan")
    seen = []
    for _ in range(4):
        session.use_mode(next_mode(session))
        seen.append(session.modes.approval)
    assert seen == ["accept-edits", "auto", "manual", "accept-edits"]


async def test_the_key_goes_through_the_modes_that_work(make_flow: MakeFlow) -> None:
    flow = planning(make_flow, DONE, approval_mode="manual")
    session = flow.open()
    seen = []
    for _ in range(4):
        session.use_mode(next_mode(session))
        seen.append(session.modes.approval)
    assert seen == ["accept-edits", "auto", "plan", "manual"]
    session.policy.circumstances = session.policy.circumstances._replace(unsandboxed_ok=False)
    session.use_mode(next_mode(session))
    session.use_mode(next_mode(session))
    assert session.modes.approval == "plan"


# --- after a crash, and in a replay -----------------------------------------------------------


async def test_an_open_turn_stays_in_plan_mode_when_it_is_resumed(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = planning(make_flow, PLAN)
    started = start_run(forge, flow, "--mode", "plan", "go", faults="kill:after-input")
    assert started.wait() == -signal.SIGKILL, started.said
    flow = planning(make_flow, ACT, PLAN, approval_mode="auto")
    flow.user = None
    flow.open("last")
    answer = await flow.run(None)
    assert (answer.stop, acted(flow)) == ("plan_only", False)
    flow.close()
    # The next turn is one of the process that runs it.
    flow = planning(make_flow, ACT, DONE, approval_mode="auto")
    flow.open("last")
    await flow.run("now do it")
    assert acted(flow)


async def test_a_turn_in_plan_mode_replays(make_flow: MakeFlow, forge: Forge) -> None:
    flow = planning(make_flow, ACT, PLAN)
    started = start_run(forge, flow, "--mode", "plan", "go")
    assert started.wait() == 0, started.said
    status, report = replayed(forge, flow)
    assert status == 0, report
