"""MCP: signing in asks before it opens anything, and a shell can speak to KogniTerm's server."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mcp_peers import AuthorizationServer, start_peer
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import anew, put
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
