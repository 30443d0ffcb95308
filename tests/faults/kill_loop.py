"""Kill a session's process repeatedly, resume it each time, and report violated guarantees.

Run as `python kill_loop.py LOCATION FOLDER KILLS SEED`. Each round forks a child that resumes
the session, settles what a dead predecessor left, and works on; it is killed at a random point
of the journal's writing, or from outside after a random number of acknowledged records; the
first one between an intent and its outcome, which chance may miss. A "command" appends its
request's id to a file, so that running one twice shows. The parent never opens the session
itself; it only reads what is on disk. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from langchain_core.messages import ToolMessage

from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.journal.codec import stored_records
from kogniterm.sessions.journal.journal import SessionJournal, parse_fault
from kogniterm.sessions.records import Intent, Outcome, RecordBody, TurnClosed
from kogniterm.sessions.session_database import open_store
from kogniterm.sessions.store import SessionStore
from kogniterm.types import ActionRequest, CommandResult
from tests.support.conversation import command_turn

SESSION = "killed"
TURNS = 30


class Worker:
    """The child process, which resumes the session and works on until it is killed."""

    def __init__(self, store: SessionStore, ran: Path, acknowledged: int) -> None:
        self._journal: SessionJournal = store.open(SESSION)
        self._ran = ran
        self._acknowledged = acknowledged

    def work(self) -> None:
        self._settle()
        for turn in range(self._journal.state.turn + 1, self._journal.state.turn + TURNS):
            for body in command_turn(turn, f"Task {turn}"):
                self._append(body)
                if isinstance(body, Intent):
                    self._run(body.request_id)
        self._journal.close()

    def _settle(self) -> None:
        """Record an unknown outcome for interrupted commands, and run those that never started."""
        state = self._journal.state
        for intent in state.unknown:
            self._append(_outcome(intent.request_id, "unknown"))
        for request in state.waiting:
            self._start(request)
        if state.open_turn:
            self._append(TurnClosed(state.turn, "interrupted", 130, ""))

    def _start(self, request: ActionRequest) -> None:
        self._append(Intent(request.id, request.command, "/", "e"))
        self._run(request.id)
        self._append(_outcome(request.id, "finished"))

    def _run(self, request_id: str) -> None:
        with self._ran.open("a") as file:
            file.write(request_id + "\n")

    def _append(self, body: RecordBody) -> None:
        record = self._journal.append(body)
        os.write(self._acknowledged, f"{record.seq}\n".encode())


def _outcome(request_id: str, status: str) -> Outcome:
    call_id = request_id.replace("r", "c")
    message = ToolMessage(status, tool_call_id=call_id)
    if status == "unknown":
        return Outcome(request_id, "unknown", message)
    return Outcome(
        request_id, "finished", message, CommandResult("ls", "exited", 0, "7\n", 0.1, "/")
    )


def one_round(location: str, ran: Path, chance: random.Random, fault: str = "") -> int:
    """Fork a worker and wait for its death; return the last record it acknowledged.

    It dies at `fault`, or where chance will have it.
    """
    inside = bool(fault) or chance.random() < 0.6
    passed = chance.randrange(1, 120)
    spec = fault or (f"kill:*:{passed}" if inside else None)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        store, _ = open_store(location, user="ana", version="1.0", fault=parse_fault(spec))
        Worker(store, ran, writing).work()
        os._exit(0)
    os.close(writing)
    last, lines = 0, 0
    with os.fdopen(reading) as acknowledged:
        for line in acknowledged:
            last, lines = int(line), lines + 1
            if not inside and lines == passed // 3 + 1:
                os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError("the worker failed instead of being killed")
    return last


def check(store: SessionStore, ran: Path, acknowledged: int) -> list[str]:
    """Return the guarantees that are violated after a kill."""
    wrong: list[str] = []
    report = verify(store.database, SESSION)
    if not report.intact:
        wrong.append(f"chain broken at {report.broken}: {report.reason}")
    if report.records < acknowledged:
        wrong.append(f"record {acknowledged} was acknowledged, {report.records} are there")
    bodies = [stored.record().body for stored in stored_records(store.database, SESSION)]
    intents = {body.request_id for body in bodies if isinstance(body, Intent)}
    finished = {
        body.request_id
        for body in bodies
        if isinstance(body, Outcome) and body.status == "finished"
    }
    runs = Counter(ran.read_text().split() if ran.exists() else [])
    wrong += [f"{one} ran {count} times" for one, count in runs.items() if count > 1]
    wrong += [f"{one} ran without an intent" for one in runs.keys() - intents]
    wrong += [f"{one} finished without having run" for one in finished - runs.keys()]
    return wrong


def main(location: str, folder: Path, kills: int, seed: int) -> dict[str, object]:
    chance = random.Random(seed)
    ran = folder / "ran"
    with opened(location) as store:
        store.create(folder="/", model="m", session_id=SESSION).close()
    wrong: list[str] = []
    for kill in range(1, kills + 1):
        last = one_round(location, ran, chance, "kill:after-intent" if kill == 1 else "")
        with opened(location) as store:
            wrong += [f"kill {kill}: {one}" for one in check(store, ran, last)]
    with opened(location) as store:
        rows = list(stored_records(store.database, SESSION))
    return {
        "kills": kills,
        "records": len(rows),
        "commands": len(ran.read_text().split()),
        "unknown": sum(row.kind == "outcome" and '"unknown"' in row.payload for row in rows),
        "wrong": wrong,
    }


@contextmanager
def opened(location: str) -> Iterator[SessionStore]:
    """Open the store and close it before the next fork: SQLite must not be open across one."""
    store, recovery = open_store(location, user="ana", version="1.0")
    if recovery is not None:
        raise RuntimeError(str(recovery.text))
    try:
        yield store
    finally:
        store.close()


if __name__ == "__main__":
    result = main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.write(json.dumps(result) + "\n")
