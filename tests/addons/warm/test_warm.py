"""Warm starts in a real terminal: the same as plain ones, in every way that a shell can tell."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.forge import until
from tests.support.real_terminal import RealTerminal, User, words
from tests.support.typing_user import (
    has_prompt,
    leave,
    open_prompt,
    put,
    running,
    say,
    scripted,
)
from tests.support.warm import end_servers, server_of, sessions, until_found
from tests.terminal.conftest import OpenTerminal, open_terminal, place, pytest_generate_tests

__all__ = ["open_terminal", "place", "pytest_generate_tests"]


HELLO = "replies: [{text: Hello there., repeat: forever}]"


@pytest.fixture
def warm_starts() -> dict[str, str]:
    """Return no variables: these programs start plain, or have a warm server of their own."""
    return {}


@contextmanager
def warm_terminal(
    open_terminal: OpenTerminal, user: User, place: Path
) -> Iterator[tuple[RealTerminal, str, Callable[[], int]]]:
    """Yield a terminal, a command that opens the prompt warm, and the server's process ID.

    The ordinary user's first use starts the server, as any user's does.
    """
    run = place / "runtime"
    run.mkdir(mode=0o700)
    terminal = open_terminal(
        user=user, environment={"XDG_RUNTIME_DIR": str(run), "KOGNITERM_WARM": "auto"}, columns=120
    )
    os.chown(run, terminal.home.stat().st_uid, terminal.home.stat().st_gid)
    model = scripted(terminal, HELLO)
    folder = run / "kogniterm"
    try:
        status, shown = terminal.run("kogniterm doctor | grep 'first use'")
        assert (status, "the server starts after the first use" in shown) == (0, True)
        assert terminal.run(f"kogniterm run --no-sandbox --model {model} hi")[0] == 0
        until_found(folder)
        command = f"kogniterm --no-sandbox --model {model}"
        yield terminal, command, lambda: server_of(until_found(folder))
    finally:
        end_servers(folder)


def open_warm(terminal: RealTerminal, command: str, server: int) -> tuple[int, int]:
    """Open the prompt until it is warm; return the processes of the client and the session.

    On a busy machine the server may take longer than a client waits, which then starts plain.
    """
    while True:
        tidy(terminal)
        open_prompt(terminal, command)
        client = [pid for pid in running(command) if os.getsid(pid) == terminal.pid]
        if forked := sessions(server):
            return client[0], forked[0]
        leave(terminal)


def tidy(terminal: RealTerminal) -> None:
    """Set the terminal right after a program that could not, and clear the screen of prompts."""
    terminal.start("stty sane; clear")
    terminal.until(lambda: "".join(terminal.shown).strip() == "[ready 0]$")


def test_a_warm_prompt_is_a_job_of_the_shell(
    open_terminal: OpenTerminal, user: User, place: Path
) -> None:
    with warm_terminal(open_terminal, user, place) as (terminal, command, server):
        _client, session = open_warm(terminal, command, server())
        say(terminal, "hi", then="Hello there.")
        terminal.send("\x1a")
        assert terminal.status() == 128 + signal.SIGTSTP
        # In the background it may not take the shell's keys: it stops again.
        terminal.run("bg")
        terminal.until(lambda: "Stopped (tty output)" in terminal.run("jobs -l")[1])
        assert terminal.run("echo the shell has its keys")[1] == "the shell has its keys"
        terminal.start("fg")
        terminal.until(lambda: has_prompt(terminal))
        terminal.resize(30, 70)
        say(terminal, "again", then="Hello there.")
        assert terminal.home.stat().st_uid == Path(f"/proc/{session}").stat().st_uid
        assert leave(terminal) == 0
        terminal.until(lambda: not sessions(server()))
        status, shown = terminal.run("kogniterm doctor | grep server")
        assert (status, shown.count(f"server {server()}, ")) == (0, 1)


def test_signals_reach_the_session_and_its_end_reaches_the_shell(
    open_terminal: OpenTerminal, user: User, place: Path
) -> None:
    with warm_terminal(open_terminal, user, place) as (terminal, command, server):
        client, session = open_warm(terminal, command, server())
        os.kill(client, signal.SIGTERM)
        assert terminal.status() == 128 + signal.SIGTERM
        client, session = open_warm(terminal, command, server())
        os.kill(session, signal.SIGKILL)
        terminal.until(f"[ready {128 + signal.SIGKILL}]$")
        client, session = open_warm(terminal, command, server())
        os.kill(client, signal.SIGKILL)
        terminal.until(f"[ready {128 + signal.SIGKILL}]$")
        terminal.until(lambda: not Path(f"/proc/{session}").exists())
        # So does that of a stopped client.
        client, session = open_warm(terminal, command, server())
        terminal.send("\x1a")
        assert terminal.status() == 128 + signal.SIGTSTP
        os.kill(client, signal.SIGKILL)
        terminal.until(lambda: not Path(f"/proc/{session}").exists())
        # Sessions need the server no more once they are open.
        client, session = open_warm(terminal, command, server())
        assert terminal.home.stat().st_uid == Path(f"/proc/{client}").stat().st_uid
        terminal.send("\x1a")
        assert terminal.status() == 128 + signal.SIGTSTP
        os.kill(old := server(), signal.SIGKILL)
        until(lambda: not Path(f"/proc/{old}").exists())
        terminal.start("fg")
        terminal.until(lambda: has_prompt(terminal) and "[ready" not in terminal.shown[-1])
        say(terminal, "hi", then="Hello there.")
        assert leave(terminal) == 0
        # A server that was killed is replaced after the next use.
        terminal.run(f"{command.replace('kogniterm', 'kogniterm run', 1)} hi")
        terminal.until(lambda: server() != old)
        _client, session = open_warm(terminal, command, server())
        os.close(terminal.master)  # the window is closed
        terminal.master = os.open(os.devnull, os.O_RDWR)
        until(lambda: not Path(f"/proc/{session}").exists())


EDITOR = """#!/bin/bash
exec 3</dev/tty && echo "terminal ok" > {folder}/seen
kill -TSTP 0
echo " edited" >> "$1"
"""


def test_programs_of_a_warm_session_own_the_terminal(
    open_terminal: OpenTerminal, user: User, place: Path
) -> None:
    with warm_terminal(open_terminal, user, place) as (terminal, command, server):
        editor = put(terminal.home, "edit.sh", EDITOR.format(folder=terminal.folder))
        editor.chmod(0o755)
        terminal.run(words("export", f"VISUAL={editor}"))
        open_warm(terminal, command, server())
        terminal.send("draft")
        terminal.until("draft")
        terminal.send("\x18\x05")  # Ctrl-X Ctrl-E
        assert terminal.status() == 128 + signal.SIGTSTP
        assert (terminal.folder / "seen").read_text() == "terminal ok\n"
        terminal.start("fg")
        terminal.until("edited")
        terminal.send("\x03")
        assert leave(terminal) == 0
        # Questions beside piped data are asked at the terminal.
        model = scripted(terminal, "replies: [{run: 'echo done > made'}, {text: Finished.}]")
        terminal.start(f"echo data | kogniterm run --no-sandbox --model {model} go")
        terminal.until("[y = approve")
        approve_to_the_end(terminal)


def approve_to_the_end(terminal: RealTerminal) -> None:
    """Approve the command that writes `made`, and see the call end."""
    terminal.look()
    terminal.send("y\r")
    terminal.until("Finished.")
    assert terminal.status() == 0
    assert (terminal.folder / "made").read_text() == "done\n"


WAITING = """replies:
- run: touch begun; until test -e go; do sleep 0.1; done
- run: echo done > made
- text: Finished.
"""


def until_stopped(terminal: RealTerminal) -> None:
    """Wait until the job in the background, which may write to the screen, was stopped."""

    def is_stopped() -> bool:
        terminal.start("jobs -l")
        terminal.pause(0.5)
        return any("Stopped (tty" in line for line in terminal.shown)

    terminal.until(is_stopped)
    tidy(terminal)


def test_a_warm_call_in_the_background_leaves_the_shell_its_keys(
    open_terminal: OpenTerminal, user: User, place: Path
) -> None:
    with warm_terminal(open_terminal, user, place) as (terminal, _command, server):
        command = f"kogniterm run --no-sandbox --model {scripted(terminal, WAITING)} go"
        while True:
            terminal.start(command)
            terminal.until("[y = approve")
            if sessions(server()):
                break
            terminal.send("\x03")
            terminal.status()
            tidy(terminal)
        terminal.look()
        terminal.send("y\r")
        until((terminal.folder / "begun").exists)
        terminal.send("\x1a")
        assert terminal.status() == 128 + signal.SIGTSTP
        terminal.start("bg")
        (terminal.folder / "go").touch()
        until_stopped(terminal)  # as its question comes
        assert terminal.run("echo the shell has its keys")[1] == "the shell has its keys"
        terminal.start("fg")
        terminal.until("[y = approve")
        terminal.send("\x1a")
        assert terminal.status() == 128 + signal.SIGTSTP
        terminal.start("bg")
        until_stopped(terminal)  # as it would read a line
        terminal.start("fg")
        approve_to_the_end(terminal)
