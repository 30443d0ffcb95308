"""The keys of a telemetry collector in the environment, which no command, log or model gets."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

HEADER_NAMES = tuple(
    f"OTEL_EXPORTER_OTLP_{signal}HEADERS" for signal in ("", "TRACES_", "METRICS_", "LOGS_")
)
"""Variables that hold keys of a collector."""
_SHORTEST = 8
"""Characters of a header's value from which on it may be a key; `1` or `true` is none."""


def collector_keys(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of headers, as they are written and as they are sent."""
    found: dict[str, None] = {}
    for name in HEADER_NAMES:
        for pair in environ.get(name, "").split(","):
            written = pair.partition("=")[2].strip()
            sent = unquote(written)
            for value in (written, sent, sent.rpartition(" ")[2]):
                if len(value) >= _SHORTEST:
                    found[value] = None
    return tuple(found)
