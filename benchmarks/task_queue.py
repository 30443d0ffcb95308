"""Compare the queue with a plain shell loop and with Procrastinate alone, on PostgreSQL.

    python -m benchmarks.task_queue [--tasks 16] [--workers 1 2 4 8] [--claims 1000]

Every way starts the same tasks, each a `kogniterm run` with a scripted model and one command: a
loop of the shell (`xargs -P` for several at once), Procrastinate with a job that starts the
child, and workers of the queue. Printed for each number of workers are the time and the CPU time
of a task, without the start of the worker, and both as ratios to the loop. Then the queue alone:
how many tasks a second it gives to workers that do nothing. The server is one of its own, with the
disk's guarantees; its CPU time counts.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import multiprocessing
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from kogniterm import __version__
from kogniterm.addons.fleet.queue_ports import WorkerQueue
from kogniterm.addons.fleet.queue_values import NewTask, QueuedTask, TaskEnd, WorkerInfo
from kogniterm.addons.fleet.task_queue import open_queue
from kogniterm.addons.fleet.worker_loop import this_worker
from tests.support.postgres import fresh_schema, start

SCRIPT = {
    "replies": [
        {"when": {"tool": "execute_command"}, "text": "Done.", "repeat": "forever"},
        {"run": "echo done >>out", "repeat": "forever"},
    ]
}
OPTIONS = ("-y", "--no-sandbox", "--plan", "never", "--memory", "off")
USER = "benchmark"
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds from start to end, and seconds of CPU: of all processes and of the server."""

    seconds: float
    cpu: float


@dataclass
class Bench:
    """A folder with a folder for each task, a database, and the server that holds it."""

    base: Path
    url: str
    socket: Path
    deliveries: str
    ids: Iterator[int]

    @property
    def environ(self) -> dict[str, str]:
        found = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        for kind in ("CONFIG", "DATA", "CACHE"):
            found[f"KOGNITERM_{kind}_DIR"] = str(self.base / kind.lower())
        root = str(Path(__file__).parents[1])
        found |= {"HOME": str(self.base), "PYTHONPATH": root, "KOGNITERM_DATABASE_URL": self.url}
        return found

    def tasks(self, number: int) -> list[Path]:
        """Return the folders of new tasks; a folder's name is the ID of its task."""
        folders = [self.base / "tasks" / f"t{next(self.ids)}" for _ in range(number)]
        for folder in folders:
            folder.mkdir(parents=True)
        return folders

    def child(self, task: str) -> list[str]:
        """Return the words of the child that does a task."""
        run = [sys.executable, "-P", "-m", "kogniterm", "run", "--session", task, "--park"]
        return [*run, *self.options(), "--output", "stream-json", "--", "go"]

    def options(self) -> list[str]:
        return [*OPTIONS, "--model", f"scripted:{self.base / 'script.json'}"]

    def run(self, *words: str) -> None:
        """Run a program to its end. Raises `CalledProcessError`."""
        quiet = subprocess.DEVNULL
        subprocess.run(
            words, env=self.environ, cwd=self.base, stdin=quiet, stdout=quiet, check=True
        )

    def measured(self, work: Callable[[], None]) -> Cost:
        """Do `work` and return what it cost."""
        began, cpu, server = time.monotonic(), children_cpu(), self.server_cpu()
        work()
        used = children_cpu() - cpu + self.server_cpu() - server
        return Cost(time.monotonic() - began, used)

    def server_cpu(self) -> float:
        """Return the CPU seconds of the server so far, its ended processes included."""
        file = self.socket.parent / "data" / "postmaster.pid"
        leader = int(file.read_text().splitlines()[0])
        living = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        return cpu_of(leader, ended=True) + sum(cpu_of(int(pid)) for pid in living)


def children_cpu() -> float:
    """Return the CPU seconds of this process's ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of(pid: int, *, ended: bool = False) -> float:
    """Return the CPU seconds of a process; 0 for one that has gone. With its `ended` children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if ended else 13])) / _TICK


# --- the three ways --------------------------------------------------------------------------


def shell_loop(bench: Bench, folders: Sequence[Path], at_once: int) -> None:
    """Start the children from a shell, `at_once` at a time."""
    words = " ".join(shlex.quote(word) for word in bench.child("{}"))
    one = f"cd {shlex.quote(str(bench.base / 'tasks'))}/{{}} && {words}"
    names = "\n".join(folder.name for folder in folders)
    script = f"printf '%s\\n' {shlex.quote(names)} | xargs -P {at_once} -I {{}} sh -c {{0}}"
    bench.run("sh", "-c", script.replace("{0}", shlex.quote(f"{one} 2>>/dev/null")))


def add(bench: Bench, folders: Sequence[Path]) -> None:
    """Add tasks to the queue."""
    lines = [{"task": "go", "id": one.name, "folder": str(one)} for one in folders]
    file = bench.base / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    bench.run(*KOGNITERM, "queue", "add", "--file", str(file), *bench.options())


def our_queue(bench: Bench, folders: Sequence[Path], workers: int) -> None:
    """Let workers of one slot each do what is in the queue."""
    del folders
    command = [*KOGNITERM, "worker", "--until-empty"]
    with (bench.base / "workers.log").open("ab") as log:
        running = [
            subprocess.Popen(command, env=bench.environ, cwd=bench.base, stderr=log)
            for _ in range(workers)
        ]
        assert [one.wait() for one in running] == [0] * workers


def defer(bench: Bench, folders: Sequence[Path]) -> None:
    """Add a job for each task to Procrastinate's own tables."""
    asyncio.run(_defer(bench.deliveries, [one.name for one in folders]))


def procrastinate_alone(bench: Bench, folders: Sequence[Path], workers: int) -> None:
    """Let workers of Procrastinate start the children."""
    del folders
    processes = [
        multiprocessing.get_context("spawn").Process(target=_deliver, args=(bench,))
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


KOGNITERM = (sys.executable, "-P", "-m", "kogniterm")


def check(folders: Sequence[Path]) -> None:
    """Make sure that each task did its work, once."""
    assert all((folder / "out").read_text() == "done\n" for folder in folders)


def _deliver(bench: Bench) -> None:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=bench.deliveries))

    @app.task(name="child")  # type: ignore[untyped-decorator]  # the library has no types for it
    async def child(task: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *bench.child(task),
            env=bench.environ,
            cwd=bench.base / "tasks" / task,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        await process.wait()

    async def work() -> None:
        async with app.open_async():
            await app.run_worker_async(wait=False, concurrency=1)

    asyncio.run(work())


async def _defer(url: str, names: Sequence[str]) -> None:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url))
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        if names:
            jobs = [{"task": name} for name in names]
            await app.configure_task("child", allow_unknown=True).batch_defer_async(*jobs)


# --- the queue without children --------------------------------------------------------------


def claims(bench: Bench, number: int, workers: int) -> float:
    """Return how many tasks a second the queue gives to `workers` that do nothing with them."""
    with closing(open_queue(bench.url, USER, bench.base)) as queue:
        queue.add([NewTask(f"c{next(bench.ids)}", "go", f"/c{n}") for n in range(number)])
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        found = pool.starmap(
            _claim_all, [(bench.url, str(bench.base), n) for n in range(workers)], chunksize=1
        )
    assert sum(done for done, _, _ in found) == number
    busy = [one for one in found if one[0]]
    return number / (max(end for _, _, end in busy) - min(begin for _, begin, _ in busy))


class Idle:
    """A worker that ends each task at once."""

    def __init__(self, queue: WorkerQueue, info: WorkerInfo) -> None:
        self.queue, self.info = queue, info
        self.shares = [(info.queues, 1)]
        self.running: dict[str, asyncio.Future[None]] = {}
        self.done = 0

    def count_running(self, queues: Collection[str]) -> int:
        """Return how many tasks run: none."""
        return 0

    def start(self, task: QueuedTask) -> None:
        """End a task."""
        assert self.queue.finish(task, TaskEnd("done", "done", 0))
        self.done += 1


def _claim_all(url: str, base: str, number: int) -> tuple[int, float, float]:
    with closing(open_queue(url, USER, Path(base))) as queue:
        info = replace(this_worker(("default",), 1, __version__), name=f"bench-{number}")
        queue.register(info)
        worker, began = Idle(queue, info), time.monotonic()
        asyncio.run(queue.serve(worker, wait=False))
        ended = time.monotonic()
        queue.leave(info.name)
    return worker.done, began, ended


# --- the comparison --------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """One way to do tasks; `start` is the CPU seconds that starting a worker takes."""

    name: str
    submit: Callable[[Bench, Sequence[Path]], None]
    work: Callable[[Bench, Sequence[Path], int], None]
    start: float = 0.0


def compare(bench: Bench, number: int, workers: int, ways: Sequence[Way]) -> None:
    """Print the cost of each way, beside the loop with as many children at once."""
    loop: Cost | None = None
    for way in ways:
        folders = bench.tasks(number)
        way.submit(bench, folders)
        cost = bench.measured(partial(way.work, bench, folders, workers))
        check(folders)
        loop = loop or cost
        used = cost.cpu - way.start * workers
        print(
            f"{workers} at once, {way.name:13} {cost.seconds / number:6.2f} s and "
            f"{used / number:5.2f} s CPU a task; "
            f"time {cost.seconds / loop.seconds:4.2f}, CPU {used / loop.cpu:4.2f}",
            flush=True,
        )


def main() -> int:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--claims", type=int, default=1000)
    options = parser.parse_args()
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (base / "script.json").write_text(json.dumps(SCRIPT))
        socket = start(os.getpid(), durable=True)
        ours, theirs = (stack.enter_context(fresh_schema(socket)) for _ in range(2))
        bench = Bench(base, ours, socket, theirs, count())
        ways = [Way("loop", lambda bench, folders: None, shell_loop)]
        if importlib.util.find_spec("procrastinate") is not None:
            defer(bench, ())
            ways.append(Way("procrastinate", defer, procrastinate_alone))
        ways.append(Way("queue", add, our_queue))
        for number, way in enumerate(ways[1:], 1):
            way.work(bench, (), 1)  # makes the tables
            idle = bench.measured(partial(way.work, bench, (), 1))
            ways[number] = replace(way, start=idle.cpu)
            print(f"starting a worker, {way.name:13} {idle.cpu:5.2f} s CPU", flush=True)
        for workers in options.workers:
            compare(bench, options.tasks, workers, ways)
        for workers in options.workers:
            found = claims(bench, options.claims, workers)
            print(f"{workers} workers that do nothing: {found:.0f} tasks a second", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
