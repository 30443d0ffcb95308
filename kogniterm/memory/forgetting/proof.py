"""Whether words stand in files and tables: a search of raw bytes, and of every row."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.storage import drivers
from kogniterm.text.matching import FARTHEST, Matcher, decoded

CHUNK = 1 << 20
"""Bytes of a file that are looked at together; with `FARTHEST` all that is held of it."""

_BESIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Searched:
    """A file that was read to its end: its size in bytes, and whether it holds what is sought.

    `stamp` tells whether it was changed since.
    """

    path: Path
    size: int
    holds: bool
    stamp: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Marks:
    """What must not stand anywhere: texts, and bytes that are copies of them."""

    matcher: Matcher
    copies: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.matcher or self.copies)

    def stand_in(self, data: bytes, *, stored: bool) -> bool:
        """Whether `data` holds one of them; `stored`: it is a piece of a database file."""
        if any(copy in data for copy in self.copies):
            return True
        return self.matcher.holds(decoded(data), stored=stored)


def scan(
    paths: Iterable[Path], marks: Marks, known: Iterable[Searched] = ()
) -> tuple[int, int, tuple[Path, ...]]:
    """Read every regular file at or below `paths`; (files, bytes, files that hold a mark).

    Those of `known` that were not changed since are not read again.
    """
    if not marks:
        return 0, 0, ()
    before = {one.path: one for one in known}
    files = read = 0
    found: list[Path] = []
    for file in dict.fromkeys(_files(paths)):
        searched = before.get(file)
        if searched is None or searched.stamp != stamp(file):
            searched = _search_file(file, marks)
        files += 1
        read += searched.size
        if searched.holds:
            found.append(file)
    return files, read, tuple(found)


def windows(file: BinaryIO) -> Iterator[tuple[int, bytearray]]:
    """The content of `file` in overlapping pieces, each with the place it begins at.

    What the taker changes in a piece is what the next one begins with.
    """
    at, tail = 0, bytearray()
    while chunk := file.read(CHUNK):
        window = tail + chunk
        yield at, window
        kept = min(FARTHEST, len(window))
        at += len(window) - kept
        tail = window[len(window) - kept :]


def stamp(path: Path) -> tuple[int, int, int]:
    """What changes when a file is written or replaced."""
    info = path.stat()
    return info.st_ino, info.st_size, info.st_mtime_ns


def scan_rows(sql: MemoryDatabase, marks: Marks) -> tuple[int, tuple[str, ...]]:
    """Search every column of the user's rows, of all rooms; (columns, those that hold a mark).

    They are named "table.column". What a server keeps beside its rows it shows nobody, and what
    SQLite tears apart in its file stands whole here.
    """
    if not marks:
        return 0, ()
    searched = 0
    found = []
    for table, columns in tables(sql).items():
        held: set[str] = set()
        # As bytes, so that a damaged text is searched instead of refused.
        wanted = columns if sql.is_postgres else [f"CAST({one} AS BLOB)" for one in columns]
        names = ", ".join(wanted)
        for row in sql.each(f"SELECT {names} FROM {table}"):
            for column, value in zip(columns, row, strict=True):
                if column not in held and _value_holds(value, marks):
                    held.add(column)
        searched += len(columns)
        found += [f"{table}.{column}" for column in columns if column in held]
    return searched, tuple(found)


def tables(sql: MemoryDatabase) -> Mapping[str, Sequence[str]]:
    """The tables with the user's rows, and their columns that hold text or bytes."""
    if sql.is_postgres:
        rows = sql.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND data_type IN ('text', 'bytea') "
            "AND table_name IN (SELECT tablename FROM pg_policies "
            "WHERE schemaname = current_schema() AND policyname = 'own_rows') "
            "ORDER BY table_name, ordinal_position"
        )
    else:
        # The tables that SQLite keeps behind its search index say what the index says.
        rows = sql.execute(
            "SELECT t.name, c.name FROM pragma_table_list AS t JOIN pragma_table_info(t.name) AS c "
            "WHERE t.schema = 'main' AND t.type IN ('table', 'virtual') "
            "AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY t.name, c.cid"
        )
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(table, []).append(column)
    return found


def is_regular(path: Path) -> bool:
    """Whether `path` itself is a regular file: no link, pipe, socket or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _value_holds(value: object, marks: Marks) -> bool:
    if isinstance(value, str):
        return marks.matcher.holds(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return marks.stand_in(bytes(value), stored=False)
    return False


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            for folder, _, names in os.walk(path):
                yield from (
                    file for name in sorted(names) if is_regular(file := Path(folder) / name)
                )
        elif is_regular(path):
            yield path
            # What SQLite keeps beside its file belongs to it.
            yield from (
                beside
                for ending in _BESIDE
                if is_regular(beside := path.with_name(path.name + ending))
            )


def _search_file(path: Path, marks: Marks) -> Searched:
    size = 0
    is_database = path.name.endswith((".db", *_BESIDE))
    with drivers.raw_bytes(path) if is_database else path.open("rb") as file:
        for at, window in windows(file):
            size = at + len(window)
            if marks.stand_in(bytes(window), stored=is_database):
                return Searched(path, size, holds=True)
    return Searched(path, size, holds=False)
