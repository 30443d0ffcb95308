"""The files that a text names with @, as in `@notes.txt` or `@"my notes.txt"`."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator

from kogniterm.storage.folders import expand_path

_NAMED = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|(\S+))')
_BEFORE = "\"',;:()[]?!¿¡…"
_BEHIND = f"{_BEFORE}."
"""Characters around a name in a sentence; a dot before it is part of it."""


def named_words(text: str) -> Iterator[str]:
    """Yield what stands behind each @ without quotes, as words of a sentence."""
    return (_bare(word) for _quoted, word in _NAMED.findall(text))


def mentions(line: str, folder: str = "") -> tuple[str, ...]:
    """Return the existing files named with @ in `line`, seen from `folder` or the current one."""
    found = (quoted or _bare(word) for quoted, word in _NAMED.findall(line))
    return tuple(dict.fromkeys(name for name in found if name and _is_there(folder, name)))


def _bare(word: str) -> str:
    return word.lstrip(_BEFORE).rstrip(_BEHIND)


def _is_there(folder: str, name: str) -> bool:
    """Return whether `name` is a file's; in a folder that may not be entered none is."""
    return os.path.exists(expand_path(folder, name))  # noqa: PTH110 - pathlib's own test raises there
