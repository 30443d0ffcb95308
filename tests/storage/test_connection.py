"""Guarantees of the connection class, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kogniterm.storage.database import Database, database_file
from kogniterm.storage.drivers import DuplicateError, Migration, Schema

_NOTES = (Migration(1, "notes", ("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)",)),)
NOTES = Schema("notes", _NOTES, _NOTES, ("notes",))


@pytest.fixture
def database(location: Path | str) -> Iterator[Database]:
    with closing(Database(location, NOTES, user="ana")) as database:
        yield database


def texts(database: Database) -> list[str]:
    return [text for (text,) in database.execute("SELECT text FROM notes ORDER BY id")]


def test_the_same_statements_work_on_both(database: Database) -> None:
    insert = "INSERT INTO notes (id, text) VALUES (?, ?)"
    assert database.execute(insert, (1, "one")) == []
    assert database.run(insert, (2, "two")) == 1
    assert database.run("UPDATE notes SET text = ?", ("both",)) == 2
    assert database.one("SELECT text FROM notes WHERE id = ?", (2,)) == ("both",)
    assert database.one("SELECT text FROM notes WHERE id = ?", (3,)) is None
    assert list(database.each("SELECT id FROM notes ORDER BY id")) == [(1,), (2,)]
    with pytest.raises(DuplicateError):
        database.run(insert, (2, "again"))
    assert database.problems() == []
    database.scrub()
    assert texts(database) == ["both", "both"]


def test_a_block_inside_another_joins_it(database: Database) -> None:
    def fail_after_two() -> None:
        with database.transaction(durable=True):
            database.run("INSERT INTO notes VALUES (1, 'outer')")
            with database.transaction(), database.transaction(durable=True):
                database.run("INSERT INTO notes VALUES (2, 'inner')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_two()
    assert texts(database) == []
    with database.transaction(), database.transaction():
        database.run("INSERT INTO notes VALUES (1, 'kept')")
    assert texts(database) == ["kept"]


def test_what_must_reach_the_disk_does_not_join_what_need_not(database: Database) -> None:
    with (
        pytest.raises(ValueError, match="durable"),
        database.transaction(),
        database.transaction(durable=True),
    ):
        pass
    with database.transaction(durable=True):
        database.run("INSERT INTO notes VALUES (1, 'kept')")
    assert texts(database) == ["kept"]


def test_a_second_connection_sees_what_was_committed(database: Database) -> None:
    with closing(database.another()) as other:
        with database.transaction():
            database.run("INSERT INTO notes VALUES (1, 'late')")
            assert texts(other) == []
        assert texts(other) == ["late"]
        assert (other.place, other.user, other.is_postgres) == (
            database.place,
            "ana",
            database.is_postgres,
        )


def test_a_folder_means_the_database_in_it(tmp_path: Path) -> None:
    assert database_file(tmp_path) == tmp_path / "kogniterm.db"
    assert database_file(tmp_path / "other.db") == tmp_path / "other.db"
