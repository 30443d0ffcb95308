"""Opening the queue: the one of PostgreSQL where sessions are there, else that of SQLite."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from kogniterm import __version__
from kogniterm.errors import StorageError
from kogniterm.fleet.task_database import QUEUE, SqliteQueue
from kogniterm.host.installation import install_command
from kogniterm.protocols import WorkerQueue
from kogniterm.storage.database import Database


class MissingQueueError(StorageError):
    """The package that the queue on PostgreSQL needs is not installed."""


def open_queue(
    location: Path | str, user: str, data: Path, *, version: str = __version__
) -> WorkerQueue:
    """Open the queue in the database of the sessions. Raises `StorageError` kinds."""
    database = Database(location, QUEUE, user=user, heads=data)
    if not database.is_postgres:
        return SqliteQueue(database, version=version)
    try:
        if importlib.util.find_spec("procrastinate") is None:
            raise MissingQueueError(
                "The queue on PostgreSQL needs the package procrastinate, which is not installed. "
                "Install it: {command}",
                command=install_command("procrastinate"),
            )
        from kogniterm.fleet.postgres_queue import PostgresQueue

        return PostgresQueue(database, str(location), version=version)
    except BaseException:
        database.close()
        raise
