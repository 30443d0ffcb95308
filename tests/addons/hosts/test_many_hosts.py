"""One command on many machines with sshd: the question, the answers, and what a kill leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_terminal import RealTerminal
from tests.support.ssh_hosts import SshHosts, ssh_hosts
from tests.support.typing_user import (
    anew,
    screen,
    scripted,
)
from tests.terminal.conftest import OpenTerminal, open_terminal, place

__all__ = ["open_terminal", "place"]


@pytest.fixture
def hosts(place: Path) -> Iterator[SshHosts]:
    with ssh_hosts(place / "hosts") as started:
        yield started


def model(terminal: RealTerminal, *calls: dict[str, Any]) -> str:
    """Return a scripted model that makes these calls, one a reply."""
    made = [{"calls": [{"tool": "run_on_hosts", "arguments": one}]} for one in calls]
    return scripted(terminal, json.dumps({"replies": [*made, {"text": "All done."}]}))


def call(command: str, *hosts: str) -> dict[str, Any]:
    return {"command": command, "hosts": list(hosts or ("all",)), "purpose": "For the test."}


def test_what_reads_runs_at_once_and_dangerous_commands_take_the_number_of_hosts(
    open_terminal: OpenTerminal, hosts: SshHosts
) -> None:
    terminal = open_terminal(columns=120, rows=50)
    for host in ("h0", "h1", "h2", "h3"):
        (hosts.home(host) / "old").mkdir()
    (hosts.home("h2") / "conf").write_text("debug=1\x1b]0;owned\x07\n")
    look = call("cat ~/conf 2>/dev/null; echo port=80")
    delete = call("rm -rf ~/old", "web", "h2")
    run = f"kogniterm hosts run --inventory {hosts.inventory} --allow-reads"
    terminal.start(f"{run} --model {model(terminal, look, delete)} 'tidy up'")
    terminal.until("3 = approve")
    shown = screen(terminal)
    # Equal answers are shown once, and what differs as a difference.
    assert "answered, exit 0: h0, h1, h3" in shown
    assert "debug=1" in shown, shown
    assert "not reachable: dead" in shown
    assert "owned" not in terminal.text
    assert "Run this on 3 hosts?" in shown
    assert "First: h0" in shown
    assert "Then: h2" in shown
    assert "dangerous" in shown
    assert "this session" not in shown
    for wrong in ("y", "yes", "4"):
        terminal.look()
        with anew(terminal, "Your decision"):
            terminal.send(f"{wrong}\r")
    assert "Type the number of hosts (3) to run it." in terminal.text
    assert (hosts.home("h0") / "old").exists()
    terminal.look()
    terminal.send("3\r")
    assert terminal.status() == 1  # one of the hosts could not be reached
    assert "All done." in terminal.text
    left = [host for host in ("h0", "h1", "h2", "h3") if (hosts.home(host) / "old").exists()]
    assert left == ["h3"]
    assert not any(hosts.jobs(host) for host in left)
