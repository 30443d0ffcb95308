"""The standard variables of OpenTelemetry that switch telemetry on and name its host.

No settings file, no `.env` and no project can set them: whoever sets them decides where data about
the user's work is sent. The SDK reads all others, and the values of these, from the environment of
the process (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

Signal = Literal["traces", "metrics"]

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_YES = ("true", "span_only", "span_and_event")
"""Values that put content on spans: `true`, and the words that newer instrumentations take."""


@dataclass(frozen=True, slots=True)
class TelemetryVariables:
    """The telemetry that the environment asks for.

    `exporters` holds, for each signal that is sent, the name of its exporter in the SDK's registry.
    `content` is whether texts, commands and results are sent too. `hosts` are those of the
    collectors, with the port if the address has one and nothing else of it, or the names of other
    exporters. `context` is that of the program that started this one, in the names of W3C.
    """

    exporters: Mapping[Signal, str] = field(default_factory=dict)
    content: bool = False
    hosts: tuple[str, ...] = ()
    context: Mapping[str, str] = field(default_factory=dict)


def telemetry_variables(
    environ: Mapping[str, str], process: Mapping[str, str]
) -> TelemetryVariables:
    """Return the telemetry that the standard variables in `environ` ask for, empty without them.

    The SDK reads the environment of the `process`. Where that differs, telemetry is off: it could
    reach another collector than the one that is asked for.
    """
    given = {name: value.strip() for name, value in environ.items() if value.strip()}
    off = given.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if off or _of_sdk(environ) != _of_sdk(process):
        return TelemetryVariables()
    exporters, hosts = dict[Signal, str](), list[str]()
    signals: tuple[Signal, ...] = ("traces", "metrics")
    for signal in signals:
        endpoint = _of_signal(given, signal, "ENDPOINT")
        exporter = given.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp" if endpoint else "none")
        if exporter.lower() == "otlp":
            protocol = _of_signal(given, signal, "PROTOCOL") or "http/protobuf"
            exporter = f"otlp_proto_{protocol.removesuffix('/protobuf')}"
            hosts.append(_host(endpoint) or "localhost")
        elif exporter.lower() != "none":
            hosts.append(exporter)
        if exporter.lower() != "none":
            exporters[signal] = exporter
    return TelemetryVariables(
        exporters,
        content=given.get(CONTENT, "").lower() in _YES,
        hosts=tuple(dict.fromkeys(hosts)),
        context={name.lower(): given.get(name, "") for name in ("TRACEPARENT", "TRACESTATE")},
    )


def _of_sdk(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith("OTEL_")}


def _of_signal(given: Mapping[str, str], signal: Signal, what: str) -> str:
    """Return the variable of the signal if it is set, else that of all signals."""
    own = given.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}")
    return own or given.get(f"OTEL_EXPORTER_OTLP_{what}", "")


def _host(endpoint: str) -> str:
    try:
        return urlsplit(endpoint).netloc.rpartition("@")[2]
    except ValueError:  # the exporter reports it
        return ""
