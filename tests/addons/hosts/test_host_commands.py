"""Commands on hosts in whole turns: judged, asked, journaled for each host, and found again.

The hosts are folders of this machine in which processes run for real, so that a turn can be cut at
any moment; `test_many_hosts.py` has machines with sshd.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kogniterm.addons.hosts.answer_groups import stops
from kogniterm.addons.hosts.host_commands import HostCommands
from kogniterm.addons.hosts.host_risk import REMOTE_HOME
from kogniterm.addons.hosts.host_values import HostRequest, HostSecrets, Inventory
from kogniterm.errors import ExecutionError, UsageError
from kogniterm.runtime.extensions.extension_port import ActionNotes, Extension, Moment
from kogniterm.runtime.session import LiveSession
from kogniterm.runtime.unattended.parked_turn import Parking
from kogniterm.sessions.records import HostIntent, HostOutcome, Intent, Outcome
from kogniterm.types import RUN_ON_HOSTS, ActionRequest, Phrase, RiskReport, UserInput, events
from kogniterm.types.command_results import HostAnswer
from tests.flows.conftest import Flow, MakeFlow, no, yes
from tests.flows.program import replayed
from tests.support.forge import Forge, until

STOPPED = Phrase("it was stopped")
NAMES = ("h0", "h1", "h2", "h3", "h4")


@dataclass
class Folders:
    """Hosts that are folders; `away` cannot be reached. Implements `host_values.HostRunner`."""

    place: Path
    away: set[str] = field(default_factory=set)
    lose_after: int | None = None
    """Answers after which the program that speaks to the hosts is lost."""
    started: list[str] = field(default_factory=list)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    groups: Any = ()
    never_stops: bool = False
    running: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def resolve(self, inventory: Inventory, limit: str = "") -> tuple[str, ...]:
        assert not limit.startswith("-"), limit
        if limit == "all":
            return NAMES
        if limit == "web":
            return NAMES[:2]
        raise UsageError("no such hosts")

    async def run(self, request: HostRequest) -> AsyncIterator[HostAnswer]:
        self.groups = request.groups
        answers: list[HostAnswer] = []
        for group in request.groups:
            if answers and stops(answers):
                break
            for host in group:
                if self.lose_after is not None and len(answers) >= self.lose_after:
                    raise ExecutionError("the controller was lost")
                answers.append(await self._start(request, host))
                yield answers[-1]
        for host in request.hosts[len(answers) :]:
            yield HostAnswer(host, "not_started")

    async def _start(self, request: HostRequest, host: str) -> HostAnswer:
        if host in self.away:
            return HostAnswer(host, "unreachable")
        self.started.append(host)
        job = self._job(request, host)
        job.parent.mkdir(parents=True)
        script = f"({request.command}) > {job}.out 2>&1; echo $? > {job}.part; mv {job}.part {job}"
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", script, cwd=self.place / host, start_new_session=True
        )
        self.running[host] = process
        await process.wait()
        return self._read(request, host)

    def _job(self, request: HostRequest, host: str) -> Path:
        return self.place / host / ".jobs" / request.id / "end"

    def _read(self, request: HostRequest, host: str) -> HostAnswer:
        job = self._job(request, host)
        if host in self.away:
            return HostAnswer(host, "unknown")
        if not job.parent.exists():
            return HostAnswer(host, "not_started")
        if not job.exists():
            return HostAnswer(host, "running")
        code = int(job.read_text())
        output = Path(f"{job}.out").read_text()
        return HostAnswer(host, "failed" if code else "answered", code, output)

    async def find(
        self, request: HostRequest, hosts: tuple[str, ...] = (), *, wait: int = 0
    ) -> tuple[HostAnswer, ...]:
        self.asked.append(hosts)
        return tuple(self._read(request, host) for host in hosts or request.hosts)

    async def stop(
        self, request: HostRequest, hosts: tuple[str, ...] = ()
    ) -> tuple[HostAnswer, ...]:
        if self.never_stops:
            await asyncio.Event().wait()
        for host in hosts:
            os.killpg(self.running[host].pid, signal.SIGKILL)
            await self.running[host].wait()
        return tuple(HostAnswer(host, "failed", reason=STOPPED) for host in hosts)

    async def discard(self, request: HostRequest, hosts: tuple[str, ...] = ()) -> None:
        self.dropped += hosts


def script(*calls: dict[str, Any], last: str = "Done.") -> str:
    """Return a model that makes these calls of run_on_hosts, one a reply."""
    told = [{"calls": [{"tool": RUN_ON_HOSTS, "arguments": call}]} for call in calls]
    return json.dumps({"replies": [*told, {"text": last}]})


def call(command: str, *hosts: str, **more: Any) -> dict[str, Any]:
    return {"command": command, "hosts": list(hosts or ("all",)), "purpose": "Look.", **more}


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    pytest.importorskip("ansible_runner", reason="the tool is offered where Ansible is installed")
    made = Folders(tmp_path / "hosts")
    for name in NAMES:
        (made.place / name).mkdir(parents=True)
    return made


def opened(flow: Flow, folders: Folders, session_id: str | None = None) -> Flow:
    """Return the flow with a session whose hosts are the folders."""
    inventory = flow.folder.parent / "inventory.ini"
    inventory.touch()
    flow.flags["hosts_inventory"] = str(inventory)
    session = flow.open(session_id)
    hosts_of(session).open_runner = lambda _secrets: folders
    return flow


def hosts_of(session: LiveSession) -> HostCommands:
    (hosts,) = [one for one in session.extensions.port.extensions if isinstance(one, HostCommands)]
    return hosts


def bodies(flow: Flow, *kinds: type) -> list[Any]:
    return [one.body for one in flow.session.journal.records() if isinstance(one.body, kinds)]


def told(flow: Flow) -> str:
    """Return what the model read of the last command on hosts."""
    return next(text for text in reversed(flow.shown) if text.startswith("["))


async def test_one_intent_and_one_outcome_for_each_host_and_equal_answers_once(
    make_flow: MakeFlow, folders: Folders
) -> None:
    folders.away.add("h4")
    (folders.place / "h2" / "conf").write_text("debug=1\n")
    command = "touch ran; cat conf 2>/dev/null; echo port=80"
    flow = opened(make_flow(script(call(command)), [yes]), folders)
    await flow.run()
    intent = bodies(flow, Intent)[0]
    intents, outcomes = bodies(flow, HostIntent), bodies(flow, HostOutcome)
    assert [one.host for one in intents] == list(NAMES)
    assert {one.request_id for one in intents + outcomes} == {intent.request_id}
    assert sorted(one.answer.host for one in outcomes) == list(NAMES)
    kinds = [type(one) for one in bodies(flow, Intent, HostIntent, HostOutcome, Outcome)]
    assert kinds == [Intent, *[HostIntent] * 5, *[HostOutcome] * 5, Outcome]
    # One host, then a quarter, then the rest: h2 differs in the last group, where all have run.
    assert folders.groups == (("h0",), ("h1",), ("h2", "h3", "h4"))
    text = told(flow)
    assert "exit 0 on 3 hosts]\nh0, h1, h3\nport=80" in text
    assert "+debug=1" in text
    assert "unreachable on 1 host" in text
    assert folders.dropped == ["h0", "h1", "h2", "h3"]
    flow.close()
    opened(flow, folders, "last")
    assert not flow.session.state.on_hosts
    assert not flow.session.state.unknown


async def test_it_stops_where_a_group_fails_and_a_replay_tells_the_same(
    make_flow: MakeFlow, folders: Folders, forge: Forge
) -> None:
    flow = opened(make_flow(script(call("touch ran; false")), [yes]), folders)
    answer = await flow.run()
    assert (answer.exit_code, answer.stop) == (1, "not_done")
    assert str(answer.reason) == "Hosts that failed or did not answer: h0, h1, h2, h3, h4"
    assert folders.started == ["h0"]
    assert "failed, exit 1 on 1 host" in told(flow)
    assert "not started on 4 hosts" in told(flow)
    assert bodies(flow, Outcome)[-1].status == "failed"
    flow.close()
    status, report = await asyncio.to_thread(replayed, forge, flow)
    assert status == 0, report
    assert folders.started == ["h0"]


async def test_a_file_with_the_passwords_of_vaults_is_no_change_of_the_inventory(
    make_flow: MakeFlow, folders: Folders, tmp_path: Path
) -> None:
    flow = opened(make_flow(script(call("uptime")), [yes]), folders)
    (word := tmp_path / "word").write_text("secret")
    hosts_of(flow.session).give_passwords(HostSecrets(), (str(word),))
    await flow.run()
    assert not [report for _asked, report, _verdict in flow.user.asked if changed_in(report)]
    # Files that were in use before are still compared with what they were then.
    flow.close()
    flow = opened(make_flow(script(call("uptime")), [yes]), folders)
    (tmp_path / "inventory.ini").write_text("[web]\n")
    hosts_of(flow.session).give_passwords(HostSecrets(), (str(word),))
    await flow.run()
    assert "inventory.ini changed" in changed_in(flow.user.asked[-1][1])


def changed_in(report: RiskReport) -> str:
    return " ".join(one for one in map(str, report.reasons) if "changed in this session" in one)


class Stopping(Extension):
    """Ends the turn after each action."""

    name = "stopping"
    moments: ClassVar = {"after_action": "block"}

    def concerns(self, moment: Moment, tool: str) -> bool:
        return True

    async def after_action(self, request: ActionRequest, end: object, sink: object) -> ActionNotes:
        return ActionNotes(stop=Phrase("Enough."))


async def test_a_turn_that_ends_after_the_command_leaves_nothing_on_hosts(
    make_flow: MakeFlow, folders: Folders
) -> None:
    flow = opened(make_flow(script(call("uptime", "h0")), [yes]), folders)
    port = flow.session.extensions.port
    port.extensions = (*port.extensions, Stopping())
    assert (await flow.run()).stop == "refused"
    assert bodies(flow, Outcome)[-1].status == "finished"
    assert folders.dropped == ["h0"]


async def test_policy_judges_the_text_as_of_a_local_command(
    make_flow: MakeFlow, folders: Folders, tmp_path: Path
) -> None:
    rules = '[[rule]]\ndecision = "deny"\nprogram = "git"\nreason = "not git"\n'
    config = tmp_path / "config"
    config.mkdir(exist_ok=True)
    (config / "policy.toml").write_text(rules)
    calls = [call("uname -s"), call("touch x"), call("rm -rf build"), call("git status"),
             call("rm -rf *"), call("uptime", become=True)]  # fmt: skip
    flow = opened(make_flow(script(*calls), [yes, yes, yes]), folders)
    flow.flags["allow_reads"] = True
    flow.close()
    opened(flow, folders)
    for _ in range(3):
        await flow.run()
    judged = {one.request.command: one for one in flow.of(events.ActionProposed)}
    labels = {command: one.report.label for command, one in judged.items()}
    assert labels["uname -s"] == "safe_readonly"
    assert judged["uname -s"].verdict.kind == "allow"
    assert labels["touch x"] == "needs_approval"
    assert labels["rm -rf build"] == "dangerous"
    assert judged["git status"].verdict.kind == "deny"
    shown = " ".join(str(reason) for one in judged.values() for reason in one.report.reasons)
    assert REMOTE_HOME not in shown
    assert "workspace" not in shown
    assert judged["rm -rf *"].verdict.kind == "deny"


async def test_a_later_command_on_the_same_hosts_decides_the_exit_status(
    make_flow: MakeFlow, folders: Folders
) -> None:
    calls = [call("false"), {**call("true"), "hosts": "h0,h1 h2"}]
    flow = opened(make_flow(script(*calls), [yes, yes]), folders)
    answer = await flow.run()
    assert str(answer.reason).endswith(": h3, h4")  # which the first one never reached


@pytest.mark.parametrize(
    ("rest", "covered"),
    [("", True), ('program = "echo"\n', False), ('path = "/etc/*"\n', False)],
)
async def test_a_rule_that_names_only_the_tool_covers_all_that_commands_do(
    make_flow: MakeFlow, folders: Folders, tmp_path: Path, rest: str, *, covered: bool
) -> None:
    config = tmp_path / "config"
    config.mkdir(exist_ok=True)
    rule = f'[[rule]]\ndecision = "allow"\ntool = "run_on_hosts"\n{rest}'
    (config / "policy.toml").write_text(rule)
    flow = opened(make_flow(script(call("echo x >> f.txt")), [no("no")]), folders)
    answer = await flow.run()
    assert (answer.stop == "done") is covered
    assert bool(folders.started) is covered


async def test_only_hosts_of_the_inventory_are_reached(
    make_flow: MakeFlow, folders: Folders
) -> None:
    attacks = ["-oProxyCommand=touch pwned", "h9", "all:!h0", "localhost,", "h0,evil", "~h.*", ""]
    evil = {"inventory": {"sources": ["/evil"], "folder": "/evil"}}
    calls = [call("uname -s", name) for name in attacks]
    replies = json.loads(script(call("uname -s", "web", **evil)))
    at_once = [{"tool": RUN_ON_HOSTS, "arguments": one} for one in calls]
    replies["replies"].insert(0, {"calls": at_once})
    flow = opened(make_flow(json.dumps(replies), [yes]), folders)
    await flow.run()
    (proposed,) = flow.of(events.ActionProposed)
    assert proposed.request.hosts == ("h0", "h1")
    inventory = proposed.request.arguments["inventory"]
    assert inventory["sources"] == (str(flow.folder.parent / "inventory.ini"),)
    refused = [text for text in flow.shown if "no host or group of the inventory" in text]
    assert len(refused) == len(attacks)


async def test_an_answer_before_a_parked_question_decides_the_exit_status(
    make_flow: MakeFlow, folders: Folders
) -> None:
    calls = [call("uname -s"), call("touch later", "h1")]
    flow = make_flow(script(*calls), [yes], allow_reads=True)
    folders.away.add("h4")
    parking = Parking(opened(flow, folders).session)
    with pytest.raises(asyncio.CancelledError):
        await flow.session.run(
            UserInput("go"), approver=parking, sink=flow.tell, at_prompt=True, park=parking.ask
        )
    flow.close()
    flow.flags["model"] = make_flow("replies: [{text: Done.}]").flags["model"]
    answer = await opened(flow, folders, "last").run(None)
    assert bodies(flow, HostOutcome)[-1].answer.host == "h1"  # it went on
    assert (answer.exit_code, answer.stop) == (1, "not_done")
    assert str(answer.reason) == "Hosts that failed or did not answer: h4"


def without_add_on(flow: Flow) -> None:
    port = flow.session.extensions.port
    port.extensions = [one for one in port.extensions if not isinstance(one, HostCommands)]


async def test_without_the_add_on_what_waits_is_shown_and_not_run(
    make_flow: MakeFlow, folders: Folders
) -> None:
    flow = opened(make_flow(script(call("touch x")), []), folders)
    parking = Parking(flow.session)
    with pytest.raises(asyncio.CancelledError):
        await flow.session.run(
            UserInput("go"), approver=parking, sink=flow.tell, at_prompt=True, park=parking.ask
        )
    flow.close()
    flow.flags |= {"allow_reads": True, "approval_mode": "auto"}
    flow.flags["model"] = make_flow("replies: [{text: Done.}]").flags["model"]
    without_add_on(opened(flow, folders, "last"))
    answer = await flow.run(None)
    assert (answer.stop, folders.started) == ("refused", [])
    assert [one.status for one in bodies(flow, Outcome)] == ["refused"]
    assert "Nothing here runs commands on hosts" in str(answer.reason)


async def test_without_the_add_on_a_crash_leaves_the_outcome_unknown(
    make_flow: MakeFlow, folders: Folders
) -> None:
    flow = await _cut(make_flow(script(call("echo x >> ran")), [yes]), folders)
    flow.flags["model"] = make_flow("replies: [{text: Told.}]").flags["model"]
    without_add_on(opened(flow, folders, "last"))
    await flow.run(None)
    assert folders.asked == []
    assert folders.started == ["h0", "h1", "h2"]
    (unknown,) = flow.session.state.unsettled
    assert set(unknown.hosts) == {"h2", "h3", "h4"}


async def test_a_lost_controller_is_no_lost_outcome(make_flow: MakeFlow, folders: Folders) -> None:
    folders.lose_after = 3
    flow = opened(make_flow(script(call("touch ran; echo same")), [yes]), folders)
    await flow.run()
    assert folders.started == ["h0", "h1", "h2"]
    assert folders.asked == [("h3", "h4")]
    assert "exit 0 on 3 hosts" in told(flow)
    assert "not started on 2 hosts" in told(flow)
    assert bodies(flow, Outcome)[-1].status != "unknown"


async def test_after_a_crash_the_hosts_tell_what_they_did(
    make_flow: MakeFlow, folders: Folders
) -> None:
    flow = await _cut(make_flow(script(call("echo x >> ran; echo same")), [yes]), folders)
    flow.flags["model"] = make_flow("replies: [{text: Told.}]").flags["model"]
    opened(flow, folders, "last")
    assert flow.session.state.on_hosts
    await flow.run(None)
    assert folders.started == ["h0", "h1", "h2"]  # nothing started again
    assert "exit 0 on 3 hosts" in told(flow)
    assert "not started on 2 hosts" in told(flow)
    assert not flow.session.state.unsettled
    assert bodies(flow, HostOutcome)[-1].answer.state == "not_started"


async def test_a_host_that_is_away_stays_unknown_and_a_repetition_is_asked_about(
    make_flow: MakeFlow, folders: Folders
) -> None:
    reads = [call("uname -s"), call("uname -s", "h0"), call("uname -s", "h2")]
    flow = await _cut(make_flow(script(*reads), [yes, yes, yes]), folders)
    folders.away.add("h2")
    flow.flags["allow_reads"] = True
    opened(flow, folders, "last")
    answer = await flow.run(None)
    (unknown,) = flow.session.state.unsettled
    assert unknown.hosts == ("h2",)
    assert "outcome unknown" in told_of(flow, 0)
    # On another host the same command needs no question; there it does, as for a local command.
    verdicts = [one.verdict.kind for one in flow.of(events.ActionProposed)]
    assert verdicts[-2:] == ["allow", "ask"], answer


def told_of(flow: Flow, number: int) -> str:
    return [text for text in flow.shown if text.startswith("[")][number]


async def _cut(flow: Flow, folders: Folders) -> Flow:
    """Leave the journal as a kill leaves it after two answers: no end, no outcome."""
    folders.lose_after = 3
    opened(flow, folders)
    journal, real = flow.session.journal, flow.session.journal.journal.append
    seen = 0

    def append(body: object, **more: Any) -> Any:
        nonlocal seen
        if isinstance(body, HostOutcome):
            seen += 1
            if seen > 2:
                raise Killed
        if seen > 2:
            raise Killed
        return real(body, **more)

    journal.journal.append = append  # type: ignore[method-assign]  # the disk of a dead process
    with pytest.raises(Killed):
        await flow.run()
    flow.session.executor.close()
    journal.journal.append = real  # type: ignore[method-assign]
    flow.close()
    return flow


class Killed(BaseException):
    """Stands for the end of the process."""


async def test_a_stored_answer_is_for_command_hosts_and_inventory(
    make_flow: MakeFlow, folders: Folders
) -> None:
    digests = []
    for command, hosts, content in (
        ("touch a", "all", ""), ("touch a", "all", ""), ("touch b", "all", ""),
        ("touch a", "web", ""), ("touch a", "all", "h9\n"),
    ):  # fmt: skip
        flow = opened(make_flow(script(call(command, hosts)), []), folders)
        (flow.folder.parent / "inventory.ini").write_text(content)
        parking = Parking(flow.session)
        with pytest.raises(asyncio.CancelledError):
            await flow.session.run(
                UserInput("go"), approver=parking, sink=flow.tell, at_prompt=True, park=parking.ask
            )
        assert parking.question.request is not None
        # The digest is of this session too, which differs; what else it covers is compared.
        digests.append(_digest_of(parking, flow))
        flow.close()
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


def _digest_of(parking: Parking, flow: Flow) -> str:
    question = parking.question
    asked = flow.session.state.requested[question.request.id]
    shown = (replace(question.request, id="", call_id=""), question.report, asked.script_hashes)
    return str(shown)


def test_without_an_inventory_there_is_no_tool(make_flow: MakeFlow) -> None:
    session = make_flow().open()
    assert RUN_ON_HOSTS not in session.extensions.tools.offered
    assert not [text for text in map(str, session.extensions.tools.offered) if "host" in text]


async def test_a_stop_ends_the_command_on_its_hosts(make_flow: MakeFlow, folders: Folders) -> None:
    command = "touch ran; while [ $(basename $PWD) = h1 ]; do sleep 0.05; done; echo same"
    flow = opened(make_flow(script(call(command)), [yes]), folders)
    turn = asyncio.ensure_future(flow.run())
    await asyncio.to_thread(until, lambda: "h1" in folders.running)
    turn.cancel()
    assert (await turn).stop == "interrupted"
    answers = {one.answer.host: one.answer for one in bodies(flow, HostOutcome)}
    stopped = answers.pop("h1")
    assert (stopped.state, stopped.reason) == ("failed", STOPPED)
    assert folders.dropped == ["h0", "h1"]
    states = [answers[host].state for host in ("h2", "h3", "h4")]
    assert states == ["not_started"] * 3
    assert flow.session.state.unsettled == ()


async def test_a_second_stop_waits_for_no_host(make_flow: MakeFlow, folders: Folders) -> None:
    command = "touch ran; while ! [ -e go ]; do sleep 0.05; done"
    flow = opened(make_flow(script(call(command)), [yes]), folders)
    turn = asyncio.ensure_future(flow.run())
    first = folders.place / "h0"
    folders.never_stops = True
    await asyncio.to_thread(until, lambda: "h0" in folders.running)
    turn.cancel()
    await flow.until(lambda event: isinstance(event, events.Notice))
    turn.cancel()
    assert (await turn).stop == "interrupted"
    states = {one.answer.host: one.answer.state for one in bodies(flow, HostOutcome)}
    assert states == {"h0": "unknown"} | dict.fromkeys(("h1", "h2", "h3", "h4"), "not_started")
    (first / "go").touch()
    await folders.running["h0"].wait()
    assert [run.hosts for run in flow.session.state.unsettled] == [("h0",)]


async def test_an_inventory_that_changed_in_the_session_is_asked_about(
    make_flow: MakeFlow, folders: Folders
) -> None:
    reads = [call("uname -s"), call("uname -n")]
    flow = make_flow(script(reads[0]), [yes], allow_reads=True)
    replies = [{"calls": [{"tool": RUN_ON_HOSTS, "arguments": one}]} for one in reads]
    between = [replies[0], {"text": "One."}, replies[1], {"text": "Two."}]
    Path(str(flow.flags["model"]).removeprefix("scripted:")).write_text(
        json.dumps({"replies": between})
    )
    (flow.folder / "ansible.cfg").write_text("[defaults]\n")
    opened(flow, folders)
    await flow.run()
    variables = flow.folder.parent / "group_vars"
    variables.mkdir()
    (variables / "all.yml").write_text("ansible_connection: local\n")
    await flow.run()
    first, second = flow.of(events.ActionProposed)
    assert (first.verdict.kind, second.verdict.kind) == ("allow", "ask")
    assert "all.yml changed in this session" in str(second.report.reasons[0])
    # Settings of a folder that is not trusted do not count.
    assert first.request.arguments["inventory"]["folder"] == str(Path.home())
