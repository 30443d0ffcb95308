"""Tasks of a queue as values: what is submitted, how it stands, and who works on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from kogniterm.types.localized import Phrase

TaskState = Literal["queued", "running", "parked", "unknown", "done", "failed", "cancelled"]
"""`parked` waits for the user; `unknown` too, about a command that may have run."""

STATES: tuple[TaskState, ...] = get_args(TaskState)
WAITING_STATES: tuple[TaskState, ...] = ("parked", "unknown")
"""The states in which a task waits for the user's answer."""
ENDED_STATES: tuple[TaskState, ...] = ("done", "failed", "cancelled")
"""The states of a task that nothing more happens to by itself."""

MOST_PRIORITY = 100
"""The highest priority of a task; the lowest is its negative."""


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to add. Its ID is that of the session which does it.

    `folder` is where it works; a relative one is a private checkout of the repository `workspace`
    (an address, and a branch, tag or commit after @) in the worker's own folder. `options` are
    those of `kogniterm run`. `recipe` is the text of the recipe to run, with `data` as its inputs
    in JSON. `due` is the earliest time to start, in seconds since the epoch. `tries` is how often
    it may be started again after its process was lost.
    """

    id: str
    text: str
    folder: str
    data: str | None = None
    options: tuple[str, ...] = ()
    queue: str = "default"
    batch: str = ""
    priority: int = 0
    due: float = 0.0
    tries: int = 3
    workspace: str = ""
    recipe: str = ""


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A task and how it stands. Times in seconds since the epoch, `cost` in US dollars.

    `lost` counts the starts whose process was lost. `turn` is the turn of its session that it
    runs, which grows with each retry. `claim` is the secret of the worker that has it. `commit_id`
    is what the workspace was at first, the same for every start. `waits` counts the times in a row
    that a provider refused it without saying until when.
    """

    task: NewTask
    state: TaskState
    created: float
    updated: float
    version: str
    lost: int = 0
    turn: int = 1
    worker: str = ""
    claim: str = ""
    stop: str = ""
    exit_code: int | None = None
    reason: str | Phrase = ""
    answer: str = ""
    tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0
    question: str = ""
    cancelled: bool = False
    commit_id: str = ""
    waits: int = 0

    @property
    def id(self) -> str:
        """Return the ID of the task and of its session."""
        return self.task.id


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """The end of one start of a task, as its worker reports it.

    `due` is when it goes on by itself, for a task that is queued again, and `next_text` the input
    of its next turn where this one has ended.
    """

    state: TaskState
    stop: str = ""
    exit_code: int | None = None
    reason: str | Phrase = ""
    answer: str = ""
    tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0
    question: str = ""
    due: float = 0.0
    lost: bool = False
    next_text: str | None = None
    waits: int = 0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker: its name, its machine and process, the queues it serves, and how many at once."""

    name: str
    host: str
    boot: str
    pid: int
    started: str
    queues: tuple[str, ...]
    slots: int
    version: str


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The number of tasks in each state, and what they cost so far."""

    states: Mapping[TaskState, int] = field(default_factory=dict)
    cost: float = 0.0
    tokens: int = 0

    @property
    def is_over(self) -> bool:
        """Return whether nothing is queued or runs."""
        return not self.states.get("queued") and not self.states.get("running")

    @property
    def total(self) -> int:
        """Return the number of tasks."""
        return sum(self.states.values())


class TaskOverview(NamedTuple):
    """The part of a task that an operator of the database sees: nothing of its contents."""

    user: str
    id: str
    queue: str
    state: TaskState
    priority: int
    worker: str
    due: float
    created: float
    updated: float
    seconds: float
    tokens: int
    cost: float | None
