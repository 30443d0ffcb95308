"""One secret, every sink: whatever shows, keeps or sends a text has a placeholder instead."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from kogniterm import installed
from kogniterm.cli.json_output import JsonSink, StreamJsonSink
from kogniterm.runtime.operations.stored_data import report_parts
from kogniterm.sessions.records import RecordBody
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.text.redact import redact
from kogniterm.types import Answer, events
from tests.flows.conftest import MakeFlow
from tests.flows.test_secrets import SECRET, WAYS
from tests.support.filled import filled

SHOWN_AS_THEY_RUN = (
    events.ActionProposed,
    events.ActionDecided,
    events.CommandStarted,
    events.CommandEnded,
    events.HostsStarted,
    events.HostsEnded,
    events.PlanChanged,
)
"""Redacted where they are made, by rules that hide nothing of what runs."""
STREAMED = (events.CommandOutput, events.AnswerDelta, events.ThoughtDelta)
"""Pieces as they come, in which a secret may be cut; each sink redacts them."""
OTHERS = [kind for kind in get_args(events.Event) if kind not in SHOWN_AS_THEY_RUN]
CHOSEN_BY_PROGRAM = {
    "session_id": "s",
    "folder": "/w",
    "model": "m",
    "cwd": "/w",
    "signal": None,
    "budgets": {"steps": (1.0, 2.0)},
}
TEXT = f"use {SECRET} here"


# --- sinks that redact by themselves ------------------------------------------------------------


def stream_json(given: Sequence[Any]) -> str:
    return printed(StreamJsonSink, given)


def final_json(given: Sequence[Any]) -> str:
    return printed(JsonSink, given)


def printed(kind: type[JsonSink], given: Sequence[Any]) -> str:
    out = io.StringIO()
    sink = kind(out, redact)
    for event in given:
        sink(event)
    sink.finish(filled(Answer, TEXT))
    return out.getvalue()


SINKS = (stream_json, final_json)


def find_secrets(sink: Callable[[Sequence[Any]], str], kind: Any) -> list[Any]:
    """Return the variants of an event of which a sink passes on the secret."""
    variants = [filled(kind, TEXT, number, **CHOSEN_BY_PROGRAM) for number in range(4)]
    return [given for given in variants if SECRET in sink([given])]


@pytest.mark.parametrize("sink", SINKS, ids=lambda sink: sink.__name__)
@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
def test_a_sink_redacts_every_text_of_an_event(
    sink: Callable[[Sequence[Any]], str], kind: Any
) -> None:
    assert find_secrets(sink, kind) == []


@pytest.mark.parametrize("form", ["report", *(form for form, _part in installed.rows("EXPORTS"))])
def test_what_is_sent_to_others_of_a_session_is_redacted(tmp_path: Path, form: str) -> None:
    database = Database(tmp_path / "k.db", SESSIONS, user="ana", heads=tmp_path)
    store = SessionStore(database, version="1.0", folders=[tmp_path / "outputs"])
    journal = store.create(folder="/home/ana", model="scripted:a")
    for kind in get_args(RecordBody):
        journal.append(
            filled(kind, TEXT, session_id="s", request_id="r1", id="r1", call_id="c1", by="person")
        )
    session_id = journal.state.session_id
    journal.close()
    attached = {"log": [f"a line with {SECRET}"]}
    made = (
        report_parts(store, session_id, redact=redact, about={"a": TEXT}, attachments=attached)
        if form == "report"
        else installed.part("EXPORTS", form)(store, session_id)
    )
    text = "".join(made)
    database.close()
    assert [line for line in text.splitlines() if SECRET in line] == []
    assert "[redacted" in text


# --- sinks that get events which were redacted before -------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_no_event_holds_a_secret_that_was_given_or_written(
    make_flow: MakeFlow, way: Callable[[MakeFlow], Any]
) -> None:
    flow = await way(make_flow)
    told = [event for event in flow.events if not isinstance(event, STREAMED)]
    assert sum(SECRET in repr(event) for event in told) == 0
