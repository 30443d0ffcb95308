"""What a paste becomes: large text a marker that comes back whole when the line is sent, the
path of an image (which is what dropping a file pastes) a mention of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kogniterm.paths import named
from kogniterm.tools.image_header import read_header
from kogniterm.ui.locale import plural

LARGE_LINES = 12
LARGE_CHARACTERS = 1200


class Pastes:
    """The pasted texts of the line being written, by marker."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    def take(self, text: str) -> str:
        """What to insert for a pasted `text`: itself, or a marker when it is large."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= LARGE_LINES and len(text) <= LARGE_CHARACTERS:
            return text
        self._count += 1
        size = plural("{count} line", "{count} lines", lines)
        marker = f"[paste {self._count}: {size}]"
        self._texts[marker] = text
        return marker

    def expand(self, line: str) -> str:
        """`line` with every marker replaced by the text it stands for."""
        for marker, text in self._texts.items():
            if marker in line:
                line = line.replace(marker, f"\n{text}\n" if line.strip() != marker else text)
        return line

    def clear(self) -> None:
        """Forget the texts; markers of sent lines mean nothing any more."""
        self._texts.clear()


def image_mentions(text: str) -> str | None:
    """The mentions of the images whose paths were pasted, or None when it is anything else.

    Terminals quote what is dropped on them in the shell's way, or give an address.
    """
    try:
        words = shlex.split(text) if len(text.strip().splitlines()) == 1 else []
        paths = [_path_of(word) for word in words]
    except ValueError:  # neither words of a shell nor addresses
        return None
    if not paths or not all(path is not None and _is_image(path) for path in paths):
        return None
    return "".join(f'@"{path}" ' if " " in str(path) else f"@{path} " for path in paths)


def _path_of(word: str) -> Path | None:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    return named("", word) if word.startswith(("/", "~/")) else None


def _is_image(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return read_header(file.read(64)) is not None
    except OSError:
        return False
