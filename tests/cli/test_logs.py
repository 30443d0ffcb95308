"""The log of a turn, and `kogniterm logs`, which shows it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tests.cli.conftest import Shell
from tests.support.forge import until

REPLIES = """
replies:
  - {run: "echo hi > a.txt", purpose: Write a file}
  - {text: The kettle is on.}
"""


def test_a_turn_is_logged_step_by_step_without_its_texts(shell: Shell) -> None:
    model = shell.script(REPLIES)
    quiet = shell.run("run", "--auto-approve", "--model", model, "be quiet")
    assert quiet.returncode == 0
    assert shell.run("logs").stdout == ""

    words = ("--auto-approve", "--no-sandbox", "--model", model, "remember that I like marzipan")
    done = shell.run("run", *words, environ={"KOGNITERM_LOG_LEVEL": "debug"})
    assert done.returncode == 0, done.stderr
    lines = shell.run("logs", "--session", "last").stdout
    for step in (
        r"turn 1 started: model=scripted:\S+ folder=\S+ input=29 characters",
        r"model call \S+: create_plan step=1",
        r"model answer \S+: input=\d+ cached=0 output=\d+ tokens seconds=[\d.]+ .*execute_command",
        r"record \d+: NodeRan execute_tool",
        r"request (\S+): execute_command in \S+: echo hi > a.txt",
        r"verdict \S+: allow, workspace_write: ",
        r"decision \S+: approve by ",
        r"command \S+ exited: exit=0 ",
        r"turn ended: done exit=0 answer=17 characters",
        r"fact m1: add by person",
    ):
        assert re.search(step, lines), (step, lines)
    assert "marzipan" not in lines
    assert "kettle" not in lines
    assert shell.run("logs", "-n", "2").stdout.count("\n") == 2
    asked = shell.run("logs", "--session", "nothing-like-it")
    assert (asked.returncode, asked.stdout) == (2, "")


def test_followed_lines_go_on_in_the_next_file(shell: Shell, tmp_path: Path) -> None:
    log = shell.data / "logs" / "kogniterm.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026-11-29 10:00:00,000 INFO 1 abc x: old\n")
    out = tmp_path / "out"
    following = shell.start("logs", "--follow", out=out)
    until(lambda: b"old" in out.read_bytes())
    with log.open("a") as full:
        full.write("2026-11-29 10:00:01,000 INFO 1 abc x: last of it\n")
    log.rename(log.with_name("kogniterm.log.1"))
    log.write_text("2026-11-29 10:00:02,000 INFO 1 abc x: first of the next\n")
    until(lambda: b"first of the next" in out.read_bytes())
    assert b"last of it" in out.read_bytes()
    following.send(signal.SIGINT)
    assert following.wait() == 130
