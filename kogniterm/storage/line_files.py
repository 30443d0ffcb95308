"""Files of JSON lines that a closing line with a hash completes, so that a cut or a change shows.

Exports of sessions and memory, and bug reports, are such files. What the lines say is each room's
own; the hash is the SHA-256 of all lines before the closing one, each with its line end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kogniterm.errors import KognitermError

Closing = Callable[[int, str], dict[str, Any]]
"""The closing line for so many lines before it, with this SHA-256."""


def closed(lines: Iterable[str], closing: Closing) -> Iterator[str]:
    """`lines` and the line that closes them, without line ends."""
    digest, count = hashlib.sha256(), 0
    for line in lines:
        digest.update(line.encode() + b"\n")
        count += 1
        yield line
    yield json.dumps(closing(count, digest.hexdigest()), separators=(",", ":"))


def read_closed(
    lines: Iterable[str],
    take: Callable[[int, Any], None],
    *,
    closing: Closing,
    unusable: Callable[[int, str], KognitermError],
) -> None:
    """Hand the number and the value of every line but the closing one to `take`, in order.

    Raises what `unusable` makes of a line's number and what is wrong with it: text after the end,
    an end that is missing or does not fit, no JSON, or an error of `take` about a value.
    """
    digest, number, end = hashlib.sha256(), 0, None
    for number, text in enumerate(lines, 1):
        if end is not None:
            raise unusable(number, "there is text after the end")
        line = text.rstrip("\r\n")
        try:
            value = json.loads(line)
            if number > 1 and "sha256" in value:
                end = value
                continue
            take(number, value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise unusable(number, str(error) or type(error).__name__) from error
        digest.update(line.encode() + b"\n")
    if end is None:
        raise unusable(number, "the file ends too early")
    if end != closing(number - 1, digest.hexdigest()):
        raise unusable(number, "its checksum does not fit: the file was changed or damaged")


def check_header(header: Any, form: str, version: int) -> None:
    """Raise `ValueError` unless `header` begins a file of this form that can be read here."""
    if header["format"] != form:
        raise ValueError(f"the format is {header['format']}, not {form}")
    if header["version"] > version:
        raise ValueError("it was written by a newer KogniTerm; update KogniTerm")
