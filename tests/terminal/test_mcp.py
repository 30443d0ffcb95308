"""MCP servers at a real terminal: added, trusted, called, changed; and attacks."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.programs import needs
from tests.support.real_terminal import RealTerminal, User
from tests.support.registry_packages import SERVERS, node_modules
from tests.support.typing_user import (
    answer,
    asked,
    choose,
    flat,
    leave,
    open_prompt,
    put,
    running,
    say,
    scripted,
    turn_end,
)
from tests.terminal.conftest import OpenTerminal

SERVER = Path(__file__).parents[1] / "support" / "mcp_demo" / "demo_server.py"


def install(terminal: RealTerminal) -> Path:
    """Put the server into the workspace; return it."""
    return put(terminal.folder, "server.py", SERVER.read_bytes())


def agree(terminal: RealTerminal, question: str) -> None:
    """Answer a question of `kogniterm mcp` with the whole word."""
    terminal.until(question)
    terminal.look()
    terminal.send("yes\r")


def add(terminal: RealTerminal, *arguments: str) -> None:
    """Add the server and trust it, as commands of a shell."""
    server = install(terminal)
    calls = terminal.folder / "calls"
    words = " ".join((sys.executable, str(server), str(calls), *arguments))
    status, shown = terminal.run(f"kogniterm mcp add demo -- {words}")
    assert (status, "MCP server demo added" in shown) == (0, True), shown
    terminal.start("kogniterm mcp trust demo")
    agree(terminal, "Start this server? [yes/no]")
    agree(terminal, "Trust these tools? [yes/no]")
    terminal.until("MCP server demo is trusted")
    assert terminal.status() == 0


CALLS = """replies:
  - {calls: [{tool: call_tool, arguments: {tool: mcp__demo__add, arguments: {a: 20, b: 22}}}]}
  - when: {last_contains: "42"}
    calls: [{tool: call_tool, arguments: {tool: mcp__demo__write_outside, arguments: {path: PATH}}}]
  - {when: {last_contains: "refused:"}, text: "The sandbox held."}
  - {when: {last_contains: "written"}, text: "It was written."}
  - {text: "Nothing more.", repeat: forever}
"""


def test_a_server_is_added_trusted_and_called_after_approval(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100, rows=40)
    add(terminal)
    outside = terminal.home / "outside"
    model = scripted(terminal, CALLS.replace("PATH", str(outside)))
    status, shown = terminal.run("kogniterm mcp list")
    assert (status, "starts when needed" in shown) == (0, True), shown
    before = (terminal.folder / "calls").read_text()
    open_prompt(terminal, f"kogniterm --model {model}")
    assert (terminal.folder / "calls").read_text() == before
    with turn_end(terminal):
        say(terminal, "add them")
        asked(terminal, "demo: add(a=20, b=22)")
        assert "Calls the MCP server demo, which KogniTerm cannot inspect" in flat(terminal.text)
        answer(terminal, "demo: add(a=20, b=22)", "y")
        answer(terminal, "demo: write_outside", "y")
        terminal.until(lambda: "The sandbox held." in terminal.text or "It was written" in
                       terminal.text)  # fmt: skip
    assert outside.exists() == ("It was written." in terminal.text)
    assert "add 20 22" in (terminal.folder / "calls").read_text()
    say(terminal, "/mcp", "running")
    say(terminal, "/mcp off demo", "is off in this session.")
    assert leave(terminal) == 0
    assert running(str(terminal.folder / "server.py")) == []


FOUND = """replies:
  - {calls: [{tool: find_tools, arguments: {query: add two numbers}}]}
  - {calls: [{tool: call_tool, arguments: {tool: mcp__demo__add, arguments: {a: 1, b: 2}}}]}
  - {text: "Finished.", repeat: forever}
"""


def test_a_tool_that_changed_is_shown_and_not_called(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100, rows=40)
    add(terminal, "many")
    changed = SERVER.read_text().replace('VARIANT == "changed"', "True")
    put(terminal.folder, "server.py", changed)
    model = scripted(terminal, FOUND)
    open_prompt(terminal, f"kogniterm --model {model}")
    with turn_end(terminal):
        say(terminal, "add them")
        answer(terminal, "demo: add(a=1, b=2)", "y")
        terminal.until("has changed its tool add since you trusted it.")
        assert "evil.example" in flat(terminal.text)
        terminal.look()
        terminal.send("2\r")
        terminal.until("Finished.")
    assert "add 1 2" not in (terminal.folder / "calls").read_text()
    say(terminal, "/mcp trust demo", "evil.example")
    choose(terminal, "Trust the tools of demo?", "n")
    assert leave(terminal) == 0


def test_nothing_of_a_project_starts_before_trust(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=100, rows=40)
    server, calls = install(terminal), terminal.folder / "calls"
    entry = f'{{"command": "{sys.executable}", "args": ["{server}", "{calls}"]}}'
    put(terminal.folder, ".mcp.json", f'{{"mcpServers": {{"demo": {entry}}}}}')
    model = scripted(terminal, FOUND)
    _, shown = terminal.run(f"kogniterm run --model {model} go < /dev/null")
    assert "Not used until you trust this folder" in flat(shown)
    assert not calls.exists()
    terminal.run("kogniterm trust")
    _, shown = terminal.run(f"kogniterm run --model {model} go < /dev/null")
    assert "MCP servers not used until you trust them" in flat(shown)
    assert not calls.exists()
    status, shown = terminal.run("kogniterm mcp trust demo < /dev/null")
    assert (status, "needs a terminal" in shown) == (2, True)
    assert not calls.exists()
    status, shown = terminal.run("kogniterm mcp trust demo --yes")
    assert (status, "is trusted" in shown) == (0, True), shown
    assert calls.exists()


FILES = """replies:
  - calls: [{tool: call_tool, arguments: {tool: mcp__files__write_file,
      arguments: {path: notes.txt, content: "Buy milk.\\n"}}}]
  - calls: [{tool: call_tool, arguments: {tool: mcp__files__read_text_file,
      arguments: {path: /etc/hostname}}}]
  - {when: {last_contains: "Access denied"}, text: "It keeps to the workspace."}
  - {text: "Nothing more.", repeat: forever}
"""


@needs("node", "npm")
def test_the_file_server_of_npm_works_after_approval(
    open_terminal: OpenTerminal, user: User
) -> None:
    packages = node_modules(*SERVERS)
    terminal = open_terminal(user=user, columns=100, rows=40, reachable=[packages])
    server = packages / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
    status, shown = terminal.run(f"kogniterm mcp add files -- node {server} .")
    assert status == 0, shown
    terminal.start("kogniterm mcp trust files")
    agree(terminal, "Start this server? [yes/no]")
    terminal.until("list_allowed_directories")
    agree(terminal, "Trust these tools? [yes/no]")
    terminal.until("MCP server files is trusted")
    assert terminal.status() == 0
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, FILES)}")
    with turn_end(terminal):
        say(terminal, "note the milk")
        asked(terminal, "files: write_file")
        assert not (terminal.folder / "notes.txt").exists()
        answer(terminal, "files: write_file", "y")
        answer(terminal, "files: read_text_file", "y")
        terminal.until("It keeps to the workspace.")
    assert (terminal.folder / "notes.txt").read_text() == "Buy milk.\n"
    assert leave(terminal) == 0
    assert running(str(server)) == []


def test_mistakes_are_one_sentence_each(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=240)
    status, shown = terminal.run("kogniterm mcp add demo npx -y server")
    assert (status, "Put -- before the server's command" in flat(shown)) == (2, True), shown
    assert terminal.run("kogniterm mcp add 'a b' -- true")[0] == 2
    terminal.run("kogniterm mcp add gone -- /no/such/program")
    status, shown = terminal.run("kogniterm mcp test gone")
    assert (status, "could not be started" in flat(shown)) == (2, True), shown
    status, shown = terminal.run("kogniterm mcp add gone -- true")
    assert (status, "already has a server gone" in flat(shown)) == (2, True)
    status, shown = terminal.run("kogniterm mcp test gonne")
    assert (status, "did you mean gone?" in shown) == (2, True)
    assert terminal.run("kogniterm mcp remove gone")[0] == 0
    assert "No MCP servers." in terminal.run("kogniterm mcp list")[1]
