"""Telemetry as a user sees it, and the secrets that no collector gets."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from kogniterm.addons.telemetry.telemetry_session import TEXTS, with_texts
from kogniterm.text.redact import redact
from kogniterm.types import events
from tests.cli.test_typed_commands import HELLO, user
from tests.flows.test_every_sink_redacts import TEXT
from tests.flows.test_secrets import SECRET
from tests.support.filled import filled
from tests.support.typist import Typist

__all__ = ["user"]


def test_the_doctor_reports_that_it_is_off(user: Typist) -> None:
    assert user.type("doctor") in {0, 1}  # 1 without the weights of the embedded model
    assert "telemetry: off" in user.flat


def test_spans_are_not_written_to_a_terminal(user: Typist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    run = ("run", "--model", user.script(HELLO), "hello")
    monkeypatch.setattr("os.isatty", lambda _number: True)
    assert user.type(*run) == 0
    assert user.flat.count("2>FILE") == 1
    assert "invoke_agent" not in user.shown
    monkeypatch.setattr("os.isatty", lambda number: number != 2)
    assert user.type(*run) == 0
    assert '"name": "invoke_agent kogniterm"' in user.shown


@pytest.mark.parametrize("kind", get_args(events.Event), ids=lambda kind: kind.__name__)
def test_telemetry_gets_redacted_texts(kind: Any) -> None:
    event = with_texts(filled(kind, TEXT), redact)
    for field in event.__match_args__:
        value = getattr(event, field)
        parts = {field: value}
        if field in ("result", "answer"):
            parts = {name: getattr(value, name) for name in value.__match_args__}
        for name, part in parts.items():
            if name in TEXTS and isinstance(part, str):
                assert SECRET not in part, name
                assert "[redacted" in part
