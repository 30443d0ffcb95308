"""Both databases in turn for the queue; workers as processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kogniterm import __version__
from kogniterm.addons.fleet.queue_ports import WorkerQueue
from kogniterm.addons.fleet.queue_values import NewTask, QueuedTask, WorkerInfo
from kogniterm.addons.fleet.task_queue import open_queue as opened
from kogniterm.sessions.session_database import open_store
from kogniterm.sessions.store import SessionStore
from tests.support.databases import location, postgres_server, postgres_url
from tests.support.environments import environ_of
from tests.support.forge import until

__all__ = ["location", "postgres_server", "postgres_url"]

ME = "ana"
OpenQueue = Callable[..., WorkerQueue]


@pytest.fixture
def open_queue(location: Path | str, tmp_path: Path) -> Iterator[OpenQueue]:
    """Yield a function that opens the queue at `location` for a user; close all at the end."""
    with ExitStack() as stack:

        def open_one(user: str = ME, version: str = __version__) -> WorkerQueue:
            queue = opened(location, user, tmp_path, version=version)
            stack.callback(queue.close)
            return queue

        yield open_one


@dataclass
class Fleet:
    """A home, and the worker processes that a test starts in it."""

    base: Path
    location: Path | str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def environ(self) -> dict[str, str]:
        return {
            **environ_of(self.base),
            **({"KOGNITERM_DATABASE_URL": self.location} if isinstance(self.location, str) else {}),
            **self.variables,
        }

    def run(self, *words: str, status: int | None = 0) -> str:
        """Run `kogniterm WORDS`; returns what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "kogniterm", *words],
            env=self.environ,
            cwd=self.base,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert status is None or done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def worker(self, *options: str, faults: str = "") -> subprocess.Popen[bytes]:
        """Start a worker in a process group of its own; its children have `faults`."""
        log = (self.base / f"worker-{len(self.workers)}.log").open("wb")
        worker = subprocess.Popen(
            [sys.executable, "-m", "kogniterm", "worker", *options],
            env=self.environ | ({"KOGNITERM_FAULTS": faults} if faults else {}),
            cwd=self.base,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        self.workers.append(worker)
        return worker

    def log(self, number: int) -> str:
        """Return what a worker has written so far."""
        return (self.base / f"worker-{number}.log").read_text()

    def script(self, name: str, text: str) -> str:
        """Return the scripted model that answers as `text` says."""
        file = self.base / f"{name}.yaml"
        file.write_text(text)
        return f"scripted:{file}"

    def gemini(self, url: str, *more: str) -> None:
        """Let tasks use the fake Gemini at `url`; `more` are further lines of settings."""
        lines = ["GOOGLE_API_KEY=AIza-test-0123456789", f"GOOGLE_GEMINI_BASE_URL={url}", *more]
        (self.base / "config" / ".env").write_text("\n".join(lines) + "\n")

    def folder(self, name: str) -> Path:
        folder = self.base / name
        folder.mkdir(exist_ok=True)
        return folder

    def task(self, task_id: str) -> QueuedTask:
        with self.queue() as queue:
            return queue.find(task_id)

    def until_state(self, task_id: str, *states: str) -> QueuedTask:
        until(lambda: self.task(task_id).state in states)
        return self.task(task_id)

    def queue(self) -> closing[WorkerQueue]:
        from kogniterm.host.identity import account_name

        self.data.mkdir(parents=True, exist_ok=True)
        return closing(opened(self.location, account_name(), self.data))

    def sessions(self) -> SessionStore:
        from kogniterm.host.identity import account_name

        name, heads = account_name(), self.data
        store, _ = open_store(self.location, user=name, version=__version__, heads=heads)
        return store

    def end(self) -> None:
        """End the workers and whatever they left running."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()


@pytest.fixture(params=["sqlite", "postgres"])
def either_fleet(request: pytest.FixtureRequest, fleet: Fleet) -> Fleet:
    """Return a fleet with its sessions in a file, then in PostgreSQL."""
    if request.param == "postgres":
        fleet.location = str(request.getfixturevalue("postgres_url"))
    return fleet


@pytest.fixture
def fleet(tmp_path: Path, warm_starts: dict[str, str]) -> Iterator[Fleet]:
    (tmp_path / "config").mkdir()
    database = tmp_path / "data" / "kogniterm.db"
    fleet = Fleet(tmp_path, database, variables=dict(warm_starts))
    try:
        yield fleet
    finally:
        fleet.end()
        for pid in children_in(tmp_path):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children_in(folder: Path) -> list[int]:
    """Return the processes whose environment names `folder` as the data folder."""
    mark = f"KOGNITERM_DATA_DIR={folder}/data".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


class OneTask:
    """A worker that takes one task and does nothing with it."""

    def __init__(self, info: WorkerInfo) -> None:
        self.info, self.shares = info, [(info.queues, 1)]
        self.running: dict[str, Any] = {}
        self.taken: QueuedTask | None = None

    def count_running(self, queues: Collection[str]) -> int:
        return int(self.taken is not None)

    def start(self, task: QueuedTask) -> None:
        assert self.taken is None
        self.taken = task
        self._serving.cancel()

    async def serve(self, queue: WorkerQueue, *, wait: bool = False) -> None:
        self._serving = asyncio.ensure_future(queue.serve(self, wait=wait))
        with suppress(asyncio.CancelledError):
            await self._serving


def claim(queue: WorkerQueue, info: WorkerInfo) -> QueuedTask | None:
    """Take the next task as a worker that lives."""
    queue.beat(info)
    one = OneTask(info)
    for task in queue.tasks(states=("running",)):
        if task.worker == info.name:
            one.running[task.id] = Future()
    asyncio.run(one.serve(queue))
    return one.taken


def new(task_id: str, folder: str | None = None, **more: object) -> NewTask:
    """Return a task in a folder of its own."""
    return NewTask(task_id, f"do {task_id}", folder or f"/{task_id}", **more)  # type: ignore[arg-type]  # fields of any type
