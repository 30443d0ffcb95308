"""The outcome of what ran, on its way into the journal: waited for while a server is away."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kogniterm.errors import OutcomeNotWrittenError
from kogniterm.protocols import EventSink
from kogniterm.runtime import events
from kogniterm.runtime.ports import SessionPorts
from kogniterm.sessions.records import Outcome
from kogniterm.types import Text

SERVER_WAIT = 30.0
"""Seconds in which a database server that is away may come back before the turn ends."""

_PAUSE = 0.5


async def record_outcome(session: SessionPorts, outcome: Outcome, sink: EventSink) -> None:
    """Journal how something that was started has ended.

    While a server is away, the outcome is kept on this machine and tried again for `SERVER_WAIT`
    seconds. Raises `OutcomeNotWrittenError`, whose message says where it is kept if it is.
    """
    try:
        session.record(outcome, durable=True)
    except OutcomeNotWrittenError as error:
        if not error.waits:
            raise
        await _insist(session, error, sink)


async def _insist(session: SessionPorts, first: OutcomeNotWrittenError, sink: EventSink) -> None:
    values = {"problem": first.text, "seconds": int(SERVER_WAIT)}
    wait = Text("{problem} The database is tried for {seconds} seconds more.", values)
    sink(events.Notice(wait, "warning"))
    deadline = session.clock.monotonic() + SERVER_WAIT
    while session.clock.monotonic() < deadline:
        await asyncio.sleep(_PAUSE)
        with suppress(OutcomeNotWrittenError):
            session.settle_kept()
            return
    raise first
