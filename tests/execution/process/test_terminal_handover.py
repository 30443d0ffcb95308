"""A terminal handed over to the user: two real pseudo-terminals joined through the executor."""

from __future__ import annotations

import os
import pty
import select
import termios
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.process.pty import set_size
from kogniterm.types import CommandResult
from tests.support.executing import PATIENCE
from tests.support.forge import until


class UserTerminal:
    """The user's terminal as a pty, with methods to read the screen and to type keys."""

    def __init__(self, rows: int = 30, columns: int = 100) -> None:
        self.master, self.terminal = pty.openpty()
        set_size(self.terminal, rows, columns)
        self.seen = b""
        self.unread = b""
        self.held = False

    def size(self) -> tuple[int, int]:
        columns, rows = os.get_terminal_size(self.terminal)
        return rows, columns

    def acquire(self) -> tuple[int, int]:
        self._modes = termios.tcgetattr(self.terminal)
        tty.setraw(self.terminal, termios.TCSANOW)
        self.held = True
        return self.terminal, self.terminal

    def release(self, unread: bytes = b"") -> None:
        termios.tcsetattr(self.terminal, termios.TCSANOW, self._modes)
        self.unread = unread
        self.held = False

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def wait(self, condition: Callable[[bytes], bool], seconds: float = PATIENCE) -> None:
        """Read the screen until `condition` holds."""
        deadline = time.monotonic() + seconds
        while not condition(self.seen):
            left = deadline - time.monotonic()
            assert left > 0, self.seen
            if select.select([self.master], [], [], min(left, 0.05))[0]:
                self.seen += os.read(self.master, 65536)

    def wait_for(self, text: bytes) -> None:
        self.wait(lambda seen: text in seen)

    def close(self) -> None:
        os.close(self.master)
        os.close(self.terminal)


class Run(threading.Thread):
    """A command in its own thread, as the runtime runs it."""

    def __init__(self, executor: CommandExecutor, command: str, **options: Any) -> None:
        super().__init__(daemon=True)
        self._executor, self._command, self._options = executor, command, options
        self._result: CommandResult | None = None
        self.start()

    def run(self) -> None:
        self._result = self._executor.run(self._command, timeout=PATIENCE, **self._options)

    def result(self) -> CommandResult:
        self.join(PATIENCE)
        assert self._result is not None
        return self._result


@pytest.fixture
def user() -> Any:
    made = UserTerminal()
    yield made
    made.close()


@pytest.fixture
def executor(tmp_path: Path) -> Any:
    with open_executor(tmp_path, {**os.environ, "TERM": "xterm-256color"}) as made:
        yield made


@pytest.mark.parametrize(
    ("left", "undone"),
    [
        (r"\033[>1u", b"\x1b[=0u\x1b[<9u"),
        (r"\033[>4;2m", b"\x1b[>4m"),
        (r"\033[?2031;2048h", b"\x1b[?2048l\x1b[?2031l"),
        (r"\033[2;9r", b"\x1b[r\x1b[999H"),
        (r"\033[4h", b"\x1b[4l"),
        (r"\033[3 q", b"\x1b[0 q"),
        (r"\033]8;;http://x\033\134text", b"\x1b]8;;\x1b\\"),
        (r"\033]11;#fff\007", b"\x1b]111\x1b\\"),
    ],
)
def test_what_a_killed_program_left_on_is_switched_off(
    executor: CommandExecutor, user: UserTerminal, left: str, undone: bytes
) -> None:
    script = f"printf '{left}'; kill -9 $$"
    result = Run(executor, f'bash -c "{script}"', terminal=user, interactive=True).result()
    assert result.exit_code == 137
    user.wait_for(undone)
    # What was switched off again, or never used, is left alone.
    script = r"printf '\033[>1u\033[<u\033[1;30r\033[4h\033[4l\033[2 q\033[0 q'; echo over"
    user.seen = b""
    Run(executor, script, terminal=user, interactive=True).result()
    user.wait_for(b"\x1b[?25h")
    assert not any(one in user.seen.partition(b"over")[2] for one in (b"u", b"r", b"4l", b"q"))


def test_keys_and_output_go_through_and_modes_come_back(
    executor: CommandExecutor, user: UserTerminal
) -> None:
    before = termios.tcgetattr(user.terminal)
    run = Run(executor, "read -p 'Name? ' n; echo Hello $n", terminal=user, interactive=True)
    user.wait_for(b"Name? ")
    user.type(b"bob\r")
    result = run.result()
    user.wait_for(b"Hello bob\r\n")
    assert result.exit_code == 0
    assert "Hello bob" in result.text
    assert "typed into the program" in result.notes[0]
    assert termios.tcgetattr(user.terminal) == before


def test_erasing_takes_a_whole_character(executor: CommandExecutor, user: UserTerminal) -> None:
    run = Run(executor, "printf 'Name? '; head -1 | od -An -tx1", terminal=user, interactive=True)
    user.wait_for(b"Name? ")
    user.type("ñ\x7fx\r".encode())
    assert run.result().text.splitlines()[-1].split() == ["78", "0a"]


def test_keys_that_the_command_did_not_read_come_back(
    executor: CommandExecutor, user: UserTerminal
) -> None:
    run = Run(executor, "read -p 'Name? ' n; echo Hello $n", terminal=user, interactive=True)
    user.wait_for(b"Name? ")
    user.type(b"bob\rls -l\rhal\x04")
    assert "Hello bob" in run.result().text
    assert user.unread == b"ls -l\rhal\x04"


@pytest.mark.parametrize(
    "asks",
    [
        "stty -echo; read -p 'Password: ' n",
        "stty -echo -icanon; printf 'Password: '; dd bs=1 count=4 of=/dev/null 2>&1",
    ],
)
def test_keys_typed_with_echo_off_do_not_come_back(
    executor: CommandExecutor, user: UserTerminal, asks: str
) -> None:
    command = f"{asks}; echo thanks"
    run = Run(executor, command, terminal=user, interactive=True)
    user.wait_for(b"Password: ")
    user.type(b"one\rhunter2")
    result = run.result()
    assert "thanks" in result.text
    assert "hunter2" not in result.text
    assert user.unread == b""


def test_the_window_follows_that_of_the_user(executor: CommandExecutor, user: UserTerminal) -> None:
    run = Run(
        executor,
        "trap 'stty size' WINCH; stty size; until read -t 0.1 x; do :; done; echo end",
        terminal=user,
        interactive=True,
    )
    user.wait_for(b"30 100")
    set_size(user.terminal, 11, 44)
    user.wait_for(b"11 44")
    user.type(b"\r")
    assert run.result().text.endswith("end")


@pytest.mark.parametrize(
    "command",
    [
        "read -s -p 'Password: ' p; echo; echo ${#p} characters",
        "python3 -c 'import getpass; print(len(getpass.getpass()), \"characters\")'",
    ],
)
def test_a_secret_is_told_but_not_recorded(
    executor: CommandExecutor, user: UserTerminal, command: str
) -> None:
    run = Run(executor, command, terminal=user, interactive=True)
    user.wait_for(b"assword: ")
    user.type(b"hunter2-xyz\r")
    result = run.result()
    assert "11 characters" in result.text
    assert any("secret was entered" in note for note in result.notes)
    kept = Path(result.output_path or "").read_bytes()
    assert b"hunter2" not in kept + repr(result).encode() + user.seen


def test_the_terminal_is_handed_over_when_the_program_reads(
    executor: CommandExecutor, user: UserTerminal
) -> None:
    run = Run(executor, "echo working; sleep 0.3; read -p 'Go on? ' n; echo got $n", terminal=user)
    user.wait_for(b"Go on? ")
    user.type(b"yes\r")
    user.wait_for(b"got yes")
    result = run.result()
    assert result.text.startswith("working\nGo on? ")
    assert b"working" not in user.seen  # before the hand-over the sink shows, not the terminal


def test_a_command_without_input_leaves_the_terminal_unchanged(
    executor: CommandExecutor, user: UserTerminal
) -> None:
    result = Run(executor, "echo a; sleep 0.4; echo b", terminal=user).result()
    assert result.notes == ()
    assert not user.held


@pytest.mark.parametrize("keys", [b"\x1d", b"\x07\x07\x04"])
def test_the_keys_that_leave_make_a_job(
    executor: CommandExecutor, user: UserTerminal, keys: bytes
) -> None:
    command = "read -p 'Name? ' n; test \"$n\" = eve && echo Hello $n"
    run = Run(executor, command, terminal=user, interactive=True)
    user.wait_for(b"Name? ")
    user.type(keys)
    result = run.result()
    assert (result.ended, result.exit_code) == ("detached", None)
    (job,) = result.jobs
    executor.send_keys(job.id, "eve\n")
    assert executor.wait_job(job.id, PATIENCE).exit_code == 0
    assert "Hello eve" in executor.read_job(job.id)


def test_ctrl_c_goes_to_the_program(executor: CommandExecutor, user: UserTerminal) -> None:
    run = Run(
        executor,
        "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done",
        terminal=user,
        interactive=True,
    )
    user.wait_for(b"ready")
    user.type(b"\x03")
    assert run.result().exit_code == 5


def test_ctrl_z_makes_a_job_that_goes_on(executor: CommandExecutor, user: UserTerminal) -> None:
    command = "echo ready; until test -e go; do sleep 0.05; done; echo went on"
    run = Run(executor, command, terminal=user, interactive=True)
    user.wait_for(b"ready")
    user.type(b"\x1a")
    result = run.result()
    assert result.ended == "detached"
    Path(executor.cwd, "go").touch()
    job = executor.wait_job(result.jobs[0].id, PATIENCE)
    assert (job.state, job.exit_code) == ("ended", 0)
    assert executor.read_job(job.id).endswith("went on")


def test_modes_a_killed_program_left_are_switched_off(
    executor: CommandExecutor, user: UserTerminal
) -> None:
    command = "printf '\\033[?1049h\\033[?1000h\\033[?2004hscreen'; stty raw; kill -9 $$"
    Run(executor, command, terminal=user, interactive=True).result()
    user.wait_for(b"\x1b[?25h")
    for mode in (b"1049", b"1000", b"2004"):
        assert b"\x1b[?%sl" % mode in user.seen


def test_a_hung_up_terminal_ends_the_command(executor: CommandExecutor) -> None:
    user = UserTerminal()
    run = Run(executor, "echo up; sleep 600", terminal=user, interactive=True)
    user.wait_for(b"up")
    os.close(user.master)
    assert run.result().ended == "stopped"
    os.close(user.terminal)


def test_taking_over_a_running_command(executor: CommandExecutor, user: UserTerminal) -> None:
    run = Run(executor, "touch up; read n; echo got $n")
    until(Path(executor.cwd, "up").exists)
    executor.take_over(user)
    user.wait(lambda _: user.held)
    user.type(b"me\r")
    assert run.result().text == "me\ngot me"
