"""Files that a person named in an input: their text goes to the model as data, within limits."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

MOST_FILES = 20
MOST_NAMES = 200
"""Names told of an attached folder."""
READ_FACTOR = 4
"""Bytes read for each character that may be kept: UTF-8 has no longer characters."""

_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"BM": "BMP",
}


def attached(paths: Sequence[str], folder: Path, limit: int, redact: Callable[[str], str]) -> str:
    """The named files as the model gets them, all together in about `limit` characters.

    A file that cannot be shown is described instead; relative names count from `folder`.
    """
    parts: list[str] = []
    for path in paths[:MOST_FILES]:
        body = redact(_content(folder / Path(path).expanduser(), max(limit, 0)))
        limit -= len(body)
        # The name is data as well: it must not end the element it stands in.
        name = path.replace("<", "‹").replace('"', "'").replace("\n", " ")
        parts.append(f'<file name="{name}">\n{body}\n</file>')
    if len(paths) > MOST_FILES:
        parts.append(f"[{len(paths) - MOST_FILES} more files are named, but not shown]")
    return "\n\n".join(parts)


def _content(path: Path, limit: int) -> str:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _folder(path)
        if not stat.S_ISREG(mode):
            return "[not shown: no regular file]"
        return _file(path, limit)
    except OSError as error:
        return f"[cannot be read: {error.strerror or error}]"


def _folder(path: Path) -> str:
    names = sorted(
        f"{child.name}/" if child.is_dir() else child.name
        for child in islice(path.iterdir(), MOST_NAMES + 1)
    )
    more = [f"[more than {MOST_NAMES} names]"] if len(names) > MOST_NAMES else []
    return "\n".join(["[a folder with:]", *names[:MOST_NAMES], *more])


def _file(path: Path, limit: int) -> str:
    size = path.stat().st_size
    with path.open("rb") as file:
        data = file.read(limit * READ_FACTOR + 16)
    kind = next((name for start, name in _IMAGES.items() if data.startswith(start)), None)
    if kind is not None and b"\0" in data:
        return f"[not shown: a {kind} image of {size} bytes; images are not sent to the model]"
    if b"\0" in data:
        return f"[not shown: binary, {size} bytes]"
    text = data.decode("utf-8", "replace")
    if len(text) <= limit and len(data) >= size:
        return text.rstrip("\n") or "[empty]"
    return _both_ends(path, text, size, limit)


def _both_ends(path: Path, start: str, size: int, limit: int) -> str:
    """The first and the last characters: a log's news stand at its end."""
    half = limit // 2
    with path.open("rb") as file:
        file.seek(max(size - half * READ_FACTOR, 0))
        end = file.read(half * READ_FACTOR).decode("utf-8", "replace")
    cut = f"[cut here: the file has {size} bytes; read_file shows the rest]"
    return f"{start[:half]}\n{cut}\n{end[len(end) - half :]}"
