"""The keys of a telemetry collector, wherever its own variables put them."""

from __future__ import annotations

from kogniterm.settings import collector_keys


def test_keys_are_known_as_written_and_as_sent() -> None:
    given = {
        "OTEL_EXPORTER_OTLP_HEADERS": "x=general-value",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "Authorization=Bearer%20abcdefgh, y=1",
    }
    assert set(collector_keys(given)) == {
        "general-value", "Bearer%20abcdefgh", "Bearer abcdefgh", "abcdefgh",
    }  # fmt: skip
    assert collector_keys({}) == ()
