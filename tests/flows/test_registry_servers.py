"""MCP servers as npm and PyPI have them, in whole turns: other people's code on the other side."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from kogniterm.runtime.session import LiveSession
from kogniterm.types import UserInput
from kogniterm.types.events import ActionProgress
from kogniterm.ui.slash_commands import prompt_commands
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.support.programs import needs
from tests.support.registry_packages import GIT_SERVER, SERVERS, node_modules, python_programs


def configure(flow: Flow, command: str, *arguments: str) -> None:
    """Configure the server `peer`."""
    file = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "mcp.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    entry = {"command": command, "args": list(arguments)}
    file.write_text(json.dumps({"mcpServers": {"peer": entry}}))


def of_npm(name: str) -> str:
    return str(node_modules(*SERVERS) / "@modelcontextprotocol" / name / "dist" / "index.js")


async def opened(flow: Flow) -> LiveSession:
    """Open a session that trusts what the server offers, as `/mcp trust peer` does."""
    session = flow.open()
    server = session.extensions.servers.find("peer")
    session.extensions.servers.trust(server, await session.extensions.servers.list_anew(server))
    return session


def script(*calls: tuple[str, dict[str, Any]]) -> str:
    replies: list[dict[str, Any]] = [
        {"calls": [{"tool": "call_tool", "arguments": {"tool": f"mcp__peer__{name}",
                                                       "arguments": arguments}}]}
        for name, arguments in calls
    ]  # fmt: skip
    return json.dumps({"replies": [*replies, {"text": "Done.", "repeat": "forever"}]})


FILLED_IN = {
    "legal name": "Ada Lovelace",
    "terms and conditions": "yes",
    "favorite integer": "7",
    "favorite friend": "Ross",
    "favorite instruments": "Piano, Drums",
    "favorite hero": "hero-2",
}
"""Answers by words of the questions; what is not named here is left empty."""


@needs("node", "npm")
async def test_the_reference_server_of_the_protocol(make_flow: MakeFlow) -> None:
    calls = (
        ("get-sum", {"a": 20, "b": 22}),
        ("trigger-long-running-operation", {"duration": 0.1, "steps": 2}),
        ("get-tiny-image", {}),
        ("get-structured-content", {"location": "Chicago"}),
        ("get-resource-links", {"count": 2}),
        ("get-roots-list", {}),
        ("trigger-elicitation-request", {}),
        ("get-sum", {"a": "no number"}),
    )
    flow = make_flow(script(*calls), decisions=[yes] * len(calls))
    configure(flow, "node", of_npm("server-everything"))
    session = await opened(flow)
    asked: list[str] = []

    async def ask(question: Any, answers: Any) -> str:
        asked.append(str(question[1]))
        said = [value for words, value in FILLED_IN.items() if words in asked[-1]]
        return said[0] if said else str(answers[-1])

    answer = await session.run(UserInput("go"), approver=flow.user, sink=flow.tell, ask=ask)
    assert answer.stop == "done"
    of_tools = [message for message in session.state.messages if message.type == "tool"]
    total, slow, picture, weather, links, roots, form, wrong = (one.text for one in of_tools)
    assert "The sum of 20 and 22 is 42." in total
    assert [event.text for event in flow.of(ActionProgress)] == ["50%", "100%"]
    assert "Long running operation completed" in slow
    assert "PNG image" in picture
    assert json.loads(weather[weather.index("{") : weather.rindex("}") + 1])["temperature"] == 36
    assert links.count("[resource demo://resource/") == 2
    assert flow.folder.as_uri() in roots
    for said in ("Ada Lovelace", "Agreed to terms: true", "Favorite Integer: 7", "Ross"):
        assert said in form
    assert '"Piano"' in form
    assert "Favorite first line" not in form.partition("Raw result")[0]
    assert "Invalid arguments" in wrong

    commands = {one.name: one for one in prompt_commands(session)}
    assert commands["peer:args-prompt"].arguments.split()[0] == "CITY"
    await session.run(
        UserInput("read @peer:demo://resource/dynamic/text/1"),
        approver=flow.user,
        sink=flow.tell,
    )
    assert any("Resource 1: This is a plaintext resource" in text for text in flow.shown)


def begin_repository(folder: str) -> None:
    git = ["git", "-C", folder, "-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "Begin"], check=True)


@needs("git")
async def test_a_server_written_in_python_with_its_own_libraries(make_flow: MakeFlow) -> None:
    programs = python_programs(*GIT_SERVER)
    flow = make_flow(decisions=[yes, yes, yes])
    name = str(flow.folder)
    begin_repository(name)
    (flow.folder / "new.txt").touch()
    calls = (
        ("git_status", {"repo_path": name}),
        ("git_log", {"repo_path": name}),
        ("git_show", {"repo_path": name, "revision": "nothing"}),
    )
    flow = make_flow(script(*calls), decisions=[yes, yes, yes])
    configure(flow, str(programs / "mcp-server-git"), "--repository", name)
    session = await opened(flow)
    assert (await flow.run()).stop == "done"
    status, log, wrong = (one.text for one in session.state.messages if one.type == "tool")
    assert "new.txt" in status
    assert "Begin" in log
    assert "nothing" in wrong
    tools = session.extensions.servers.find("peer").record.listing.tools
    assert {one.name for one in tools if one.read_only} >= {"git_status", "git_log"}
