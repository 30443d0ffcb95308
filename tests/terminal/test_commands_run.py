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

CARRIED = [
    "mkdir -p a/b; cd a/b; export SHOWN=one; plain=two; list=(x 'y z'); f() { echo f:$1; }",
    "alias ll='echo listed'; shopt -s extglob; set -o noclobber; umask 027; trap 'echo bye' USR1",
    "echo ${PWD##*/} $SHOWN $plain ${#list[@]} $(f hi); umask; shopt extglob; set -o | grep noclob",
    "false",
    "echo status $?; true | false | true; echo ${PIPESTATUS[*]}",
    "exec 7> ../seven; echo written >&7",
    "echo again >&7; exec 7>&-; cat ../seven",
    "sleep 300 & echo started",
    "echo $(tr '\\0' ' ' < /proc/$!/cmdline) / $(jobs | wc -l); kill %1; wait %1; echo ended $?",
    "cd ..; exit 7",
    "pwd | sed 's/.*project/project/'",
    "python3 -c 'import os; os.kill(os.getppid(), 9)'",
    "echo still $plain",
    "set -e; false; echo not reached",
    "echo the session goes on; set +e",
]
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


def test_what_a_command_leaves_is_there_for_the_next_one(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    found = [(c["output"], c["exit_code"]) for c in done(terminal, CARRIED)["commands"]]
    assert " ".join(found[2][0].split()) == "b one two 2 f:hi 0027 extglob on noclobber on"
    assert found[4][0].splitlines() == ["status 1", "0 1 0"]
    assert found[6] == ("written\nagain", 0)
    assert found[8][0].splitlines()[0] == "sleep 300 / 1"
    assert found[8][0].splitlines()[-1].startswith("ended ")
    assert found[9][1] == 7
    assert found[10][0] == "project/a"
    assert found[11][1] == 137
    assert found[12][0] == "still two"
    assert (found[13], found[14]) == (("", 1), ("the session goes on", 0))


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
    assert flood["output_path"] in flood["output"]
    assert flood["output"].startswith("1\n2\n")
    assert flood["output"].endswith("\n200000")
    assert Path(flood["output_path"]).read_bytes().count(b"\n") == 200000
    assert found[6] == "nano cat"
    (daemon,) = running(DAEMON)
    os.kill(daemon, signal.SIGKILL)
    assert not running(JOB)


def test_ends_by_timeout_and_by_a_wait_for_keys_that_nobody_sends(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, environment={"KOGNITERM_INPUT_WAIT_LIMIT": "1"})
    commands = ["echo begun; sleep 1000", "read -r x < /dev/tty; echo unreachable"]
    found = done(terminal, commands, "--command-timeout 2 < /dev/null")["commands"]
    assert [(c["status"], c["exit_code"]) for c in found] == [("timeout", None), ("stopped", None)]
    assert found[0]["output"].startswith("begun")


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
