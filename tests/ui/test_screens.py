"""Screens of the main flow in a real terminal, as text, at each width and in each language.

`UPDATE_SCREENS=1 pytest tests/ui/test_screens.py` writes new captures.
"""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.ui.tmux import DATA, Window, open_window, same

PROMPT = "· ~/project\n"
"""The end of the line below the prompt: keys pressed from here on belong to the prompt."""


def as_captured(terminal: Window, name: str, words: str) -> None:
    """Wait until the capture equals the golden capture `name`."""
    same(terminal, DATA / f"{name}.txt", words, terminal.capture)


@pytest.mark.parametrize(
    ("name", "columns", "words", "environment"),
    [
        ("en-60", 60, ("[y] start", "[y] approve", "tokens in"), {}),
        ("en-80", 80, ("[y] start", "[y] approve", "tokens in"), {}),
        ("en-160", 160, ("[y] start", "[y] approve", "tokens in"), {}),
        (
            "es-60",
            60,
            ("[s] sí, iniciar", "[s] sí, aprobar", "tokens de entrada"),
            {"LANG": "es_ES.UTF-8"},
        ),
        (
            "es-80",
            80,
            ("[s] sí, iniciar", "[s] sí, aprobar", "tokens de entrada"),
            {"LANG": "es_ES.UTF-8"},
        ),
        ("en-80-no-color", 80, ("[y] start", "[y] approve", "tokens in"), {"NO_COLOR": "1"}),
        ("en-80-dumb", 80, ("Your decision", "[y = approve", "tokens in"), {"TERM": "dumb"}),
        ("en-80-light", 80, ("[y] start", "[y] approve", "tokens in"), {"COLORFGBG": "0;15"}),
    ],
)
def test_the_main_flow(
    terminals: list[Window],
    name: str,
    columns: int,
    words: tuple[str, str, str],
    environment: dict[str, str],
) -> None:
    plan, question, end = words
    enter = ("Enter",) if name.endswith("dumb") else ()
    terminal = open_window(
        columns, 40, "--no-sandbox", "--memory", "off",
        "--model", "scripted:demo.yaml", **environment,
    )  # fmt: skip
    terminals.append(terminal)
    terminal.ready()
    terminal.keys("How long are my notes?", "Enter")
    as_captured(terminal, f"{name}-plan", plan)
    terminal.keys("y", *enter)
    terminal.until(question)
    terminal.keys("y", *enter)
    terminal.until("rm -r draft")
    as_captured(terminal, f"{name}-question", question)
    terminal.keys("y", *enter)
    as_captured(terminal, f"{name}-answer", end)
    if name == "en-80-no-color":
        assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38)", terminal.painted(whole=True))
    if name == "en-80":
        assert re.search(r"\x1b\[[0-9;]*3[0-7]", terminal.painted(whole=True))


def test_ctrl_c_stops_a_real_command_and_the_session_goes_on(terminals: list[Window]) -> None:
    terminal = open_window(
        80, 30, "--no-sandbox", "--memory", "off", "--model", "scripted:demo.yaml"
    )
    terminals.append(terminal)
    terminal.ready()
    # Ctrl-C ends this at any moment after its word; the shell's own fork would lose it.
    command = "!sh -c 'echo on; exec sleep 987'"
    terminal.keys(command, "Enter")
    # Its output comes once it has the keyboard; nothing stands below it.
    terminal.until(f"› {command}\non\n", at_the_end=True)
    terminal.keys("C-c")
    terminal.until("\n╰ ✗ ended by SIGINT · 0.0 s\n")
    terminal.until(PROMPT, at_the_end=True)
    terminal.keys("!echo still $((40 + 2)) here", "Enter")
    terminal.until("here\nstill 42 here\n")
    terminal.until(PROMPT, at_the_end=True)
    terminal.keys("C-d")
    assert terminal.status() == 0


def test_what_is_typed_while_a_command_runs_is_read_by_it_or_by_the_prompt(
    terminals: list[Window],
) -> None:
    terminal = open_window(
        80, 30, "--no-sandbox", "--memory", "off", "--model", "scripted:demo.yaml"
    )
    terminals.append(terminal)
    terminal.ready()
    terminal.keys("!read -r line; echo got $line; until [ -e go ]; do sleep 0.1; done", "Enter")
    terminal.until("done\n", at_the_end=True)
    terminal.keys("mine", "Enter")
    terminal.until("got mine\n", at_the_end=True)
    terminal.keys("!echo typed $((1 + 1)) ahead", "Enter", "half a")
    terminal.until("half a\n", at_the_end=True)
    (terminal.project / "go").touch()
    terminal.until("\ntyped 2 ahead\n╰ ✓ exit 0")
    terminal.until("› half a\n")


def test_a_command_of_the_model_that_reads_the_keyboard_gets_it(terminals: list[Window]) -> None:
    asks = "import readline; n = input(chr(78) + 'ame: '); print('hello ' + n); input(chr(62))"
    run = f'echo before; {sys.executable} -c "{asks}"'
    script = {"replies": [{"run": run, "purpose": "ask"}, "Fine."]}
    terminal = open_window(
        60, 24, "--no-sandbox", "--memory", "off", "--model", "scripted:hand.yaml",
        files={"hand.yaml": json.dumps(script)},
    )  # fmt: skip
    terminals.append(terminal)
    terminal.ready()
    terminal.keys("go", "Enter")
    terminal.until("[y] approve")
    terminal.keys("y")
    shown = terminal.until("\nName:")
    assert "│ before\n" in shown
    assert "Ctrl-]" in shown
    terminal.keys("ana", "Enter")
    # The line editor restored the terminal's old modes; lines must start at the left.
    terminal.until("Name: ana\nhello ana\n>")
    terminal.keys("Enter")
    terminal.until("\n╰ ✓ exit 0")
    terminal.until("\nFine.")
