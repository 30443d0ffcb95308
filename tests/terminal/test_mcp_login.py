"""MCP: signing in asks before it opens anything, and a shell can speak to KogniTerm's server."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support.mcp_peers import AuthorizationServer, start_peer
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import anew, put, scripted
from tests.terminal.conftest import OpenTerminal

TOKENS = ".local/share/kogniterm/mcp/tokens"
BROWSER = f"""#!{sys.executable}
import sys, urllib.request
open({{seen!r}}, "w").write(sys.argv[1])
urllib.request.urlopen(sys.argv[1]).read()
"""


@pytest.fixture
def issuer() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        yield server


@pytest.fixture
def peer(issuer: AuthorizationServer) -> Iterator[str]:
    with start_peer(issuer.url) as url:
        yield url


def configure(terminal: RealTerminal, url: str) -> None:
    servers = {"mcpServers": {"peer": {"url": url}, "here": {"command": "true"}}}
    put(terminal.home, ".config/kogniterm/mcp.json", json.dumps(servers))


def browser(home: Path) -> Path:
    """Put a browser into `home` that goes to the end of a sign-in by itself."""
    program = put(home, "browser", BROWSER.format(seen=str(home / "seen")))
    program.chmod(0o755)
    return program


def sign_in_files(terminal: RealTerminal) -> list[Path]:
    return sorted((terminal.home / TOKENS).glob("*.json"))


def test_the_user_agrees_signs_in_in_the_browser_and_signs_out(
    open_terminal: OpenTerminal, user: User, issuer: AuthorizationServer, peer: str
) -> None:
    terminal = open_terminal(user=user, environment={"DISPLAY": ":7", "BROWSER": "/nowhere"})
    configure(terminal, peer)
    program = browser(terminal.home)
    command = f"BROWSER={program} kogniterm mcp login peer"
    terminal.start(command)
    terminal.until("Open this address and sign in? [yes/no]")
    for line in ("Server:      peer (127.0.0.1", "Signs in at: 127.0.0.1:", "Permissions: use"):
        terminal.until(line)
    terminal.until("code_challenge_method=S256")
    assert not (terminal.home / "seen").exists()
    assert not issuer.seen["/authorize"]
    terminal.look()
    terminal.send("no\r")
    terminal.until("you did not agree, so nothing was opened")
    assert terminal.status() != 0
    assert not (terminal.home / "seen").exists()

    with anew(terminal, "Open this address and sign in? [yes/no]"):
        terminal.start(command)
    terminal.look()
    terminal.send("yes\r")
    terminal.until("The address was opened in your browser.")
    terminal.until("Signed in to peer.")
    assert terminal.status() == 0
    (file,) = sign_in_files(terminal)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = json.loads(file.read_text())["tokens"]["access_token"]
    assert token.encode() not in terminal.raw

    terminal.start("kogniterm mcp login peer")
    terminal.until("You are already signed in to peer.")
    assert terminal.status() == 0
    terminal.start("kogniterm mcp logout peer")
    terminal.until("Signed out of peer.")
    assert terminal.status() == 0
    assert sign_in_files(terminal) == []


def test_without_a_browser_the_end_of_the_sign_in_is_pasted(
    open_terminal: OpenTerminal, user: User, issuer: AuthorizationServer, peer: str
) -> None:
    terminal = open_terminal(user=user, columns=200)
    configure(terminal, peer)
    terminal.start("kogniterm mcp login peer")
    terminal.until("[yes/no]")
    terminal.look()
    terminal.send("yes\r")
    terminal.until("Open the address in a browser, on any machine.")
    terminal.until("paste the address")
    terminal.send("https://example.com/\r")
    terminal.until("contains code= and state=")
    address = "".join(terminal.text.split("Address:")[-1].split("Open this")[0].split())
    query = dict(part.split("=", 1) for part in address.partition("?")[2].split("&"))
    end = issuer.authorize({name: [unquote(value)] for name, value in query.items()})
    terminal.send(f"{end}\r")
    terminal.until("Signed in to peer.")
    assert terminal.status() == 0


def test_ctrl_c_ends_a_sign_in(open_terminal: OpenTerminal, user: User, peer: str) -> None:
    terminal = open_terminal(user=user)
    configure(terminal, peer)
    terminal.start("kogniterm mcp login peer")
    terminal.until("[yes/no]")
    terminal.look()
    terminal.send("yes\r")
    terminal.until("Waiting for the sign-in.")
    terminal.send("\x03")
    assert terminal.status() == 130
    assert [json.loads(one.read_text())["tokens"] for one in sign_in_files(terminal)] == [None]


def test_wrong_names_and_runs_without_a_terminal(
    open_terminal: OpenTerminal, user: User, peer: str
) -> None:
    terminal = open_terminal(user=user, columns=160)
    configure(terminal, peer)
    for command, said in (
        ("kogniterm mcp login per", "There is no MCP server per; did you mean peer?"),
        ("kogniterm mcp login elsewhere", "its entry belongs in"),
        ("kogniterm mcp login here", "is a program on this machine, which needs no sign-in"),
        ("kogniterm mcp logout peer", "You were not signed in to peer."),
        ("kogniterm mcp login peer </dev/null", "needs a terminal"),
    ):
        terminal.start(command)
        terminal.until(said)
        terminal.status()


def test_a_shell_speaks_to_the_server_through_pipes(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=160)
    script = "replies: [{when: {last_contains: make}, run: touch made}, {text: Done with it.}]"
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "shell", "version": "1"},
    }
    call = {"name": "run_task", "arguments": {"task": "make it"}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)
    put(terminal.folder, "in.jsonl", lines)
    model = scripted(terminal, script)
    # The client leaves once the answer to its call has come.
    status, _shown = terminal.run(
        "mkfifo answers; { cat in.jsonl; grep -q '\"id\":2' answers; } | "
        f"kogniterm mcp serve --model {model} | tee out.jsonl answers >/dev/null"
    )
    assert status == 0
    answers = [json.loads(one) for one in (terminal.folder / "out.jsonl").read_text().splitlines()]
    (result,) = [one["result"] for one in answers if one.get("id") == 2]
    assert result["structuredContent"]["stop"] == "refused"
    assert "No user is available to approve this" in result["content"][0]["text"]
    assert not (terminal.folder / "made").exists()

    terminal.start("kogniterm mcp serve")
    terminal.until("is started by another agent")
    assert terminal.status() == 2
