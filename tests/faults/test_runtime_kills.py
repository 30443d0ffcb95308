"""`kill -9` through the whole program: model, policy, intent, bash, outcome, and then resume.

Each round resumes the session that the round before left, with a task open or not, and is
killed at a fault point of the journal or from outside after a random time. Every command of a
round has a number of its own, which it appends to a file: a number that stands there twice is
a command that ran twice.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.journal.codec import KINDS, stored_records
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.records import Decided, InputReceived, Intent, Outcome, TurnClosed
from kogniterm.sessions.session_database import open_store
from kogniterm.sessions.store import SessionStore
from tests.support.environments import environ_of
from tests.support.forge import Forge, Started

ALL = os.environ.get("KOGNITERM_TEST_FAULTS") == "all"
POINTS = [f"{when}-{kind}" for kind in KINDS for when in ("before", "written", "after")]
PASSED = [point for point in POINTS if not point.endswith(("compacted", "note"))]
"""Fault points that every round reaches: no round compacts the history or changes the mode."""
EVERY_POINT = PASSED if ALL else ["after-intent", "written-outcome", "after-decision"]
COMMANDS = 4


@dataclass
class Session:
    """One session that is killed repeatedly, with the events seen from outside."""

    forge: Forge
    root: Path
    rounds: int = 0
    wrong: list[str] = field(default_factory=list)
    told: int = 0
    unknown: int = 0

    def __post_init__(self) -> None:
        (self.root / "work").mkdir()
        (self.root / "scratch").mkdir()

    @property
    def environ(self) -> dict[str, str]:
        return {**environ_of(self.root), "KOGNITERM_MEMORY": "off"}

    def begin(self, fault: str = "", *, task: bool = True) -> Started:
        """Start the next round: continue the open turn, or give the session another task."""
        self.rounds += 1
        numbers = [self.rounds * 100 + number for number in range(COMMANDS)]
        replies = [{"run": f"echo {n} >>ran; echo did {n}", "purpose": "Count"} for n in numbers]
        script = self.root / "script.yaml"
        script.write_text(json.dumps({"replies": [*replies, {"text": "All counted."}]}))
        words = ["run", "-y", "--no-sandbox", "--model", f"scripted:{script}"]
        words += ["--plan", "never", "--output", "stream-json"]
        words += ["--continue"] if self.rounds > 1 else []
        return self.forge.start(
            [*words, *([f"Task {self.rounds}"] if task or self.rounds == 1 else [])],
            environ=self.environ | ({"KOGNITERM_FAULTS": fault} if fault else {}),
            folder=self.root / "work",
            scratch=self.root / "scratch",
        )

    def check(self, started: Started) -> None:
        """Compare the events, the commands that ran and the journal."""
        with self.store() as store:
            (info,) = store.sessions() or [None]
            if info is None:  # killed before there was a session
                self.rounds = 0
                return
            report = verify(store.database, info.id)
            records = [stored.record() for stored in stored_records(store.database, info.id)]
        where = f"round {self.rounds}"
        if not report.intact:
            self.wrong.append(f"{where}: chain broken at {report.broken}: {report.reason}")
        bodies = [record.body for record in records]
        self.unknown = sum(isinstance(b, Outcome) and b.status == "unknown" for b in bodies)
        self._check_runs(where, bodies)
        self._check_told(where, bodies, started)

    def _check_runs(self, where: str, bodies: list[Any]) -> None:
        ran = Counter((self.root / "work" / "ran").read_text().split() if self.ran else [])
        intents = Counter(body.command for body in bodies if isinstance(body, Intent))
        for number, times in ran.items():
            if times > 1:
                self.wrong.append(f"{where}: command {number} ran {times} times")
            if not any(f"echo {number} >>ran" in command for command in intents):
                self.wrong.append(f"{where}: command {number} ran without an intent")
        for body in bodies:
            if (
                isinstance(body, Outcome)
                and body.result is not None
                and body.result.ended != ("not_started")
            ):
                number = body.result.command.split()[1]
                if body.status == "finished" and number not in ran:
                    self.wrong.append(f"{where}: {number} finished without having run")

    def _check_told(self, where: str, bodies: list[Any], started: Started) -> None:
        """Check that whatever an event reported before the kill stands in the journal."""
        there = {
            "action_decided": {b.request_id for b in bodies if isinstance(b, Decided)},
            "command_started": {b.request_id for b in bodies if isinstance(b, Intent)},
            "command_ended": {b.request_id for b in bodies if isinstance(b, Outcome)},
            "turn_started": {b.turn for b in bodies if isinstance(b, InputReceived)},
        }
        for event in events_of(started):
            if event["type"] not in there:
                continue
            self.told += 1
            key = event.get("turn") or event.get("request_id") or event["request"]["id"]
            if key not in there[event["type"]]:
                self.wrong.append(f"{where}: {event['event']} {key} was told and is lost")
        ends = [event for event in events_of(started) if event["type"] == "turn_ended"]
        if ends and not any(isinstance(body, TurnClosed) for body in bodies[-3:]):
            self.wrong.append(f"{where}: the end of the turn was told and is lost")

    @property
    def ran(self) -> bool:
        return (self.root / "work" / "ran").exists()

    def state(self) -> SessionState:
        """Return the state that the journal holds, without opening the session."""
        with self.store() as store:
            infos = store.sessions()
            return load_state(store.database, infos[0].id)[0] if infos else SessionState()

    def store(self) -> Any:
        return opened(self.root / "data" / "kogniterm.db")


def events_of(started: Started) -> list[dict[str, Any]]:
    """Return the events that were written whole."""
    lines = started.out.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


class opened:  # noqa: N801  # used like a function
    """Context manager for the store at `path`, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._store: SessionStore
        self._store, recovery = open_store(path, user="root", version="1.0")
        assert recovery is None, str(recovery.text)

    def __enter__(self) -> SessionStore:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


def settle(session: Session) -> None:
    """Start a last time without a kill: the session must list what is unknown, and end."""
    unknown = session.state().unknown
    started = session.begin(task=not session.state().open_turn)
    status = started.wait()
    assert status in (0, 3), started.said
    for intent in unknown:
        assert "outcome is unknown" in started.said
        assert json.dumps(intent.command)[1:-1] in started.said
    session.check(started)


def test_no_kill_at_any_point_repeats_or_loses_anything(forge: Forge, tmp_path: Path) -> None:
    session = Session(forge, tmp_path)
    missed = []
    for point in EVERY_POINT:
        started = session.begin(f"kill:{point}")
        if started.wait() != -signal.SIGKILL:
            missed.append(point)
        session.check(started)
    settle(session)
    assert session.wrong == []
    assert missed == []
    assert session.told > len(EVERY_POINT)
    assert session.unknown > 0  # `after-intent` falls between an intent and its outcome
