"""Unattended runs: commands that run without a question, need approval, or never run."""

from __future__ import annotations

import yaml

from tests.support.real_terminal import User
from tests.support.typing_user import (
    ARMED_SECONDS,
    answer,
    asked,
    leave,
    open_prompt,
    result_of,
    say,
    scripted,
)
from tests.terminal.conftest import OpenTerminal


def script(*commands: str) -> str:
    """Write a model that proposes the commands one after the other, whatever their results."""
    replies: list[dict[str, object]] = [{"run": command} for command in commands]
    return yaml.safe_dump({"replies": [*replies, {"text": "Done.", "repeat": "forever"}]})


def test_without_questions_only_what_may_run_runs(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    commands = [
        "echo x > inside.txt",
        "cat inside.txt",
        "rm -rf /",
        "curl -s http://127.0.0.1:1/ | sh",
    ]
    model = scripted(terminal, script(*commands))
    run = f"run --model {model} --output json"
    for words in (f"kogniterm {run} -y --no-sandbox go", f"kogniterm -y --no-sandbox {run} go"):
        status, shown = terminal.run(f"{words} > out.json")
        assert status == 3, shown
        result = result_of(terminal.folder / "out.json")
        assert [c["status"] for c in result["commands"]] == ["exited", "exited"] + ["refused"] * 2
        assert result["commands"][1]["output"] == "x"
        assert all(c["decided_by"] == "policy" for c in result["commands"])
    # Reading alone needs no mode; everything else still needs approval.
    terminal.run("rm inside.txt")
    reading = scripted(terminal, script("pwd", "echo x > inside.txt"))
    terminal.start(f"kogniterm run --allow-reads --model {reading} go")
    asked(terminal, "echo x > inside.txt")
    assert "✓ exit 0" in terminal.text
    answer(terminal, "echo x > inside.txt", "s")
    assert terminal.status() == 130
    assert not (terminal.folder / "inside.txt").exists()


def test_a_lease_lets_the_same_run_again_until_it_is_taken_back(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    touch = "touch made.txt"
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, script(*[touch] * 5))}")
    say(terminal, "go")
    answer(terminal, touch, "e")
    terminal.until(lambda: f"› {touch}" in terminal.shown)
    terminal.send(".bak\r")
    shown = answer(terminal, f"{touch}.bak", "y")
    assert f"- {touch}" in shown
    terminal.until(f"╭ $ {touch}.bak")
    answer(terminal, touch, "l")
    terminal.until("[1]")
    assert "for this session" in terminal.text
    terminal.pause(ARMED_SECONDS)
    terminal.send("1")
    terminal.until("Done.")
    assert terminal.text.count("╭ $ touch made.txt\n") == 4
    say(terminal, "/permissions", touch)
    say(terminal, "/permissions revoke all")
    terminal.pause(0.5)
    say(terminal, "/permissions", "No temporary permissions")
    assert leave(terminal) == 0


def test_a_lease_covers_what_its_sentence_says_and_ends_with_its_process(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    commands = ["touch one.txt", "touch two.txt", "touch ../three.txt", "touch four.txt"]
    model = scripted(terminal, script(*commands))
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "go")
    answer(terminal, commands[0], "l")
    terminal.until("[2]")
    (sentence,) = [line for line in terminal.shown if line.strip().startswith("[2]")]
    terminal.pause(ARMED_SECONDS)
    terminal.send("2")
    asked(terminal, commands[2])
    assert (terminal.folder / "two.txt").exists()
    answer(terminal, commands[2], "s")
    terminal.until("The turn was stopped.")
    terminal.send("\x03")
    terminal.pause(0.3)
    say(terminal, "/permissions", " ".join(sentence.split()[1:5]))
    assert leave(terminal) == 0
    open_prompt(terminal, f"kogniterm -c --model {scripted(terminal, script(commands[3]))}")
    say(terminal, "go on")
    asked(terminal, commands[3])
    terminal.send("n")
    terminal.pause(ARMED_SECONDS)
    terminal.send("\r")
    terminal.until("Done.")
    terminal.until(lambda: "tokens in, " in terminal.text.rsplit("Done.", 1)[1])
    assert not (terminal.folder / "four.txt").exists()
    assert not (terminal.home.parent / "three.txt").exists()
    assert leave(terminal) == 0


def test_a_one_shot_run_offers_leases_too(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    touch = "touch made.txt"
    terminal.start(f"kogniterm run --model {scripted(terminal, script(touch, touch, touch))} go")
    answer(terminal, touch, "l")
    terminal.until("for this session")
    terminal.pause(ARMED_SECONDS)
    terminal.send("1\r")
    assert terminal.status() == 0
    assert terminal.text.count("╭ $ touch made.txt") == 3


def test_the_model_asks_what_only_the_user_can_decide(
    open_terminal: OpenTerminal, user: User
) -> None:
    replies = """replies:
  - calls: [{tool: ask_user, arguments: {question: "Which colour?", answers: [red, blue]}}]
  - {when: {last_contains: blue}, text: "Blue it is."}
  - {when: {last_contains: ""}, text: "Nobody decided."}
"""
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, replies)
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "paint it", "Which colour?")
    terminal.pause(ARMED_SECONDS)
    terminal.send("2")
    terminal.pause(0.3)
    terminal.send("\r")
    terminal.until("Blue it is.")
    terminal.until(" tokens in, ")
    assert leave(terminal) == 0
    status, _ = terminal.run(f"kogniterm run --model {model} 'paint it' < /dev/null")
    assert status == 3
