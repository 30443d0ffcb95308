"""The files by which a project folder acts on KogniTerm: one table of places, read within bounds.

Only regular files in these places are read, never a pipe or a device, and nothing through a link
that leads out of the folder.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from kogniterm.host.safe_files import open_file, resolved

Kind = Literal["instructions", "policy", "command", "agent", "skill", "hooks", "mcp"]

MAX_FILE = 64 * 1024
MAX_ENTRIES = 1_000
"""Names that are looked at below one place."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a project folder that would have an effect once it is trusted."""

    name: str
    kind: Kind
    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """A file that has an effect; or with `endings`, the files of a folder whose names end so.

    `depth` is how many levels of folders are looked into, `most` how many files are read.
    """

    name: str
    kind: Kind
    endings: tuple[str, ...] = ()
    depth: int = 1
    most: int = 100


PLACES = (
    # In the order in which the model gets them: what is for KogniTerm alone comes last.
    Place("AGENTS.md", "instructions"),
    Place("KOGNITERM.md", "instructions"),
    Place(".kogniterm/policy.toml", "policy"),
    Place(".kogniterm/commands", "command", (".md", ".toml"), depth=4),
    Place(".claude/commands", "command", (".md",), depth=4),
    Place(".gemini/commands", "command", (".toml",), depth=4),
)


def discover(folder: Path) -> tuple[ProjectFile, ...]:
    """Return the files of `folder` that would have an effect: a bounded number of small ones."""
    return tuple(
        ProjectFile(name, place.kind, hashlib.sha256(data).hexdigest(), _text(data))
        for place in PLACES
        for name in islice(_names(folder, place), place.most)
        if (data := _read(folder, name)) is not None
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _names(folder: Path, place: Place) -> Iterator[str]:
    """Yield the names of the files of a place, from `folder`, in order."""
    if place.endings:
        yield from _below(folder, place.name, place.endings, place.depth)
    else:
        yield place.name


def _below(folder: Path, name: str, endings: tuple[str, ...], depth: int) -> Iterator[str]:
    """Yield the files below a folder that end so; none where it is a link or not readable."""
    path = folder / name
    try:
        if not depth or not stat.S_ISDIR(path.lstat().st_mode):
            return
        with os.scandir(path) as entries:
            found = sorted(islice(entries, MAX_ENTRIES), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        if entry.name.endswith(endings):
            yield f"{name}/{entry.name}"
        elif entry.is_dir(follow_symlinks=False):
            yield from _below(folder, f"{name}/{entry.name}", endings, depth - 1)


def _read(folder: Path, name: str) -> bytes | None:
    try:
        path = resolved(folder / name)
        if not path.is_relative_to(resolved(folder)):
            return None
        descriptor = open_file(path)
    except (OSError, ValueError):
        return None
    info = os.fstat(descriptor)
    # Checked before `os.fdopen`, which raises for a folder.
    if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_FILE:
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_FILE)
