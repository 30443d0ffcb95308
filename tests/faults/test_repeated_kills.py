"""`kill -9` repeatedly during one command, and during every recovery from that.

Each case is a session whose model wants one command, in other words after each crash, until it is
told how the command ended. The command leaves a mark outside of KogniTerm each time it runs. What
is killed is the program, its process group, the supervisor of its commands, or all of them, at a
random moment: then the session is gone on with, and killed again. However often, the command runs
once at most, nothing of it stays running, and the journal's chain is whole.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.journal.codec import stored_records
from kogniterm.sessions.records import InputReceived, Intent, Outcome, TurnClosed
from kogniterm.sessions.session_database import open_store
from tests.support.forge import Forge, Started, until
from tests.support.typing_user import running

ALL = os.environ.get("KOGNITERM_TEST_FAULTS") == "all"
KILLS, SEEDS = (65, 4) if ALL else (6, 1)
"""Kills of one campaign, and campaigns on each database."""
TARGETS = ("program", "group", "supervisor", "both")
WAYS = (
    "echo {n} >>{ran}; {work}",
    "  echo   '{n}'   >> {ran} ;  {work} ",
    'cd . && echo "{n}" >>{ran}; {work}',
    "(echo {n} >>{ran}); {work} || true",
    "sh -c 'echo {n} >>{ran}; {work}'",
    "cd / && cd '{folder}'; echo {n} >>{ran}; {work}",
)
"""Spellings of the same command."""
WORKS = ("true", "sleep 0.2", "sleep {nap}", "sleep {nap}")
"""The rest of the command after its mark; the last two keep running until something ends them."""


@dataclass
class Campaign:
    """All cases so far, and their results."""

    forge: Forge
    root: Path
    chance: random.Random
    location: str = ""
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    deepest: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def scratch(self) -> Path:
        """The folder of private folders: every process of an executor names its own."""
        return self.root / "scratch"

    @property
    def killed(self) -> int:
        """The number of kills."""
        return sum(self.kills.values())

    def figures(self) -> dict[str, object]:
        """Return the results for the report."""
        database = "PostgreSQL" if self.location else "SQLite"
        return {
            "database": database,
            "killed": self.kills,
            "cases": self.ends.total(),
            "kills in a row": self.deepest,
            "unknown": self.unknown,
            "statuses": self.ends,
            "wrong": self.wrong,
        }

    def case(self, number: int) -> None:
        """Run one session: killed up to four times, then left to end."""
        one = Case(self, number)
        for depth in range(1, self.chance.randrange(2, 6)):
            if not one.killed_once():
                break
            self.deepest = max(self.deepest, depth)
        one.settle()
        self.wrong += [f"case {number}: {what}" for what in one.wrong]


class Case:
    """One session and its command."""

    def __init__(self, campaign: Campaign, number: int) -> None:
        self.campaign, self.number = campaign, number
        self.wrong: list[str] = []
        self.root = campaign.root / str(number)
        self.folder, self.ran = self.root / "work", self.root / "ran"
        self.folder.mkdir(parents=True)
        self.nap = f"{10**6 + number}.{campaign.chance.randrange(10**6)}"
        self.work = campaign.chance.choice(WORKS).format(nap=self.nap)
        self.begun = False

    def begin(self) -> Started:
        """Continue the session, or begin it."""
        chance, campaign = self.campaign.chance, self.campaign
        command = chance.choice(WAYS).format(
            n=self.number, ran=self.ran, work=self.work, folder=self.folder
        )
        # The model stops when it learns how the command ended; if that is unknown, it asks again.
        run = {"run": command, "purpose": "Count", "repeat": "forever"}
        insisting = {"when": {"last_contains": "[outcome unknown"}, **run}
        told = {"when": {"tool": "execute_command"}, "text": "Done.", "repeat": "forever"}
        replies = [insisting, told, run]
        script = self.root / "script.yaml"
        script.write_text(json.dumps({"replies": replies}))
        words = ["run", "-y", "--no-sandbox", "--model", f"scripted:{script}", "--plan", "never"]
        words += ["--output", "stream-json"]
        if not self.begun:
            words += ["Count"]
        else:
            # A command that is known to have ended may be requested and run again.
            wishes = [] if self.ended() else [["go on"], ["count it again, now"]]
            words += ["--continue", *chance.choice([*wishes, *([[]] * 2 * self.is_open())])]
        kinds = {f"KOGNITERM_{kind}_DIR": str(self.root / kind) for kind in ("CONFIG", "DATA")}
        environ = {"PATH": os.environ["PATH"], "TMPDIR": str(campaign.scratch)} | kinds
        environ |= {"HOME": str(self.root), "LANG": "C.UTF-8", "KOGNITERM_MEMORY": "off"}
        environ |= {"KOGNITERM_CACHE_DIR": str(self.root / "CACHE"), "KOGNITERM_WARM": "off"}
        if campaign.location:
            environ["KOGNITERM_DATABASE_URL"] = campaign.location
        return campaign.forge.start(words, environ=environ, folder=self.folder, scratch=self.root)

    def killed_once(self) -> bool:
        """Start it, kill a process at a random moment, check; return whether the program died."""
        chance = self.campaign.chance
        target, told = chance.choice(TARGETS), chance.randrange(0, 9)
        if self.is_over():
            return False
        started = self.begin()
        until(lambda: len(events_of(started)) > told or is_stuck(started) or started.gone)
        watcher = supervisor_of(started.pid)
        over = started.gone or is_over(started)
        if not over:
            self.kill(target, started, watcher)
            self.campaign.kills[target if watcher or target != "supervisor" else "program"] += 1
        if target == "supervisor" and watcher and not over:
            # The program goes on, with a command that has no supervisor or with a new supervisor.
            until(lambda: started.gone or is_stuck(started) or is_over(started))
            started.send(signal.SIGKILL)
        status = started.wait()
        self.look()
        return status == -signal.SIGKILL

    def kill(self, target: str, started: Started, watcher: int | None) -> None:
        """Kill the target, as `kill -9` does."""
        if target in ("supervisor", "both") and watcher is not None:
            with suppress(ProcessLookupError):
                os.kill(watcher, signal.SIGKILL)
        if target == "group":
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
        elif target != "supervisor" or watcher is None:
            started.send(signal.SIGKILL)

    def settle(self) -> None:
        """Start a last time without a kill: the session ends and lists what is unknown."""
        self.work = "true"  # it might begin only now, and sleep for days
        if self.is_over():
            self.campaign.ends["0"] += 1
            return
        started = self.begin()
        self.cut_short(started)
        status = started.wait()
        self.look()
        self.campaign.ends[str(status)] += 1
        if status not in (0, 3):
            self.wrong.append(f"it ended with {status}: {started.said[-2000:]}")
        bodies = self.bodies()
        known = self.ended()
        if status == 0 and known != 1:
            self.wrong.append(f"all is well, it says, with {known} known ends")
        self.campaign.unknown += any(
            isinstance(body, Outcome) and body.status == "unknown" for body in bodies
        )
        exits = [
            b for b in bodies if isinstance(b, Outcome) and b.result and b.result.exit_code == 0
        ]
        if exits and not self.times():
            self.wrong.append("it finished without having run")

    def cut_short(self, started: Started) -> None:
        """End the sleep of a command that was approved before and begins only now."""
        if self.nap not in self.work and self.nap in str(self.bodies()):
            until(lambda: started.gone or is_over(started) or bool(running(f"sleep {self.nap}")))
            while not started.gone and not is_over(started):
                for process in running(self.nap):
                    with suppress(OSError):
                        if Path(f"/proc/{process}/comm").read_text().strip() == "sleep":
                            os.kill(process, signal.SIGTERM)

    def look(self) -> None:
        """Check the guarantees that must hold after every end."""
        if self.times() > 1:
            self.wrong.append(f"the command ran {self.times()} times")
        if self.times() and not self.intents():
            self.wrong.append("the command ran without an intent")
        self.look_for(self.nap)
        self.look_for(str(self.campaign.scratch))
        with self.opened() as (store, session_id):
            if session_id is None:
                return
            self.begun = True
            report = verify(store.database, session_id)
            if not report.intact:
                self.wrong.append(f"chain broken at {report.broken}: {report.reason}")

    def look_for(self, words: str) -> None:
        """Report processes with these words that are left running."""
        try:
            until(lambda: not running(words))
        except TimeoutError:
            self.wrong.append(f"{running(words)} were left running: {words}")

    def times(self) -> int:
        """Return how often the command ran."""
        return len(self.ran.read_text().split()) if self.ran.exists() else 0

    def intents(self) -> int:
        """Return how often an intent to run it was recorded."""
        return sum(isinstance(body, Intent) for body in self.bodies())

    def ended(self) -> int:
        """Return how many outcomes the journal holds for commands that started."""
        results = [body.result for body in self.bodies() if isinstance(body, Outcome)]
        return sum(one is not None and one.ended != "not_started" for one in results)

    def is_over(self) -> bool:
        """Return whether the journal has an outcome of the command and the end of the turn."""
        return bool(self.ended()) and not self.is_open()

    def is_open(self) -> bool:
        """Return whether a turn has begun and not ended."""
        ends = [b for b in self.bodies() if isinstance(b, InputReceived | TurnClosed)]
        return bool(ends) and isinstance(ends[-1], InputReceived)

    def bodies(self) -> list[Any]:
        """Return the record bodies of the journal."""
        with self.opened() as (store, session_id):
            if session_id is None:
                return []
            return [one.record().body for one in stored_records(store.database, session_id)]

    def opened(self) -> opened:
        """Open the store of this case."""
        place = self.campaign.location or self.root / "DATA" / "kogniterm.db"
        return opened(place, str(self.folder))


class opened:  # noqa: N801  # used like a function
    """Context manager for the store at `place` and the session of `folder` in it."""

    def __init__(self, place: Path | str, folder: str) -> None:
        import getpass

        self._store, recovery = open_store(place, user=getpass.getuser(), version="1.0")
        assert recovery is None, str(recovery.text)
        self._folder = folder

    def __enter__(self) -> Any:
        found = self._store.sessions(folder=self._folder)
        return self._store, found[0].id if found else None

    def __exit__(self, *_: object) -> None:
        self._store.close()


def events_of(started: Started) -> list[str]:
    """Return the events that were written whole."""
    return started.out.read_text().splitlines()


def is_over(started: Started) -> bool:
    """Return whether the program reported the end of the turn."""
    return '"turn_ended"' in started.out.read_text()


def is_stuck(started: Started) -> bool:
    """Return whether a command runs, possibly for days: no further event comes then."""
    out = started.out.read_text()
    return '"command_started"' in out and '"command_ended"' not in out


def supervisor_of(pid: int) -> int | None:
    """Return the process that supervises the commands of `pid`, or None before it has started."""
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if b"supervisor" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    return None


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_command_runs_once_however_often_its_recovery_is_killed(
    forge: Forge, tmp_path: Path, location: Path | str, seed: int
) -> None:
    shared = location if isinstance(location, str) else ""
    campaign = Campaign(forge, tmp_path, random.Random(seed), shared)
    campaign.scratch.mkdir()
    number = 0
    while campaign.killed < KILLS:
        number += 1
        campaign.case(number)
    sys.stdout.write(json.dumps(campaign.figures()) + "\n")
    assert campaign.wrong == []
    assert campaign.deepest > 1
