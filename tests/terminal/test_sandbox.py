"""The sandbox at a real terminal: in doctor, `run -y` and the REPL."""

from __future__ import annotations

import json

import pytest

from kogniterm.execution.sandbox.confinement import GIVES
from tests.support.programs import require_sandbox
from tests.support.real_terminal import User
from tests.support.typing_user import (
    asked,
    leave,
    open_prompt,
    put,
    result_of,
    say,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

KINDS = {kind: GIVES[kind].name for kind in GIVES if kind != "none"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_sandbox_keeps_and_what_it_refuses(
    open_terminal: OpenTerminal, user: User, kind: str
) -> None:
    terminal = open_terminal(user=user, columns=120, environment={"KOGNITERM_SANDBOX": kind})
    require_sandbox(kind)
    put(terminal.home, ".ssh/id_test", "a private key\n")
    scratch = "import tempfile; name = tempfile.gettempdir() + '/scratch.txt'"
    put(terminal.folder, "write.py", f"{scratch}; open(name, 'w').write('kept')\n")
    put(terminal.folder, "read.py", f"{scratch}; print(open(name).read())\n")
    connect = "import socket; socket.create_connection(('127.0.0.1', 1), 5)"
    commands = [
        "python3 write.py",
        "python3 read.py",
        f'python3 -c "{connect}"',
        "python3 -c \"print(open('../home/.ssh/id_test').read())\"",
    ]
    replies: list[dict[str, object]] = [{"run": command} for command in commands]
    model = scripted(terminal, json.dumps({"replies": [*replies, {"text": "Done."}]}))
    terminal.run(f"kogniterm run -y --output json --model {model} go > out.json")
    found = result_of(terminal.folder / "out.json")["commands"]
    assert [command.get("exit_code") for command in found[:3]] == [0, 0, 1]
    assert found[1]["output"] == "kept"
    assert "a private key" not in (terminal.folder / "out.json").read_text()


def test_a_command_that_the_sandbox_stops_is_asked_about_at_once(
    open_terminal: OpenTerminal, user: User
) -> None:
    require_sandbox("auto")
    terminal = open_terminal(user=user, columns=120)
    copy = "echo begun >> inside; cp inside ../home/outside"
    replies: list[dict[str, object]] = [{"run": copy}, {"run": copy}, {"text": "Done."}]
    model = scripted(terminal, json.dumps({"replies": replies}))
    open_prompt(terminal, f"kogniterm -y --model {model}")
    say(terminal, "go")
    shown = asked(terminal, "Run this command outside the sandbox?")
    assert "the sandbox protects it" in shown or "because of the sandbox" in shown
    assert "It has already run in part; running it again may repeat its effects." in shown
    assert not (terminal.home / "outside").exists()
    terminal.send("a")
    terminal.until("outside the sandbox: exactly this command")
    terminal.look()
    terminal.send("1")
    terminal.pause(0.2)
    terminal.send("\r")
    terminal.until("Done.")
    assert (terminal.home / "outside").exists()
    assert (terminal.folder / "inside").read_text() == "begun\n" * 3
    say(terminal, "/permissions", "outside the sandbox: exactly this command")
    assert leave(terminal) == 0
    file = terminal.folder / "session.jsonl"
    terminal.run(f"kogniterm sessions export last --format jsonl --to {file.name}")
    (told,) = [line for line in file.read_text().splitlines() if "let it run again outside" in line]
    assert told.index("[exit 1]") < told.index("let it run again outside")
