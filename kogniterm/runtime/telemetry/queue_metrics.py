"""The numbers of a queue, sent by its workers: tasks by state, their waits and their durations.

As in a session, everything of OpenTelemetry is imported and called on a thread of its own, so that
a worker waits for no import and no collector, and a failure ends the numbers and not the worker.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from kogniterm.errors import StorageError
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.runtime.telemetry import conventions as names
from kogniterm.runtime.telemetry.telemetry_session import (
    FLUSH_SECONDS,
    missing_packages,
    not_answered,
    not_installed,
)
from kogniterm.settings.telemetry_variables import TelemetryVariables
from kogniterm.types import Phrase
from kogniterm.types.queue_values import QueuedTask, TaskEnd

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

log = logging.getLogger(__name__)

Measured = tuple[str, float, Mapping[str, str]]
"""The name of a histogram, a number of seconds, and its attributes."""


@dataclass(slots=True)
class QueueMetrics:
    """Sends the numbers of one worker; `counts` returns the user's tasks in each state.

    `counts` is called on another thread. `fail` is told why something is not sent.
    """

    variables: TelemetryVariables
    counts: Callable[[], Mapping[Any, int]]
    fail: Callable[[Phrase], None]
    _queue: queue.SimpleQueue[Measured | None] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start to send, where the environment asks for it and the packages are there."""
        if self.variables.metrics.exporter == "none":
            return
        if missing_packages():
            self.fail(not_installed())
            return
        self._thread = threading.Thread(target=self._work, daemon=True, name="queue-metrics")
        self._thread.start()

    def started(self, task: QueuedTask, now: float) -> None:
        """Record the time for which a task waited for its first start."""
        if self._thread is not None and not (task.seconds or task.lost):
            waited = max(now - max(task.created, task.task.due), 0.0)
            self._queue.put((names.QUEUE_WAIT, waited, {names.QUEUE: task.task.queue}))

    def ended(self, task: QueuedTask, end: TaskEnd) -> None:
        """Record the time that a start took, and the state of the task after it."""
        if self._thread is not None:
            told = {names.QUEUE: task.task.queue, names.TASK_STATE: end.state}
            self._queue.put((names.TASK_DURATION, end.seconds, told))

    def end(self) -> None:
        """Send what is left, for at most `FLUSH_SECONDS`."""
        if self._thread is None:
            return
        self._queue.put(None)
        self._thread.join(FLUSH_SECONDS)
        if self._thread.is_alive():
            self.fail(not_answered(self.variables))

    def _work(self) -> None:
        """Send until the end. This is a border: what fails here ends the numbers alone."""
        try:
            from kogniterm.runtime.telemetry.span_exporters import open_pipeline

            pipeline = open_pipeline(self.variables, self.fail)
            meter = pipeline.meter
            meter.create_observable_gauge(
                names.QUEUE_TASKS, [self._observed], "{task}", "Tasks of the queue, by state."
            )
            histograms = {
                name: meter.create_histogram(
                    name, "s", of, explicit_bucket_boundaries_advisory=names.TASK_SECONDS
                )
                for name, of in (
                    (names.QUEUE_WAIT, "Time that tasks waited for their first start."),
                    (names.TASK_DURATION, "Duration of a start of a task."),
                )
            }
            while (measured := self._queue.get()) is not None:
                name, seconds, attributes = measured
                histograms[name].record(seconds, attributes)
            pipeline.flush()
        except Exception:
            log.exception("the numbers of the queue ended with an error")
            self.fail(Phrase("Telemetry ended with an error; see the log file."))

    def _observed(self, _options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        try:
            found = self.counts()
        except StorageError:  # the database is away: there is no number to tell
            return []
        return [Observation(number, {names.TASK_STATE: state}) for state, number in found.items()]
