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
    agree(terminal, "Start the MCP server demo? [yes/no]")
    agree(terminal, "Trust the tools of demo? [yes/no]")
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
    agree(terminal, "Start the MCP server files? [yes/no]")
    terminal.until("list_allowed_directories")
    agree(terminal, "Trust the tools of files? [yes/no]")
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
