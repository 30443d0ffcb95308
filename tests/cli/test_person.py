"""`kogniterm run` with a person at the terminal: shown, asked, obeyed."""

from __future__ import annotations

import re
from pathlib import Path

import pexpect
import pytest

from tests.cli.conftest import KOGNITERM, PATIENCE, Shell

SCRIPT = """
replies:
  - run: echo made-$((40 + 2)) > witness
  - text: All done here.
"""
QUESTION = re.escape("Your decision")


def start(
    shell: Shell, *words: str, command: str | None = None, term: str = "xterm-256color"
) -> pexpect.spawn[str]:
    """`kogniterm WORDS`, or a shell line, on a terminal of 60 columns."""
    environ = shell.environ | {"TERM": term}
    program, arguments = (str(KOGNITERM), list(words))
    if command is not None:
        program, arguments = "/bin/sh", ["-c", command]
    return pexpect.spawn(
        program,
        arguments,
        env=environ,
        cwd=str(shell.project),
        dimensions=(24, 60),
        encoding="utf-8",
        timeout=PATIENCE,
    )


def ended(child: pexpect.spawn[str]) -> int | None:
    child.expect(pexpect.EOF)
    child.wait()  # `close` would hang up on a program that has not quite ended
    child.close()
    return child.exitstatus


@pytest.fixture
def model(shell: Shell) -> str:
    return shell.script(SCRIPT)


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_an_approved_command_runs(shell: Shell, model: str, term: str) -> None:
    child = start(shell, "run", "make it", "--model", model, "--plan", "never", term=term)
    child.expect_exact("echo made-$((40 + 2)) > witness")
    assert not (shell.project / "witness").exists()
    child.expect(QUESTION)
    child.sendline("y")
    child.expect_exact("All done here.")
    assert ended(child) == 0
    assert (shell.project / "witness").read_text() == "made-42\n"


def test_a_rejected_command_does_not_run_and_the_model_hears_why(shell: Shell) -> None:
    model = shell.script(
        "replies:\n"
        "  - run: touch witness\n"
        "  - expect: {any_contains: use another name}\n"
        "    text: I understand.\n"
    )
    child = start(shell, "run", "make it", "--model", model, "--plan", "never")
    child.expect(QUESTION)
    child.sendline("n")
    child.expect_exact("Reason for the model")
    child.sendline("use another name")
    child.expect_exact("I understand.")
    assert ended(child) == 3
    assert not (shell.project / "witness").exists()


def test_an_edited_command_runs_as_edited(shell: Shell, model: str) -> None:
    child = start(shell, "run", "make it", "--model", model, "--plan", "never")
    child.expect(QUESTION)
    child.sendline("e")
    child.expect_exact("New command:")
    child.sendline("echo changed > witness")
    child.expect(QUESTION)
    child.sendline("y")
    child.expect_exact("All done here.")
    assert ended(child) == 0
    assert (shell.project / "witness").read_text() == "changed\n"


def test_what_is_typed_ahead_answers_no_question(shell: Shell, model: str) -> None:
    child = start(shell, "run", "make it", "--model", model, "--plan", "never")
    child.sendline("y")
    child.expect(QUESTION)
    assert not (shell.project / "witness").exists()
    child.sendline("n")
    child.expect_exact("Reason for the model")
    child.sendline("")
    assert ended(child) == 3


def test_ctrl_c_at_the_question_stops_the_run(shell: Shell, model: str) -> None:
    child = start(shell, "run", "make it", "--model", model, "--plan", "never")
    child.expect(QUESTION)
    child.sendintr()
    assert ended(child) == 130
    assert not (shell.project / "witness").exists()


def test_with_data_piped_in_the_terminal_is_asked(shell: Shell, model: str) -> None:
    line = f"echo data | {KOGNITERM} run 'make it' --model {model} --plan never"
    child = start(shell, command=line)
    child.expect(QUESTION)
    child.sendline("y")
    assert ended(child) == 0
    assert (shell.project / "witness").exists()


def test_the_answer_can_be_sent_to_a_file(shell: Shell, model: str) -> None:
    line = f"{KOGNITERM} run 'make it' --model {model} --plan never --auto-approve > answer"
    child = start(shell, command=f"{line} --no-sandbox")
    assert ended(child) == 0
    assert (Path(shell.project) / "answer").read_text() == "All done here.\n"


def test_nobody_is_asked_when_input_is_dev_null(shell: Shell, model: str) -> None:
    line = f"{KOGNITERM} run 'make it' --model {model} --plan never </dev/null"
    child = start(shell, command=line)
    assert ended(child) == 3


ASKING = """
replies:
  - calls: [{tool: ask_person, arguments: {question: "Which one?", answers: [left, right]}}]
  - expect: {last_contains: "The person chose: right"}
    calls: [{tool: ask_person, arguments: {question: "What name?"}}]
  - expect: {last_contains: "The person answers: two\\nlines"}
    calls: [{tool: ask_person, arguments: {question: "Anything else?"}}]
  - expect: {last_contains: "gave no answer"}
    text: All done here.
"""
ANSWER = "Your answer"


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_the_models_questions_are_answered_at_the_terminal(shell: Shell, term: str) -> None:
    model = shell.script(ASKING)
    child = start(shell, "run", "go", "--model", model, "--plan", "never", term=term)
    child.expect_exact("Which one?")
    child.expect_exact("right")  # its number before it may be coloured
    child.expect_exact(ANSWER)
    child.sendline("2")
    child.expect_exact("What name?")
    child.expect_exact(ANSWER)
    child.sendline("two\\")
    child.expect_exact("... ")
    child.sendline("lines")
    child.expect_exact("Anything else?")
    child.expect_exact(ANSWER)
    child.sendline("")
    child.expect_exact("No answer.")
    child.expect_exact("All done here.")
    assert ended(child) == 0


def test_where_nobody_is_a_question_ends_the_run_with_status_3(shell: Shell) -> None:
    model = shell.script(
        "replies:\n"
        '  - calls: [{tool: ask_person, arguments: {question: "Which one?"}}]\n'
        "  - text: It must be known which one.\n"
    )
    result = shell.run("run", "go", "--model", model, "--plan", "never")
    assert result.returncode == 3
    assert result.stdout == "It must be known which one.\n"
    assert "Nobody was there to answer: Which one?" in result.stderr
