"""An unknown outcome stays unknown after any number of kills, until the user decides."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kogniterm.runtime.fixed_questions import RecoveryChoice, RecoveryQuestion
from kogniterm.sessions.records import Intent
from kogniterm.sessions.session_transfer import export_lines, fork, import_lines
from kogniterm.types import ActionRequest, Answer, CommandResult
from tests.flows.conftest import Flow, MakeFlow, no, yes
from tests.flows.program import start, start_run
from tests.support.forge import Forge

RUN = "{run: 'echo ran >>count', purpose: Count}"
COUNTED = f"replies: [{RUN}, {{text: Done.}}]"
TOLD = "replies: [{text: Told.}]"


def times_run(flow: Flow) -> int:
    file = flow.folder / "count"
    return len(file.read_text().split()) if file.exists() else 0


def kill(forge: Forge, flow: Flow, faults: str, *words: str) -> None:
    started = start_run(forge, flow, "-y", *words, faults=faults)
    assert started.wait() == -signal.SIGKILL, started.said


def ended(forge: Forge, flow: Flow, *words: str) -> tuple[int, str]:
    started = start_run(forge, flow, "-y", *words)
    return started.wait(), started.said


async def unknown(make_flow: MakeFlow, forge: Forge) -> None:
    """Prepare a session whose only command was killed after its effect, and whose turn ended."""
    kill(forge, make_flow(COUNTED), "kill:before-outcome", "count")
    status, said = ended(forge, make_flow(TOLD), "--resume=last")
    assert status == 3, said


# --- killed again and again --------------------------------------------------------------------


@pytest.mark.parametrize("first", ["kill:after-intent", "kill:before-outcome"])
@pytest.mark.parametrize("second", ["kill:after-outcome", "kill:after-node", "kill:after-verdict"])
def test_two_crashes_and_the_same_command_again(
    make_flow: MakeFlow, forge: Forge, first: str, second: str
) -> None:
    kill(forge, make_flow(COUNTED), first, "count")
    flow = make_flow(COUNTED)
    ran = times_run(flow)
    kill(forge, flow, second, "--resume=last")
    status, said = ended(forge, make_flow(COUNTED), "--resume=last")
    assert status == 3, said
    assert times_run(flow) == ran <= 1
    assert "May already have run" in said


@pytest.mark.parametrize("kills", [3, 4])
def test_many_crashes_in_a_row(make_flow: MakeFlow, forge: Forge, kills: int) -> None:
    kill(forge, make_flow(COUNTED), "kill:before-outcome", "count")
    for _ in range(kills - 1):
        kill(forge, make_flow(COUNTED), "kill:after-outcome", "--resume=last")
        # Each crash leaves an open turn, which the next process continues.
    flow = make_flow(COUNTED)
    status, said = ended(forge, flow, "--resume=last")
    assert status == 3, said
    assert times_run(flow) == 1


def test_an_answer_behind_a_second_crash_still_says_that_it_is_unknown(
    make_flow: MakeFlow, forge: Forge
) -> None:
    kill(forge, make_flow(COUNTED), "kill:before-outcome", "count")
    kill(forge, make_flow(COUNTED), "kill:after-outcome", "--resume=last")
    status, said = ended(forge, make_flow(TOLD), "--resume=last")
    assert status == 3
    assert "The outcome of this command is unknown: echo ran" in said


@pytest.mark.parametrize(
    "text",
    [
        "echo ran >>count",
        "echo  ran >> count",
        "cd . && echo 'ran' >>count",
        "echo ran >>count; echo fine",
        "sh -c 'echo ran >>./count'",
    ],
)
async def test_a_later_turn_of_another_process_asks_too(
    make_flow: MakeFlow, forge: Forge, text: str
) -> None:
    await unknown(make_flow, forge)
    script = f'replies: [{{run: "{text}"}}, {{text: Done.}}]'
    flow = make_flow(script)
    status, said = ended(forge, flow, "--resume=last", "count again")
    assert status == 3, said
    assert times_run(flow) == 1
    assert "May already have run" in said


async def test_a_crash_behind_a_refusal_does_not_make_the_turn_a_success(
    make_flow: MakeFlow, forge: Forge
) -> None:
    await unknown(make_flow, forge)
    kill(forge, make_flow(COUNTED), "kill:after-outcome:1", "--resume=last", "count again")
    status, said = ended(forge, make_flow(TOLD), "--resume=last")
    assert status == 3, said
    assert "an action was refused" in said


async def test_another_command_runs(make_flow: MakeFlow, forge: Forge) -> None:
    await unknown(make_flow, forge)
    flow = make_flow("replies: [{run: 'cat count'}, {text: Seen.}]")
    status, said = ended(forge, flow, "--resume=last", "look")
    assert status == 0, said


# --- transfers to another session -------------------------------------------------------------


@pytest.mark.parametrize("way", ["compaction", "fork", "fork before it", "import"])
async def test_it_is_not_forgotten_on_the_way(make_flow: MakeFlow, forge: Forge, way: str) -> None:
    hello = make_flow(TOLD)
    await hello.run("hello")
    hello.close()
    kill(forge, make_flow(COUNTED), "kill:before-outcome", "--resume=last", "count")
    assert ended(forge, make_flow(TOLD), "--resume=last")[0] == 3
    flow = make_flow(COUNTED)
    session = flow.open("last")
    store, session_id = session.archive.store, session.id
    if way == "compaction":
        await session.context.compact_now(asked=True)
    elif way.startswith("fork"):
        session_id = fork(store, session_id, turn=1 if "before" in way else None).id
    else:
        session_id = import_lines(store, list(export_lines(store, session_id)), as_new=True).id
    flow.close()
    flow.open(session_id)
    answer = await flow.run("count")
    assert (answer.exit_code, times_run(flow)) == (3, 1)


async def test_a_fork_of_a_session_that_was_cut_off_knows_it_too(
    make_flow: MakeFlow, forge: Forge
) -> None:
    kill(forge, make_flow(COUNTED), "kill:before-outcome", "count")
    flow = make_flow(COUNTED)
    assert start(forge, flow, "sessions", "fork", "last").wait() == 0
    answer = await flow_resumed(flow)
    assert (answer.exit_code, times_run(flow)) == (3, 1)


async def flow_resumed(flow: Flow) -> Answer:
    flow.open("last")
    return await flow.run(None)


async def test_a_sub_agent_asks_too(make_flow: MakeFlow, forge: Forge) -> None:
    await unknown(make_flow, forge)
    script = f"""
replies:
  - calls: [{{tool: delegate, arguments: {{task: Count, tools: run}}}}]
  - {RUN}
  - text: I could not.
  - text: It could not.
"""
    flow = make_flow(script)
    flow.open("last")
    answer = await flow.run("count")
    assert (answer.exit_code, times_run(flow)) == (3, 1)


async def test_what_a_sub_agent_was_cut_off_in_is_unknown_to_all(
    make_flow: MakeFlow, forge: Forge
) -> None:
    script = f"""
replies:
  - calls: [{{tool: delegate, arguments: {{task: Count, tools: run}}}}]
  - {RUN}
"""
    kill(forge, make_flow(script), "kill:before-outcome", "count")
    kill(forge, make_flow(COUNTED), "kill:after-outcome", "--resume=last")
    flow = make_flow("replies: [{text: Stopped.}, {text: Told.}]")
    assert ended(forge, flow, "--resume=last")[0] == 3
    flow = make_flow(COUNTED)
    flow.open("last")
    answer = await flow.run("count")
    assert (answer.exit_code, times_run(flow)) == (3, 1)


# --- the user decides --------------------------------------------------------------------------


async def test_a_run_that_the_user_approved_and_saw_end_settles_it(
    make_flow: MakeFlow, forge: Forge
) -> None:
    await unknown(make_flow, forge)
    flow = make_flow(COUNTED, decisions=[yes], approval_mode="auto")
    flow.open("last")
    await flow.run("count")
    (asked,) = flow.user.asked
    assert "May already have run" in " ".join(map(str, asked[2].reasons))
    assert times_run(flow) == 2
    flow.close()
    later = make_flow(COUNTED)
    later.open("last")
    assert (await later.run("count")).exit_code == 0
    assert times_run(later) == 3


async def test_a_refusal_settles_nothing(make_flow: MakeFlow, forge: Forge) -> None:
    await unknown(make_flow, forge)
    flow = make_flow(COUNTED, decisions=[no("not now")], approval_mode="auto")
    flow.open("last")
    await flow.run("count")
    flow.close()
    later = make_flow(COUNTED)
    later.open("last")
    assert (await later.run("count")).exit_code == 3
    assert times_run(later) == 1


@pytest.mark.parametrize(("wish", "asks"), [("again", 0), ("check", 1), ("skip", 1)])
async def test_what_the_user_wished_holds_over_the_next_crash(
    make_flow: MakeFlow, forge: Forge, wish: RecoveryChoice, asks: int
) -> None:
    kill(forge, make_flow(COUNTED), "kill:before-outcome", "count")
    flow = make_flow(TOLD, decisions=[], approval_mode="auto")

    async def recover(question: RecoveryQuestion) -> RecoveryChoice:
        return wish

    await flow.open("last").run(None, approver=flow.user, sink=flow.tell, recover=recover)
    flow.close()
    later = make_flow(COUNTED, decisions=[yes], approval_mode="auto")
    later.open("last")
    await later.run("count")
    assert len(later.user.asked) == asks
    assert times_run(later) == 2


async def test_an_own_run_of_the_user_settles_it(make_flow: MakeFlow, forge: Forge) -> None:
    await unknown(make_flow, forge)
    flow = make_flow(COUNTED)
    result: CommandResult = await flow.open("last").run_shell("echo ran >>count", sink=flow.tell)
    assert result.exit_code == 0
    assert (await flow.run("count")).exit_code == 0
    assert times_run(flow) == 3


async def test_rules_and_leases_do_not_run_it(make_flow: MakeFlow, forge: Forge) -> None:
    await unknown(make_flow, forge)
    flow = make_flow(COUNTED)
    config = Path(flow.environ["KOGNITERM_CONFIG_DIR"])
    config.mkdir(exist_ok=True)
    (config / "policy.toml").write_text(
        '[[rule]]\ndecision = "allow"\nprogram = "echo"\nmatch = ["echo x"]\n'
    )
    session = flow.open("last")
    request = _request("echo ran >>count")
    report = session.policy.assess(request, session.executor.cwd)
    session.policy.grant(
        report,
        session.policy.offers(request, report, session.executor.cwd)[0],
        session.executor.cwd,
    )
    answer = await flow.run("count")
    assert (answer.exit_code, times_run(flow)) == (3, 1)
    assert session.policy.leases[0].used == 0


def _request(command: str) -> ActionRequest:
    return ActionRequest("r", "c", "execute_command", command)


# --- damaged records ---------------------------------------------------------------------------

DAMAGE = {
    "scribbled": "UPDATE records SET payload = 'x' || substr(payload, 2) WHERE kind = ?",
    "emptied": "UPDATE records SET payload = '' WHERE kind = ?",
    "changed": "UPDATE records SET payload = replace(payload, 'ran', 'run') WHERE kind = ?",
}


def damage(flow: Flow, how: str, kind: str) -> None:
    database = flow.data / "kogniterm.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        assert connection.execute(DAMAGE[how], (kind,)).rowcount == 1


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("point", ["kill:after-intent", "kill:before-outcome"])
def test_a_command_whose_intent_is_damaged_is_unknown(
    make_flow: MakeFlow, forge: Forge, how: str, point: str
) -> None:
    flow = make_flow(COUNTED)
    kill(forge, flow, point, "count")
    ran = times_run(flow)
    damage(flow, how, "intent")
    status, said = ended(forge, make_flow(TOLD), "--resume=last")
    assert status == 3, said
    assert "its outcome is unknown: echo ran >>count" in said
    status, said = ended(forge, make_flow(COUNTED), "--resume=last", "count again")
    assert status == 3, said
    assert times_run(flow) == ran


def test_the_audit_says_unknown_of_a_damaged_intent(make_flow: MakeFlow, forge: Forge) -> None:
    flow = make_flow(COUNTED)
    kill(forge, flow, "kill:after-intent", "count")
    damage(flow, "scribbled", "intent")
    trail = start(forge, flow, "audit", "show", "last")
    assert trail.wait() == 0
    assert "unknown" in trail.said


def test_a_damaged_intent_outlives_a_damaged_file(make_flow: MakeFlow, forge: Forge) -> None:
    flow = make_flow(COUNTED)
    kill(forge, flow, "kill:before-outcome", "count")
    damage(flow, "scribbled", "intent")
    database = flow.data / "kogniterm.db"
    content = database.read_bytes()
    database.write_bytes(b"\xff" * 64 + content[64:])
    status, said = ended(forge, make_flow(COUNTED), "--resume=last")
    assert "was damaged" in said
    assert status == 3, said
    assert times_run(flow) == 1


@pytest.mark.parametrize("how", DAMAGE)
async def test_a_command_whose_outcome_is_damaged_is_unknown(
    make_flow: MakeFlow, forge: Forge, how: str
) -> None:
    flow = make_flow(COUNTED)
    kill(forge, flow, "kill:after-outcome", "count")
    damage(flow, how, "outcome")
    status, said = ended(forge, make_flow(COUNTED), "--resume=last")
    assert status == 3, said
    assert times_run(flow) == 1
    later = make_flow(COUNTED)
    later.open("last")
    assert (await later.run("count")).exit_code == 3
    assert times_run(flow) == 1


@pytest.mark.parametrize("kind", ["intent", "outcome"])
async def test_damage_in_a_finished_turn_leaves_a_history_that_can_be_sent(
    make_flow: MakeFlow, forge: Forge, kind: str
) -> None:
    flow = make_flow(COUNTED)
    await flow.run("count")
    flow.close()
    damage(flow, "scribbled", kind)
    later = make_flow(TOLD)
    session = later.open("last")
    calls = [
        call["id"]
        for message in session.state.messages
        for call in getattr(message, "tool_calls", ())
    ]
    answers = [getattr(message, "tool_call_id", None) for message in session.state.messages]
    assert calls
    assert set(calls) <= set(answers)
    assert (await later.run("go on")).exit_code == 0


async def test_an_own_command_whose_intent_is_damaged_is_unknown(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(TOLD)
    session = flow.open()
    intent = Intent(session.journal.new_id(), "echo mine", session.executor.cwd, "e")
    session.journal.record(intent, durable=True)
    flow.close()
    damage(flow, "emptied", "intent")
    status, said = ended(forge, flow, "--resume=last")
    assert status == 3, said
    assert "unknown: (a command whose record is damaged)" in said
