"""Plans in whole turns: only made, given as a file, edited by a user, resumed, and budgets."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from kogniterm.errors import UsageError
from kogniterm.protocols import EventSink
from kogniterm.runtime.plan_edits import (
    PlanDifference,
    plan_as_text,
    plan_from_text,
)
from kogniterm.runtime.session import LiveSession
from kogniterm.runtime.session_plans import give_plan, plannable_tools, replace_plan
from kogniterm.types import events
from tests.cli.conftest import Shell, shell
from tests.flows.conftest import Flow, MakeFlow

__all__ = ["shell"]

MAKE = """
  - plan:
      goal: Make it
      steps:
        - id: s1
          what: Create
          check: {kind: file, value: made}
          fallback: Ask
          inputs: [session.cwd]
        - {id: s2, what: Look, why: To be sure, substeps: [list it, read it]}
"""
WORK = """
  - run: touch made
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - run: ls
  - calls: [{tool: complete_step, arguments: {step: s2}}]
  - text: Made and seen.
"""


def edit(session: LiveSession, text: str, sink: EventSink) -> PlanDifference:
    """Change the session's plan to an edited text, as `/plan edit` does."""
    plan = plan_from_text(text, session.state.plan, plannable_tools(session.context))
    return replace_plan(session.journal, plan, sink)


async def made(flow: Flow) -> str:
    flow.open().modes.plans.only = True
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("plan_only", 0)
    return answer.text


async def test_calls_beside_the_plan_are_not_run(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls:
      - {tool: make_plan, arguments: {goal: g, steps: [{id: s1, what: a}]}}
      - {tool: execute_command, arguments: {command: touch made}}
  - text: Later.
"""
    flow = make_flow(script)
    await made(flow)
    assert "only the plan was wanted" in flow.shown[-1]
    flow.session.modes.plans.only = False
    assert (await flow.run("go on")).text == "Later."
    assert not (flow.folder / "made").exists()


async def test_a_given_plan_is_worked_on(make_flow: MakeFlow) -> None:
    text = await made(make_flow(f"replies:{MAKE}"))
    flow = make_flow(f"replies:{WORK}")
    give_plan(flow.open().context, plan_from_text(text))
    answer = await flow.run("Make it")
    assert (answer.text, answer.exit_code) == ("Made and seen.", 0)
    ids = {event.request.id for event in flow.of(events.ActionProposed)}
    assert answer.verified == ("s1 Create: test -e made (exit 0)", "s2 Look: ls (exit 0)")
    assert answer.not_verified == ()
    steps = flow.session.state.plan.steps
    assert [step.status for step in steps] == ["done", "done"]
    assert {step.evidence[-1].request_id for step in steps} <= ids
    assert flow.of(events.PlanChanged)[0].plan.goal == "Make it"
    assert "what: Create" in flow.shown[0]


async def test_a_given_plan_cannot_be_answered_away(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: Done!}, {text: I did nothing.}]")
    give_plan(flow.open().context, plan_from_text("{goal: g, steps: [{id: s1, what: a}]}"))
    answer = await flow.run()
    assert (answer.text, answer.stop) == ("I did nothing.", "not_done")
    assert (answer.verified, answer.not_verified) == ((), ("s1 a [active]",))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("goal: [", "The plan, line 1: not valid YAML"),
        ("{goal: g, steps: [{title: a}]}", "step 1: unknown key 'title'"),
        ("just words", "must be a mapping"),
        (
            "{goal: g, steps: [{id: s1, what: a, status: done}]}",
            "status cannot be set to done by hand",
        ),
        ("{goal: g, steps: [{id: s1, what: a, colour: red}]}", "unknown key 'colour'"),
        ("{goal: g, steps: [{id: s1, what: a, inputs: [steps.s9.output]}]}", "not an earlier step"),
        ("{goal: g, step: []}", "unknown key 'step'"),
        ("{goal: '', steps: [{id: s1, what: a}]}", "goal is empty"),
    ],
)
async def test_what_a_user_gets_wrong_is_named(make_flow: MakeFlow, text: str, part: str) -> None:
    flow = make_flow()
    with pytest.raises(UsageError, match=part):
        edit(flow.open(), text, flow.tell)
    assert flow.session.state.plan is None


async def test_evidence_survives_an_edit_and_comes_back_after_a_restart(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(f"replies:{MAKE}{WORK}", max_steps=3)
    answer = await flow.run()
    assert answer.stop == "budget"
    session = flow.session
    assert session.state.plan is not None
    text = plan_as_text(session.state.plan).replace("what: Look", "what: Look well")
    edit(session, text, flow.tell)
    kept = session.id
    flow.close()
    plan = flow.open(kept).state.plan
    assert (plan.steps[0].status, plan.steps[1].what) == ("done", "Look well")
    assert plan.steps[0].evidence[0].exit_code == 0


async def test_a_bigger_budget_lets_the_open_plan_go_on(make_flow: MakeFlow) -> None:
    flow = make_flow(f"replies:{MAKE}{WORK}", max_steps=3)
    first = await flow.run()
    assert (first.stop, first.exit_code) == ("budget", 4)
    assert "Done:\n- s1 Create" in first.text
    assert "Left:" in first.text
    session = flow.session
    session.services.budget.limits = replace(session.services.budget.limits, steps=50)
    second = await flow.run("Go on.")
    assert (second.text, second.exit_code) == ("Made and seen.", 0)
    assert any("A plan is open: Make it. Now s2: Look" in text for text in flow.shown)


async def test_what_was_compacted_can_be_looked_up(make_flow: MakeFlow) -> None:
    runs = "".join(f"  - run: 'echo word-{n}-$((7 * {n})); seq 400'\n" for n in range(30))
    script = f"""
model: {{context_window: 12000, max_output: 1000}}
replies:
  - {{when: {{purpose: compact}}, text: It counted., repeat: forever}}
{runs}
  - calls: [{{tool: recall_history, arguments: {{words: Word-3-21}}}}]
  - calls: [{{tool: recall_history, arguments: {{entry: 99999}}}}]
  - text: Done.
"""
    flow = make_flow(script, max_steps=100)
    assert (await flow.run()).text == "Done."
    found = [e.observation for e in flow.of(events.ToolRan) if e.name == "recall_history"]
    assert "execute_command: word-3-21 1 2 3" in found[0]
    assert not any("word-3-21 1" in text for text in flow.shown if text != found[0])
    assert "Entry 99999 not found" in found[1]
    number = int(found[0].partition(" ")[0].removeprefix("#"))
    entry = await flow.session.context.tools["recall_history"].run({"entry": number})
    assert entry.text.startswith("execute_command: word-3-21\n1\n2\n")


# --- from the command line -------------------------------------------------------------------


def test_plan_only_prints_what_plan_runs(shell: Shell) -> None:
    only = shell.run("run", "make it", "--plan-only", "--model", shell.script(f"replies:{MAKE}"))
    assert only.returncode == 0, only.stderr
    file = shell.project / "plan.yaml"
    file.write_text(only.stdout)
    model = shell.script(f"replies:{WORK}")
    done = shell.run("run", "--plan", "plan.yaml", "--model", model, "-y", "--no-sandbox")
    assert (done.returncode, done.stdout) == (0, "Made and seen.\n"), done.stderr
    assert (shell.project / "made").is_file()


def test_a_plan_that_is_no_plan_is_wrong_use(shell: Shell) -> None:
    model = shell.script("replies: [{text: never}]")
    missing = shell.run("run", "--plan", "nowhere.yaml", "--model", model)
    assert (missing.returncode, "Invalid value nowhere.yaml for --plan" in missing.stderr) == (
        2,
        True,
    )
    (shell.project / "p.yaml").write_text("goal: x")
    broken = shell.run("run", "--plan", "p.yaml", "--model", model)
    assert (broken.returncode, "steps must be a list" in broken.stderr) == (2, True)


def checked(command: str, check: str = "") -> str:
    """Return a script that runs `command` for a step, closes it and says that all went well."""
    value = f", check: {{kind: command, value: '{check}'}}" if check else ""
    return f"""
replies:
  - plan: {{goal: Test it, steps: [{{id: s1, what: Test{value}}}]}}
  - run: "{command}"
  - calls: [{{tool: complete_step, arguments: {{step: s1}}}}]
  - {{text: "Verified: all tests passed.", repeat: forever}}
"""


def failing_tests(flow: Flow) -> None:
    (flow.folder / "pytest").write_text("#!/bin/sh\necho 1 failed\nexit 1\n", encoding="utf-8")
    (flow.folder / "pytest").chmod(0o755)


@pytest.mark.parametrize(
    ("command", "observed", "why"),
    [
        ("./pytest | tail -3", "[exit 0; pytest in the pipe: exit 1]", "in the pipe ended with"),
        ("./pytest; echo Verified", "[exit 0]", "a failure of pytest would not change it (; echo)"),
        ("./pytest &", "[exit 0]", "a failure of pytest would not change it (&)"),
    ],
)
async def test_a_masked_failure_verifies_no_step(
    make_flow: MakeFlow, command: str, observed: str, why: str
) -> None:
    flow = make_flow(checked(command))
    failing_tests(flow)
    answer = await flow.run()
    assert (answer.stop, answer.exit_code, answer.verified) == ("not_done", 1, ())
    assert any(observed in text for text in flow.shown)
    assert any("exit 0 is no evidence, because " in text and why in text for text in flow.shown)


async def test_a_check_that_hides_failures_is_refused_when_the_plan_is_made(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(checked("./pytest", "pytest -q | tail -3"))
    failing_tests(flow)
    answer = await flow.run()
    refused = next(text for text in flow.shown if text.startswith("Invalid plan"))
    assert "check of s1 cannot be used: it passes even if pytest fails (| tail)" in refused
    assert "without | tail" in refused
    assert "set -o pipefail; pytest -q | tail -3" in refused
    assert answer.verified == ()
    plan = "{goal: g, steps: [{id: s1, what: a, check: {kind: command, value: npm test || true}}]}"
    with pytest.raises(UsageError, match="join several with &&"):
        plan_from_text(plan)


async def test_the_end_of_a_job_is_reported_and_verifies_no_step(make_flow: MakeFlow) -> None:
    flow = make_flow("""
replies:
  - plan: {goal: Test it, steps: [{id: s1, what: Start}, {id: s2, what: Test}]}
  - run: "(read line < gate; ./pytest) &"
  - run: "echo go > gate"
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - calls: [{tool: jobs, arguments: {action: wait, id: j1}}]
  - calls: [{tool: complete_step, arguments: {step: s2}}]
  - {text: "Verified: all tests passed.", repeat: forever}
""")
    failing_tests(flow)
    os.mkfifo(flow.folder / "gate")
    answer = await flow.run()
    assert any(text.startswith("j1 ended, exit 1: ") for text in flow.shown)
    assert (answer.stop, answer.verified) == ("not_done", ("s1 Start: echo go > gate (exit 0)",))


async def test_printed_words_match_no_pattern(make_flow: MakeFlow) -> None:
    flow = make_flow("""
replies:
  - plan: {goal: g, steps: [{id: s1, what: Test, check: {kind: pattern, value: "[0-9]+ passed"}}]}
  - run: "echo 3 passed"
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - {text: "Verified: all tests passed.", repeat: forever}
""")
    answer = await flow.run()
    assert (answer.stop, answer.verified) == ("not_done", ())
