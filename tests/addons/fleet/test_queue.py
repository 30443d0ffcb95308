"""Tasks in the queue, from adding them to their answers, as a user sees it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.databases import postgres_server, postgres_url
from tests.support.real_terminal import User
from tests.support.typing_user import answer, put, scripted
from tests.terminal.conftest import OpenTerminal, open_terminal, place, pytest_generate_tests

__all__ = [
    "open_terminal",
    "place",
    "postgres_server",
    "postgres_url",
    "pytest_generate_tests",
]

SCRIPT = """replies:
  - {when: {last_contains: make}, run: touch made}
  - {text: All made., repeat: forever}
"""

CREATE = """replies:
  - {when: {last_contains: Create}, run: touch hello.txt}
  - {text: It is there., repeat: forever}
"""


def test_tasks_are_added_done_watched_and_answered(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    terminal.run("mkdir a b")
    model = scripted(terminal, SCRIPT)
    put(terminal.folder, "bad.jsonl", '"one"\n{"tsk": "two"}')
    status, shown = terminal.run("kogniterm queue add --file bad.jsonl")
    assert (status, "bad.jsonl:2: unknown key tsk" in shown) == (2, True), shown
    common = f"--no-sandbox --plan never --model {model}"
    status, shown = terminal.run(f"kogniterm queue add {common} -y -C a --id first 'make it'")
    assert (status, "No worker serves queue default." in shown) == (0, True), shown
    put(terminal.folder, "more.jsonl", '{"task": "make more", "id": "second", "folder": "b"}')
    terminal.run(f"kogniterm queue add --file more.jsonl --batch more {common}")
    listed = terminal.run("kogniterm queue list")[1]
    assert "first   queued" in listed
    assert "2 queued" in listed
    terminal.run("kogniterm worker --queues default,night:2 --slots 4 2>worker.log &")
    status, shown = terminal.run("kogniterm queue watch")
    assert (status, "1 waits for you" in shown, "1 done" in shown) == (3, True, True), shown
    terminal.start("kogniterm queue answer second")
    assert "make more" in answer(terminal, "$ touch made", "y")
    assert terminal.status() == 0
    assert "The task continues." in terminal.text
    assert terminal.run("kogniterm queue watch")[0] == 0
    terminal.run("kill %1; wait; kogniterm queue results > all.jsonl")
    lines = (terminal.folder / "all.jsonl").read_text().splitlines()
    states = [(one["id"], one["state"]) for one in map(json.loads, lines)]
    assert states == [("first", "done"), ("second", "done")]
    assert (terminal.folder / "a" / "made").exists()
    assert (terminal.folder / "b" / "made").exists()


def test_the_commands_of_the_page_work_as_they_stand(
    open_terminal: OpenTerminal,
    user: User,
    postgres_url: str,  # the fixture
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "many-machines.md").read_text()
    block = re.search(r"## In five minutes\n.*?```sh\n(.*?)```", page, re.DOTALL)
    assert block is not None
    export, *commands = block[1].splitlines()
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, CREATE)
    terminal.run(f"export KOGNITERM_MODEL={model} KOGNITERM_PLAN=never")
    terminal.run("export KOGNITERM_SANDBOX=off KOGNITERM_MEMORY=off")
    name, _, shown_address = export.partition("=")
    assert shown_address.startswith("postgresql://")
    terminal.run(f"{name}='{postgres_url}'")
    statuses = []
    for command in commands:
        if command.endswith("&"):
            terminal.run(command)
        elif command.startswith("kogniterm queue answer"):
            terminal.start(command)
            assert "$ touch hello.txt" in answer(terminal, "$ touch hello.txt", "y")
            statuses.append(terminal.status())
        else:
            statuses.append(terminal.run(command)[0])
    assert statuses == [0, 3, 0, 0, 0]
    assert (terminal.folder / "hello.txt").exists()
    terminal.run("kogniterm queue results > results.jsonl")
    result = json.loads((terminal.folder / "results.jsonl").read_text())
    assert (result["id"], result["state"], result["answer"]) == ("hello", "done", "It is there.")
    terminal.run("kill %1; wait")
