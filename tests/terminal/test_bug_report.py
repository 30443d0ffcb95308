"""A bug report: made by one user, replayed by another where nothing of the first one is left."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import answer, flat, leave, open_prompt, put, say, scripted, turn_end
from tests.terminal.conftest import OpenTerminal

KEY = "sk-ant-api03-" + "Zx9" * 12
REPLIES = """replies:
  - when: {last_contains: look around}
    calls:
      - {tool: read_file, arguments: {path: notes.txt}}
      - {run: 'echo "$HOME by $USER"; pwd; cat key.txt'}
  - when: {last_contains: by annabel}
    calls: [{tool: delegate, arguments: {task: Read the notes again}}]
  - {when: {last_contains: again}, calls: [{tool: read_file, arguments: {path: notes.txt}}]}
  - {when: {any_contains: again, last_contains: pelican}, text: A pelican.}
  - {when: {tool: delegate}, text: Annabel keeps a pelican in her notes.}
"""


@pytest.fixture
def open_terminal(place: Path, user: User) -> Iterator[OpenTerminal]:
    """Yield a function that opens a terminal of the user called `name`, with a home of its own."""
    opened: list[RealTerminal] = []

    def open_one(name: str, user: User = user) -> RealTerminal:
        home, folder = place / name, place / name / "project-of-mine"
        folder.mkdir(parents=True)
        environment = {"USER": name}
        opened.append(RealTerminal(home, folder, user=user, columns=120, environment=environment))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()


def test_somebody_else_replays_it_without_the_project_and_reads_no_names(
    open_terminal: OpenTerminal,
) -> None:
    annabel = open_terminal("annabel")
    put(annabel.folder, "notes.txt", "a pelican\n")
    put(annabel.folder, "key.txt", f"{KEY}\n")
    model = scripted(annabel, REPLIES)
    open_prompt(annabel, f"kogniterm --model {model} --no-sandbox")
    with turn_end(annabel):
        say(annabel, "look around")
        answer(annabel, "by $USER", "y")
    say(annabel, "/bug report.jsonl", "nothing was sent")
    assert leave(annabel) == 0
    report = (annabel.folder / "report.jsonl").read_text()
    for name in (str(annabel.home), "annabel", KEY):
        assert name not in report
    # As a word: the two letters of a short name also stand in encoded bytes.
    host = re.escape(socket.gethostname())
    assert re.search(rf"(?<![\w+/]){host}(?![\w+/])", report) is None
    assert "/home/user/project-of-mine" in report
    assert "a pelican" in report
    # The first user's home, project and model are gone.
    shutil.rmtree(annabel.home)
    other = open_terminal("bert", user="ordinary")
    put(other.folder, "report.jsonl", report)
    status, shown = other.run("kogniterm replay report.jsonl")
    assert (status, "The run is the same as the record." in flat(shown)) == (0, True), shown
    # The same file is a model, whose commands really run.
    other.start("kogniterm run --model replay:report.jsonl --no-sandbox 'look around'")
    answer(other, "by $USER", "y")
    assert other.status() == 0
    assert "keeps a pelican" in flat(other.text)
    assert f"{other.home} by bert" in flat(other.text)
