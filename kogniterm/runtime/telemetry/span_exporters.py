"""The pipelines of OpenTelemetry's SDK: a tracer and a meter, and where they export to.

Imported on the thread of `telemetry_session`, where telemetry is on. The SDK reads what is left of
its variables by itself: compression, certificates, time-outs, batches and the sampler.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Tracer

from kogniterm import __version__
from kogniterm.host.installation import install_command
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.runtime.telemetry.conventions import AGENT, SCHEMA_URL
from kogniterm.settings.telemetry_variables import Destination, TelemetryVariables
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.runtime.telemetry.observed_events import TraceIds

Fail = Callable[[Phrase], None]
GRPC = "opentelemetry-exporter-otlp-proto-grpc"


@dataclass(slots=True)
class Pipeline:
    """A tracer and a meter, and what sends their spans and numbers; `ids` are the next trace's."""

    tracer: Tracer
    meter: Meter
    ids: GivenIds
    traces: TracerProvider
    metrics: MeterProvider

    def flush(self) -> None:
        """Send what is left and stop. Waits for the collector, so it has a thread of its own."""
        ending = [
            threading.Thread(target=one.shutdown, daemon=True)
            for one in (self.traces, self.metrics)
        ]
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join()


class GivenIds(RandomIdGenerator):
    """Makes random ids, except for a trace and a first span that were given."""

    def __init__(self) -> None:
        self._trace: int | None = None
        self._span: int | None = None

    def give(self, ids: TraceIds) -> None:
        """Use these ids for the span that is started next."""
        self._trace, self._span = int(ids.trace, 16), int(ids.span, 16)

    def generate_trace_id(self) -> int:
        given, self._trace = self._trace, None
        return given or super().generate_trace_id()

    def generate_span_id(self) -> int:
        given, self._span, self._trace = self._span, None, None
        return given or super().generate_span_id()


def open_pipeline(variables: TelemetryVariables, fail: Fail) -> Pipeline:
    """Return the pipeline that `variables` ask for; `fail` is told why something is not sent."""
    # Without a handler, Python would print the SDK's warnings on standard error.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    resource, ids = _resource(variables), GivenIds()
    traces = TracerProvider(resource=resource, shutdown_on_exit=False, id_generator=ids)
    spans = _span_exporter(variables.traces, fail)
    if spans is not None:
        traces.add_span_processor(BatchSpanProcessor(spans))
    numbers = _metric_exporter(variables.metrics, fail)
    readers = [PeriodicExportingMetricReader(numbers)] if numbers is not None else []
    metrics = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    return Pipeline(
        traces.get_tracer(AGENT, __version__, schema_url=SCHEMA_URL),
        metrics.get_meter(AGENT, __version__, schema_url=SCHEMA_URL),
        ids,
        traces,
        metrics,
    )


def _resource(variables: TelemetryVariables) -> Resource:
    """Return what is said of this process: its service, and what the user's variables add.

    The instance is a random name, so that the numbers of two processes are never taken for one.
    """
    own = {"service.version": __version__, "service.instance.id": str(uuid.uuid4())}
    if not variables.named:
        own["service.name"] = AGENT
    sdk = Resource.get_empty().merge(
        Resource({"telemetry.sdk.language": "python", "telemetry.sdk.name": "opentelemetry"})
    )
    return sdk.merge(Resource(own)).merge(OTELResourceDetector().detect())


def _span_exporter(where: Destination, fail: Fail) -> SpanExporter | None:
    if where.exporter == "none":
        return None
    if where.exporter == "console":
        return ConsoleSpanExporter(out=sys.stderr) if _console(fail) else None
    exporter = _otlp(where, "trace_exporter", "OTLPSpanExporter", fail)
    return WatchedSpans(exporter, where, fail) if exporter is not None else None


def _metric_exporter(where: Destination, fail: Fail) -> MetricExporter | None:
    if where.exporter == "none":
        return None
    if where.exporter == "console":
        return ConsoleMetricExporter(out=sys.stderr) if _console(fail) else None
    exporter = _otlp(where, "metric_exporter", "OTLPMetricExporter", fail)
    return WatchedMetrics(exporter, where, fail) if exporter is not None else None


def _otlp(where: Destination, module: str, name: str, fail: Fail) -> Any:
    """Return the exporter called `name`; None where its package is not installed."""
    from importlib import import_module

    kind = "grpc" if where.protocol == "grpc" else "http"
    if find_spec(f"opentelemetry.exporter.otlp.proto.{kind}") is None:
        fail(
            Phrase(
                "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, which needs the package {package}: run "
                "`{command}`, or set it to http/protobuf. No telemetry is sent.",
                {"package": GRPC, "command": install_command(GRPC)},
            )
        )
        return None
    found = import_module(f"opentelemetry.exporter.otlp.proto.{kind}.{module}")
    return getattr(found, name)(endpoint=where.endpoint, headers=dict(where.headers))


def _console(fail: Fail) -> bool:
    """Return whether spans may be written to standard error, which a screen must not share."""
    if not os.isatty(2):
        return True
    fail(
        Phrase(
            "The console exporter of OpenTelemetry writes to standard error, which is your "
            "terminal. To use it, redirect it: 2>FILE"
        )
    )
    return False


def _not_taken(where: Destination) -> Phrase:
    return Phrase(
        "Telemetry could not be sent to {host}; the log file has the reason. The session goes on "
        "without it.",
        {"host": where.host},
    )


class WatchedSpans(SpanExporter):
    """Exports spans, and reports a batch that was not taken."""

    def __init__(self, exporter: SpanExporter, where: Destination, fail: Fail) -> None:
        self._exporter, self._where, self._fail = exporter, where, fail

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._fail(_not_taken(self._where))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class WatchedMetrics(MetricExporter):
    """Exports numbers, and reports those that were not taken."""

    def __init__(self, exporter: MetricExporter, where: Destination, fail: Fail) -> None:
        super().__init__(exporter._preferred_temporality, exporter._preferred_aggregation)
        self._exporter, self._where, self._fail = exporter, where, fail

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        result = self._exporter.export(metrics_data, timeout_millis, **kwargs)
        if result is not MetricExportResult.SUCCESS:
            self._fail(_not_taken(self._where))
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._exporter.shutdown(timeout_millis, **kwargs)
