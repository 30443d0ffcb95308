"""A queue of many tasks on several machines under random kills of everything that takes part.

Each task is a session whose command appends a line to a file of its own: a command that ran twice
shows as two lines. Killed are workers, their children (`kogniterm run`), the supervisors of
commands, running commands, whole machines and the database server, each at a random moment. Some
tasks ask a question instead, and are answered once every machine has been restarted. The size is
that of a few minutes; KOGNITERM_TEST_QUEUE_TASKS, KOGNITERM_TEST_QUEUE_KILLS and
KOGNITERM_TEST_QUEUE_SEED set another one.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from kogniterm import __version__
from kogniterm.sessions.journal.codec import stored_records
from kogniterm.sessions.records import Intent, Outcome
from kogniterm.sessions.session_database import open_store
from tests.support.machines import FIRST_NUMBER, USER, Kind, Machine, Process, is_root
from tests.support.postgres import crash, fresh_schema, start

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("KOGNITERM_TEST_FAULTS") != "all", reason="one of the long fault runs"
    ),
    pytest.mark.timeout(0),  # the full size takes as long as it takes
]
TASKS = int(os.environ.get("KOGNITERM_TEST_QUEUE_TASKS", "24"))
KILLS = int(os.environ.get("KOGNITERM_TEST_QUEUE_KILLS", "8"))
SEED = int(os.environ.get("KOGNITERM_TEST_QUEUE_SEED", "0")) or random.SystemRandom().getrandbits(
    32
)
MACHINES = 4
SLOTS = 1 if TASKS < 50 else 5
"""Tasks at once on each machine."""
ASKING = 8 if TASKS < 100 else 40
"""One task of so many asks a question."""
PATIENCE = 900.0
"""Seconds without any progress after which the run fails: a guard, not a measure."""
OPTIONS = ("--no-sandbox", "--plan", "never", "--memory", "off", "--tries", "20")
SCRIPT = """replies:
  - when: {last_contains: "Append your line"}
    run: 'echo "${PWD##*/} $$" >>../../ran/${PWD##*/}; sleep 0.3'
    repeat: forever
  - {text: "Done.", repeat: forever}
"""
Target = Literal["worker", "child", "supervisor", "command", "machine", "database"]
TARGETS: tuple[Target, ...] = (
    "worker", "child", "child", "supervisor", "command", "machine", "database",
)  # fmt: skip


@dataclass
class Campaign:
    """Machines at work on a batch of tasks, the kills so far, and what was wrong."""

    base: Path
    chance: random.Random
    socket: Path | None = None
    location: str = ""
    machines: list[Machine] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    expected: Counter[int] = field(default_factory=Counter)

    def prepare(self) -> None:
        """Make the machines and the folders that they share, and add the tasks."""
        for name in ("tasks", "ran"):
            (self.base / name).mkdir()
        (self.base / "script.yaml").write_text(SCRIPT)
        for number in range(MACHINES if self.socket is not None else 1):
            name = f"machine{number + 1}"
            slots = SLOTS if self.socket is not None else 4
            self.machines.append(
                Machine(self.base, name, FIRST_NUMBER + number, self.location, slots)
            )
        self.share_key()
        asking = {number for number in range(TASKS) if number % ASKING == 1}
        self.add("acting", [n for n in range(TASKS) if n not in asking], "-y")
        self.add("asking", sorted(asking))

    def share_key(self) -> None:
        """Give all machines one key, so that each accepts the answers given on another."""
        first, *others = self.machines
        first.run("queue", "key", "export", "key")
        for machine in others:
            (machine.home / "key").write_text((first.home / "key").read_text())
            machine.run("queue", "key", "import", "key")

    def add(self, batch: str, numbers: list[int], *options: str) -> None:
        lines = []
        for number in numbers:
            folder = self.base / "tasks" / f"t{number:04}"
            folder.mkdir()
            ran = self.base / "ran" / folder.name
            ran.touch()
            if is_root():
                folder.chmod(0o777)
                ran.chmod(0o666)
            task = {"task": "Append your line", "id": folder.name, "folder": str(folder)}
            lines.append(json.dumps(task))
        file = self.base / f"{batch}.jsonl"
        file.write_text("\n".join(lines))
        model = f"scripted:{self.base / 'script.yaml'}"
        words = ["queue", "add", "--file", str(file), "--batch", batch, "--model", model, *options]
        self.machines[0].run(*words, *OPTIONS)

    @property
    def acting(self) -> int:
        """The number of tasks that run their command without a question."""
        return TASKS - len(range(1, TASKS, ASKING))

    # --- kills -------------------------------------------------------------------------------

    def kill_at_random(self) -> None:
        """Kill something as often as wanted, at moments that are spread over all tasks."""
        away: Machine | None = None
        for kill in range(KILLS):
            self.wait_for((kill + 1) * 0.7 * self.acting / (KILLS + 1))
            time.sleep(self.chance.random())  # the moment of the kill, at random
            target = self.chance.choice(TARGETS)
            if target == "database" and self.socket is None:
                target = "machine"
            if away is not None:
                away.start()
                away = None
            if target not in ("machine", "database"):
                self.kill_process(target)
                continue
            self.kills[target] += 1
            if target == "machine":
                machine = self.chance.choice(self.machines)
                machine.kill()
                if len(self.machines) > 1 and self.chance.random() < 0.5:
                    away = machine  # until the next kill, so that others have to notice
                else:
                    machine.start()
            elif self.socket is not None:
                crash(self.socket)

    def kill_process(self, kind: Kind) -> None:
        """Kill a process of this kind; a worker, where the last tasks have no such process."""
        found: list[Process] = []

        def is_there() -> bool:
            running = [one for machine in self.machines for one in machine.processes()]
            idle = not any(one.kind == "child" for one in running)
            wanted = (kind, "worker") if idle and self.begun() > 0.9 * self.acting else (kind,)
            found[:] = [one for one in running if one.kind in wanted]
            return bool(found)

        self.until(is_there, f"no {kind} runs")
        victim = self.chance.choice(found)
        if victim.kind == "worker":
            self.expected[137] += 1
        self.kills[victim.kind] += 1
        victim.kill()

    def wait_for(self, lines: float) -> None:
        """Wait until so many tasks have run their command."""
        self.until(lambda: self.begun() >= lines, f"{lines:.0f} commands have not run")

    def begun(self) -> int:
        return sum(one.stat().st_size > 0 for one in (self.base / "ran").iterdir())

    def until(self, holds: Callable[[], bool], otherwise: str) -> None:
        """Wait for something that other processes do; there is no event for it."""
        progress, deadline = -1, 0.0
        while not holds():
            if self.begun() != progress:
                progress, deadline = self.begun(), time.monotonic() + PATIENCE
            if time.monotonic() > deadline:
                raise TimeoutError(otherwise)
            time.sleep(0.2)

    # --- afterwards --------------------------------------------------------------------------

    def settle(self) -> list[dict[str, Any]]:
        """Wait until nothing is queued or runs; return the tasks."""
        while True:
            # It ends early where the database is away.
            self.machines[0].run("queue", "watch", statuses=(0, 1, 3))
            tasks = self.tasks()
            if not any(task["state"] in ("queued", "running") for task in tasks):
                return tasks

    def tasks(self) -> list[dict[str, Any]]:
        listed = json.loads(self.machines[0].run("queue", "list", "--limit", "100000", "--json"))
        assert len(listed) == TASKS
        return list(listed)

    def look_for_remains(self) -> None:
        """Report processes that are left running though no task is."""
        left: list[Process] = []

        def gone() -> bool:
            running = [one for machine in self.machines for one in machine.processes()]
            left[:] = [one for one in running if one.kind not in ("worker", "other")]
            return not left

        try:
            self.until(gone, "left running")
        except TimeoutError:
            self.wrong += [f"left running: {one.words}" for one in left]

    def restart_all(self) -> None:
        for machine in self.machines:
            machine.kill()
        for machine in self.machines:
            machine.start()

    def look(self, tasks: list[dict[str, Any]], allowed: dict[str, set[str]]) -> None:
        """Check every task: its state, how often its command ran, and what its journal says."""
        machine = self.machines[0]
        place = self.location or machine.home / "data" / "kogniterm.db"
        user = USER if is_root() else None
        for task in tasks:
            name = task["id"]
            if task["state"] not in allowed[task["batch"]]:
                self.wrong.append(f"{name} is {task['state']}: {task['reason']}")
        store, _ = open_store(
            place, user=user or _me(), version=__version__, heads=self.base / "observer"
        )
        with closing(store):
            for task in tasks:
                bodies = [r.record().body for r in stored_records(store.database, task["id"])]
                self.look_at(task, bodies)

    def look_at(self, task: dict[str, Any], bodies: list[Any]) -> None:
        name, state = task["id"], task["state"]
        lines = len((self.base / "ran" / name).read_text().splitlines())
        intents = sum(isinstance(body, Intent) for body in bodies)
        outcomes = [body for body in bodies if isinstance(body, Outcome)]
        ended = [one.result for one in outcomes if one.result is not None]
        if lines > 1:
            self.wrong.append(f"the command of {name} ran {lines} times")
        if lines > intents:
            self.wrong.append(f"the command of {name} ran without an intent")
        if any(one.exit_code == 0 for one in ended) and lines != 1:
            self.wrong.append(f"the command of {name} succeeded, it says, and did not run")
        if state == "done" and not outcomes and task["turn"] == 1:
            self.wrong.append(f"{name} is done without an outcome")
        if state == "parked" and lines:
            self.wrong.append(f"{name} ran its command before it was approved")

    def answer_all(self) -> None:
        """Answer every question: approve actions, and settle what is unknown either way."""
        asked = json.loads(self.machines[0].run("queue", "inbox", "--json"))
        with ThreadPoolExecutor(4) as pool:
            answers = []
            for question in asked:
                is_unknown = question["kind"] == "unknown"
                choice = self.chance.choice(("check", "skip")) if is_unknown else "approve"
                given = [question["session"], "--digest", question["digest"], choice]
                run = self.chance.choice(self.machines).run
                answers.append(pool.submit(run, "queue", "answer", *given))
        for one in answers:
            one.result()

    def verify_chains(self) -> None:
        """Verify the audit chain of every session, with what each machine remembers of it."""
        for machine in self.machines:
            machine.run("audit", "verify")

    def look_at_workers(self) -> None:
        """Report workers that ended otherwise than by a kill.

        One that starts while the database is away says so and ends with status 1.
        """
        ended = Counter(status for machine in self.machines for status in machine.ends())
        if self.kills["database"]:
            del ended[1]
        for status, count in (ended - self.expected).items():
            self.wrong.append(f"{count} workers ended by themselves, with status {status}")

    def close(self) -> None:
        for machine in self.machines:
            machine.kill()


def _me() -> str:
    from kogniterm.host.identity import account_name

    return account_name()


@pytest.fixture(params=["sqlite", "postgres"])
def campaign(request: pytest.FixtureRequest) -> Iterator[Campaign]:
    """Yield machines that are switched off, in a folder that accounts of other numbers reach."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        base = Path(name)
        for folder in (base, *base.parents):
            if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
                folder.chmod(folder.stat().st_mode | 0o011)
        with ExitStack() as stack:
            campaign = Campaign(base, random.Random(SEED))
            if request.param == "postgres":
                campaign.socket = start(os.getpid(), durable=True)
                campaign.location = stack.enter_context(fresh_schema(campaign.socket))
            stack.callback(campaign.close)
            sys.stdout.write(f"seed {SEED}\n")
            campaign.prepare()
            yield campaign


def test_no_command_runs_twice_whatever_is_killed(campaign: Campaign) -> None:
    began = time.monotonic()
    for machine in campaign.machines:
        machine.start()
    campaign.kill_at_random()
    tasks = campaign.settle()
    seconds = time.monotonic() - began
    campaign.look_for_remains()
    campaign.look(tasks, {"acting": {"done", "unknown"}, "asking": {"parked"}})
    states = Counter(f"{task['batch']} {task['state']}" for task in tasks)
    unknown = [task["id"] for task in tasks if task["state"] == "unknown"]
    ran = Counter((campaign.base / "ran" / name).stat().st_size > 0 for name in unknown)
    figures = {
        "database": "PostgreSQL" if campaign.socket else "SQLite",
        "seed": SEED,
        "tasks": TASKS,
        "kills": campaign.kills,
        "killed": campaign.kills.total(),
        "seconds": round(seconds),
        "states after the kills": states,
        "unknown that had run": ran[True],
        "unknown that had not": ran[False],
        "lines": sum(
            len(one.read_text().splitlines()) for one in (campaign.base / "ran").iterdir()
        ),
    }
    sys.stdout.write(json.dumps(figures) + "\n")
    campaign.look_at_workers()
    campaign.verify_chains()
    campaign.restart_all()
    campaign.answer_all()
    after = campaign.settle()
    campaign.look(after, {"acting": {"done"}, "asking": {"done"}})
    for name in unknown:
        if (campaign.base / "ran" / name).read_text().count("\n") > 1:
            campaign.wrong.append(f"the unknown command of {name} ran again after an answer")
    campaign.look_for_remains()
    campaign.verify_chains()
    assert campaign.wrong == []
