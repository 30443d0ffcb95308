"""Replay of a recorded session: it is the same, or the first difference is named."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from kogniterm.sessions.journal.codec import new_row
from kogniterm.sessions.records import Compacted, NodeRan, Outcome, RecordBody
from kogniterm.types import ActionRequest, Decision, events
from tests.flows.conftest import Flow, MakeFlow, change_to, no, yes
from tests.flows.program import replayed, start, start_run
from tests.flows.test_hooks import hook, own
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


async def test_refusals_and_edits_play_the_same_before_an_interrupted_turn(
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
async def test_a_turn_that_crashed_is_taken_from_the_record(
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


async def test_a_turn_stopped_while_one_still_thinks_is_taken_from_the_record(
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
async def test_a_turn_killed_in_a_sub_agent_is_taken_from_the_record(
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
    (flow.data / "kogniterm.db").unlink()
    status, found = replayed(forge, flow, str(report))
    assert (status, found["divergence"]) == (0, None)


def change(flow: Flow, change_of: Callable[[RecordBody], RecordBody | None]) -> None:
    """Write another body in place of the first record of the last session that is changed."""
    session = flow.open("last")
    rows = list(session.journal.records())
    at, body = next((at, new) for at, row in enumerate(rows) if (new := change_of(row.body)))
    row = new_row(body, rows[at].seq - 1, rows[at].time, rows[at].previous)
    session.archive.store.database.execute(
        "UPDATE records SET payload = ?, salt = ?, hash = ? WHERE session_id = ? AND seq = ?",
        (row.payload, row.salt, row.hash, session.id, rows[at].seq),
    )
    flow.close()


async def test_a_changed_record_is_where_the_run_differs(make_flow: MakeFlow, forge: Forge) -> None:
    def other_exit(body: RecordBody) -> RecordBody | None:
        if not isinstance(body, Outcome) or body.result is None:
            return None
        return replace(body, result=replace(body.result, exit_code=9))

    flow = await recorded(make_flow)
    change(flow, other_exit)
    status, report = replayed(forge, flow)
    assert status == 1
    assert (report["divergence"]["turn"], report["divergence"]["kind"]) == (1, "outcome")
    started = start(forge, flow, "replay", "last")
    assert started.wait() == 1
    assert "first differs from the record in turn 1, at outcome" in started.said


def with_command(body: RecordBody) -> RecordBody | None:
    """Return the first reply with another command, whose call has no result any more."""
    if not isinstance(body, NodeRan) or not body.update.messages:
        return None
    reply = body.update.messages[0].model_copy(deep=True)
    for call in getattr(reply, "tool_calls", ()):
        if call["name"] == "execute_command":
            call["args"]["command"] = "echo another"
            return NodeRan(replace(body.update, messages=(reply,)))
    return None


def with_tool(body: RecordBody) -> RecordBody | None:
    """Return the first request with the line of another version of its tool."""
    if not isinstance(body, NodeRan) or not body.update.pending:
        return None
    first, *others = body.update.pending
    return NodeRan(replace(body.update, pending=(replace(first, command="go one"), *others)))


def with_text(body: RecordBody) -> RecordBody | None:
    """Return the refusal as another version of KogniTerm tells the model of it."""
    if not isinstance(body, Outcome) or body.status != "refused":
        return None
    return replace(body, message=body.message.model_copy(update={"content": "[no]"}))


@pytest.mark.parametrize(
    ("changed", "kind", "found"),
    [
        (with_command, "node", "echo another"),
        (with_tool, "node", "go one"),
        (with_text, "outcome", "[no]"),
    ],
)
async def test_a_changed_command_tool_or_text_is_named(
    make_flow: MakeFlow,
    forge: Forge,
    changed: Callable[[RecordBody], RecordBody | None],
    kind: str,
    found: str,
) -> None:
    script = "replies: [{run: echo one}, {run: echo two}, {text: Done.}]"
    flow = make_flow(script, decisions=[yes, no("not now")])
    await flow.run()
    flow.close()
    change(flow, changed)
    status, report = replayed(forge, flow)
    assert (status, report["divergence"]["kind"]) == (1, kind)
    assert found in str(report["divergence"])


def contents(flow: Flow) -> dict[str, object]:
    """Return the user's files but for logs; of the database, what it holds."""
    root = flow.folder.parent
    folders = (flow.folder, flow.data, root / "config", root / "cache")
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    kept = (one for one in files if "kogniterm.db-" not in one.name and one.suffix != ".log")
    found: dict[str, object] = {str(file): file.read_bytes() for file in kept}
    database = flow.data / "kogniterm.db"
    with closing(sqlite3.connect(database)) as open_database:
        found[str(database)] = list(open_database.iterdump())
    return found


async def test_a_replay_runs_no_command_edit_tool_or_hook_and_writes_nothing_of_the_user(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow("""
replies:
  - run: rm keep; echo ran >>ran
  - calls:
      - {tool: write_file, arguments: {path: written, content: new}}
      - {tool: remember, arguments: {fact: The keys are in the drawer.}}
      - {tool: web_fetch, arguments: {url: 'http://127.0.0.1:9/'}}
  - text: Done.
  - run: touch ran
  - text: Done.
""")
    (flow.folder / "keep").touch()
    await flow.run()
    hooked = flow.folder / "hooked"
    own(flow, {"PreToolUse": [hook(f"cat >/dev/null; touch {hooked}")]})
    flow.close()
    flow.open("last")
    await flow.run("and again")
    flow.close()
    assert hooked.exists()
    for file in ("ran", "written", "hooked"):
        (flow.folder / file).unlink()
    (flow.folder / "keep").touch()
    before = contents(flow)
    assert replayed(forge, flow) == (0, {"turns": 2, "commands": 1, "divergence": None})
    after = contents(flow)
    assert {name for name in before | after if before.get(name) != after.get(name)} == set()


async def test_a_live_replay_edits_its_copy_alone(make_flow: MakeFlow, forge: Forge) -> None:
    flow = make_flow("""
replies:
  - calls: [{tool: write_file, arguments: {path: made, content: written}}]
  - run: mkdir sub; cp made sub; cd sub; false
  - run: cat made
  - text: Done.
""")
    await flow.run()
    flow.close()
    (flow.folder / "made").unlink()
    (flow.folder / "sub/made").unlink()
    (flow.folder / "sub").rmdir()
    status, report = replayed(forge, flow, "last", "--live")
    assert (status, report["divergence"]) == (0, None)
    assert list(flow.folder.iterdir()) == []


async def test_a_live_replay_edits_nothing_outside_its_copy(
    make_flow: MakeFlow, forge: Forge
) -> None:
    script = """
replies:
  - calls: [{tool: write_file, arguments: {path: link/made, content: written}}]
  - calls: [{tool: write_file, arguments: {path: ../made, content: written}}]
  - text: Done.
"""
    flow = make_flow(script, decisions=[yes, yes])
    other, made = flow.folder.parent / "other", flow.folder.parent / "made"
    other.mkdir()
    (flow.folder / "link").symlink_to(other)
    await flow.run()
    flow.close()
    (other / "made").unlink()
    made.unlink()
    status, report = replayed(forge, flow, "last", "--live")
    assert (status, report["divergence"]["kind"]) == (1, "outcome")
    assert (list(other.iterdir()), made.exists()) == ([], False)
