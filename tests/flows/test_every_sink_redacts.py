"""One secret, every sink: whatever shows, keeps or sends a text has a placeholder instead."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from kogniterm.addons.acp.session_updates import FrontWords, SessionUpdates
from kogniterm.addons.telemetry.telemetry_session import TEXTS, with_texts
from kogniterm.addons.trajectory.atif_export import trajectory
from kogniterm.cli.json_output import JsonSink, StreamJsonSink
from kogniterm.logs import RedactingFormatter
from kogniterm.runtime.operations.stored_data import report_parts
from kogniterm.sessions.records import RecordBody
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.text.redact import Redactor, redact, session_label
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


def editor(given: Sequence[Any]) -> str:
    """Return what an editor gets over ACP."""

    async def sent() -> list[str]:
        made: list[Callable[[], Any]] = []
        outbox: Any = SimpleNamespace(
            put=lambda update: made.append(lambda: update),
            put_late=lambda key, make: made.append(make),
        )
        say: Callable[[Any], str] = str
        words = FrontWords(
            say, lambda tool, text: f"{tool} {text}", lambda answer: "", lambda left: ()
        )
        session: Any = SimpleNamespace(
            state=SimpleNamespace(title="", usage=None),
        )
        updates = SessionUpdates(session, outbox, words)
        updates.usage = lambda: None  # type: ignore[method-assign]  # numbers only
        for event in given:
            updates(event)
        return [str(update()) for update in made]

    return "\n".join(asyncio.run(sent()))


NOT_ALONE = (events.CommandOutput, events.TurnEnded, events.JobsLeft)
SINKS = (stream_json, final_json, editor)


@pytest.mark.parametrize(
    ("sink", "kind"),
    [
        pytest.param(
            sink,
            kind,
            id=f"{sink.__name__}-{kind.__name__}",
        )
        for sink in SINKS
        for kind in OTHERS
        # An editor gets these with a command that runs, or from the session.
        if sink is not editor or kind not in NOT_ALONE
    ],
)
def test_a_sink_redacts_every_text_of_an_event(
    sink: Callable[[Sequence[Any]], str], kind: Any
) -> None:
    for variant in range(4):
        given = filled(kind, TEXT, variant, **CHOSEN_BY_PROGRAM)
        # Counted: a comparison of long texts takes seconds to be explained.
        assert sink([given]).count(SECRET) == 0, given


def test_a_log_has_no_secret_in_arguments_or_tracebacks() -> None:
    formatter = RedactingFormatter(redact)
    try:
        raise ValueError(TEXT)
    except ValueError as error:
        failed = (type(error), error, error.__traceback__)
    record = logging.LogRecord("a", logging.INFO, __file__, 1, "got %s", (TEXT,), failed)
    assert SECRET not in formatter.format(record)
    assert "[redacted" in formatter.format(record)


@pytest.mark.parametrize("kind", get_args(events.Event), ids=lambda kind: kind.__name__)
def test_telemetry_gets_redacted_texts(kind: Any) -> None:
    event = with_texts(filled(kind, TEXT), redact)
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        parts = {field.name: value}
        if dataclasses.is_dataclass(value) and field.name in ("result", "answer"):
            parts = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        for name, part in parts.items():
            if name in TEXTS and isinstance(part, str):
                assert SECRET not in part, name
                assert "[redacted" in part


@pytest.mark.parametrize("form", ["report", "atif"])
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
        else trajectory(store, session_id)
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


def test_redaction_is_idempotent_and_known_values_are_found() -> None:
    known = Redactor([SECRET[4:]], label=session_label("s"))
    once = known.redact(f"{TEXT} and {SECRET[4:]}")
    assert SECRET[4:] not in once
    assert known.redact(once) == once
