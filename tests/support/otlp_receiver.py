"""A receiver of OpenTelemetry over HTTP, which decodes with the messages of opentelemetry-proto."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE = 60.0
"""A guard against hanging, not a measure."""


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it was received; ids are hexadecimal, `parent` is empty for the first one."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    begin: int
    end: int
    failed: bool
    attributes: Mapping[str, Any]
    events: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass
class Receiver:
    """Everything that was sent, and how it is answered; `hold` keeps the answers back."""

    url: str = ""
    status: int = 200
    hold: threading.Event | None = None
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    spans: list[ReceivedSpan] = field(default_factory=list)
    resources: list[Mapping[str, Any]] = field(default_factory=list)
    schemas: set[str] = field(default_factory=set)
    metrics: dict[str, list[tuple[Mapping[str, Any], Any]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def the(self, name: str) -> ReceivedSpan:
        (span,) = self.named(name)
        return span

    def below(self, span: ReceivedSpan) -> list[str]:
        """Return the names of the spans directly below `span`, in the order in which they began."""
        found = [one for one in self.spans if one.parent == span.id]
        return [one.name for one in sorted(found, key=lambda one: one.begin)]

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        with self.lock:
            self.bodies.append(body)
            self.headers.append(headers)
            if path.endswith("/v1/traces"):
                self._traces(ExportTraceServiceRequest.FromString(body))
            elif path.endswith("/v1/metrics"):
                self._metrics(ExportMetricsServiceRequest.FromString(body))
            else:
                raise AssertionError(path)

    def _traces(self, request: Any) -> None:
        for resource in request.resource_spans:
            self.resources.append(_plain(resource.resource.attributes))
            for scope in resource.scope_spans:
                self.schemas.add(scope.schema_url)
                self.spans += [_span(span) for span in scope.spans]

    def _metrics(self, request: Any) -> None:
        for resource in request.resource_metrics:
            self.resources.append(_plain(resource.resource.attributes))
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = getattr(metric, metric.WhichOneof("data")).data_points
                    # The numbers are cumulative, so the newest ones hold all.
                    self.metrics[metric.name] = [(_plain(p.attributes), p) for p in points]


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


def _span(span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == 2,
        _plain(span.attributes),
        tuple((one.name, _plain(one.attributes)) for one in span.events),
    )


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive on a port of 127.0.0.1 until the end."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            given = {name.lower(): value for name, value in self.headers.items()}
            receiver.take(self.path, given, body)
            if receiver.hold is not None:
                receiver.hold.wait(PATIENCE)
            try:
                self.send_response(receiver.status)
                self.end_headers()
            except OSError:  # the sender did not wait
                return

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        if receiver.hold is not None:
            receiver.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
