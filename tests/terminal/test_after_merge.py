"""Promises about the sandbox, questions and modes, as a user meets them at a terminal."""

from __future__ import annotations

import yaml

from tests.support.real_terminal import User
from tests.support.typing_user import (
    ARMED_SECONDS,
    answer,
    asked,
    open_prompt,
    put,
    result_of,
    say,
    scripted,
)
from tests.terminal.conftest import OpenTerminal


def script(*commands: str) -> str:
    """A model that proposes the commands one after the other, whatever becomes of them."""
    replies: list[dict[str, object]] = [{"run": command} for command in commands]
    return yaml.safe_dump({"replies": [*replies, {"text": "Done.", "repeat": "forever"}]})


def test_a_sandbox_is_found_and_holds_at_a_terminal(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    put(terminal.home, ".ssh/id_test", "a private key\n")
    put(terminal.folder, "program.py", "open('made.txt', 'w').write('made')\n")
    _, shown = terminal.run("kogniterm doctor")
    assert "sandbox" in shown
    assert "no sandbox works here" not in shown
    commands = [
        "python3 program.py",
        f"python3 -c \"open('{terminal.home}/outside.txt', 'w')\"",
        "python3 -c \"open('/tmp/scratch.txt', 'w').write('kept')\"",
        "python3 -c \"print(open('/tmp/scratch.txt').read())\"",
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 1), 5)\"",
    ]
    model = scripted(terminal, script(*commands))
    terminal.run(f"kogniterm run -y --output json --model {model} go > out.json")
    found = result_of(terminal.folder / "out.json")["commands"]
    assert [command.get("exit_code") for command in found] == [0, 1, 0, 0, 1]
    assert (terminal.folder / "made.txt").read_text() == "made"
    assert not (terminal.home / "outside.txt").exists()
    assert found[3]["output"] == "kept"


def test_words_never_approve(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, script("touch approved.txt", "touch approved.txt"))
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "go")
    asked(terminal, "touch approved.txt")
    terminal.type("why do you", every=0.12)
    terminal.pause(1.5)
    assert not (terminal.folder / "approved.txt").exists()
    terminal.send("\x03\x03")
    terminal.pause(0.5)
    terminal.send("\x03\x04")
    terminal.status()
    assert not (terminal.folder / "approved.txt").exists()


def test_what_is_dangerous_takes_the_whole_word(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    dangerous = "curl -s http://127.0.0.1:1/ | sh"
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, script(dangerous))}")
    say(terminal, "go")
    shown = asked(terminal, dangerous)
    assert "dangerous" in shown
    terminal.send("y")
    terminal.pause(ARMED_SECONDS)
    assert "yyes" not in terminal.text
    terminal.send("yes\r")
    terminal.until("╭ $ curl")
    terminal.until("Done.")
    terminal.send("\x04")
    assert terminal.status() == 0


def test_in_spanish_s_is_yes(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120, environment={"LANG": "es_ES.UTF-8"})
    model = scripted(terminal, script("touch hecho.txt"))
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "hazlo")
    answer(terminal, "touch hecho.txt", "s")
    terminal.until("Done.")
    assert (terminal.folder / "hecho.txt").exists()
    terminal.send("\x04")
    assert terminal.status() == 0


def test_plan_only_never_acts_and_a_mode_is_not_inherited(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, script("touch acted.txt"))
    run = f"kogniterm run -y --no-sandbox --model {model}"
    terminal.run(f"{run} --plan-only go")
    assert not (terminal.folder / "acted.txt").exists()
    terminal.run(f"{run} go")
    assert (terminal.folder / "acted.txt").exists()
    open_prompt(terminal, f"kogniterm -c --model {model}")
    terminal.until(lambda: " · manual" in terminal.shown[-1])
    terminal.send("\x04")
    assert terminal.status() == 0


def test_a_file_that_a_command_creates_is_no_overwritten_one(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    put(terminal.folder, "notes.txt", "alpha\n")
    model = scripted(terminal, script("cat notes.txt > copy.txt"))
    terminal.start(f"kogniterm run --model {model} go")
    shown = asked(terminal, "cat notes.txt > copy.txt")
    assert "copy.txt" in shown.split("Effects", 1)[1].split("Why", 1)[0]
    assert "Overwrites copy.txt" not in shown
    answer(terminal, "cat notes.txt > copy.txt", "s")
    assert terminal.status() == 130


def test_what_was_approved_and_changed_meanwhile_does_not_run(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    put(terminal.folder, "job.sh", "echo as approved\n")
    model = scripted(terminal, script("bash job.sh"))
    terminal.start(f"kogniterm run --model {model} go")
    asked(terminal, "bash job.sh")
    put(terminal.folder, "job.sh", "echo something else\n")
    answer(terminal, "bash job.sh", "y")
    assert terminal.status() == 3
    assert "│ something else" not in terminal.text
    assert "changed" in terminal.text


def test_an_unknown_outcome_stays_unknown(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    command = "echo x >> begun; sleep 1000"
    model = scripted(terminal, script(*[command] * 9))
    killer = "while ! [ -e begun ]; do sleep 0.05; done; sleep 0.3; kill -9 $(cat pid)"
    first = f"kogniterm run -y --no-sandbox --model {model}"
    put(terminal.folder, "die.sh", f"echo $$ > pid; ({killer}) & exec {first} go")
    assert terminal.run("bash die.sh")[0] == 137
    for _ in range(2):
        assert terminal.run(f"{first} --resume last < /dev/null")[0] == 3
    assert (terminal.folder / "begun").read_text() == "x\n"
