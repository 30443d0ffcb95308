"""The faces of a queue: for those who add and steer tasks, and for workers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kogniterm.addons.fleet.queue_values import (
    NewTask,
    QueueCounts,
    QueuedTask,
    TaskEnd,
    TaskState,
    WorkerInfo,
)
from kogniterm.types import Phrase

if TYPE_CHECKING:
    import asyncio


class TaskChanges(Protocol):
    """The commits with which tasks begin, and what they changed in their checkouts."""

    def pin(self, task: QueuedTask, commit: str) -> None:
        """Note the commit that every start of a task begins with."""

    def save(self, task: QueuedTask, patch: str) -> None:
        """Store what a task has changed."""

    def of(self, task_id: str) -> str:
        """Return what a task has changed, as a patch of git."""

    def state(self, task_id: str) -> TaskState | None:
        """Return the state of a task; None where there is no such task."""


class Queue(Protocol):
    """The tasks of one user, for those who add, look at and steer them.

    Methods raise `StorageError` kinds; `UsageError` where they say so.
    """

    @property
    def patches(self) -> TaskChanges:
        """Return the changes that tasks made in their checkouts."""

    def close(self) -> None:
        """Release the database."""

    def add(self, tasks: Sequence[NewTask]) -> None:
        """Add all of `tasks` or none. Raises `UsageError`."""

    def tasks(
        self, *, states: Sequence[TaskState] = (), batch: str | None = None, limit: int = 1_000_000
    ) -> list[QueuedTask]:
        """Return tasks, the newest first."""

    def find(self, reference: str) -> QueuedTask:
        """Return the task with this ID or beginning of one. Raises `UsageError`."""

    def counts(self, batch: str | None = None) -> QueueCounts:
        """Return how many tasks are in each state, and what they cost."""

    def workers(self) -> list[WorkerInfo]:
        """Return the workers that are alive, as far as this process can tell."""

    def hindrance(self, task: QueuedTask) -> Phrase | None:
        """Return why no living worker would take a queued task; None if one would."""

    def cancel(self, task_id: str) -> TaskState:
        """Cancel a task; one that runs is stopped by its worker. Returns its state by now."""

    def find_cancelled(self, task_ids: Collection[str]) -> list[str]:
        """Return those of the tasks that the user cancelled."""

    def retry(self, task_id: str, text: str | None) -> bool:
        """Queue a task again, with `text` as another turn; False when it has not ended."""

    def resume(self, task_id: str) -> bool:
        """Queue a task again whose question was answered."""


class TaskRunner(Protocol):
    """A worker as its queue sees it. `shares` are groups of queues with the slots of each group."""

    @property
    def info(self) -> WorkerInfo:
        """Return its name and its machine."""

    @property
    def shares(self) -> Sequence[tuple[Sequence[str], int]]:
        """Return groups of queues, and how many tasks of each group run at once here."""

    @property
    def running(self) -> Mapping[str, asyncio.Future[None]]:
        """Return the tasks that run here, by ID; each future is done when its end is recorded."""

    def count_running(self, queues: Collection[str]) -> int:
        """Return how many tasks of these queues run here."""

    def start(self, task: QueuedTask) -> None:
        """Start a task that was taken."""


class WorkerQueue(Queue, Protocol):
    """The tasks of one user, for workers too."""

    def register(self, worker: WorkerInfo) -> None:
        """Add a worker, in place of one of the same name."""

    def beat(self, worker: WorkerInfo) -> None:
        """Note that a worker lives; one that was taken for lost is added again."""

    def leave(self, name: str) -> None:
        """Remove a worker."""

    def finish(self, task: QueuedTask, end: TaskEnd) -> bool:
        """Record how a start ended; False when the task was taken from this worker meanwhile."""

    async def serve(self, worker: TaskRunner, *, wait: bool = True) -> None:
        """Give `worker` tasks until cancelled; without `wait`, until none is ready.

        Higher priorities come first, and of the same priority, those that were added first. No two
        tasks run in one folder. Tasks of lost workers are queued again.
        """
