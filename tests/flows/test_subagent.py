"""Sub-agents: own history and budget, only a result returns, and several run in parallel."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kogniterm.models.calling import WrappedModel
from kogniterm.protocols import Model
from kogniterm.types import ActionRequest, Decision, ModelEvent, ModelRequest, events
from tests.flows.conftest import Flow, MakeFlow, no, yes
from tests.flows.program import replayed, start_run
from tests.support.forge import Forge, until

DELEGATE = """
replies:
  - when: {turn: 1, last_contains: Compare them}
    calls:
      - {tool: delegate, arguments: {task: Look at a.txt, tools: read}}
      - {tool: delegate, arguments: {task: Look at b.txt, tools: read}}
  - when: {last_contains: Look at a.txt}
    calls: [{tool: read_file, arguments: {path: a.txt}}]
  - when: {last_contains: Look at b.txt}
    calls: [{tool: read_file, arguments: {path: b.txt}}]
  - {when: {last_contains: first secret word}, text: a.txt is blue.}
  - {when: {last_contains: second secret word}, text: b.txt is green.}
  - {when: {last_contains: b.txt is green.}, text: They differ.}
"""


async def test_only_the_results_come_back_in_order(make_flow: MakeFlow) -> None:
    flow = make_flow(DELEGATE)
    (flow.folder / "a.txt").write_text("first secret word\n")
    (flow.folder / "b.txt").write_text("second secret word\n")
    answer = await flow.run("Compare them")
    assert (answer.text, answer.exit_code) == ("They differ.", 0)
    assert flow.shown[2:4] == ["a.txt is blue.", "b.txt is green."]
    assert not any("secret word" in text for text in flow.shown)
    assert answer.usage.calls == 6
    assert [e.name for e in flow.of(events.ToolRan)].count("read_file") == 2
    assert "blue" not in "".join(e.text for e in flow.of(events.AnswerDelta))


@pytest.mark.parametrize("tools", ["read", "search", "edit"])
async def test_a_sub_agent_has_the_tools_of_its_kind_alone(make_flow: MakeFlow, tools: str) -> None:
    script = f"""
replies:
  - calls: [{{tool: delegate, arguments: {{task: Break out, tools: {tools}}}}}]
  - when: {{last_contains: Break out}}
    calls: [{{tool: execute_command, arguments: {{command: touch broken}}}}]
  - when: {{last_contains: There is no tool execute_command}}
    calls:
      - {{tool: delegate, arguments: {{task: again}}}}
      - {{tool: delegate, arguments: {{task: and again}}}}
  - {{when: {{last_contains: There is no tool delegate}}, text: I could not.}}
  - {{when: {{last_contains: I could not}}, text: It could not.}}
"""
    flow = make_flow(script)
    assert (await flow.run()).text == "It could not."
    assert not flow.of(events.ActionProposed)
    assert not (flow.folder / "broken").exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("{}", "needs a task"),
        ("{task: x, tools: shell}", "tools must be one of: read, search, edit, run"),
        ("{task: x, tokens: 0}", "tokens must be"),
        ("{task: x, model: y}", "Unknown arguments for delegate: model"),
    ],
)
async def test_wrong_tasks_are_said(make_flow: MakeFlow, arguments: str, part: str) -> None:
    flow = make_flow(
        f"replies: [{{calls: [{{tool: delegate, arguments: {arguments}}}]}}, {{text: Oh.}}]"
    )
    assert (await flow.run()).text == "Oh."
    assert part in flow.shown[2]


async def test_a_failing_one_does_not_disturb_the_others(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls:
      - {tool: delegate, arguments: {task: Fail}}
      - {tool: delegate, arguments: {task: Succeed}}
  - {when: {last_contains: Fail}, error: unavailable, message: Gone.}
  - {when: {last_contains: Succeed}, text: Found.}
  - {when: {tool: delegate}, text: Half of it.}
"""
    flow = make_flow(script)
    assert (await flow.run()).text == "Half of it."
    assert flow.shown[2] == "The sub-agent did not finish: Gone."
    assert flow.shown[3] == "Found."


# --- sub-agents that act -----------------------------------------------------------------------

FIX = """
replies:
  - when: {turn: 1, last_contains: Mend it}
    text: I hand it over.
    calls: [{tool: delegate, arguments: {task: Mend greet.sh, tools: run}}]
  - when: {last_contains: Mend greet.sh}
    calls: [{tool: read_file, arguments: {path: greet.sh}}]
  - when: {last_contains: ech hello}
    calls:
      - {tool: edit_file, arguments: {path: greet.sh, old: ech hello, new: echo hello}}
      - {run: sh greet.sh, purpose: See whether it works}
  - {when: {last_contains: '[exit 0]', tool: execute_command}, text: It greets again.}
  - {when: {last_contains: It greets again., tool: delegate}, text: Mended.}
"""


def agents(flow: Flow) -> list[str]:
    """Return the task of the agent behind each proposed action."""
    return [event.request.agent_task for event in flow.of(events.ActionProposed)]


async def test_it_edits_and_runs_through_the_same_approval(make_flow: MakeFlow) -> None:
    flow = make_flow(FIX, decisions=[yes, yes])
    (flow.folder / "greet.sh").write_text("ech hello\n")
    answer = await flow.run("Mend it")
    assert (answer.text, answer.exit_code, answer.usage.calls) == ("Mended.", 0, 5)
    assert (flow.folder / "greet.sh").read_text() == "echo hello\n"
    assert [result.text.strip() for result in flow.results] == ["hello"]
    assert [request.tool for request, *_ in flow.user.asked] == ["edit_file", "execute_command"]
    assert agents(flow) == ["Mend greet.sh", "Mend greet.sh"]
    assert flow.shown == ["Mend it", "I hand it over.", "It greets again.", "Mended."]
    (started,) = flow.of(events.AgentStarted)
    assert started.task == "Mend greet.sh"
    assert [e.agent for e in flow.of(events.ToolRan)] == [started.agent, ""]
    assert flow.session.state.agents == {}
    assert flow.session.state.usage.calls == 5


def say(flow: Flow, words: str) -> Callable[[ActionRequest], Decision]:
    """Return a decision that steers the turn and then approves."""

    def decide(request: ActionRequest) -> Decision:
        flow.session.steer(words)
        return yes(request)

    return decide


async def test_what_is_said_meanwhile_reaches_the_one_at_work_and_the_main_agent(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(
        """
replies:
  - when: {turn: 1, last_contains: Do both}
    calls:
      - {tool: delegate, arguments: {task: The first, tools: run}}
      - {tool: delegate, arguments: {task: The second, tools: run}}
  - {when: {last_contains: The first}, run: echo one, purpose: Begin}
  - {when: {any_contains: The first, last_contains: but softly}, text: First done softly.}
  - {when: {any_contains: The second, last_contains: but softly}, run: echo two, purpose: Begin}
  - {when: {any_contains: The second, last_contains: two}, text: Second done softly.}
  - {when: {any_contains: Do both, last_contains: but softly}, text: Both done softly.}
  - {text: Later., repeat: 2}
""",
        decisions=[],
    )
    flow.user.decisions += [say(flow, "but softly"), yes]
    answer = await flow.run("Do both")
    assert answer.text == "Both done softly."
    assert flow.shown[2:4] == ["First done softly.", "Second done softly."]
    assert sum("but softly" in text for text in flow.shown) == 1
    assert flow.session.journal.steering.unheard() == ()
    await flow.run("and then?")
    assert sum("but softly" in text for text in flow.shown) == 1
    await flow.session.finish()
    flow.close()
    status, report = replayed(forge, flow)
    assert (status, report["divergence"]) == (0, None)


async def test_what_the_main_agent_heard_is_not_said_to_sub_agents_again(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(
        """
replies:
  - {when: {turn: 1, last_contains: Look round}, run: echo here, purpose: Look}
  - when: {last_contains: but softly}
    calls: [{tool: delegate, arguments: {task: Go on softly}}]
  - {when: {last_contains: but softly}, text: Told twice.}
  - {when: {last_contains: Go on softly}, text: Gone on.}
  - {when: {last_contains: Gone on.}, text: Done.}
""",
        decisions=[],
    )
    flow.user.decisions.append(say(flow, "but softly"))
    assert (await flow.run("Look round")).text == "Done."


TWO = """
replies:
  - when: {turn: 1, last_contains: both}
    calls:
      - {tool: delegate, arguments: {task: Do one, tools: run}}
      - {tool: delegate, arguments: {task: Do two, tools: run}}
      - {run: cat order, purpose: Look}
  - {when: {last_contains: Do one}, run: echo one >>order}
  - {when: {last_contains: Do two}, run: echo two >>order}
  - {when: {last_contains: '[exit 0]', any_contains: Do one}, text: One.}
  - {when: {last_contains: '[exit 0]', any_contains: Do two}, text: Two.}
  - {when: {last_contains: one}, text: In order.}
"""


async def test_two_never_act_at_once_and_order_means_order(make_flow: MakeFlow) -> None:
    flow = make_flow(TWO, decisions=[yes, yes, yes])
    answer = await flow.run("both")
    assert answer.text == "In order."
    assert agents(flow) == ["Do one", "Do two", ""]
    assert flow.shown[2:4] == ["One.", "Two."]
    assert flow.shown[4] == "one\ntwo\n[exit 0]"


async def test_what_is_refused_comes_to_the_sub_agent_which_goes_another_way(
    make_flow: MakeFlow,
) -> None:
    script = """
replies:
  - calls: [{tool: delegate, arguments: {task: Empty it, tools: run}}]
  - when: {last_contains: Empty it}
    calls: [{run: rm -r build}, {run: touch never}]
  - {when: {last_contains: an earlier call of the same reply}, run: mv build old}
  - {when: {last_contains: '[exit 0]'}, text: I moved it aside.}
  - {when: {tool: delegate}, text: It is aside.}
"""
    flow = make_flow(script, decisions=[no("not that"), yes])
    (flow.folder / "build").mkdir()
    answer = await flow.run()
    assert (answer.text, answer.exit_code) == ("It is aside.", 3)
    assert (flow.folder / "old").is_dir()
    assert flow.shown[2] == "I moved it aside."
    assert [result.command for result in flow.results] == ["mv build old"]


async def test_its_budget_holds_over_every_time_it_goes_on(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls: [{tool: delegate, arguments: {task: Dig, tools: run, tokens: 1000}}]
  - {when: {last_contains: Dig}, run: echo 1 >>count, usage: {input: 400, output: 0}}
  - when: {tool: execute_command}
    text: Again.
    run: echo 1 >>count
    usage: {input: 400, output: 0}
    repeat: forever
  - {when: {tool: delegate}, text: It ran out.}
"""
    flow = make_flow(script)
    answer = await flow.run()
    assert (answer.text, answer.exit_code) == ("It ran out.", 0)
    assert (flow.folder / "count").read_text() == "1\n" * 3
    assert "limit of 1000 tokens is reached" in flow.shown[2]
    assert "So far: Again." in flow.shown[2]
    assert flow.shown[2].count("- execute_command: echo 1 >>count -> [exit 0]") == 3


async def test_going_in_circles_ends_the_sub_agent_and_not_the_turn(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls: [{tool: delegate, arguments: {task: Spin, tools: run}}]
  - {when: {last_contains: Spin}, run: 'true'}
  - {when: {tool: delegate}, text: It span.}
  - {run: 'true', repeat: forever}
"""
    flow = make_flow(script)
    assert (await flow.run()).text == "It span."
    assert "same calls with the same results" in flow.shown[2]
    assert len(flow.results) == 5


async def test_ctrl_c_answers_every_open_call(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls:
      - {tool: delegate, arguments: {task: Wait, tools: run}}
      - {tool: delegate, arguments: {task: Never begun, tools: run}}
  - when: {last_contains: Wait}
    calls: [{run: touch first}, {run: 'echo on; sleep 600'}, {run: touch never}]
  - {when: {turn: 2}, text: Then not.}
"""
    flow = make_flow(script)
    task = asyncio.ensure_future(flow.run())
    await flow.until(lambda event: isinstance(event, events.CommandOutput) and b"on" in event.data)
    task.cancel()
    answer = await task
    assert (answer.stop, answer.exit_code) == ("interrupted", 130)
    first, second = flow.shown[2:4]
    assert first.startswith("[stopped: the user stopped the turn]\nWhat it did:\n")
    assert "- execute_command: touch first -> [exit 0]" in first
    assert "echo on; sleep 600 -> on\n[stopped" in first
    assert "touch never -> [not run: the user stopped the turn]" in first
    assert second == "[not run: the user stopped the turn]"
    assert not flow.session.state.agents
    assert not flow.session.state.pending
    assert (await flow.run("and now?")).text == "Then not."


class Listening(WrappedModel):
    """A model that keeps the requests it gets."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        async for event in self._model.stream(request):
            yield event


async def test_each_request_of_an_agent_begins_with_its_one_before(make_flow: MakeFlow) -> None:
    flow = make_flow(FIX, decisions=[yes, yes])
    (flow.folder / "greet.sh").write_text("ech hello\n")
    session = flow.open()
    listening = Listening(session.modes.model)
    session.modes.model = listening
    await flow.run("Mend it")
    by_agent: dict[str, list[list[Any]]] = {}
    for one in listening.requests:
        told = [(m.type, m.content, getattr(m, "tool_calls", ())) for m in one.messages]
        by_agent.setdefault(one.agent, []).append(told)
    assert [len(requests) for requests in by_agent.values()] == [2, 3]
    for requests in by_agent.values():
        for before, after in pairwise(requests):
            assert after[: len(before)] == before
    assert len({(one.agent, str(one.tools)) for one in listening.requests}) == 2


# --- after a kill ------------------------------------------------------------------------------


KILLED = """
replies:
  - when: {turn: 1, last_contains: go}
    calls: [{tool: delegate, arguments: {task: Count, tools: run}}]
  - {when: {last_contains: Count}, run: echo first >>count}
  - {when: {call: 3}, run: 'echo shown; echo second >>count; mkfifo go; cat go'}
"""

COUNT_ON = """
replies:
  - when: {turn: 1, last_contains: go}
    calls: [{tool: delegate, arguments: {task: Count on, tools: run}}]
  - {when: {last_contains: Count on}, run: echo x >>count, purpose: Add}
  - {when: {last_contains: '[exit 0]'}, text: Added.}
  - {when: {tool: delegate}, text: Done.}
"""


async def test_a_kill_in_its_command_is_told_to_it_and_it_goes_on(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(KILLED)
    started = start_run(forge, flow, "-y", "go")
    until((flow.folder / "go").exists)
    started.send(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL
    after = make_flow(
        """
replies:
  - {when: {last_contains: outcome unknown}, run: cat count}
  - {when: {last_contains: second}, text: Both are there.}
  - {when: {last_contains: Both are there., tool: delegate}, text: Told.}
"""
    )
    session = after.open("last")
    (begun,) = session.state.agents.values()
    assert [message.type for message in begun.messages] == ["human", "ai", "tool", "ai"]
    answer = await after.run(None)
    assert (answer.stop, answer.text) == ("unknown", "Told.")
    assert (after.folder / "count").read_text() == "first\nsecond\n"
    assert [text.partition("\n\n(No user")[0] for text in after.shown] == [
        "go",
        "",
        "Both are there.",
        "Told.",
    ]


def test_events_say_which_sub_agent_acts(make_flow: MakeFlow, forge: Forge) -> None:
    flow = make_flow(FIX)
    (flow.folder / "greet.sh").write_text("ech hello\n")
    started = start_run(forge, flow, "-y", "--output=stream-json", "Mend it")
    assert started.wait() == 0, started.said
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in started.out.read_text().splitlines()
    ]
    (began,) = [line for line in lines if line["type"] == "agent_started"]
    assert began["task"] == "Mend greet.sh"
    requests = [line["request"] for line in lines if line["type"] == "action_proposed"]
    assert {request["agent"] for request in requests} == {began["agent"]}
    assert [command["agent"] for command in lines[-1]["commands"]] == ["Mend greet.sh"]


def test_after_a_resume_plain_lines_say_it_too(make_flow: MakeFlow, forge: Forge) -> None:
    flow = make_flow(COUNT_ON)
    killed = start_run(forge, flow, "-y", "go", faults="kill:before-decision")
    assert killed.wait() == -signal.SIGKILL, killed.said
    resumed = start_run(forge, make_flow(COUNT_ON), "-y", "--continue")
    assert resumed.wait() == 0, resumed.said
    assert Path(resumed.err).read_text().splitlines().count("sub-agent: Count on") == 1


def test_one_whose_history_cannot_be_written_has_no_end_and_ends_the_turn(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(COUNT_ON)
    failed = start_run(forge, flow, "-y", "go", faults="full:before-node:3")
    assert failed.wait() != 0
    assert "was injected at before-node" in failed.said
    assert "did not finish" not in failed.said


BESIDE = """
replies:
  - calls:
      - tool: make_plan
        arguments: {{goal: Look, steps: [{{id: s1, what: Read a}}, {{id: s2, what: Read b}}]}}
  - calls:
      - {{tool: delegate, arguments: {{task: Look at a.txt{first}}}}}
      - {{tool: delegate, arguments: {{task: Look at b.txt{second}}}}}
  - when: {{last_contains: Look at a.txt}}
    calls: [{{tool: read_file, arguments: {{path: a.txt}}, id: read_a}}]
  - when: {{last_contains: Look at b.txt}}
    calls: [{{tool: read_file, arguments: {{path: b.txt}}, id: read_b}}]
  - {{when: {{last_contains: secret}}, text: It is read., repeat: 2}}
  - calls:
      - {{tool: complete_step, arguments: {{step: s1}}}}
      - {{tool: complete_step, arguments: {{step: s2}}}}
  - {{text: Done., repeat: forever}}
"""


async def test_each_step_rests_on_the_sub_agent_that_was_given_it(make_flow: MakeFlow) -> None:
    flow = make_flow(BESIDE.format(first=", step: s1", second=", step: s2"))
    for name in ("a.txt", "b.txt"):
        (flow.folder / name).write_text("secret\n")
    answer = await flow.run("look")
    assert len(answer.verified) == 2
    steps = flow.session.state.plan.steps
    rests = [{evidence.request_id for evidence in step.evidence} for step in steps]
    assert [("read_a" in ids, "read_b" in ids) for ids in rests] == [(True, False), (False, True)]


async def test_sub_agents_side_by_side_prove_nothing_where_their_steps_are_not_named(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(BESIDE.format(first="", second=""))
    for name in ("a.txt", "b.txt"):
        (flow.folder / name).write_text("secret\n")
    answer = await flow.run("look")
    assert answer.verified == ()
    assert any("only for the step named in its delegate call" in text for text in flow.shown)


async def test_a_sub_agent_that_used_no_tool_proves_nothing(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls: [{tool: make_plan, arguments: {goal: Look, steps: [{id: s1, what: Read a}]}}]
  - calls: [{tool: delegate, arguments: {task: Look at a.txt, step: s1}}]
  - {when: {last_contains: Look at a.txt}, text: It is surely blue.}
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - {text: Done., repeat: forever}
"""
    flow = make_flow(script)
    answer = await flow.run("look")
    assert answer.verified == ()
    assert any("s1 has no evidence" in text for text in flow.shown)
