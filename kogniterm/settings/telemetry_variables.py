"""The standard variables of OpenTelemetry, read from the environment of the process alone.

No settings file, no `.env` and no project can set them: whoever sets them decides where data about
the user's work is sent. Names and meanings are those of the OpenTelemetry specification
(https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal
from urllib.parse import unquote, urlsplit

from kogniterm.lazy_dataclasses import dataclass
from kogniterm.types import Phrase

Exporter = Literal["otlp", "console", "none"]
Protocol = Literal["http/protobuf", "grpc"]

_PROTOCOLS: Mapping[str, Protocol] = {"http/protobuf": "http/protobuf", "grpc": "grpc"}
LOCAL = {"http/protobuf": "http://localhost:4318", "grpc": "http://localhost:4317"}
"""The endpoint of the specification, where an exporter is chosen and no endpoint is set."""
HEADER_NAMES = tuple(
    f"OTEL_EXPORTER_OTLP_{signal}HEADERS" for signal in ("", "TRACES_", "METRICS_", "LOGS_")
)
"""Variables that hold keys of a collector, which no command gets."""
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_YES = ("true", "span_only", "span_and_event")
"""Values that put content on spans: `true`, and the words that newer instrumentations take."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of one signal: how it is exported, and for `otlp` where to."""

    exporter: Exporter = "none"
    endpoint: str = ""
    protocol: Protocol = "http/protobuf"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def host(self) -> str:
        """Return the host, with the port if the address names one, and nothing else of it."""
        return urlsplit(self.endpoint).netloc.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class TelemetryVariables:
    """The telemetry that the environment asks for.

    `content` is whether texts, commands and results are sent too. `traceparent` and `tracestate`
    are the context of the program that started this one. `secrets` are values of headers.
    `problems` say which variables could not be used.
    """

    traces: Destination = Destination()
    metrics: Destination = Destination()
    content: bool = False
    traceparent: str = ""
    tracestate: str = ""
    named: bool = False
    secrets: tuple[str, ...] = ()
    problems: tuple[Phrase, ...] = ()

    @property
    def on(self) -> bool:
        """Return whether anything is exported."""
        return any(one.exporter != "none" for one in (self.traces, self.metrics))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return where telemetry is sent, each host once."""
        found = [one.host for one in (self.traces, self.metrics) if one.exporter == "otlp"]
        return tuple(dict.fromkeys(found))


def telemetry_variables(environ: Mapping[str, str]) -> TelemetryVariables:
    """Return what the standard variables in `environ` ask for; nothing where none is set.

    As the specification asks, an empty variable counts as unset, and one that cannot be used is
    reported and left out: it must not stop the program.
    """
    given = {name: value.strip() for name, value in environ.items() if value.strip()}
    secrets = _secrets(given)
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return TelemetryVariables(secrets=secrets)
    problems: list[Phrase] = []
    traceparent = given.get("TRACEPARENT", "").lower()
    parent = _TRACEPARENT.fullmatch(traceparent)
    valid = parent is not None and all(int(part, 16) for part in parent.groups())
    return TelemetryVariables(
        traces=_destination(given, "TRACES", problems),
        metrics=_destination(given, "METRICS", problems),
        content=given.get(CONTENT, "").lower() in _YES,
        traceparent=traceparent if valid else "",
        tracestate=given.get("TRACESTATE", "") if valid else "",
        named="OTEL_SERVICE_NAME" in given
        or "service.name=" in given.get("OTEL_RESOURCE_ATTRIBUTES", ""),
        secrets=secrets,
        problems=tuple({str(problem): problem for problem in problems}.values()),
    )


def _destination(given: Mapping[str, str], signal: str, problems: list[Phrase]) -> Destination:
    """Return where one signal goes; nowhere unless an endpoint or an exporter is set."""
    name = f"OTEL_{signal}_EXPORTER"
    chosen = given.get(name, "").lower()
    own = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    endpoint = given.get(own) or given.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if chosen == "none" or not (chosen or endpoint):
        return Destination()
    if chosen not in ("", "otlp", "console"):
        problems.append(_unusable(name, chosen, "otlp, console, none"))
        return Destination()
    if chosen == "console":
        return Destination("console")
    variable = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    if variable not in given:
        variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = _PROTOCOLS.get(given.get(variable, "http/protobuf").lower())
    if protocol is None:
        problems.append(_unusable(variable, given[variable], ", ".join(_PROTOCOLS)))
        return Destination()
    address = endpoint or LOCAL[protocol]
    if not _is_address(address):
        shown = own if own in given else "OTEL_EXPORTER_OTLP_ENDPOINT"
        problems.append(
            Phrase(
                "{name} is not an http or https address, so no telemetry is sent there.",
                {"name": shown},
            )
        )
        return Destination()
    if protocol == "http/protobuf" and own not in given:
        address = f"{address.rstrip('/')}/v1/{signal.lower()}"
    return Destination("otlp", address, protocol, _headers(given, signal))


def _headers(given: Mapping[str, str], signal: str) -> Mapping[str, str]:
    """Return the headers of a signal: its own where they are set, else those of all signals."""
    text = given.get(f"OTEL_EXPORTER_OTLP_{signal}_HEADERS")
    if text is None:
        text = given.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    pairs = (pair.partition("=") for pair in text.split(","))
    return {
        unquote(name.strip()).lower(): unquote(value.strip())
        for name, sign, value in pairs
        if sign and name.strip()
    }


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _unusable(name: str, value: str, known: str) -> Phrase:
    return Phrase(
        "{name} is {value}, but must be one of {known}. No telemetry is sent.",
        {"name": name, "value": value[:40], "known": known},
    )


def _secrets(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of headers, as they are written and as they are sent."""
    found: dict[str, None] = {}
    for name in HEADER_NAMES:
        for pair in given.get(name, "").split(","):
            written = pair.partition("=")[2].strip()
            sent = unquote(written)
            for value in (written, sent, sent.rpartition(" ")[2]):
                if len(value) >= _SHORTEST:
                    found[value] = None
    return tuple(found)


_SHORTEST = 8
"""Characters of a header's value from which on it may be a key; `1` or `true` is none."""
