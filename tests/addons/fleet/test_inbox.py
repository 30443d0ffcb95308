"""Questions that wait without a process: listed and answered from another terminal."""

from __future__ import annotations

from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    put,
    result_of,
    scripted,
)
from tests.terminal.conftest import OpenTerminal, open_terminal, place, pytest_generate_tests

__all__ = ["open_terminal", "place", "pytest_generate_tests"]

ASK = "{calls: [{tool: ask_user, arguments: {question: Which database, answers: [a, b]}}]}"


def test_a_question_waits_and_is_answered_from_another_terminal(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    terminal.run("mkdir build; head -c 3000 /dev/zero > build/a.o")
    model = scripted(terminal, "replies: [{run: rm -r build, purpose: Clean}]")
    park = f"kogniterm run --park --session report-7 --model {model} clean"
    status, shown = terminal.run(park)
    assert (status, "kogniterm queue answer report-7" in shown) == (3, True), shown
    listed = terminal.run("kogniterm queue inbox")[1]
    assert "$ rm -r build" in listed
    assert "Deletes build: 1 file, 3 KB" in listed
    assert str(terminal.folder) in listed
    # Left for later by a key, it keeps waiting; what was typed early answers nothing.
    terminal.start("kogniterm queue answer report-7")
    shown = answer(terminal, "$ rm -r build", "s")
    assert "Purpose  Clean" in shown
    assert terminal.status() == 3
    terminal.start("kogniterm queue answer report-7")
    answer(terminal, "$ rm -r build", "y")
    assert terminal.status() == 0, terminal.text
    assert (terminal.folder / "build").exists()
    done = scripted(terminal, "replies: [{text: Cleaned.}]")
    status, shown = terminal.run(f"{park.replace(model, done)} --output json > out.json")
    assert (status, result_of(terminal.folder / "out.json")["answer"]) == (0, "Cleaned.")
    assert not (terminal.folder / "build").exists()
    assert "Nothing waits for you." in terminal.run("kogniterm queue inbox")[1]
    assert terminal.run("kogniterm audit verify")[0] == 0


def test_a_script_names_the_question_that_it_read(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, f"replies: [{ASK}]")
    park = f"kogniterm run --park --session ask-1 --model {model} choose"
    assert terminal.run(park)[0] == 3
    status, shown = terminal.run("kogniterm queue answer ask-1 words b")
    assert (status, "needs --digest" in shown) == (2, True)
    read = "import json, sys; print(json.load(sys.stdin)[0]['digest'])"
    put(terminal.folder, "read.py", read)
    digest = "$(kogniterm queue inbox --json | python3 read.py)"
    status, shown = terminal.run(f"kogniterm queue answer ask-1 --digest {digest} words b")
    assert (status, "Answer saved." in shown) == (0, True), shown
    told = scripted(terminal, f"replies: [{{expect: {{any_contains: b}}, {ASK[1:-1]}}}]")
    assert terminal.run(park.replace(model, told))[0] == 3  # the same words are another question
