"""OpenTelemetry's SDK: a tracer and a meter, with the exporters that its variables name.

Imported on the thread of `telemetry_session`, where telemetry is on. The SDK and its exporters read
their variables by themselves: addresses, headers, certificates, time-outs, batches, the sampler.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

from kogniterm import __version__
from kogniterm.addons.telemetry.conventions import AGENT, SCHEMA_URL
from kogniterm.addons.telemetry.telemetry_variables import Signal, TelemetryVariables
from kogniterm.types import Phrase

Fail = Callable[[Phrase], None]
_LOGGER = logging.getLogger("opentelemetry")
_SILENT = logging.NullHandler()
"""Without a handler, Python would print the SDK's warnings on standard error."""


class _Failures(logging.Handler):
    """Reports what the SDK logs as an error, such as a batch that was not taken."""

    def __init__(self, hosts: str, fail: Fail) -> None:
        super().__init__(logging.ERROR)
        self._hosts, self._fail = hosts, fail

    def emit(self, record: logging.LogRecord) -> None:
        self._fail(
            Phrase(
                "Telemetry could not be sent to {host}; the log file has the reason. The session "
                "goes on without it.",
                {"host": self._hosts},
            )
        )


@contextmanager
def exporting(variables: TelemetryVariables, fail: Fail) -> Iterator[tuple[Tracer, Meter]]:
    """Yield a tracer and a meter, and send what is left of theirs at the end.

    `fail` is told why something is not sent. The end waits for the collector.
    """
    failures = _Failures(", ".join(variables.hosts), fail)
    for handler in (_SILENT, failures):
        _LOGGER.addHandler(handler)
    # The instance is a random name: numbers of two processes must not be taken for one.
    own = {"service.version": __version__, "service.instance.id": str(uuid.uuid4())}
    resource = Resource.create().merge(Resource({"service.name": AGENT, **own}))
    resource = resource.merge(OTELResourceDetector().detect())
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    if (spans := _exporter("traces", variables, fail)) is not None:
        traces.add_span_processor(BatchSpanProcessor(spans))
    numbers = _exporter("metrics", variables, fail)
    readers = [PeriodicExportingMetricReader(numbers)] if numbers is not None else []
    metrics = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    about = (AGENT, __version__)
    yield (
        traces.get_tracer(*about, schema_url=SCHEMA_URL),
        metrics.get_meter(*about, schema_url=SCHEMA_URL),
    )
    ending = [threading.Thread(target=one.shutdown, daemon=True) for one in (traces, metrics)]
    for thread in ending:
        thread.start()
    for thread in ending:
        thread.join()
    _LOGGER.removeHandler(failures)


def _exporter(signal: Signal, variables: TelemetryVariables, fail: Fail) -> Any:
    """Return the exporter of a signal, from the SDK's registry; None where there is none."""
    name = variables.exporters.get(signal)
    if name is None:
        return None
    found = entry_points(group=f"opentelemetry_{signal}_exporter", name=name)
    if not found:
        fail(
            Phrase(
                "No installed package has the OpenTelemetry exporter {name}; no telemetry is sent.",
                {"name": name},
            )
        )
        return None
    (entry,) = found
    if name != "console":
        return entry.load()()
    if not os.isatty(2):
        return entry.load()(out=sys.stderr)
    fail(
        Phrase(
            "The console exporter of OpenTelemetry writes to standard error, which is your "
            "terminal. To use it, redirect it: 2>FILE"
        )
    )
    return None
