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
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Any, ClassVar

from kogniterm.addons.telemetry.telemetry_variables import TelemetryVariables, telemetry_variables
from kogniterm.runtime.extensions.extension_port import Extension, Moment, Right, SessionBasis
from kogniterm.runtime.turn_ports import TurnIO
from kogniterm.settings import environment
from kogniterm.types import Phrase, events

if TYPE_CHECKING:
    from kogniterm.runtime.operations.health_checks import Finding

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
"""The longest wait, at the end of a session, for a collector that does not answer."""
LEFT_OUT = ("command_output", "thought_delta", "budget_used", "action_progress")
"""Frequent events that say nothing about a span."""
TEXTS = frozenset({"text", "task", "arguments", "observation", "command"})
"""Fields of events, and of the results in them, that hold words of the user, a model or a tool."""


class Telemetry(Extension):
    """Observes the turns of one session, and sends what they did to a collector.

    `redact` replaces secrets. It is called on the session's own thread.
    """

    name = "telemetry"
    moments: ClassVar[Mapping[Moment, Right]] = {"connect": "watch", "closed": "watch"}

    def __init__(self, variables: TelemetryVariables, redact: Callable[[str], str]) -> None:
        self.variables = variables
        self.redact = redact
        self._queue: queue.SimpleQueue[tuple[events.Event, int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._flushed: Future[None] = Future()
        self._ended = False
        self._problem: Phrase | None = None
        self._told = False

    @classmethod
    def open(cls, basis: SessionBasis) -> Telemetry | None:
        """Return the telemetry that the environment asks for; None without any."""
        variables = telemetry_variables(basis.environ, environment())
        if not variables.exporters:
            return None
        opened = cls(variables, basis.journal.redact)
        if missing := missing_packages(variables):
            opened.notices, opened._ended = (not_installed(missing),), True
        basis.opened.callback(opened.end)
        return opened

    def connect(self, io: TurnIO) -> None:
        """Observe each event before it is passed on."""
        sink = io.sink

        def watched(event: events.Event) -> None:
            name = events.event_name(type(event))
            if not self._ended and name not in LEFT_OUT:
                now = time.time_ns()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, daemon=True)
                    self._thread.start()
                texts = self.variables.content
                self._queue.put((with_texts(event, self.redact) if texts else event, now))
            sink(event)
            if name in ("model_called", "turn_ended") and (problem := self._take_problem()):
                sink(events.Notice(problem, "warning"))

        io.sink = watched

    def _take_problem(self) -> Phrase | None:
        """Return why telemetry could not be sent, once."""
        if self._problem is None or self._told:
            return None
        self._told = True
        return self._problem

    def _work(self) -> None:
        """Make spans of the events. This is a border: what fails here ends telemetry alone."""
        try:
            from kogniterm.addons.telemetry.span_exporters import exporting
            from kogniterm.addons.telemetry.turn_spans import TurnSpans

            with exporting(self.variables, self._fail) as (tracer, meter):
                spans = TurnSpans(tracer, meter, self.variables)
                while (taken := self._queue.get()) is not None:
                    spans.take(*taken)
                spans.end(time.time_ns())
        except Exception:
            log.exception("telemetry ended with an error")
            self._fail(Phrase("Telemetry ended with an error; see the log file."))
        finally:
            self._flushed.set_result(None)

    def _fail(self, problem: Phrase) -> None:
        if self._problem is None:
            self._problem = problem
            log.warning("%s", problem)

    async def closed(self, reason: str) -> tuple[Phrase, ...]:
        """Send what is left, for at most `FLUSH_SECONDS`; a cancel ends the wait."""
        if self._close():
            await asyncio.wait([asyncio.wrap_future(self._flushed)], timeout=FLUSH_SECONDS)
            self._check_flushed()
        problem = self._take_problem()
        return (problem,) if problem is not None else ()

    def end(self) -> None:
        """Do as `closed` does, where no loop runs; does nothing after it."""
        if self._close():
            wait([self._flushed], FLUSH_SECONDS)
            self._check_flushed()

    def _close(self) -> bool:
        """Take no further event; return whether there is something to wait for."""
        first, self._ended = not self._ended, True
        if first and self._thread is not None:
            self._queue.put(None)
        return first and self._thread is not None

    def _check_flushed(self) -> None:
        if not self._flushed.done():
            self._fail(
                Phrase(
                    "The telemetry collector at {host} did not answer within {seconds:g} s; the "
                    "last spans were not sent.",
                    {"host": ", ".join(self.variables.hosts), "seconds": FLUSH_SECONDS},
                )
            )


def with_texts(event: Any, change: Callable[[str], str]) -> Any:
    """Return the event with `change` applied to its texts."""
    changed = dict[str, object]()
    for name in event.__match_args__:
        value = getattr(event, name)
        if name in ("result", "answer"):
            changed[name] = with_texts(value, change)
        elif name in TEXTS and isinstance(value, str):
            changed[name] = change(value)
    return event._replace(**changed) if hasattr(event, "_replace") else replace(event, **changed)


def missing_packages(variables: TelemetryVariables) -> tuple[str, ...]:
    """Return the packages that telemetry needs and that are not installed; imports none."""
    named = variables.exporters.values()
    otlp = sorted(
        {one.replace("_", "-") for one in named if one in ("otlp_proto_http", "otlp_proto_grpc")}
    )
    needed = ("opentelemetry-sdk", *(f"opentelemetry-exporter-{one}" for one in otlp))
    return tuple(one for one in needed if not _is_installed(one))


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def not_installed(missing: Sequence[str]) -> Phrase:
    """Return the notice where telemetry is asked for and cannot be sent."""
    from kogniterm.host.installation import install_command

    return Phrase(
        "Telemetry is switched on by the variables of OpenTelemetry, but not sent, because its "
        "packages are not installed. Run `{command}`, or set OTEL_SDK_DISABLED=true.",
        {"command": install_command(*missing)},
    )


def telemetry_findings() -> Iterator[Finding]:
    """Yield whether and where telemetry is sent; nothing is."""
    from kogniterm.host.installation import install_command
    from kogniterm.runtime.operations.health_checks import Finding, package_finding

    sdk = not missing_packages(TelemetryVariables())
    yield package_finding("opentelemetry-sdk", installed=sdk)
    found = telemetry_variables(environment(), environment())
    where = ", ".join(found.hosts)
    if not found.exporters:
        yield Finding("ok", Phrase("telemetry: off"))
    elif missing := missing_packages(found):
        text = Phrase("telemetry: not sent, because its packages are not installed")
        command = Phrase("{text}", {"text": install_command(*missing)})
        yield Finding("bad", text, command)
    elif found.content:
        yield Finding("ok", Phrase("telemetry: sent to {host}, with texts", {"host": where}))
    else:
        yield Finding("ok", Phrase("telemetry: sent to {host}", {"host": where}))
