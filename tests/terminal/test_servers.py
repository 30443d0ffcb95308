"""Servers that a task starts: which ones continue when KogniTerm ends, and how that is reported."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    answer,
    flat,
    leave,
    nap,
    open_prompt,
    result_of,
    running,
    say,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

FETCH = (
    "python3 -c 'import time, urllib.request as u\nfor _ in range(600):\n try:\n"
    '  print(u.urlopen("http://127.0.0.1:{port}/").status); break\n'
    " except OSError: time.sleep(0.05)'"
)


@pytest.fixture
def port() -> int:
    """Return a port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        number: int = found.getsockname()[1]
        return number


@pytest.fixture
def server(port: int) -> Iterator[str]:
    """Yield the command of a server; end its processes afterwards."""
    command = f"python3 -m http.server --bind 127.0.0.1 {port}"
    yield command
    for pid in running(command):
        os.kill(pid, signal.SIGKILL)


def status_of(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as found:
        status: int = found.status
        return status


def answers(port: int) -> bool:
    """Return whether the server accepts connections."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def task(terminal: RealTerminal, flags: str, told: str, *replies: object) -> dict[str, Any]:
    """Let KogniTerm do the task, unattended; return the JSON result and its messages.

    The model must have been given the text `told` before its last reply.
    """
    last = {"when": {"any_contains": told}, "text": "Served."}
    model = scripted(terminal, json.dumps({"replies": [*replies, last]}))
    status, shown = terminal.run(
        f"kogniterm run -y {flags} --output json --model {model} go > out.json 2> said < /dev/null"
    )
    assert status == 0, shown
    result: dict[str, Any] = result_of(terminal.folder / "out.json")
    return {**result, "said": (terminal.folder / "said").read_text()}


def test_a_server_that_was_detached_serves_after_the_task(
    open_terminal: OpenTerminal, user: User, server: str, port: int
) -> None:
    terminal = open_terminal(user=user, columns=200)
    plain, disowned = nap(), nap()
    serve = f"nohup {server} >/dev/null 2>&1 & {plain} & {disowned} >/dev/null 2>&1 & disown"
    fetch = {"run": FETCH.format(port=port)}
    told = "(detached: stays when KogniTerm ends)"
    result = task(terminal, "--no-sandbox", told, {"run": serve}, fetch)
    assert result["commands"][1]["output"].strip() == "200"
    assert status_of(port) == 200
    assert not running(plain)
    left = {one["command"]: one for one in result["left_running"]}
    (pid,), (other,) = running(server), running(disowned)
    assert left[server] == {
        "pids": [pid],
        "command": server,
        "why": "detached",
        "job": "j1",
        "output_path": None,
        "stays": True,
        "end_with": f"kill {pid}",
    }
    assert left[disowned]["pids"] == [other]
    assert (left[plain]["why"], left[plain]["stays"]) == ("background", False)
    assert f"Still running: {server} (process {pid}); stop it with: kill {pid}" in result["said"]
    assert f"Stopped: {plain} (background job; " in result["said"]
    terminal.run(" ; ".join(left[name]["end_with"] for name in (server, disowned)))
    terminal.until(lambda: not running(server) and not running(disowned))


def test_the_prompt_says_at_the_end_what_stays(
    open_terminal: OpenTerminal, user: User, server: str, port: int
) -> None:
    terminal = open_terminal(user=user, columns=150)
    serve = f"nohup {server} >/dev/null 2>&1 &"
    script = json.dumps({"replies": [{"run": serve}, {"text": "It serves."}]})
    open_prompt(terminal, f"kogniterm --no-sandbox --model {scripted(terminal, script)}")
    say(terminal, "serve")
    terminal.until(lambda: "nohup keeps a process running" in flat(terminal.text))
    answer(terminal, server, "y")
    terminal.until("It serves.")
    mine = nap()
    say(terminal, f"!{mine} &", "j2")
    terminal.until(lambda: answers(port))
    assert leave(terminal) == 0
    (pid,) = running(server)
    assert f"stop it with: kill {pid}" in flat(terminal.text)
    assert f"Stopped: {mine}" in flat(terminal.text)
    assert not running(mine)
    assert status_of(port) == 200
