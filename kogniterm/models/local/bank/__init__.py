"""The bank of examples: requests with the command that answers them, in English and Spanish.

Two tables of tab-separated lines: category, request, command. The commands are ours, written for
GNU userland and Python 3; the names in them are varied so that copying one verbatim never helps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kogniterm.models.local.language import LANGUAGES, Language

CATEGORIES = (
    "archives",
    "content",
    "counting",
    "create",
    "data",
    "dates",
    "disk",
    "environment",
    "files",
    "git",
    "network",
    "permissions",
    "processes",
    "python",
    "rename",
    "search",
    "sizes",
    "system",
    "text",
)


@dataclass(frozen=True, slots=True)
class Example:
    """A request and a command that fulfils it."""

    request: str
    command: str
    language: Language
    category: str = ""


def _read(language: Language) -> Iterator[Example]:
    table = Path(__file__).with_name(f"examples_{language}.tsv")
    for line in table.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            category, request, command = line.split("\t")
            yield Example(request, command, language, category)


@cache
def examples() -> tuple[Example, ...]:
    """Every pair of the bank; read once."""
    return tuple(example for language in LANGUAGES for example in _read(language))
