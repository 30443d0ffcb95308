"""Whether words stand in files: every way they may be spelt there, and a search of raw bytes."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import string
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from kogniterm import database
from kogniterm.memory.sql import Sql

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
"""What SQLite's `lower` does; PostgreSQL's lowers every letter."""

LEAST_ENCODED = 12
"""Characters of base64 that must agree: fewer stand by chance in any picture."""

_CHUNK = 1 << 20
_BESIDE = ("-wal", "-shm", "-journal")
_SPACE = re.compile(r"[ \t\n\r\f\v]+")
"""What is white space in bytes too."""

_GAP = rb"(?:\s|\\[nrt]|\n[+> ])+"
"""White space between two words: as it is, escaped as in JSON, or before the next line of an
entry of the prompt history or of a quotation."""


def spellings(term: str) -> list[str]:
    """How `term` may stand in a text: in each case, composed or not, plain or escaped as in JSON.

    Bytes and SQLite fold the case of ASCII letters only, so other letters are spelt out.
    """
    found: dict[str, None] = {}
    for cased in (term, term.lower(), term.upper(), term.capitalize(), term.title()):
        for form in ("NFC", "NFD"):
            composed = unicodedata.normalize(form, cased)
            found[composed] = None
            found[json.dumps(composed)[1:-1]] = None
            found[json.dumps(composed, ensure_ascii=False)[1:-1]] = None
    return [term, *(one for one in found if one != term)]


def term_pattern(terms: Sequence[str]) -> re.Pattern[bytes] | None:
    """Finds any of `terms` in bytes, however it is spelt; None when there are none.

    As UTF-8 with any white space between the words, and as UTF-16 of either byte order.
    """
    # The case of ASCII letters does not matter: a way for each would only be searched again.
    written = {
        one.encode().lower(): one
        for term in terms
        for one in spellings(term)
        if _SPACE.sub("", one)
    }
    if not written:
        return None
    longest_first = sorted(written.values(), key=len, reverse=True)
    ways = [_with_gaps(one) for one in longest_first]
    for order in ("utf-16-le", "utf-16-be"):
        ways += [re.escape(one.encode(order)) for one in longest_first]
    return re.compile(b"|".join(ways), re.IGNORECASE)


def _with_gaps(text: str) -> bytes:
    """A pattern for `text` with any white space between its words."""
    return _GAP.join(re.escape(word.encode()) for word in _SPACE.split(text) if word)


class Marks:
    """What must not stand in any file: texts, and bytes that are copies of them."""

    def __init__(self, marks: Sequence[str | bytes]) -> None:
        self._texts = tuple(
            mark for mark in marks if isinstance(mark, str) and _SPACE.sub("", mark)
        )
        self._bytes = tuple(mark for mark in marks if isinstance(mark, bytes) and mark)

    def __bool__(self) -> bool:
        return bool(self._texts or self._bytes)

    @cached_property
    def overlap(self) -> int:
        """Bytes of a chunk that are looked at again with the next one."""
        return 2 * max(len(needle) for needle in (*self._plain, *self._wide)) + 64

    def stand_in(self, content: bytes, *, database_file: bool = False) -> bool:
        """Whether `content` holds one of them. A database holds text as UTF-8 only."""
        folded = content.lower()
        if any(needle in folded for needle in self._plain):
            return True
        if not database_file and any(needle in folded for needle in self._wide):
            return True
        return self._across_lines is not None and bool(self._across_lines.search(folded))

    @cached_property
    def _plain(self) -> tuple[bytes, ...]:
        written = [one.encode() for text in self._texts for one in spellings(text)]
        encoded = [code for text in self._texts for code in _encoded(text)]
        return tuple(dict.fromkeys(one.lower() for one in (*self._bytes, *written, *encoded)))

    @cached_property
    def _wide(self) -> tuple[bytes, ...]:
        ways = [
            one.encode(order)
            for text in self._texts
            for one in spellings(text)
            for order in ("utf-16-le", "utf-16-be")
        ]
        return tuple(dict.fromkeys(one.lower() for one in ways))

    @cached_property
    def _across_lines(self) -> re.Pattern[bytes] | None:
        """Finds texts of several words with other white space than one blank between them."""
        ways = {
            _with_gaps(one.lower())
            for text in self._texts
            if len(_SPACE.split(text.strip())) > 1
            for one in spellings(text)
        }
        return re.compile(b"|".join(sorted(ways))) if ways else None


def _encoded(text: str) -> Iterator[bytes]:
    """What of base64 is the same wherever in the encoded bytes `text` begins.

    https://datatracker.ietf.org/doc/html/rfc4648#section-4: three bytes give four characters, so
    there are three ways; characters that depend on bytes around are left out.
    """
    for one in dict.fromkeys((text, text.lower(), text.upper(), text.capitalize(), text.title())):
        data = one.encode()
        for before in range(3):
            code = base64.b64encode(bytes(before) + data)
            first = -(-before * 4 // 3)
            whole = (before + len(data)) * 8 // 6
            if whole - first >= LEAST_ENCODED:
                yield code[first:whole]


def scan(paths: Iterable[Path], marks: Sequence[str | bytes]) -> tuple[int, int, tuple[Path, ...]]:
    """Read every regular file at or below `paths`; (files, bytes, files that hold a mark).

    Looks for UTF-8 in any case of ASCII letters and with any white space between words, for the
    same text escaped as in JSON or in base64, and outside of databases for UTF-16.
    """
    sought = Marks(marks)
    if not sought:
        return 0, 0, ()
    files = read = 0
    found: list[Path] = []
    for file in dict.fromkeys(_files(paths)):
        size, hit = _search_file(file, sought)
        files += 1
        read += size
        if hit:
            found.append(file)
    return files, read, tuple(found)


def scan_server(sql: Sql, marks: Sequence[str | bytes]) -> tuple[int, tuple[str, ...]]:
    """Search every column of the person's rows on a server; (columns, those that hold a mark).

    All rooms' tables, as "table.column". What a server keeps beside its rows it shows nobody.
    """
    columns = sql.all(
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND data_type IN ('text', 'bytea') "
        "AND table_name IN (SELECT tablename FROM pg_policies "
        "WHERE schemaname = current_schema() AND policyname = 'own_rows') "
        "ORDER BY table_name, ordinal_position"
    )
    texts = like_patterns([one for one in marks if isinstance(one, str)], escape="\\")
    copies = [one for one in marks if isinstance(one, bytes)]
    found = []
    for table, column, kind in columns:
        sought: list[str] | list[bytes] = copies if kind == "bytea" else texts
        test = (
            f"EXISTS (SELECT 1 FROM unnest(?::bytea[]) AS one WHERE position(one in {column}) > 0)"
            if kind == "bytea"
            else f"lower({column}) LIKE ANY (?)"
        )
        if sought and sql.one(f"SELECT 1 FROM {table} WHERE {test} LIMIT 1", (sought,)):
            found.append(f"{table}.{column}")
    return len(columns), tuple(found)


def like_patterns(terms: Sequence[str], *, escape: str = "!") -> list[str]:
    """What `lower(column) LIKE ? ESCAPE '!'` finds the terms by, on both databases."""
    patterns: dict[str, None] = {}
    for term in terms:
        for written in spellings(term):
            escaped = written.translate(_ASCII_LOWER)
            for special in (escape, "%", "_"):
                escaped = escaped.replace(special, escape + special)
            patterns[f"%{escaped}%"] = None
            patterns[f"%{escaped.lower()}%"] = None
    return list(patterns)


def is_regular(path: Path) -> bool:
    """Whether `path` itself is a regular file: no link, pipe, socket or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
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


def _search_file(path: Path, marks: Marks) -> tuple[int, bool]:
    size = 0
    tail = b""
    is_database = path.name.endswith((".db", *_BESIDE))
    with database.raw_bytes(path) if is_database else path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            window = tail + chunk
            if marks.stand_in(window, database_file=is_database):
                return size, True
            tail = window[-marks.overlap :]
    return size, False
