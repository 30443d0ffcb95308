"""Commands at a real terminal: their environment, the state they leave, and their results."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import yaml

from tests.support.programs import require
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    answer,
    leave,
    nap,
    open_prompt,
    put,
    result_of,
    running,
    say,
    say_task,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

DAEMON, JOB = nap(), nap()
TERMINAL = [
    "test -t 0 && test -t 1 && test -t 2 && stty size; echo $TERM $PAGER $GIT_PAGER $GIT_EDITOR",
    "env | grep -c -e KOGNITERM -e API_KEY; echo ${BASH_ENV-none} ${PROMPT_COMMAND-none}",
    "printf 'working 1\\rworking 2\\rdone     \\n'; printf '\\033[31mred\\033[0m\\n'",
    "seq 1 200000",
    f"(setsid {DAEMON} &) ; {JOB} & echo left",
    "export GIT_EDITOR=nano PAGER=less",
    "echo $GIT_EDITOR $PAGER",
]


def done(terminal: RealTerminal, commands: list[str], flags: str = "") -> dict[str, Any]:
    """Let KogniTerm run the commands one after the other, unattended; return the JSON result."""
    replies: list[dict[str, object]] = [{"run": command} for command in commands]
    script = yaml.safe_dump({"replies": [*replies, {"text": "Done."}]})
    model = scripted(terminal, script)
    status, shown = terminal.run(
        f"kogniterm run -y --no-sandbox --output json {flags} --model {model} go > out.json"
    )
    assert status == 0, shown
    result: dict[str, Any] = result_of(terminal.folder / "out.json")
    assert [found["command"] for found in result["commands"]] == commands
    return result


def test_a_command_has_a_terminal_of_its_own_and_leaves_what_it_detached(
    open_terminal: OpenTerminal, user: User
) -> None:
    secrets = {"OPENAI_API_KEY": "sk-x", "BASH_ENV": "/dev/null", "PROMPT_COMMAND": "echo no"}
    terminal = open_terminal(user=user, columns=120, environment=secrets)
    result = done(terminal, TERMINAL)
    found = [command["output"] for command in result["commands"]]
    assert found[0].splitlines() == ["40 120", "xterm-256color cat cat false"]
    assert found[1].splitlines() == ["0", "none none"]
    assert found[2].splitlines() == ["done", "red"]
    flood = result["commands"][3]
    assert flood["omitted_bytes"] > 0
    assert f"{flood['omitted_bytes']} bytes left out" in flood["output"]
    assert flood["output"].startswith("1\n2\n")
    assert flood["output"].endswith("\n200000")
    assert Path(flood["output_path"]).read_bytes().count(b"\n") == 200000
    assert found[6] == "nano cat"
    (daemon,) = running(DAEMON)
    os.kill(daemon, signal.SIGKILL)
    assert not running(JOB)


def test_jobs_are_listed_read_kept_and_stopped(open_terminal: OpenTerminal, user: User) -> None:
    require("less")
    kept, mine = nap(), nap()
    script = f"""replies:
  - run: "echo serving; exec {kept} & sleep 0.1"
  - text: It serves.
  - when: {{any_contains: serving}}
    text: It printed that it serves.
  - text: I do not know.
    repeat: forever
"""
    terminal = open_terminal(user=user, columns=120)
    put(terminal.home, ".config/kogniterm/config.toml", "allow_reads = true\n")
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, script)}")
    say(terminal, "serve")
    answer(terminal, kept, "y")
    terminal.until("It serves.")
    say(terminal, "/jobs", kept)
    say(terminal, "/jobs output j1")
    terminal.until("(END)")
    terminal.send("q")
    say_task(terminal, "what does @jobs say?", "It printed that it serves.")
    say(terminal, "/jobs keep j1", "j1")
    say(terminal, f"!{mine} &", "exit 0")
    assert leave(terminal) == 0
    assert not running(mine)
    (job,) = running(kept)
    os.kill(job, signal.SIGKILL)
