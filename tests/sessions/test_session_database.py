"""Databases of every older schema are migrated with their content, on both kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kogniterm.errors import StorageError
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.journal.codec import new_row
from kogniterm.sessions.records import RecordBody, SessionOpened
from kogniterm.sessions.session_database import SESSIONS, open_store
from kogniterm.storage.drivers import Migration, migrate, open_postgres, open_sqlite, transaction
from tests.support.conversation import command_turn


def connection_of(location: Path | str) -> Any:
    return (
        open_sqlite(location) if isinstance(location, Path) else open_postgres(location, user="ana")
    )


def steps_of(location: Path | str) -> tuple[Migration, ...]:
    return SESSIONS.sqlite if isinstance(location, Path) else SESSIONS.postgres


def fill_as_the_first_version_did(connection: Any, mark: str) -> None:
    """Insert a session of two turns in the columns of schema 1."""
    bodies: list[RecordBody] = [SessionOpened("old", "/home/ana", "0.1", "m")]
    bodies += command_turn(1, "Count the carrots") + command_turn(2)
    marks = ", ".join([mark] * 9)
    with transaction(connection):
        connection.execute(
            "INSERT INTO sessions (id, folder, title, model, created, updated, turns) VALUES "
            "('old', '/home/ana', 'Count the carrots', 'm', 1.5, 28.5, 2)"
        )
        seq, last = 0, ""
        for body in bodies:
            row = new_row(body, seq, 10.5 + seq, last)
            seq, last = row.seq, row.hash
            content = (row.time, row.kind, row.salt, row.payload, row.previous, last)
            connection.execute(
                "INSERT INTO records (session_id, seq, time, kind, salt, payload, previous, hash, "
                f"request_id) VALUES ({marks})",
                ("old", seq, *content, row.request_id),
            )


@pytest.mark.parametrize("version", range(1, len(SESSIONS.sqlite) + 1))
def test_every_older_schema_is_brought_up_to_date(location: Path | str, version: int) -> None:
    connection = connection_of(location)
    assert migrate(connection, SESSIONS.package, steps_of(location)[:version]) == version
    fill_as_the_first_version_did(connection, "?" if isinstance(location, Path) else "%s")
    connection.close()
    store, recovery = open_store(location, user="ana", version="2.0")
    assert recovery is None
    (info,) = store.sessions()
    assert (info.id, info.title, info.turns) == ("old", "Count the carrots", 2)
    assert verify(store.database, "old").intact
    assert store.search("carrots")[0][1].turn == 1
    journal = store.open("old")
    assert len(journal.state.messages) == 8
    journal.close()
    assert verify(store.database, "old").intact
    store.close()


def test_both_backends_have_the_same_steps() -> None:
    assert [(step.number, step.name) for step in SESSIONS.sqlite] == [
        (step.number, step.name) for step in SESSIONS.postgres
    ]


def test_a_database_of_the_future_is_refused(location: Path | str) -> None:
    connection = connection_of(location)
    later = Migration(len(SESSIONS.sqlite) + 1, "later")
    migrate(connection, SESSIONS.package, (*steps_of(location), later))
    connection.close()
    with pytest.raises(StorageError, match="newer KogniTerm"):
        open_store(location, user="ana", version="1.0")
