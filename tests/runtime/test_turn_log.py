"""The log of a turn has what happened, and no text of user or model."""

from __future__ import annotations

import logging
from typing import Any, get_args

import pytest

from kogniterm.runtime.turn_log import TurnLog
from kogniterm.types import Answer, Decision, Phrase, events
from tests.support.filled import filled

SAID = "marzipan in the pantry"
CHOSEN_BY_PROGRAM = dict.fromkeys(
    [
        "agent",
        "by",
        "call",
        "call_id",
        "cwd",
        "detail",
        "effect",
        "finish_reason",
        "folder",
        "host",
        "id",
        "kind",
        "label",
        "level",
        "model",
        "name",
        "purpose",
        "request_id",
        "session_id",
        "signal",
        "state",
        "tool",
    ],
    "x",
)
SHOWN: dict[str, Any] = {"command": "ls", "reasons": (), "tools": ("x",), "groups": (("x",),)}
"""Commands, verdicts and the names of tools and hosts are logged."""


@pytest.mark.parametrize("kind", get_args(events.Event), ids=lambda kind: kind.__name__)
def test_no_event_is_logged_with_a_text(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kogniterm.runtime.turn_log")
    if kind is not events.ModelRetried:  # its reason is KogniTerm's or the provider's
        for variant in range(4):
            TurnLog(str)(filled(kind, SAID, variant, **CHOSEN_BY_PROGRAM, **SHOWN))
    assert SAID not in caplog.text


@pytest.mark.parametrize("before", [0, 280])
def test_a_secret_is_hidden_before_its_command_is_cut(
    before: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kogniterm.runtime.turn_log")
    command = f"{'x' * before} echo 'a\nsecret in two lines'"
    proposed = filled(events.ActionProposed, "x", **{**SHOWN, "command": command})
    TurnLog(lambda text: text.replace("a\nsecret in two lines", "***"))(proposed)
    assert "***" in caplog.text
    assert "secret" not in caplog.text


def test_sentences_keep_their_names_and_numbers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kogniterm.runtime.turn_log")
    refused = Phrase("An action was refused: {why}", {"why": SAID})
    log = TurnLog(str)
    log(events.TurnEnded(Answer("", "refused", 3, Phrase("{a} {b}", {"a": refused, "b": 5}))))
    log(events.Notice(Phrase("Hook {name}: {words}", {"name": "lint", "words": SAID})))
    rejected = filled(events.ActionDecided, "x")
    log(events.ActionDecided(rejected.request, Decision("reject", "ls", "person", SAID)))
    for line in (
        "An action was refused: [22 characters] 5",
        "Hook lint: [22 characters]",
        "rejected x: a reason of 22 characters",
    ):
        assert line in caplog.text
