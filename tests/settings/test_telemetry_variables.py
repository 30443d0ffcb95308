"""The standard variables of OpenTelemetry: what they switch on, and which cannot be used."""

from __future__ import annotations

import pytest

from kogniterm.settings.telemetry_variables import Destination, telemetry_variables

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {ENDPOINT: " "},
        {"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "OTEL_SERVICE_NAME": "x", "TRACEPARENT": "00"},
        {"OTEL_SDK_DISABLED": "TRUE", ENDPOINT: "http://c"},
        {ENDPOINT: "http://c", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "None"},
        {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"},
    ],
)
def test_off(given: dict[str, str]) -> None:
    found = telemetry_variables(given)
    assert not found.on
    assert found.problems == ()


def test_an_endpoint_switches_both_signals_on() -> None:
    found = telemetry_variables({ENDPOINT: "https://me:secret@c.example:4318/otlp/"})
    assert found.traces.endpoint == "https://me:secret@c.example:4318/otlp/v1/traces"
    assert found.metrics.endpoint == "https://me:secret@c.example:4318/otlp/v1/metrics"
    assert found.hosts == ("c.example:4318",)
    assert not found.content


def test_a_signal_may_have_its_own() -> None:
    found = telemetry_variables(
        {
            ENDPOINT: "http://c",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/exact",
            "OTEL_EXPORTER_OTLP_HEADERS": "x=general-value",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "Authorization=Bearer%20abcdefgh, y=1",
            "OTEL_METRICS_EXPORTER": "console",
        }
    )
    assert found.traces.endpoint == "http://t/exact"
    assert found.traces.headers == {"authorization": "Bearer abcdefgh", "y": "1"}
    assert found.metrics == Destination("console")
    assert set(found.secrets) == {
        "general-value", "Bearer%20abcdefgh", "Bearer abcdefgh", "abcdefgh",
    }  # fmt: skip
    assert "abcdefgh" not in repr(found.traces)


def test_an_exporter_alone_means_the_usual_endpoint() -> None:
    found = telemetry_variables({"OTEL_TRACES_EXPORTER": "otlp"})
    assert (found.traces.endpoint, found.metrics.exporter) == (
        "http://localhost:4318/v1/traces",
        "none",
    )
    grpc = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert telemetry_variables(grpc).traces.endpoint == "http://localhost:4317"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({ENDPOINT: "collector:4318"}, f"{ENDPOINT} is not an http or https address"),
        ({ENDPOINT: "http://c:99999"}, f"{ENDPOINT} is not an http or https address"),
        ({ENDPOINT: "http://[::1"}, f"{ENDPOINT} is not an http or https address"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is zipkin, but must be one of"),
        (
            {ENDPOINT: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is http/json, but must be one of",
        ),
    ],
)
def test_what_cannot_be_used_is_said_once_and_nothing_is_sent(
    given: dict[str, str], said: str
) -> None:
    found = telemetry_variables(given)
    assert not found.on
    assert len(found.problems) == 1
    assert str(found.problems[0]).startswith(said)


@pytest.mark.parametrize(
    ("given", "valid"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", False),
        ("$(id)", False),
    ],
)
def test_a_parent_is_taken_where_it_is_one(given: str, valid: bool) -> None:
    found = telemetry_variables({"TRACEPARENT": given, "TRACESTATE": "a=b"})
    assert (found.traceparent, found.tracestate) == ((given, "a=b") if valid else ("", ""))
