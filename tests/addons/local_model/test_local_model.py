"""The embedded model at a terminal: one request, one command, and its output is the answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.typing_user import answer, is_asking, leave, open_prompt, put, say
from tests.terminal.conftest import OpenTerminal, open_terminal, place

__all__ = ["open_terminal", "place"]

WEIGHTS = Path(os.environ.get("KOGNITERM_TEST_WEIGHTS", "/nonexistent"))
WEIGHTS /= "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


def test_one_request_becomes_one_command_that_is_asked_for(open_terminal: OpenTerminal) -> None:
    pytest.importorskip("xllamacpp", reason="the extra local-model is not installed")
    if not WEIGHTS.is_file():
        pytest.skip("the weights are not here; kogniterm models pull fetches them")
    terminal = open_terminal(columns=120, environment={"KOGNITERM_LOCAL_WEIGHTS": str(WEIGHTS)})
    put(terminal.folder, "notes.md", "one\ntwo\nthree\n")
    open_prompt(terminal, "kogniterm --model local")
    say(terminal, "hello", "Tell me what you want done")
    say(terminal, "How many lines does notes.md have?")
    answer(terminal, "notes.md", "y")
    terminal.until(lambda: "╰ " in terminal.text)
    # After a failure there is one more attempt, which needs approval too.
    terminal.until(lambda: "tokens in" in terminal.text or is_asking(terminal))
    if "tokens in" not in terminal.text:
        answer(terminal, "notes.md", "y")
    terminal.until("tokens in")
    assert "3" in terminal.text.rsplit("╰", 1)[1]
    # It answers in the language that the user prefers, whatever the request is written in.
    say(terminal, "/preferences set language es", "language = es")
    say(terminal, "hello", "Dime qué quieres hacer")
    assert leave(terminal) == 0
