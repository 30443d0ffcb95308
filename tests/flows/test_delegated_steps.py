"""Calls of one reply that cannot disturb each other run at once; plans with substeps."""

from __future__ import annotations

from kogniterm.sessions.records import NodeRan
from kogniterm.types import events
from tests.flows.conftest import MakeFlow

EDITS = """
replies:
  - when: {turn: 1, last_contains: Write both}
    plan:
      goal: Write both
      steps:
        - {id: s1, what: Write a, delegate: edit, writes: [a], tools: [write_file]}
        - {id: s2, what: Write b, delegate: edit, writes: [b], inputs: [input.text, session.folder]}
  - when: {last_contains: 'In the same reply, hand out: s2.'}
    calls:
      - {tool: delegate, arguments: {task: Do a now, step: s1}}
      - {tool: delegate, arguments: {task: Do b now, step: s2}}
  - when: {last_contains: Do a now}
    calls:
      - {tool: write_file, arguments: {path: b/x.txt, content: wrong}}
  - when: {last_contains: your step may change a only}
    calls:
      - {tool: write_file, arguments: {path: a/x.txt, content: right a}}
  - when: {last_contains: Do b now}
    calls:
      - {tool: write_file, arguments: {path: b/x.txt, content: right b}}
  - {when: {last_contains: 'a/x.txt'}, text: a is written.}
  - {when: {last_contains: 'b/x.txt'}, text: b is written.}
  - when: {last_contains: b is written.}
    calls: [{tool: complete_step, arguments: {step: s1}}]
  - when: {last_contains: s1 done.}
    calls: [{tool: complete_step, arguments: {step: s2}}]
  - {when: {last_contains: All plan steps are closed}, text: Both.}
"""


async def test_steps_that_write_apart_are_done_side_by_side_each_with_its_evidence(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(EDITS, approval_mode="auto")
    answer = await flow.run("Write both")
    assert (answer.text, answer.exit_code) == ("Both.", 0)
    assert (flow.folder / "a" / "x.txt").read_text().strip() == "right a"
    assert (flow.folder / "b" / "x.txt").read_text().strip() == "right b"
    nodes = [
        record.body.update
        for record in flow.session.journal.records()
        if isinstance(record.body, NodeRan)
    ]
    # Both had begun before either had an answer.
    begun = [update.agent for update in nodes if update.node == "delegate" and update.messages]
    first_answer = next(n for n, one in enumerate(nodes) if one.agent and "is written" in str(one))
    assert len(set(begun)) == 2
    assert len({one.agent for one in nodes[:first_answer] if one.agent}) == 2
    steps = flow.session.state.plan.steps
    proposed = {e.request.id: e.request for e in flow.of(events.ActionProposed)}
    paths = [str(proposed[str(step.evidence[-1].request_id)].arguments["path"]) for step in steps]
    assert [path.rpartition("/")[0].rpartition("/")[2] for path in paths] == ["a", "b"]
    told = [e.task for e in flow.of(events.AgentStarted)]
    assert f"input.text: Write both\nsession.folder: {flow.folder}" in told[1]


LIMITED = """
replies:
  - when: {turn: 1, last_contains: Look first}
    plan:
      goal: g
      steps: [{id: s1, what: Look, tools: [find_files]}, {id: s2, what: Make}]
  - {when: {last_contains: 'Tools: find_files.'}, run: touch early}
  - when: {last_contains: 's1 allows find_files. To use execute_command, change the tools of s1'}
    calls: [{tool: find_files, arguments: {glob: '*'}}]
  - when: {tool: find_files}
    calls: [{tool: complete_step, arguments: {step: s1}}]
  - {when: {last_contains: Now s2}, run: touch made}
  - when: {tool: execute_command}
    calls: [{tool: complete_step, arguments: {step: s2}}]
  - {when: {last_contains: All plan steps are closed}, text: Made.}
"""


async def test_a_step_allows_its_tools_alone(make_flow: MakeFlow) -> None:
    flow = make_flow(LIMITED, approval_mode="auto")
    (flow.folder / "here").touch()
    answer = await flow.run("Look first")
    assert answer.text == "Made."
    assert not (flow.folder / "early").exists()
    assert (flow.folder / "made").exists()


OWN = """
replies:
  - when: {turn: 1, last_contains: Hand it over}
    calls: [{tool: delegate, arguments: {task: Make two files, tools: run}}]
  - when: {last_contains: Make two files}
    plan:
      goal: two
      steps:
        - {id: s1, what: one, check: {kind: command, value: test -e one}}
        - {id: s2, what: two}
  - when: {last_contains: 'check of s1 needs kind (exit_code, pattern, judgement)'}
    plan: {goal: two, steps: [{id: s1, what: one}, {id: s2, what: two}]}
  - {when: {last_contains: Plan accepted. Now s1}, run: touch one}
  - when: {last_contains: '[exit 0]'}
    calls: [{tool: complete_step, arguments: {step: s1}}]
  - {when: {last_contains: s1 done. Now s2}, run: touch two}
  - when: {last_contains: '[exit 0]'}
    calls: [{tool: complete_step, arguments: {step: s2}}]
  - {when: {last_contains: All plan steps are closed}, text: Two files.}
  - {when: {last_contains: Two files.}, text: Done.}
"""


async def test_a_sub_agent_makes_a_plan_of_its_own_in_its_own_history(make_flow: MakeFlow) -> None:
    flow = make_flow(OWN, approval_mode="auto")
    answer = await flow.run("Hand it over")
    assert answer.text == "Done."
    assert (flow.folder / "two").exists()
    assert flow.session.state.plan is None
    plans = [
        record.body.update.own_plan
        for record in flow.session.journal.records()
        if isinstance(record.body, NodeRan) and record.body.update.own_plan is not None
    ]
    assert [step.status for step in plans[-1].steps] == ["done", "done"]
