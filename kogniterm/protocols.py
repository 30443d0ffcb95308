"""The protocols between packages; their scripted and replayed fakes are product code."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, Protocol

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
    Plan,
    PlanReview,
    RiskReport,
    ToolSpec,
    Verdict,
    Waiting,
    WebAnswer,
)
from kogniterm.types.events import Event


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


EventSink = Callable[[Event], None]
"""Receives every event of a turn, in order, on the loop's thread."""
