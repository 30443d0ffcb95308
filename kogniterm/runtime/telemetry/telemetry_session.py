"""The telemetry of one session: its events, handed to a thread that makes spans of them.

The loop of the session only puts events into a queue. The OpenTelemetry libraries are imported, and
everything of theirs is called, on one thread of its own. So a turn is never delayed by an import or
a collector, nothing is imported where telemetry is off, and a failure ends telemetry and not the
turn. This module imports no library.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.host.installation import install_command
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.protocols import EventSink
from kogniterm.runtime.telemetry.observed_events import (
    LEFT_OUT,
    TEXTS,
    Observed,
    TraceIds,
    bare,
    redacted,
)
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.sessions.records import Noted
from kogniterm.settings.telemetry_variables import TelemetryVariables
from kogniterm.types import Phrase, events

if TYPE_CHECKING:
    from kogniterm.runtime.telemetry.turn_spans import TurnSpans

log = logging.getLogger(__name__)

PACKAGES = {
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
}
"""The modules that telemetry needs, and the packages of the extra `otel` that have them."""
FLUSH_SECONDS = 2.0
"""The longest wait, at the end of a session, for a collector that does not answer."""
TRACE = "trace"
"""The kind of the note about the trace of a turn, to which a resumed turn is linked."""


@dataclass(slots=True)
class Telemetry:
    """Observes the turns of one session, and sends what they did to a collector."""

    variables: TelemetryVariables
    journal: TurnJournal
    _queue: queue.SimpleQueue[Observed | None] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None
    _flushed: threading.Event = field(default_factory=threading.Event)
    _when_flushed: Callable[[], object] = lambda: None
    _ended: bool = False
    _problem: Phrase | None = None
    _told: bool = False

    def watching(self, sink: EventSink) -> EventSink:
        """Return a sink that observes each event before it is passed on to `sink`."""

        def watched(event: events.Event) -> None:
            self._take(event)
            sink(event)
            if isinstance(event, events.ModelCalled | events.TurnEnded) and (
                problem := self.problem()
            ):
                sink(events.Notice(problem, "warning"))

        return watched

    def problem(self) -> Phrase | None:
        """Return why telemetry could not be sent, once."""
        if self._problem is None or self._told:
            return None
        self._told = True
        return self._problem

    def _take(self, event: events.Event) -> None:
        now = time.time_ns()
        if self._ended or isinstance(event, LEFT_OUT):
            return
        if isinstance(event, TEXTS) and not self.variables.content:
            return
        ids = before = None
        if isinstance(event, events.TurnStarted | events.TurnResumed):
            ids, before = self._new_trace(event)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="telemetry")
            self._thread.start()
        self._queue.put(Observed(self._fit(event), now, ids, before))

    def _new_trace(
        self, event: events.TurnStarted | events.TurnResumed
    ) -> tuple[TraceIds, TraceIds | None]:
        """Return the ids of a turn, which are noted, and of the turn that it goes on with."""
        before = None
        if isinstance(event, events.TurnResumed):
            before = self._noted(event.turn)
        parent = TraceIds.of(self.variables.traceparent)
        trace = parent.trace if parent is not None else secrets.token_hex(16)
        ids = TraceIds(trace, secrets.token_hex(8))
        if self.journal.state.open_turn:
            self.journal.record(Noted(TRACE, {"turn": event.turn, TRACE: ids.traceparent}))
        return ids, before

    def _noted(self, turn: int) -> TraceIds | None:
        found = None
        for record in self.journal.records():
            body = record.body
            if isinstance(body, Noted) and body.kind == TRACE and body.data.get("turn") == turn:
                found = TraceIds.of(str(body.data.get(TRACE, "")))
        return found

    def _fit(self, event: events.Event) -> events.Event:
        """Return the event with texts redacted, where they are sent, and else without them."""
        return (redacted if self.variables.content else bare)(event, self.journal.redact)

    # --- on the thread --------------------------------------------------------------------------

    def _work(self) -> None:
        """Make spans of the events. This is a border: what fails here ends telemetry alone."""
        spans: TurnSpans | None = None
        try:
            from kogniterm.runtime.telemetry.span_exporters import open_pipeline
            from kogniterm.runtime.telemetry.turn_spans import TurnSpans

            pipeline = open_pipeline(self.variables, self._fail)
            spans = TurnSpans(pipeline, self.variables)
            while (observed := self._queue.get()) is not None:
                spans.take(observed)
            spans.end(time.time_ns())
            pipeline.flush()
        except Exception:
            log.exception("telemetry ended with an error")
            self._fail(Phrase("Telemetry ended with an error; see the log file."))
        finally:
            self._flushed.set()
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._when_flushed()

    def _fail(self, problem: Phrase) -> None:
        if self._problem is None:
            self._problem = problem
            log.warning("%s", problem)

    # --- the end --------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Send what is left, for at most `FLUSH_SECONDS`; a cancel ends the wait."""
        arrived = asyncio.Event()
        self._when_flushed = partial(asyncio.get_running_loop().call_soon_threadsafe, arrived.set)
        if not self._close():
            return
        if self._flushed.is_set():  # it failed before
            arrived.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await arrived.wait()
        self._check_flushed()

    def end(self) -> None:
        """Do as `finish` does, where no loop runs; does nothing after it."""
        if self._close():
            self._flushed.wait(FLUSH_SECONDS)
            self._check_flushed()

    def _close(self) -> bool:
        """Take no further event; return whether there is something to wait for."""
        first, self._ended = not self._ended, True
        if first and self._thread is not None:
            self._queue.put(None)
        return first and self._thread is not None

    def _check_flushed(self) -> None:
        if not self._flushed.is_set():
            self._fail(not_answered(self.variables))


def missing_packages() -> tuple[str, ...]:
    """Return the packages that telemetry needs and that are not installed; imports none."""
    return tuple(package for module, package in PACKAGES.items() if not _is_there(module))


def _is_there(module: str) -> bool:
    """Return whether `module` is installed, without importing what is above it."""
    first, *rest = module.split(".")
    found = find_spec(first)
    folders = found.submodule_search_locations or () if found is not None else ()
    return any(Path(folder, *rest).is_dir() for folder in folders)


def not_installed() -> Phrase:
    """Return the notice where telemetry is asked for and cannot be sent."""
    return Phrase(
        "Telemetry is switched on by the variables of OpenTelemetry, but not sent, because its "
        "packages are not installed. Run `{command}`, or set OTEL_SDK_DISABLED=true.",
        {"command": install_command(*missing_packages())},
    )


def not_answered(variables: TelemetryVariables) -> Phrase:
    """Return the warning about a collector that did not take the last spans in time."""
    return Phrase(
        "The telemetry collector at {host} did not answer within {seconds:g} s; the last spans "
        "were not sent.",
        {"host": ", ".join(variables.hosts), "seconds": FLUSH_SECONDS},
    )
