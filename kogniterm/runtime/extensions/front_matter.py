"""Markdown files with YAML before their text: skills, custom commands and sub-agents.

Other agents accept what is not quite YAML (a description with a colon in it), so in such a block
each field is read by itself, and one that is no YAML is text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kogniterm.errors import SettingsError, why
from kogniterm.host.safe_files import resolve_path
from kogniterm.host.walk import WalkLimits, walk_folder
from kogniterm.settings.user_files import yaml_values
from kogniterm.storage.folders import read_file
from kogniterm.text.visible import clean
from kogniterm.types import Phrase

LARGEST = 64 * 1024
"""Bytes of a file of the user's folder; a larger one is none of these."""
MAX_BLOCK = 16 * 1024
"""Characters of the block; more is no description."""
_BLOCK = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_NEXT_FIELD = re.compile(r"\n(?=[A-Za-z][\w-]*[ \t]*:)")


class MarkdownDocument(NamedTuple):
    """The fields of a Markdown file, their names in lower case, and the text below them."""

    fields: Mapping[str, Any]
    body: str

    def text(self, name: str) -> str:
        """Return a field as one line of text; "" without it."""
        value = self.fields.get(name)
        if isinstance(value, list | tuple):
            return ", ".join(str(one) for one in value)
        return "" if value is None else " ".join(str(value).split())

    def words(self, name: str) -> tuple[str, ...]:
        """Return a field as a list: of YAML, or separated by commas outside of parentheses."""
        value = self.fields.get(name)
        if isinstance(value, list | tuple):
            return tuple(str(one).strip() for one in value)
        text = "" if value is None else str(value)
        parts = re.split(r",(?![^(]*\))", text)
        return tuple(part.strip() for part in parts if part.strip())


def texts_of_folder(
    folder: Path, endings: Collection[str], most: int
) -> Iterator[tuple[Path, str | Phrase]]:
    """Yield at most `most` files of the user's folder, with their texts, or why they have none."""
    try:
        found = walk_folder(resolve_path(folder), None, WalkLimits(10 * most))
        files = sorted(folder / one.path for one in found)
    except OSError:
        return
    for file in [one for one in files if one.suffix in endings][:most]:
        try:
            data = read_file(file, LARGEST + 1)
        except OSError as error:
            yield file, Phrase("it cannot be read ({why})", {"why": why(error)})
            continue
        if len(data) > LARGEST:
            yield file, Phrase("it is larger than {limit} kB", {"limit": LARGEST // 1000})
            continue
        yield file, data.decode("utf-8", "replace").replace("\r\n", "\n")


def read_document(text: str) -> MarkdownDocument:
    """Return the fields and the body of a file's text; control characters are removed."""
    text = clean(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    block = _BLOCK.match(text)
    if block is None:
        return MarkdownDocument({}, text)
    written = block[1][:MAX_BLOCK]
    if (found := _mapping(written)) is None:
        found = {}
        for field in _NEXT_FIELD.split(written):
            name, colon, value = field.partition(":")
            read = _mapping(field) if colon else {}
            found |= {name: " ".join(value.split()).strip("\"'")} if read is None else read
    fields = {str(name).strip().lower(): value for name, value in found.items()}
    return MarkdownDocument(fields, text[block.end() :])


def _mapping(block: str) -> dict[str, Any] | None:
    """Return the fields of a block; None where it is no YAML."""
    try:
        found: dict[str, Any] = yaml_values("", block).data
    except SettingsError:
        return None
    return found
