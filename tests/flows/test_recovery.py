"""After a kill: known outcomes are reported, nothing runs twice, and the session continues."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
import textwrap
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from kogniterm.errors import OutcomeNotWrittenError
from kogniterm.runtime.fixed_questions import RecoveryChoice, RecoveryQuestion
from kogniterm.sessions.records import Intent
from kogniterm.types import ActionRequest, Answer, Decision, events
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import start_run
from tests.support.forge import Forge, Started, until

COUNTED = "replies: [{run: 'echo ran >>count; echo shown', purpose: Count}, {text: Done.}]"
ANSWER = "replies: [{text: Told.}]"


@dataclass(frozen=True)
class Program:
    """Starts the real program in a flow's folders, unattended."""

    forge: Forge

    def start(self, flow: Flow, *words: str, faults: str = "") -> Started:
        return start_run(self.forge, flow, *words, faults=faults)

    def kill(self, flow: Flow, faults: str, *words: str) -> None:
        """Run a task that a fault kills in the middle."""
        started = self.start(flow, *(words or ("-y",)), "count", faults=faults)
        assert started.wait() == -signal.SIGKILL, started.said


@pytest.fixture
def program(forge: Forge) -> Program:
    return Program(forge)


def count(flow: Flow) -> int:
    file = flow.folder / "count"
    return len(file.read_text().split()) if file.exists() else 0


async def resumed(
    flow: Flow, wish: RecoveryChoice | None = None
) -> tuple[Answer, list[tuple[Intent, str]]]:
    """Continue the open turn; `wish` is the user's recovery choice, None means unattended."""
    asked: list[tuple[Intent, str]] = []

    async def recover(question: RecoveryQuestion) -> RecoveryChoice:
        asked.append((question.intent, question.output))
        assert wish is not None
        return wish

    session = flow.session or flow.open("last")
    approver = flow.user
    if approver is None:
        from kogniterm.approval import Unattended

        answer = await session.run(None, approver=Unattended(), sink=flow.tell)
    else:
        answer = await session.run(None, approver=approver, sink=flow.tell, recover=recover)
    return answer, asked


def notices(flow: Flow) -> str:
    return " ".join(str(notice.text) for notice in flow.of(events.Notice))


async def test_an_intent_without_an_end_is_unknown_and_never_run_again(
    make_flow: MakeFlow,
    program: Program,
) -> None:
    program.kill(make_flow(COUNTED), "kill:after-intent")
    flow = make_flow(ANSWER)
    answer, _ = await resumed(flow)
    assert (answer.stop, answer.exit_code, answer.text) == ("unknown", 3, "Told.")
    assert count(flow) == 0
    assert "outcome is unknown" in notices(flow)
    assert "[outcome unknown" in flow.shown[2]
    assert "It was not run again" in flow.shown[2]


async def test_a_command_whose_end_could_not_be_written_is_told_when_it_can_be(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(COUNTED, faults="full:written-outcome")
    with pytest.raises(OutcomeNotWrittenError, match="It is saved in"):
        await flow.run("count")
    assert count(flow) == 1
    await flow.run("and now?")
    assert count(flow) == 1
    told = " ".join(flow.shown)
    assert "shown\n[exit 0]" in told
    assert "[not run" not in told
    assert "unknown" not in told


async def test_a_finished_command_is_fed_to_the_model_without_running_again(
    make_flow: MakeFlow,
    program: Program,
) -> None:
    program.kill(make_flow(COUNTED), "kill:after-outcome")
    flow = make_flow("replies: [{when: {last_contains: shown}, text: Told.}]")
    answer, _ = await resumed(flow)
    assert (answer.stop, answer.text, count(flow)) == ("done", "Told.", 1)


@pytest.mark.parametrize("task", [None, "another"], ids=["continued", "left"])
async def test_what_ended_before_a_kill_is_learned_from_later(
    make_flow: MakeFlow, program: Program, task: str | None
) -> None:
    program.kill(make_flow("replies: [{run: 'ls /nowhere'}, {text: Done.}]"), "kill:after-outcome")
    flow = make_flow(ANSWER)
    session = flow.open("last")
    await flow.run(task)
    memory = session.memory
    (lesson,) = memory.context.learnings.all()
    assert (lesson.task, lesson.shape, lesson.ok, lesson.times) == ("count", "ls", False, 1)


async def test_what_was_decided_and_not_started_is_asked_again(
    make_flow: MakeFlow, program: Program
) -> None:
    program.kill(make_flow(COUNTED), "kill:before-intent")
    flow = make_flow(ANSWER, decisions=[yes], approval_mode="manual")
    await resumed(flow, "skip")
    assert count(flow) == 1
    assert len(flow.user.asked) == 1


async def test_what_a_user_is_asked_about_is_stored_by_then(make_flow: MakeFlow) -> None:
    stored: list[str] = []

    def look(request: ActionRequest) -> Decision:
        (file,) = flow.data.glob("*.db")
        with closing(sqlite3.connect(file)) as database:
            stored.extend(kind for (kind,) in database.execute("SELECT kind FROM records"))
        return yes(request)

    flow = make_flow(COUNTED, decisions=[look], approval_mode="manual")
    await flow.run()
    assert stored[-2:] == ["request", "verdict"]


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ("check", "wants you to check"),
        ("again", "propose it again"),
        ("skip", "Do not run it again"),
    ],
)
async def test_a_user_says_what_becomes_of_an_unknown_command(
    make_flow: MakeFlow, program: Program, wish: RecoveryChoice, told: str
) -> None:
    program.kill(make_flow(COUNTED), "kill:before-outcome")
    flow = make_flow(COUNTED, decisions=[yes], approval_mode="auto")
    _, asked = await resumed(flow, wish)
    assert [(intent.command, output) for intent, output in asked] == [
        ("echo ran >>count; echo shown", "shown")
    ]
    assert told in flow.shown[2]
    assert "Output up to then:\nshown" in flow.shown[2]
    # Auto mode must not run again what the user decided not to run again.
    assert len(flow.user.asked) == (0 if wish == "again" else 1)
    assert count(flow) == 2


async def test_an_own_command_of_the_user_is_settled_too(
    make_flow: MakeFlow, program: Program
) -> None:
    flow = make_flow(ANSWER)
    code = """
    import asyncio, sys
    from kogniterm import settings
    from kogniterm.runtime.build import open_session
    given = {"model": sys.argv[1], "faults": sys.argv[2]}
    loaded = settings.load(given, environ=settings.environment())
    session = open_session(loaded, folder=sys.argv[3])
    asyncio.run(session.run_shell("echo mine >>count", sink=lambda event: None))
    """
    words = [str(flow.flags["model"]), "kill:after-intent", str(flow.folder)]
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(code), *words, env=flow.environ
    )
    assert await done.wait() == -signal.SIGKILL
    session = flow.open("last")
    assert [intent.command for intent in session.state.unknown] == ["echo mine >>count"]
    answer, _ = await resumed(flow)
    assert (answer.stop, answer.exit_code) == ("unknown", 3)
    assert not session.state.unknown
    assert "I ran this command myself: echo mine >>count\n[outcome unknown" in flow.shown[-1]
    answer = await flow.run("and now?")
    assert answer.text == "Told."


async def test_folder_and_draft_are_there_again_and_the_modes_are_not(
    make_flow: MakeFlow, program: Program
) -> None:
    flow = make_flow(
        "replies: [{run: 'mkdir sub; cd sub', purpose: Go}, {text: There.}]",
        plan="never",
    )
    await flow.run()
    flow.session.keep_draft("half a thou")
    flow.close()
    again = make_flow(ANSWER)
    del again.flags["approval_mode"]
    session = again.open("last")
    assert (session.modes.approval, session.modes.planning) == ("manual", "auto")
    assert session.executor.cwd == str(flow.folder / "sub")
    assert session.state.draft == "half a thou"


async def test_a_takeover_after_a_crash_is_told(make_flow: MakeFlow, program: Program) -> None:
    program.kill(make_flow(COUNTED), "kill:after-intent")
    session = make_flow(ANSWER).open("last")
    assert any("ended unexpectedly" in str(notice) for notice in session.notices)


def test_the_command_line_goes_on_with_an_open_turn(make_flow: MakeFlow, program: Program) -> None:
    program.kill(make_flow(COUNTED), "kill:after-intent")
    flow = make_flow(ANSWER)
    started = program.start(flow, "--resume=last")
    assert started.wait() == 3
    assert "outcome is unknown: echo ran" in started.said
    assert "Told." in started.said
    started = program.start(flow, "--resume=last")
    assert started.wait() == 2
    assert "give the next task" in started.said
    assert count(flow) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_the_tree_and_closes_the_journal(
    make_flow: MakeFlow, program: Program, number: signal.Signals
) -> None:
    flow = make_flow("replies: [{run: '(sleep 600)& echo $! >pid; mkfifo go; cat go'}]")
    started = program.start(flow, "-y", "wait")
    until((flow.folder / "go").exists)
    child = int((flow.folder / "pid").read_text())
    started.send(number)
    assert started.wait() == 128 + number, started.said
    until(lambda: not is_alive(child))
    session = make_flow(ANSWER).open("last")
    assert not session.state.unknown
    assert not session.state.open_turn
    assert not any("ended without closing" in str(notice) for notice in session.notices)


def is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
