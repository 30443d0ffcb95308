"""Closing the window of a running program: no process stays, nothing is lost, resume reports it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.records import Intent, Outcome, TurnClosed
from kogniterm.sessions.session_database import open_store
from tests.support.executing import processes_executing
from tests.support.forge import until
from tests.ui.pty_peer import OpenPeer, PtyPeer

OPTIONS = ("--no-sandbox", "--memory", "off", "--model", "scripted:demo.yaml")
SCRIPT = """\
replies:
  - when: {last_contains: wait}
    run: "echo began; sleep %s"
    purpose: Wait
  - repeat: forever
    text: It was cut off.
"""


@pytest.fixture
def seconds() -> str:
    """Return a duration that no other process sleeps, so that the process can be found."""
    return f"9{os.getpid()}"


@pytest.fixture
def folder(tmp_path: Path, seconds: str) -> Path:
    (tmp_path / "demo.yaml").write_text(SCRIPT % seconds)
    return tmp_path


def records(folder: Path) -> Iterator[object]:
    """Return the record bodies of the only session's journal, after verifying its chain."""
    (database,) = folder.rglob("*.db")
    store, recovery = open_store(database, user="x", version="test")
    try:
        assert recovery is None
        (info,) = store.sessions()
        assert verify(store.database, info.id).intact
        journal = store.open(info.id, model=None)
        try:
            yield from [record.body for record in journal.records()]
        finally:
            journal.close()
    finally:
        store.close()


def begin(terminal: PtyPeer, seconds: str) -> None:
    terminal.until("scripted:")
    terminal.send("wait\r")
    terminal.until("[y] approve")
    terminal.look()
    terminal.send("y")
    terminal.until("│ began")
    terminal.until(lambda: bool(processes_executing(f"sleep {seconds}")))


def test_a_window_closed_with_a_command_running(peer: OpenPeer, folder: Path, seconds: str) -> None:
    with peer(folder, *OPTIONS) as terminal:
        begin(terminal, seconds)
        terminal.hang_up()
        assert terminal.wait() == 129
    until(lambda: not processes_executing(f"sleep {seconds}"))
    bodies = list(records(folder))
    (outcome,) = [body for body in bodies if isinstance(body, Outcome)]
    assert outcome.status == "cancelled"
    assert "began" in outcome.message.text
    (ended,) = [body for body in bodies if isinstance(body, TurnClosed)]
    assert ended.stop == "interrupted"


def test_a_window_closed_at_the_prompt_keeps_what_was_typed(peer: OpenPeer, folder: Path) -> None:
    with peer(folder, *OPTIONS) as terminal:
        terminal.until("scripted:")
        terminal.send("half a thought")
        terminal.until("› half a thought")
        terminal.hang_up()
        assert terminal.wait() == 129
    with peer(folder, "resume", "last", *OPTIONS[:3]) as terminal:
        terminal.until("› half a thought")


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_window_closed_at_a_question_asks_it_again(
    peer: OpenPeer, folder: Path, seconds: str, term: str
) -> None:
    asked = "Your decision" if term == "dumb" else "[y] approve"
    with peer(folder, *OPTIONS, environment={"TERM": term}) as terminal:
        terminal.until("scripted:")
        terminal.send("wait\r")
        terminal.until(asked)
        terminal.hang_up()
        assert terminal.wait() == 129
    until(lambda: not processes_executing(f"sleep {seconds}"))
    assert [b for b in records(folder) if isinstance(b, Intent | Outcome | TurnClosed)] == []
    with peer(folder, "resume", "last", *OPTIONS[:3]) as terminal:
        terminal.until("was interrupted; continuing it")
        terminal.until("[y] approve")
        assert f"sleep {seconds}" in terminal.text
        terminal.send("n\r")
        terminal.until("It was cut off.")
