"""The format of exports: JSON lines in named sections, with a hash that shows cuts and changes.

A header names the format and its version; each line after it has a `section` and the fields that
the section's owner defines; the last line has the number of lines before it and their SHA-256, each
with its line end. Files of earlier versions, which had a format for each kind, are read as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.types import Phrase

FORMAT = "kogniterm.archive"
_VERSIONS = {FORMAT: 1, "kogniterm.session": 3, "kogniterm.report": 1, "kogniterm-memory": 1}
LAST_TIME = 253_402_300_800.0
"""The end of the year 9999, as far as calendars go."""


class ArchiveLine(NamedTuple):
    """A line of an archive: its number, its section and its fields."""

    line: int
    section: str
    fields: dict[str, Any]


def write_archive(sections: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the lines of an archive, without line ends."""
    header = {"format": FORMAT, "version": _VERSIONS[FORMAT]}
    digest, count = hashlib.sha256(), 0
    for value in chain([header], ({"section": name, **fields} for name, fields in sections)):
        line = json.dumps(value, separators=(",", ":"))
        digest.update(line.encode() + b"\n")
        count += 1
        yield line
    yield json.dumps({"lines": count, "sha256": digest.hexdigest()}, separators=(",", ":"))


def read_archive(lines: Iterable[str]) -> list[ArchiveLine]:
    """Return the lines with a section. Raises `UsageError`, naming the line.

    That is for another format or a newer version, text after the end, an end that is missing or
    does not fit, and what is no JSON.
    """
    digest, number, end, form = hashlib.sha256(), 0, None, ""
    found: list[ArchiveLine] = []
    for number, text in enumerate(lines, 1):
        if end is not None:
            raise unusable(number, Phrase("there is text after the end"))
        line = text.rstrip("\r\n")
        with checking(number):
            value = json.loads(line)
            if number == 1:
                form = str(value["format"])
                if form not in _VERSIONS:
                    raise UnusableValueError("the format is {format}, not {expected}", format=form,
                                             expected=FORMAT)  # fmt: skip
                if value["version"] > _VERSIONS[form]:
                    raise UnusableValueError(
                        "it was written by a newer KogniTerm; update KogniTerm"
                    )
            if number > 1 and "sha256" in value:
                end = value["sha256"]
                continue
            digest.update(line.encode() + b"\n")
            entry = (value.get("section", ""), value) if form == FORMAT else _older(form, value)
            found += [ArchiveLine(number, *entry)] if entry[0] else []
    if end is None:
        raise unusable(number, Phrase("the file ends too early"))
    if end != digest.hexdigest():
        raise unusable(
            number, Phrase("the checksum does not match; the file was changed or damaged")
        )
    return found


def _older(form: str, value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the section and the fields of a line of an earlier version; "" for its own."""
    if form == "kogniterm-memory":
        return {"header": "memory"}.get(value["type"], value["type"]), value
    if form == "kogniterm.report":
        value = json.loads(value["line"]) if value.get("part") == "session" else {"sha256": ""}
    return "" if "sha256" in value else "session" if "format" in value else "record", value


@contextmanager
def checking(line: int) -> Iterator[None]:
    """Raise `UsageError` for a value in the line that is missing or cannot be used."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise unusable(line, value_problem(error)) from error


def require(fits: bool) -> None:
    """Refuse a value that does not fit, within `checking`."""
    if not fits:
        raise TypeError


def unusable(line: int, detail: Phrase) -> UsageError:
    """Return the error that a line of a file cannot be used."""
    return UsageError(
        "The file is not a valid export (line {line}): {detail}.", line=line, detail=detail
    )


def value_problem(error: Exception) -> Phrase:
    """Return why a value cannot be used."""
    match error:
        case UnusableValueError():
            return error.text
        case json.JSONDecodeError():
            return Phrase("not valid JSON: {why}", {"why": str(error)})
        case KeyError(args=(name,)):
            return Phrase("{name} is missing", {"name": name})
        case _:
            return Phrase("a value is missing or has the wrong type")
