"""The seams: small protocols whose shipped fakes are product code (scripted, replay)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

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
)
from kogniterm.types.events import Event


class Clock(Protocol):
    """Where time comes from: `now` orders and dates, `monotonic` measures durations."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never jump."""


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
        """What the runtime must know of this model."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask; yields events as they come. Raises `ModelError` kinds only; cancel by task."""


class OutputSink(Protocol):
    """Who watches a command run. Called from the executor's thread; must not block for long."""

    def output(self, data: bytes) -> None:
        """Raw bytes as the terminal got them."""

    def waiting(self, waiting: Waiting | None) -> None:
        """The command has gone quiet (with why), or goes on (None)."""


class Terminal(Protocol):
    """The person's own terminal, lent to a command for an interactive hand-over."""

    def size(self) -> tuple[int, int]:
        """(rows, columns) now."""

    def acquire(self) -> tuple[int, int]:
        """Take the terminal from the user interface: (input fd, output fd), in raw mode."""

    def release(self, unread: bytes = b"") -> None:
        """Give it back, with the modes it had before.

        `unread` was typed and never read by the command: it belongs to who reads next.
        """


class Executor(Protocol):
    """Runs commands, one at a time, each in its own PTY; carries the shell's state over.

    `run` blocks until the command has ended or was detached; `stop` may be called from any
    thread and ends the running command's whole tree (TERM, then KILL 200 ms later).
    """

    @property
    def cwd(self) -> str:
        """The folder the next command starts in."""

    @property
    def next_output(self) -> str | None:
        """The file that will hold the next command's raw output, known before it starts."""

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
    ) -> CommandResult:
        """Run `command`; raises `ExecutionError` when it cannot be started at all."""

    def stop(self) -> None:
        """End the running command, if any."""

    def jobs(self) -> tuple[Job, ...]:
        """What earlier commands left running, oldest first."""

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
        """As the model sees it."""

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments, validated and completed; raises `ToolError` that says what is wrong."""

    def effect_of(self, arguments: Mapping[str, Any]) -> EffectClass:
        """The effect of this very call; never below `spec.effect`."""

    def describe(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """(what would happen in one line, why) for the approval screen; arguments are checked."""

    def detail(self, arguments: Mapping[str, Any]) -> str:
        """What a person should see in full before approving (an edit's diff); may be empty."""

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        """The observation; raises `ToolError` for what the model can mend.

        Called inside the graph for effect "none", by the runtime after approval otherwise.
        Tools with effect "command" are run by the executor and never through this method.
        """


EventSink = Callable[[Event], None]
"""Receives every event of a turn, in order, on the loop's thread."""
