"""The protocols between rooms; their scripted and replayed fakes are product code."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kogniterm.types import (
    ActionRequest,
    CommandResult,
    Decision,
    EffectClass,
    Job,
    Keystrokes,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Observation,
    Phrase,
    Plan,
    PlanReview,
    RiskReport,
    ToolSpec,
    Verdict,
    Waiting,
    WebAnswer,
)
from kogniterm.types.events import Event
from kogniterm.types.hosts import HostAnswer, HostRequest, Inventory
from kogniterm.types.queue_values import (
    NewTask,
    QueueCounts,
    QueuedTask,
    TaskEnd,
    TaskState,
    WorkerInfo,
)

if TYPE_CHECKING:
    import asyncio


class Clock(Protocol):
    """A source of time: `now` orders and dates, `monotonic` measures durations."""

    def now(self) -> float:
        """Return the seconds since the epoch."""

    def monotonic(self) -> float:
        """Return seconds that never jump."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class Model(Protocol):
    """A chat model ready to be asked. One call is one stream that ends with its `Reply`."""

    @property
    def info(self) -> ModelInfo:
        """Return the properties of this model."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask; yields events as they come. Raises `ModelError` kinds only; cancel by task."""


class OutputSink(Protocol):
    """Watches a running command. Called from the executor's thread; must not block for long."""

    def output(self, data: bytes) -> None:
        """Take raw bytes as the terminal got them."""

    def waiting(self, waiting: Waiting | None) -> None:
        """Take the diagnosis of a command that is quiet; None when it goes on."""


class Terminal(Protocol):
    """The user's own terminal, which an interactive command may use."""

    def size(self) -> tuple[int, int]:
        """Return the current size as (rows, columns)."""

    def acquire(self) -> tuple[int, int]:
        """Take the terminal from the user interface; return (input fd, output fd), in raw mode."""

    def release(self, unread: bytes = b"") -> None:
        """Give it back, with the modes it had before.

        `unread` was typed and not read by the command; the next reader gets it.
        """


class Executor(Protocol):
    """Runs commands, one at a time, each in its own PTY, and restores the shell state for each.

    `run` blocks until the command has ended or was detached; `stop` may be called from any
    thread and ends the running command's whole tree (TERM, then KILL 200 ms later).
    """

    @property
    def cwd(self) -> str:
        """Return the folder that the next command starts in."""

    @property
    def next_output(self) -> str | None:
        """Return the file that will hold the next command's raw output."""

    def run(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        keystrokes: tuple[Keystrokes, ...] = (),
        sink: OutputSink | None = None,
        terminal: Terminal | None = None,
        on_wait: Literal["stop", "detach"] = "stop",
    ) -> CommandResult:
        """Run `command`; raises `ExecutionError` when it cannot be started at all.

        One that waits for input that nobody sends is stopped, or becomes a job.
        """

    def stop(self) -> None:
        """End the running command, if any."""

    def detach(self) -> bool:
        """Let the running command go on as a job; return whether one was running."""

    def jobs(self) -> tuple[Job, ...]:
        """Return what earlier commands left running, oldest first."""

    def close(self) -> None:
        """End everything that still runs and release all descriptors."""


class Approver(Protocol):
    """Decides on a request that policy neither allows nor denies."""

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Approve, edit or reject `request`."""

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview | None:
        """Approve, edit or reject `plan`, which would replace `previous`; None: nobody is there."""


class Tool(Protocol):
    """A callable offered to the model."""

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as the model sees it."""

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments validated and completed. Raises `ToolError` for wrong ones."""

    def effect_of(self, arguments: Mapping[str, Any]) -> EffectClass:
        """Return the effect of this call; never below `spec.effect`."""

    def describe(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return (what would happen in one line, why) for the approval; arguments are checked."""

    def detail(self, arguments: Mapping[str, Any]) -> str:
        """Return what the user should see in full before approving (an edit's diff)."""

    def hosts(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the hosts that this call contacts, for the approval; arguments are checked."""

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        """Return the observation. Raises `ToolError` for what the model can correct.

        Called inside the graph for effect "none", by the runtime after approval otherwise.
        Tools with effect "command" are run by the executor and never through this method.
        """


class WebSearcher(Protocol):
    """Searches the web with the own tool of the model's provider."""

    @property
    def host(self) -> str:
        """Return the provider's host; "" where the model in use cannot search."""

    async def search(self, query: str) -> WebAnswer:
        """Return what the provider found. Raises `ToolError`."""


class HostRunner(Protocol):
    """Runs one command on many hosts, and reads afterwards what each of them did.

    Every host keeps the outcome of a request below the remote user's home, in a folder named by the
    request's ID, until it is discarded; so `find` knows it after any loss of this process.
    """

    async def resolve(self, inventory: Inventory, limit: str = "") -> tuple[str, ...]:
        """Return the hosts of `inventory` that `limit`, a pattern of Ansible, leaves.

        Raises `UsageError` for an inventory that cannot be read, and where no host is left.
        """

    def run(self, request: HostRequest) -> AsyncIterator[HostAnswer]:
        """Run the command; yield each host's answer as it comes, all of them in the end.

        The groups follow one another. At the first whose answers differ or fail it stops, and the
        hosts of the rest are `not_started`. Closing the iterator, or cancelling its task, ends the
        program that speaks to the hosts, not the commands on them: `stop` does that. Raises
        `ExecutionError` where that program cannot work, `UsageError` for a wrong inventory.
        """

    async def find(
        self, request: HostRequest, hosts: tuple[str, ...] = (), *, wait: int = 0
    ) -> tuple[HostAnswer, ...]:
        """Return what `hosts` (all, where none is named) know about a request that was run.

        A host where the command has not begun is `not_started`, and can no longer begin it. A
        host that cannot be asked is `unknown`. Commands that still run are waited for up to `wait`
        seconds; those that then still run are `running`. Raises as `run` does.
        """

    async def stop(
        self, request: HostRequest, hosts: tuple[str, ...] = ()
    ) -> tuple[HostAnswer, ...]:
        """End the command where it still runs; return what the hosts know, as `find` does."""

    async def discard(self, request: HostRequest, hosts: tuple[str, ...] = ()) -> None:
        """Remove what the hosts keep about a request, once its outcome is recorded here.

        A host that cannot be reached keeps it; nothing is raised for that.
        """


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

    def cancelled(self, task_ids: Collection[str]) -> list[str]:
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


EventSink = Callable[[Event], None]
"""Receives every event of a turn, in order, on the loop's thread."""
