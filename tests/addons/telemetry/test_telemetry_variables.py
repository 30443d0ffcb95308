"""The standard variables of OpenTelemetry: what they switch on, their hosts and their keys."""

from __future__ import annotations

import pytest

from kogniterm.addons.telemetry.telemetry_variables import TelemetryVariables, telemetry_variables

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HTTP = "otlp_proto_http"


def read(given: dict[str, str]) -> TelemetryVariables:
    return telemetry_variables(given, given)


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
    assert read(given).exporters == {}


def test_variables_of_another_environment_than_the_process_send_nothing() -> None:
    found = telemetry_variables({ENDPOINT: "http://c"}, {ENDPOINT: "http://other"})
    assert found.exporters == {}
    assert telemetry_variables({}, {ENDPOINT: "http://c"}).exporters == {}


def test_an_endpoint_switches_both_signals_on() -> None:
    found = read({ENDPOINT: "https://me:secret@c.example:4318/otlp/"})
    assert found.exporters == {"traces": HTTP, "metrics": HTTP}
    assert found.hosts == ("c.example:4318",)
    assert not found.content


def test_a_signal_may_have_its_own() -> None:
    given = {
        ENDPOINT: "http://c",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/exact",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
        "OTEL_METRICS_EXPORTER": "console",
    }
    found = read(given)
    assert found.exporters == {"traces": "otlp_proto_grpc", "metrics": "console"}
    assert found.hosts == ("t", "console")


def test_an_exporter_alone_means_the_usual_endpoint() -> None:
    found = read({"OTEL_TRACES_EXPORTER": "otlp"})
    assert (found.exporters, found.hosts) == ({"traces": HTTP}, ("localhost",))


def test_an_address_that_cannot_be_read_ends_nothing() -> None:
    assert read({ENDPOINT: "http://[::1"}).hosts == ("localhost",)
