"""Files of JSON lines that end with a hash, so that a cut or a change is detected.

Exports of sessions and memory, and bug reports, are such files: a header line with the format and
its version, lines that each room defines, and a closing line with the SHA-256 of all lines before
it, each with its line end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from kogniterm.errors import KognitermError, UnusableValueError
from kogniterm.types import Phrase

Parsed = TypeVar("Parsed")
Closing = Callable[[int, str], dict[str, Any]]
"""Makes the closing line for a number of lines before it and their SHA-256."""


def close_lines(lines: Iterable[str], closing: Closing) -> Iterator[str]:
    """Yield `lines` and the line that closes them, without line ends."""
    digest, count = hashlib.sha256(), 0
    for line in lines:
        digest.update(line.encode() + b"\n")
        count += 1
        yield line
    yield json.dumps(closing(count, digest.hexdigest()), separators=(",", ":"))


def read_closed(
    lines: Iterable[str],
    form: str,
    version: int,
    parse: Callable[[Any], Parsed],
    *,
    closing: Closing,
    unusable: Callable[[int, Phrase], KognitermError],
) -> tuple[dict[str, Any], list[Parsed]]:
    """Return the header, of this `form`, and what `parse` makes of each line after it.

    Raises what `unusable` makes of a line's number and what is wrong with it: another form or a
    newer `version`, text after the end, an end that is missing or does not fit, no JSON, or an
    error of `parse` about a value.
    """
    digest, number, end = hashlib.sha256(), 0, None
    header: dict[str, Any] = {}
    values: list[Parsed] = []
    for number, text in enumerate(lines, 1):
        if end is not None:
            raise unusable(number, Phrase("there is text after the end"))
        line = text.rstrip("\r\n")
        try:
            value = json.loads(line)
            if number == 1:
                if value["format"] != form:
                    raise UnusableValueError(
                        "the format is {format}, not {expected}",
                        format=value["format"],
                        expected=form,
                    )
                if value["version"] > version:
                    raise UnusableValueError(
                        "it was written by a newer KogniTerm; update KogniTerm"
                    )
                header = dict(value)
            elif "sha256" in value:
                end = value
                continue
            else:
                values.append(parse(value))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise unusable(number, value_problem(error)) from error
        digest.update(line.encode() + b"\n")
    if end is None:
        raise unusable(number, Phrase("the file ends too early"))
    if end != closing(number - 1, digest.hexdigest()):
        raise unusable(
            number, Phrase("the checksum does not match; the file was changed or damaged")
        )
    return header, values


def value_problem(error: Exception) -> Phrase:
    """Return why a value of such a file cannot be used."""
    match error:
        case UnusableValueError():
            return error.text
        case json.JSONDecodeError():
            return Phrase("not valid JSON: {why}", {"why": str(error)})
        case KeyError(args=(name,)):
            return Phrase("{name} is missing", {"name": name})
        case _:
            return Phrase("a value is missing or has the wrong type")
