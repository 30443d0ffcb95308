"""`--plan-only` never acts: not in auto mode, not through sub-agents or a resumed turn."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from kogniterm.sessions.records import Intent, Judged, Requested
from kogniterm.types import events
from tests.cli.conftest import Shell, shell
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import start_run
from tests.support.forge import Forge

__all__ = ["shell"]

PLAN = "{plan: {goal: Make it, steps: [{id: s1, what: Create it, tools: [execute_command]}]}}"
ACT = "{run: touch acted, purpose: Act}"


def acted(flow: Flow) -> bool:
    return (flow.folder / "acted").exists()


def asked_for(flow: Flow) -> list[object]:
    """Return the records that only an action leaves."""
    bodies = [record.body for record in flow.session.journal.records()]
    return [body for body in bodies if isinstance(body, Requested | Judged | Intent)]


def plan_only(make_flow: MakeFlow, *replies: str, **more: Any) -> Flow:
    flow = make_flow(f"replies: [{', '.join(replies)}]", **more)
    flow.open().modes.plans.only = True
    return flow


@pytest.mark.parametrize("plan_mode", ["auto", "always", "never"])
async def test_a_command_is_refused_and_the_model_told_until_it_plans(
    make_flow: MakeFlow, plan_mode: str
) -> None:
    flow = plan_only(make_flow, ACT, PLAN, plan=plan_mode)
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("plan_only", 0)
    assert answer.text.startswith("goal: Make it")
    assert not acted(flow)
    assert asked_for(flow) == []
    assert any("only a plan was requested" in text for text in flow.shown)


async def test_files_may_be_read_before_the_plan(make_flow: MakeFlow) -> None:
    look = "{calls: [{tool: read_file, arguments: {path: notes}}]}"
    flow = plan_only(make_flow, look, PLAN)
    (flow.folder / "notes").write_text("beware of the dog")
    answer = await flow.run()
    assert answer.stop == "plan_only"
    assert any("beware of the dog" in text for text in flow.shown)


async def test_a_secret_is_not_read_for_a_plan(make_flow: MakeFlow) -> None:
    look = "{calls: [{tool: read_file, arguments: {path: .env}}]}"
    flow = plan_only(make_flow, look, PLAN, decisions=[yes])
    (flow.folder / ".env").write_text("TOKEN=hunter2hunter2")
    answer = await flow.run()
    assert answer.stop == "plan_only"
    assert flow.user.asked == []
    assert not any("hunter2" in text for text in flow.shown)


@pytest.mark.parametrize("tools", ["edit", "run"])
async def test_no_sub_agent_acts(make_flow: MakeFlow, tools: str) -> None:
    hand = f"{{calls: [{{tool: delegate, arguments: {{task: Do it, tools: {tools}}}}}]}}"
    flow = plan_only(make_flow, hand, PLAN)
    answer = await flow.run()
    assert answer.stop == "plan_only"
    assert flow.of(events.AgentStarted) == []
    assert any("only a plan was requested" in text for text in flow.shown)


# --- turns that another process began ---------------------------------------------------------


def killed(forge: Forge, flow: Flow, faults: str, *words: str) -> None:
    started = start_run(forge, flow, *words, "go", faults=faults)
    assert started.wait() == -signal.SIGKILL, started.said


async def test_an_action_that_waited_is_refused_by_a_resume_that_only_plans(
    make_flow: MakeFlow, forge: Forge
) -> None:
    killed(forge, make_flow(f"replies: [{ACT}]"), "kill:before-decision", "-y")
    flow = make_flow(f"replies: [{PLAN}]")
    flow.open("last").modes.plans.only = True
    before = len(asked_for(flow))
    answer = await flow.run(None)
    assert (answer.stop, answer.exit_code) == ("plan_only", 0)
    assert not acted(flow)
    assert len(asked_for(flow)) == before
    assert flow.of(events.ActionProposed) == []
    assert any("only a plan was requested" in text for text in flow.shown)


async def test_a_turn_that_only_plans_stays_one_when_it_is_resumed(
    make_flow: MakeFlow, forge: Forge
) -> None:
    killed(forge, make_flow(f"replies: [{PLAN}]"), "kill:after-input", "-y", "--plan-only")
    flow = make_flow(f"replies: [{ACT}, {PLAN}]")
    flow.open("last")
    answer = await flow.run(None)
    assert (answer.stop, answer.exit_code) == ("plan_only", 0)
    assert not acted(flow)
    # It applied to that turn only.
    flow.close()
    flow = make_flow(f"replies: [{ACT}, {{text: Done.}}]")
    flow.open("last")
    await flow.run("now do it")
    assert acted(flow)


# --- from the command line --------------------------------------------------------------------


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_the_command_line_runs_nothing_and_says_so(shell: Shell, output: str) -> None:
    model = shell.script("replies: [{run: touch acted}, {text: did it}]\nat_end: repeat_last")
    done = shell.run(
        "run", "go", "--plan-only", "--auto-approve", "--no-sandbox", "--model", model,
        "--output", output,
    )  # fmt: skip
    assert done.returncode == 5
    assert "made no plan" in done.stderr
    assert not (shell.project / "acted").exists()
    if output == "text":
        assert done.stdout == ""
    else:
        result = json.loads(done.stdout.splitlines()[-1])
        assert (result["stop"], result["exit_code"], result["commands"]) == ("model_failed", 5, [])


def test_a_plan_and_plan_only_are_wrong_use(shell: Shell) -> None:
    model = shell.script(f"replies: [{ACT}]")
    (shell.project / "p.yaml").write_text("{goal: g, steps: [{id: s1, what: Act}]}")
    done = shell.run("run", "--plan", "p.yaml", "--plan-only", "-y", "--model", model)
    assert done.returncode == 2
    assert "cannot be combined with" in done.stderr
    assert not (shell.project / "acted").exists()
