"""Commands answered from a file: which entry answers, how it ends, and errors in the file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kogniterm.errors import ExecutionError, UsageError
from kogniterm.execution.command_script import (
    AnsweringExecutor,
    CommandScript,
    read_command_script,
)
from kogniterm.types import CommandResult, Waiting


class Opener:
    """Opens executors on scripts in one folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack

    def __call__(self, text: str) -> AnsweringExecutor:
        path = self.folder / "commands.yaml"
        path.write_text(text)
        return self.of(read_command_script(path))

    def of(self, script: CommandScript) -> AnsweringExecutor:
        """Return an executor that answers from `script`."""
        folder = self.folder / "work"
        folder.mkdir(exist_ok=True)
        executor = AnsweringExecutor(script, str(folder), outputs=self.folder / "outputs")
        self._stack.callback(executor.close)
        return executor


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Opener]:
    with ExitStack() as stack:
        yield Opener(tmp_path, stack)


class Sink:
    """Keeps what a terminal would get."""

    def __init__(self) -> None:
        self.data = b""
        self.begun = threading.Event()

    def output(self, data: bytes) -> None:
        self.data += data
        self.begun.set()

    def waiting(self, waiting: Waiting | None) -> None:
        """Take no notice."""


def test_the_first_entry_that_is_not_used_up_answers(answering: Opener) -> None:
    executor = answering(
        "commands:\n"
        "- {command: make, output: broken, exit: 2, repeat: 1}\n"
        "- {matches: 'make( .*)?', output: built, seconds: 12}\n"
    )
    sink = Sink()
    first = executor.run(" make\n", sink=sink)
    assert (first.ended, first.exit_code, first.text) == ("exited", 2, "broken")
    assert sink.data == b"broken"
    for command in ("make", "make all"):
        again = executor.run(command)
        assert (again.exit_code, again.text, again.duration) == (0, "built", 12.0)
    assert not (answering.folder / "work" / "made").exists()


def test_nothing_runs(answering: Opener) -> None:
    executor = answering("commands:\n- matches: .*\n")
    made = answering.folder / "work" / "made"
    assert executor.run(f"touch {made}").exit_code == 0
    assert not made.exists()


def test_a_command_without_an_entry_is_an_error(answering: Opener) -> None:
    executor = answering("commands:\n- command: make\n")
    with pytest.raises(ExecutionError, match=r"commands.yaml has no entry for: make all$"):
        executor.run("make all")


def test_output_is_kept_and_clipped_like_that_of_a_command(answering: Opener) -> None:
    lines = "".join(f"    line {number}\n" for number in range(5_000))
    executor = answering(f"commands:\n- command: long\n  output: |\n{lines}")
    result = executor.run("long")
    assert result.omitted_bytes > 0
    assert result.output_path is not None
    assert Path(result.output_path).read_text().splitlines()[4_999] == "line 4999"


def test_colours_are_left_out_of_the_text_alone(answering: Opener) -> None:
    executor = answering('commands:\n- {command: ls, output: "\\x1b[31mred\\x1b[0m\\n"}\n')
    sink = Sink()
    assert executor.run("ls", sink=sink).text.strip() == "red"
    assert b"\x1b[31m" in sink.data


def test_the_folder_of_an_entry_is_that_of_the_next_command(answering: Opener) -> None:
    executor = answering("commands:\n- {command: cd sub, folder: sub}\n- command: pwd\n")
    assert executor.run("pwd").cwd == str(answering.folder / "work")
    assert executor.run("cd sub").cwd == executor.cwd == str(answering.folder / "work" / "sub")


def test_a_command_that_takes_too_long_meets_its_time_limit(answering: Opener) -> None:
    executor = answering("commands:\n- {command: sleep 99, seconds: 99}\n")
    result = executor.run("sleep 99", timeout=5)
    assert (result.ended, result.exit_code, result.duration) == ("timeout", None, 5.0)


def test_a_delay_can_be_stopped(answering: Opener) -> None:
    executor = answering(
        "commands:\n- {command: wait, output: begun, seconds: 600}\ndelays: true\n"
    )
    sink, results = Sink(), list[CommandResult]()
    thread = threading.Thread(target=lambda: results.append(executor.run("wait", sink=sink)))
    thread.start()
    sink.begun.wait()
    executor.stop()
    thread.join()
    assert [(one.ended, one.exit_code) for one in results] == [("stopped", None)]


def test_a_recorded_session_answers_as_it_did(answering: Opener) -> None:
    def ran(text: str, code: int | None, *, started: bool = True) -> CommandResult:
        ended = "not_started" if not started else "exited" if code is not None else "stopped"
        return CommandResult("make", ended, code, text, 1.0, "/no/such/folder")

    results = [ran("one", 2), ran("none", None, started=False), ran("two", None)]
    executor = answering.of(CommandScript.of_results(Path("x.jsonl"), results))
    given = [executor.run("make") for _ in range(3)]
    assert [(one.text, one.exit_code) for one in given] == [("one", 2), ("two", 143), ("two", 143)]
    assert executor.cwd == str(answering.folder / "work")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("commands: []\n", ", line 1: commands: holds no entry."),
        ("commands:\n- output: x\n", ", line 2: commands[1]: names no command; give command or"),
        (
            "commands:\n- {command: a, matches: b}\n",
            ", line 2: commands[1].matches: does not go with",
        ),
        (
            "commands:\n- {matches: '('}\n",
            ", line 2: commands[1].matches: is not a regular expression",
        ),
        ("commands:\n- {command: a, exit: 300}\n", ", line 2: commands[1].exit: "),
        (
            "commands:\n- {command: a, outputx: x}\n",
            ", line 2: commands[1].outputx: unknown key (did",
        ),
    ],
)
def test_a_mistake_names_file_line_and_key(answering: Opener, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        answering(text)
    assert str(caught.value).startswith(f"{answering.folder / 'commands.yaml'}{said}")


def test_commands_at_once_are_answered_too(answering: Opener) -> None:
    executor = answering("commands:\n- {matches: 'one|two', output: x, folder: sub}\n")
    with executor.side_by_side(2) as lanes:
        texts = [lane.run(name).text for lane, name in zip(lanes, ("one", "two"), strict=True)]
    assert texts == ["x", "x"]
    assert executor.cwd == str(answering.folder / "work")
