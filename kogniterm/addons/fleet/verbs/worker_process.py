"""`kogniterm worker`: take tasks from the queue and run each in a process of its own."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.addons.fleet.verbs.task_files import queue_names
from kogniterm.cli.options import CallOptions, Example, Subparsers, add_verb
from kogniterm.cli.verb_helpers import location_of, open_sessions, paths_in_use, user_name, visible
from kogniterm.errors import EXIT_DONE, StorageError, UsageError
from kogniterm.runtime.operations.action import Argument, count
from kogniterm.text.shorten import cut
from kogniterm.ui.locale import _, duration, mark, translate

if TYPE_CHECKING:
    from kogniterm.addons.fleet.queue_values import QueuedTask, TaskEnd
    from kogniterm.addons.fleet.worker_loop import Worker

_WIDEST = 100


def add_parser(subparsers: Subparsers) -> None:
    """Add `worker` with its options."""
    add_verb(
        subparsers,
        "worker",
        [
            Argument("--queues", "Queues to serve, as in default,night:2; a number gives a queue "
                     "slots of its own", "NAMES", default="default"),
            Argument("--slots", "Tasks at once of the other queues", "N", type=count, default=1),
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


def run(call: CallOptions, queues: str, slots: int, until_empty: bool) -> int:
    """Work until stopped; returns the exit status."""
    from kogniterm.addons.fleet.checkouts import checkouts_beside
    from kogniterm.addons.fleet.task_queue import open_queue
    from kogniterm.addons.fleet.task_workspaces import TaskWorkspaces
    from kogniterm.addons.fleet.worker_loop import Worker, this_worker

    paths = paths_in_use()
    (names, shares), data = _parse_queues(queues), paths.data
    with (
        open_sessions(call) as store,
        closing(open_queue(location_of(call), user_name(), data)) as queue,
    ):
        info = this_worker(names, slots, __version__)
        others = [name for name in info.queues if name not in shares]
        worker = Worker(
            queue,
            store,
            info,
            data / "queue",
            paths.queue_key,
            TaskWorkspaces(checkouts_beside(data, paths.cache), queue.patches),
            _report,
            _trouble,
            [(others, slots), *(((name,), most) for name, most in shares.items())],
            until_empty=until_empty,
        )
        served = _("Worker {name} serves {queues}.")
        _say(served.format(name=info.name, queues=", ".join(names)))
        asyncio.run(_work(worker))
    return EXIT_DONE


def _parse_queues(text: str) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the queues in a list as in `a:2,b`, and the numbers in it. Raises `UsageError`."""
    pairs = [one.strip().partition(":") for one in text.split(",")]
    shares = {}
    for name, colon, number in pairs:
        if colon:
            if not number.isdecimal() or int(number) < 1:
                raise UsageError(
                    "{option} is {value}; write a number of tasks behind the colon, as in night:2.",
                    option="--queues",
                    value=text,
                )
            shares[name] = int(number)
    return tuple(queue_names(",".join(name for name, _colon, _number in pairs))), shares


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
            _say(told.format(count=len(worker.running)))

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
    from kogniterm.addons.fleet.task_table import reason_text, state_text

    reason = f"  {reason_text(end.reason)}" if end.reason and end.state != "done" else ""
    _say(f"{task.id}  {state_text(end.state)}  {duration(end.seconds)}{reason}")


def _trouble(error: StorageError | None) -> None:
    if error is None:
        _say(_("The database is back."))
        return
    _say(_("The database is away. Running tasks go on, and the worker keeps trying."))
    _say(translate(error.text))


def _say(text: str) -> None:
    sys.stderr.write(cut(visible(" ".join(text.split())), _WIDEST) + "\n")
    sys.stderr.flush()
