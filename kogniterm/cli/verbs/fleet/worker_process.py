"""`kogniterm worker`: take tasks from the queue and run each in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.cli.options import Argument, Example, Subparsers, add_verb, count
from kogniterm.cli.verb_helpers import location_of, open_sessions, paths_in_use, user_name, visible
from kogniterm.cli.verbs.fleet.task_files import queue_names
from kogniterm.errors import EXIT_DONE
from kogniterm.ui.locale import _, duration, mark

if TYPE_CHECKING:
    from kogniterm.fleet.worker_loop import Worker
    from kogniterm.types.queue_values import QueuedTask, TaskEnd

_WIDEST = 100


def add_parser(subparsers: Subparsers) -> None:
    """Add `worker` with its options."""
    add_verb(
        subparsers,
        "worker",
        [
            Argument("--queues", "Queues to serve, as in default,night", "NAMES",
                     default="default"),
            Argument("--slots", "Tasks at once", "N", type=count, default=1),
            Argument("--until-empty", "Exit when nothing is queued and nothing runs"),
        ],
        description=mark(
            "Take tasks from the queue and run each as a session in a process of its own. Ctrl-C "
            "lets running tasks end; Ctrl-C again hands them over to other workers."
        ),
        examples=(
            Example("kogniterm worker"),
            Example("kogniterm worker --slots 4 --queues default,night"),
            Example("kogniterm worker --until-empty", "For cron and CI"),
        ),
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Work until stopped; returns the exit status."""
    from kogniterm.fleet.task_database import open_queue
    from kogniterm.fleet.worker_loop import Worker, this_worker

    queues, data = tuple(queue_names(args.queues)), paths_in_use().data
    with (
        open_sessions(args) as store,
        closing(open_queue(location_of(args), user_name(), data)) as queue,
    ):
        info = this_worker(queues, args.slots, __version__)
        worker = Worker(queue, store, info, data / "queue", _report, until_empty=args.until_empty)
        served = _("Worker {name} serves {queues}.")
        _say(served.format(name=info.name, queues=", ".join(queues)))
        asyncio.run(_work(worker))
    return EXIT_DONE


async def _work(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def stop() -> None:
        asked.append(1)
        if len(asked) > 1:
            worker.hand_over()
            return
        worker.drain()
        if worker.running:
            told = _("Running tasks: {count}. They end first; Ctrl-C hands them over.")
            _say(told.format(count=worker.running))

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await worker.run()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _report(task: QueuedTask, end: TaskEnd | None) -> None:
    if end is None:
        _say(f"{task.id}  {_('started')}  {task.task.text}")
        return
    from kogniterm.ui.screen.task_table import reason_text, state_text

    reason = f"  {reason_text(end.reason)}" if end.reason and end.state != "done" else ""
    _say(f"{task.id}  {state_text(end.state)}  {duration(end.seconds)}{reason}")


def _say(text: str) -> None:
    line = visible(" ".join(text.split()))
    sys.stderr.write((line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…") + "\n")
    sys.stderr.flush()
