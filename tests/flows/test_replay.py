"""Replay of a recorded session: it is the same, or the first difference is named."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm.sessions.journal.codec import new_row
from kogniterm.sessions.records import Compacted, Outcome
from kogniterm.types import ActionRequest, Decision, events
from tests.flows.conftest import Flow, MakeFlow, change_to, no, yes
from tests.flows.program import replayed, start, start_run
from tests.support.forge import Forge

STEPS = """
replies:
  - calls:
      - {tool: read_file, arguments: {path: notes}}
      - {tool: execute_command, arguments: {command: echo one, purpose: Look}}
  - calls: [{tool: write_file, arguments: {path: made, content: written}}]
  - run: mkdir sub; cd sub; false
  - run: pwd
  - text: Done.
  - text: Welcome.
"""


async def recorded(make_flow: MakeFlow) -> Flow:
    flow = make_flow(STEPS, decisions=[yes, yes, yes, yes])
    (flow.folder / "notes").write_text("remember\n")
    answer = await flow.run("do it")
    assert answer.text == "Done."
    await flow.session.run_shell("echo mine", sink=flow.tell)
    await flow.run("thanks")
    flow.close()
    return flow


async def test_a_session_plays_the_same_without_its_files(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = await recorded(make_flow)
    (flow.folder / "notes").unlink()
    (flow.folder / "made").unlink()
    status, report = replayed(forge, flow)
    assert report == {"turns": 2, "commands": 3, "divergence": None}
    assert status == 0
    assert not (flow.folder / "made").exists()


async def test_a_live_replay_runs_in_a_copy(make_flow: MakeFlow, forge: Forge) -> None:
    flow = make_flow(
        "replies: [{run: 'cat notes; echo more >>notes; pwd', purpose: Go}, {text: Done.}]",
        decisions=[yes],
    )
    (flow.folder / "notes").write_text("first\n")
    await flow.run()
    flow.close()
    (flow.folder / "notes").write_text("first\n")
    status, report = replayed(forge, flow, "last", "--live")
    assert (status, report["divergence"]) == (0, None)
    assert (flow.folder / "notes").read_text() == "first\n"
    (flow.folder / "notes").write_text("other\n")
    status, report = replayed(forge, flow, "last", "--live")
    assert status == 1
    found = report["divergence"]
    assert (found["turn"], found["kind"]) == (1, "outcome")
    assert "first" in str(found["recorded"])
    assert "other" in str(found["replayed"])


async def test_refusals_edits_and_interrupts_play_the_same(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(
        "replies: [{run: echo a}, {run: echo b}, {text: No.}, {run: 'echo c; sleep 600'}]",
        decisions=[change_to("echo edited"), yes, no("not now"), yes],
    )
    await flow.run("one")
    task = asyncio.ensure_future(flow.run("two"))
    await flow.until(lambda event: isinstance(event, events.CommandOutput) and b"c" in event.data)
    task.cancel()
    assert (await task).stop == "interrupted"
    flow.close()
    status, report = replayed(forge, flow)
    assert report["divergence"] is None
    assert (status, report["turns"]) == (0, 2)


async def test_a_command_withheld_because_its_script_changed_plays_the_same(
    make_flow: MakeFlow, forge: Forge
) -> None:
    def changes(request: ActionRequest) -> Decision:
        script.write_text("echo two\n")
        return yes(request)

    replies = "replies: [{run: bash s.sh}, {run: bash s.sh}, {text: Done.}]"
    flow = make_flow(replies, decisions=[changes, yes])
    script = flow.folder / "s.sh"
    script.write_text("echo one\n")
    assert (await flow.run()).exit_code == 3
    flow.close()
    assert replayed(forge, flow)[1] == {"turns": 1, "commands": 1, "divergence": None}


@pytest.mark.parametrize("point", ["after-intent", "before-decision", "after-outcome"])
async def test_a_crash_is_played_as_the_crash_it_was(
    make_flow: MakeFlow, forge: Forge, point: str
) -> None:
    flow = make_flow("replies: [{run: echo a, purpose: Go}, {text: Done.}]")
    killed = start_run(forge, flow, "-y", "go", faults=f"kill:{point}")
    assert killed.wait() == -signal.SIGKILL, killed.said
    again = make_flow("replies: [{text: Told.}]")
    again.open("last")
    await again.run(None)
    await again.run("and then?")
    again.close()
    status, report = replayed(forge, again)
    assert report["divergence"] is None
    assert (status, report["turns"]) == (0, 2)


AGENTS = """
replies:
  - when: {turn: 1, last_contains: do it}
    calls:
      - {tool: delegate, arguments: {task: Read the first}}
      - {tool: delegate, arguments: {task: Read the second}}
      - {tool: delegate, arguments: {task: Change it, tools: run}}
      - {tool: delegate, arguments: {task: Dig, tools: run, tokens: 50}}
      - {tool: delegate, arguments: {task: Fail at it}}
  - {when: {last_contains: Fail at it}, error: unavailable, message: Gone.}
  - {when: {last_contains: Read the first}, calls: [{tool: read_file, arguments: {path: notes}}]}
  - {when: {last_contains: Read the second}, calls: [{tool: read_file, arguments: {path: .env}}]}
  - {when: {last_contains: remember}, text: It says remember.}
  - {when: {last_contains: COLOUR=}, text: It sets a colour.}
  - {when: {last_contains: Change it}, calls: [{run: rm notes}, {run: touch never}]}
  - {when: {last_contains: an earlier call of the same reply}, run: 'echo more >>notes'}
  - {when: {last_contains: '[exit 0]', any_contains: Change it}, text: Changed.}
  - {when: {last_contains: Dig}, run: echo dug, usage: {input: 60, output: 1}}
  - {when: {tool: delegate}, text: Done.}
"""


async def test_sub_agents_play_the_same(make_flow: MakeFlow, forge: Forge) -> None:
    flow = make_flow(AGENTS, decisions=[yes, no("keep it"), yes, yes])
    (flow.folder / "notes").write_text("remember\n")
    (flow.folder / ".env").write_text("COLOUR=red\n")
    answer = await flow.run("do it")
    assert answer.text == "Done."
    assert flow.shown[2:5] == ["It says remember.", "It sets a colour.", "Changed."]
    assert "limit of 50 tokens is reached" in flow.shown[5]
    assert flow.shown[6] == "The sub-agent did not finish: Gone."
    flow.close()
    (flow.folder / "notes").unlink()
    (flow.folder / ".env").unlink()
    status, report = replayed(forge, flow)
    assert report == {"turns": 1, "commands": 2, "divergence": None}
    assert status == 0
    assert not (flow.folder / "notes").exists()


async def test_a_stop_while_one_still_thinks_and_another_has_ended_plays_the_same(
    make_flow: MakeFlow, forge: Forge
) -> None:
    script = """
delays: true
replies:
  - calls:
      - {tool: delegate, arguments: {task: Think long}}
      - {tool: delegate, arguments: {task: Think short}}
  - {when: {last_contains: Think}, calls: [{tool: find_files, arguments: {glob: a}}], repeat: 2}
  - {when: {any_contains: Think short}, text: Thought.}
  - {when: {any_contains: Think long}, text: Never said., delay: 600}
"""
    flow = make_flow(script)
    task = asyncio.ensure_future(flow.run())
    await flow.until(lambda _: len(flow.of(events.ModelAnswered)) >= 4)
    await flow.until(lambda _: len(flow.of(events.ModelCalled)) >= 5)
    task.cancel()
    assert (await task).stop == "interrupted"
    flow.close()
    status, report = replayed(forge, flow)
    assert (status, report["divergence"], report["turns"]) == (0, None, 1)


@pytest.mark.parametrize("point", ["after-intent:2", "before-decision:2", "after-node:3"])
async def test_a_kill_in_a_sub_agent_is_played_as_the_kill_it_was(
    make_flow: MakeFlow, forge: Forge, point: str
) -> None:
    script = """
replies:
  - when: {turn: 1, last_contains: go}
    calls: [{tool: delegate, arguments: {task: Count on, tools: run}}]
  - {when: {last_contains: Count on}, run: echo 1 >>count}
  - {when: {last_contains: '[exit 0]'}, run: echo 2 >>count}
  - {when: {last_contains: '[exit 0]'}, text: Added.}
  - {when: {last_contains: outcome unknown}, text: Half of it.}
  - {when: {tool: delegate}, text: Done.}
"""
    flow = make_flow(script)
    killed = start_run(forge, flow, "-y", "go", faults=f"kill:{point}")
    assert killed.wait() == -signal.SIGKILL, killed.said
    again = make_flow(script.replace("echo 1 >>count", "echo 3 >>count"))
    again.open("last")
    assert (await again.run(None)).text == "Done."
    again.close()
    status, report = replayed(forge, again)
    assert (status, report["divergence"], report["turns"]) == (0, None, 1)


async def test_a_compacted_history_plays_the_same(make_flow: MakeFlow, forge: Forge) -> None:
    runs = "".join(f"  - run: 'echo word-{n}; seq 400'\n" for n in range(14))
    script = f"""
model: {{context_window: 12000, max_output: 1000}}
replies:
  - {{when: {{purpose: compact}}, text: It counted., repeat: forever}}
  - calls: [{{tool: delegate, arguments: {{task: Count, tools: run}}}}]
  - {{when: {{last_contains: Count}}, run: 'seq 900'}}
  - {{when: {{last_contains: '900'}}, text: Nine hundred.}}
{runs}
  - calls: [{{tool: recall_history, arguments: {{words: word-3}}}}]
  - text: Done.
  - text: And more.
"""
    flow = make_flow(script, max_steps=100)
    assert (await flow.run()).text == "Done."
    await flow.session.context.compact_now(asked=True)
    assert (await flow.run("more")).text == "And more."
    compacted = [
        record.body
        for record in flow.session.journal.records()
        if isinstance(record.body, Compacted)
    ]
    assert len(compacted) > 2
    assert {body.summary for body in compacted} == {"It counted."}
    flow.close()
    status, report = replayed(forge, flow)
    assert (status, report["divergence"], report["turns"]) == (0, None, 2)


async def test_a_bug_report_can_be_replayed(make_flow: MakeFlow, forge: Forge) -> None:
    flow = await recorded(make_flow)
    report = flow.folder.parent / "report.jsonl"
    assert start(forge, flow, "sessions", "report", "last", "--to", str(report)).wait() == 0
    (flow.folder.parent / "data" / "kogniterm.db").unlink()
    status, found = replayed(forge, flow, str(report))
    assert (status, found["divergence"]) == (0, None)


async def test_a_changed_record_is_where_the_run_differs(
    make_flow: MakeFlow, forge: Forge, tmp_path: Path
) -> None:
    flow = await recorded(make_flow)
    session = flow.open("last")
    rows = list(session.journal.records())
    place = next(
        at
        for at, record in enumerate(rows)
        if isinstance(record.body, Outcome) and record.body.result is not None
    )
    body = rows[place].body
    assert isinstance(body, Outcome)
    assert body.result is not None
    changed = replace(body, result=replace(body.result, exit_code=9))
    row = new_row(changed, rows[place].seq - 1, rows[place].time, rows[place].previous)
    session.archive.store.database.execute(
        "UPDATE records SET payload = ?, salt = ?, hash = ? WHERE session_id = ? AND seq = ?",
        (row.payload, row.salt, row.hash, session.id, rows[place].seq),
    )
    flow.close()
    status, report = replayed(forge, flow)
    assert status == 1
    assert (report["divergence"]["turn"], report["divergence"]["kind"]) == (1, "outcome")
    started = start(forge, flow, "replay", "last")
    assert started.wait() == 1
    assert "first differs from the record in turn 1, at outcome" in started.said
