"""The text that is judged, the text of the intent's digest and the bytes that run are equal.

Commands from a seed go through every way in which one reaches the executor. One that redaction
changed on its way to a decision, or whose text something replaced behind one, would differ.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kogniterm.models.scripted_model import ScriptedModel, read_script
from kogniterm.protocols import EventSink
from kogniterm.runtime.extensions.hooks.hook_points import Hooks
from kogniterm.runtime.extensions.hooks.hook_service import HookFindings, Occasion
from kogniterm.runtime.operations.recordings import Recorded
from kogniterm.runtime.python_api.open_agent import open_agent
from kogniterm.runtime.replay.replay_session import replay_recorded
from kogniterm.runtime.turn_journal import text_of
from kogniterm.runtime.turn_ports import TurnIO
from kogniterm.runtime.unattended.parked_turn import Parking
from kogniterm.runtime.unattended.signed_answers import store_answer
from kogniterm.sessions.records import Intent
from kogniterm.tools.session_tools import job_tool
from kogniterm.types import (
    ActionRequest,
    CommandResult,
    Decision,
    Job,
    RiskReport,
    UserInput,
    Verdict,
    events,
)
from tests.flows.conftest import Flow, MakeFlow
from tests.flows.test_mcp import trusted
from tests.support.generated_commands import KNOWN, generate_commands, placeholders

DONE: dict[str, object] = {"text": "Done.", "repeat": "forever"}


@dataclass
class Heard:
    """Texts that each place of the session got; every one implements a port and passes on.

    `edits` are what the user makes of commands at the question.
    """

    session: Any
    judged: list[str] = field(default_factory=list)
    hooked: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    events: list[object] = field(default_factory=list)
    replays: bool = False

    # --- the approver ---
    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        assert request.effect != "command" or report.command == request.command
        self.asked.append(text_of(request))
        if self.edits:
            return Decision("edit", self.edits.pop(0), "person")
        # Whatever an approver returns beside its choice changes nothing.
        return Decision("approve", "rm -rf everything", "person")

    async def review_plan(self, plan: Any, previous: Any) -> None:
        return None

    # --- the hooks ---
    def concerns(self, event: str, subject: str = "") -> bool:
        return event == "PreToolUse"

    async def run(self, occasion: Occasion, sink: EventSink) -> HookFindings:
        self.hooked.append(str(occasion.fields["tool_input"].get("command")))
        if self.updates:
            return HookFindings(updated={"command": self.updates.pop(0)}, updated_by="guard")
        return HookFindings()

    def intents(self) -> list[str]:
        found = (one.body for one in self.session.journal.records())
        return [one.digest for one in found if isinstance(one, Intent)]

    def assert_equal(self, ran: Sequence[str], *, judged: bool = True) -> None:
        """Assert that exactly `ran` got everywhere."""
        assert self.ran == list(ran)
        assert self.intents() == [self.session.journal.digest(one) for one in ran]
        if judged:
            assert set(ran) <= set(self.judged)
            assert set(ran) <= set(self.hooked)
            assert set(self.asked) <= set(self.judged)


@dataclass
class Policy:
    """Notes what is assessed; the session's own policy does the rest."""

    heard: Heard
    own: Any

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        report: RiskReport = self.own.assess(request, cwd)
        assert request.effect != "command" or report.command == request.command
        self.heard.judged.append(text_of(request))
        return report

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


@dataclass
class Recording:
    """An executor that notes what it is to run, and runs nothing; `own` answers the rest."""

    heard: Heard
    own: Any

    def run(self, command: str, **_more: object) -> CommandResult:
        self.heard.ran.append(command)
        return CommandResult(command, "exited", 0, "", 0.0, self.own.cwd)

    @contextmanager
    def side_by_side(self, count: int) -> Iterator[Sequence[Any]]:
        yield [_Lane(self) for _ in range(count)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


@dataclass
class _Lane:
    executor: Recording
    output: str | None = None
    sandbox: object = None

    def run(self, command: str, **more: object) -> CommandResult:
        return self.executor.run(command, **more)


def listen(flow: Flow, session_id: str | None = None) -> Heard:
    """Open a session whose every place is heard."""
    session = flow.open(session_id)
    heard = Heard(session)
    session.journal.secrets.know(KNOWN)  # type: ignore[attr-defined]
    for service in (session.services.gate, session.services.runner):
        service.policy = Policy(heard, session.policy)  # type: ignore[assignment]
    (hooks,) = (one for one in session.extensions.port.extensions if isinstance(one, Hooks))
    hooks.runner = heard
    executor: Any = Recording(heard, session.executor)
    session.executor = session.services.gate.executor = session.services.runner.executor = executor
    assert session.services.beside is not None
    session.services.beside.executor = executor
    return heard


def says(heard: Heard, folder: Path, *replies: object) -> None:
    """Let the model of the session make these replies from now on."""
    file = folder / "next.json"
    file.write_text(json.dumps({"replies": [*replies, DONE]}))
    heard.session.modes.model = ScriptedModel(read_script(file))


async def take(heard: Heard, given: UserInput | None = None, **more: Any) -> Any:
    approver = more.pop("approver", heard)
    return await heard.session.run(
        given or UserInput("go"), approver=approver, sink=heard.events.append, **more
    )


def commands(heard: Heard, seed: int, count: int) -> tuple[list[str], list[str]]:
    """Return generated commands, and those of them that hold no placeholder of the session."""
    marks = placeholders(heard.session.id)
    made = list(generate_commands(seed, count, marks))
    return made, [one for one in made if not any(mark in one for mark in marks[:2])]


@pytest.fixture
def heard(make_flow: MakeFlow, tmp_path: Path) -> Iterator[Heard]:
    inventory = tmp_path / "inventory.ini"
    inventory.touch()
    flow = make_flow(
        "replies: [{text: unused}]", [], approval_mode="manual", allow_reads=True,
        max_steps=10_000, hosts_inventory=str(inventory),
    )  # fmt: skip
    heard = listen(flow)
    yield heard
    # Nothing that is kept, sent or shown holds a value that is masked.
    hidden = masked_values(heard)
    said = repr([*heard.events, *heard.session.state.messages])
    flow.close()
    kept = b"".join(file.read_bytes() for file in flow.data.glob("kogniterm.db*"))
    assert [one for one in hidden if one in said or one.encode() in kept] == []


def masked_values(heard: Heard) -> set[str]:
    """Return the values that a placeholder covers in every command in which they stand."""
    texts = {one: heard.session.journal.redact_command(one) for one in {*heard.ran, *heard.judged}}
    mark, hidden = re.compile(r"\[secret:\w{4}-\d+\]"), set()
    for command, shown in texts.items():
        if command != shown:
            pattern = "(.+?)".join(map(re.escape, mark.split(shown)))
            found = re.fullmatch(pattern, command, re.DOTALL)
            assert found is not None, command
            hidden.update(one for one in found.groups() if not mark.fullmatch(one))
    everything = "\n".join(texts.values())
    return {one for one in hidden if len(one) > 5 and one not in everything}


# --- commands of the model and of the user --------------------------------------------------------


@pytest.mark.parametrize("at_prompt", [False, True], ids=["run", "prompt"])
async def test_run_and_prompt(heard: Heard, tmp_path: Path, at_prompt: bool) -> None:
    made, free = commands(heard, 5 + at_prompt, 60)
    says(heard, tmp_path, *({"run": one} for one in made))
    await take(heard, at_prompt=at_prompt)
    heard.assert_equal(free)


async def test_hundreds_through_gate_and_runner(heard: Heard) -> None:
    """The same services without a model, so that hundreds are cheap."""
    session, ran = heard.session, []
    io = TurnIO(heard, heard.events.append)
    count = session.services.new_count()
    made, free = commands(heard, 7, 300)
    for number, command in enumerate(made):
        request = ActionRequest(f"r{number}", f"c{number}", "execute_command", command)
        judged = await session.services.gate.judge(request, io)
        decision, report = await session.services.gate.decide(
            judged.request, judged.report, judged.verdict, io, count
        )
        decision, _told = session.services.gate.check_start(judged.request, decision, io)
        if decision.kind == "approve":
            ran.append(command)
            await session.services.runner.act(judged.request, decision, report, io, count)
    assert ran == free
    heard.assert_equal(free)


async def test_the_users_own_commands(heard: Heard) -> None:
    made, _free = commands(heard, 8, 100)
    for command in made:
        await heard.session.run_shell(command, sink=heard.events.append)
    heard.assert_equal(made, judged=False)


@pytest.mark.parametrize("by", ["edits", "updates"], ids=["question", "hook"])
async def test_a_changed_command(heard: Heard, tmp_path: Path, by: str) -> None:
    _made, free = commands(heard, 9 + len(by), 40)
    for changed in free:
        says(heard, tmp_path, {"run": "touch start"})
        getattr(heard, by).append(changed)
        await take(heard)
    heard.assert_equal(free)
    texts = [one for one in heard.asked if one != "touch start"]
    assert set(texts) <= set(free)


async def test_a_sub_agent(heard: Heard, tmp_path: Path) -> None:
    made, free = commands(heard, 11, 40)
    task = {"task": "Do it.", "tools": "run"}
    says(
        heard, tmp_path, {"calls": [{"tool": "delegate", "arguments": task}]},
        *({"run": one} for one in made),
    )  # fmt: skip
    await take(heard)
    heard.assert_equal(free)
    assert {one.request.agent_task for one in heard.events if isinstance(
        one, events.ActionProposed)} == {"Do it."}  # fmt: skip


async def test_actions_of_one_reply(heard: Heard, tmp_path: Path) -> None:
    """Some of them run side by side."""
    _made, free = commands(heard, 12, 36)
    for first in range(0, len(free), 6):
        six = [f"cat a{first} # {one}" for one in free[first : first + 6]]
        calls = [{"tool": "execute_command", "arguments": {"command": one}} for one in six]
        says(heard, tmp_path, {"calls": calls})
        before = len(heard.ran)
        await take(heard)
        heard.assert_equal(heard.ran[:before] + six)


async def test_checks_of_plans(heard: Heard, tmp_path: Path) -> None:
    """A check that redaction changed goes back to the model: only its text is in the plan."""
    free = harmless(14, 30)
    for command in free:
        step = {"id": "s1", "what": "w", "check": {"kind": "command", "value": command}}
        call = {"tool": "complete_step", "arguments": {"step": "s1"}}
        says(heard, tmp_path, {"plan": {"goal": "g", "steps": [step]}}, {"calls": [call]})
        await take(heard)
    assert len(heard.ran) > 5
    assert set(heard.ran) <= set(free)
    heard.assert_equal(heard.ran)


@pytest.mark.parametrize("name", ["/review", "/skill"])
async def test_command_lines_of_custom_commands_and_skills(
    heard: Heard, tmp_path: Path, name: str
) -> None:
    _made, free = commands(heard, 15 + len(name), 40)
    says(heard, tmp_path)
    for first in range(0, len(free), 4):
        parts = ["Look:"]
        for one in free[first : first + 4]:
            parts += [one, "and"]
        await take(heard, UserInput(name, line=name, parts=tuple(parts)))
    heard.assert_equal(free)


async def test_stored_answers(make_flow: MakeFlow, tmp_path: Path) -> None:
    """A command that redaction changes is never parked; the rest runs as it was answered."""
    flow = make_flow("replies: [{text: unused}]", [], approval_mode="manual")
    heard = listen(flow)
    _made, free = commands(heard, 17, 24)
    plain = [one for one in free if heard.session.journal.redact_command(one) == one]
    ran: list[str] = []
    for command in [*plain[:8], *(one for one in free if one not in plain)]:
        says(heard, tmp_path, {"run": command})
        parking = Parking(heard.session)
        if command not in plain:
            answer = await take(heard, approver=parking, at_prompt=True)
            assert (parking.question, answer.stop) == (None, "refused")
            continue
        with pytest.raises(asyncio.CancelledError):
            await take(heard, approver=parking, at_prompt=True)
        assert parking.question.request.command == command
        session_id, digest = heard.session.id, parking.question.digest
        judged = [*heard.judged]
        archive = heard.session.archive
        heard.session.journal.journal.close()
        key = archive.paths.queue_key
        store_answer(archive.store, session_id, digest, "approve", "", key)
        flow.close()
        heard = listen(flow, "last")
        heard.judged += judged
        says(heard, tmp_path)
        parking = Parking(heard.session)
        await heard.session.run(
            None, approver=parking, sink=heard.events.append, at_prompt=True, park=parking.ask
        )
        assert heard.ran == [command]
        ran.append(command)
        assert heard.intents() == [heard.session.journal.digest(one) for one in ran]
    assert ran


# --- tools that carry commands and texts elsewhere ------------------------------------------------


@dataclass
class Jobs:
    """Jobs that only note what is typed into them."""

    heard: Heard

    def jobs(self) -> tuple[Job, ...]:
        return (Job("job-1", "cat", "ended", (), 0.0),)

    def read_job(self, job_id: str) -> str:
        return ""

    def send_keys(self, job_id: str, text: str) -> str:
        self.heard.ran.append(text)
        return ""


async def test_jobs_send(heard: Heard, tmp_path: Path) -> None:
    heard.session.services.runner.tool_of = lambda name: job_tool(Jobs(heard))  # type: ignore[arg-type]
    heard.session.executor.own.jobs = Jobs(heard).jobs
    made, free = commands(heard, 19, 40)
    calls = [{"action": "send", "id": "job-1", "keys": one} for one in made if len(one) < 2_000]
    says(heard, tmp_path, *({"calls": [{"tool": "jobs", "arguments": one}]} for one in calls))
    await take(heard)
    wanted = [one for one in free if len(one) < 2_000]
    assert heard.ran == wanted
    judged = {json.loads(text)[2]["keys"]: text for text in heard.judged}
    assert heard.intents() == [heard.session.journal.digest(judged[one]) for one in wanted]


async def test_calls_of_an_mcp_server(make_flow: MakeFlow, tmp_path: Path) -> None:
    flow = make_flow("replies: [{text: unused}]", [], approval_mode="manual", max_steps=1_000)
    calls = await trusted(flow, "echo")
    heard = listen(flow)
    made, free = commands(heard, 20, 40)
    told = [{"tool": "mcp__demo__keep", "arguments": {"text": one}} for one in made]
    says(heard, tmp_path, *({"calls": [{"tool": "call_tool", "arguments": one}]} for one in told))
    await take(heard)
    got = [json.loads(one) for one in calls.read_text().splitlines()[1:]]
    assert got == free
    judged = {json.loads(text)[2]["text"]: text for text in heard.judged}
    assert heard.intents() == [heard.session.journal.digest(judged[one]) for one in free]


# --- the real executor, in other faces ------------------------------------------------------------


def harmless(seed: int, count: int) -> list[str]:
    """Return commands that write a generated one to a file, byte for byte, and act on nothing."""
    made = (one for one in generate_commands(seed, count * 2) if len(one) < 3_000)
    return [
        f"cat > got-{number} <<'END OF {seed}'\n{one}\nEND OF {seed}"
        for number, one in zip(range(count), made, strict=False)
    ]


def body(command: str) -> str:
    return command.partition("\n")[2].rpartition("\n")[0] + "\n"


async def test_a_program_that_uses_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"KOGNITERM_{kind}_DIR", str(tmp_path / kind.lower()))
    work, file = tmp_path / "work", tmp_path / "model.json"
    work.mkdir()
    made, asked = harmless(21, 25), list[str]()
    file.write_text(json.dumps({"replies": [*({"run": one} for one in made), DONE]}))

    def approve(request: ActionRequest, report: RiskReport) -> bool:
        assert report.command == request.command
        asked.append(request.command)
        return True

    async with open_agent(
        work, model=f"scripted:{file}", approve=approve, sandbox="off", max_steps=100
    ) as agent:
        await agent.run("go")
        heard = Heard(agent.session)
        assert asked == made
        assert heard.intents() == [agent.session.journal.digest(one) for one in made]
    assert [(work / f"got-{number}").read_text() for number in range(25)] == [*map(body, made)]


async def test_a_replay(heard: Heard, tmp_path: Path) -> None:
    """A replay plays what was kept: a placeholder in it is text like any other."""
    made, free = commands(heard, 23, 30)
    says(heard, tmp_path, *({"run": one} for one in made))
    await take(heard)
    records = list(heard.session.journal.records())
    recorded = Recorded(records, heard.session.folder, heard.session.model.name)
    (tmp_path / "scratch").mkdir()
    report = await asyncio.to_thread(
        replay_recorded, recorded, tmp_path / "scratch", live=False, folder=None
    )
    assert report.divergence is None
    assert report.commands == len(free)
