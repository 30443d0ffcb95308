"""The attachments of a line: pasted text and images, and the files and jobs named with @.

A large pasted text becomes a marker, which is replaced when the line is sent. The path of an image
(dropping a file pastes its path) and an image on the clipboard become mentions.
"""

from __future__ import annotations

import asyncio
import os
import os.path
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kogniterm.errors import UsageError
from kogniterm.host.helper_programs import run_helper
from kogniterm.host.programs import find_program, host_environment
from kogniterm.storage.folders import expand_path
from kogniterm.types.images import read_header
from kogniterm.ui.locale import plural

LARGE_LINES = 12
LARGE_CHARACTERS = 1200


class Pastes:
    """The pasted texts of the line being written, by marker."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._lines: dict[str, None] = {}
        self._count = 0

    def take(self, text: str) -> str:
        """Return the text to insert for a pasted `text`: itself, or a marker when it is large."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        # The lines stay known when the line is sent: the history may bring them back.
        lines = (one.strip() for one in text.splitlines())
        self._lines |= dict.fromkeys(one for one in lines if len(one.split()) > 1)
        height = text.removesuffix("\n").count("\n") + 1
        if height <= LARGE_LINES and len(text) <= LARGE_CHARACTERS:
            return text
        self._count += 1
        size = plural("{count} line", "{count} lines", height)
        marker = f"[paste {self._count}: {size}]"
        self._texts[marker] = text
        return marker

    def expand(self, line: str) -> str:
        """Return `line` with every marker replaced by the text it stands for."""
        for marker, text in self._texts.items():
            if marker in line:
                line = line.replace(marker, f"\n{text}\n" if line.strip() != marker else text)
        return line

    def stretches(self, line: str) -> tuple[tuple[int, int], ...]:
        """Return the stretches of `line` that were pasted; single words are values, no texts."""
        found = [one.span() for text in self._lines for one in re.finditer(re.escape(text), line)]
        return tuple(sorted(found))

    def clear(self) -> None:
        """Forget the texts; markers of sent lines mean nothing any more."""
        self._texts.clear()


def image_mentions(text: str) -> str | None:
    """Return the mentions of the images whose paths were pasted, or None when it is anything else.

    Terminals quote what is dropped on them in the shell's way, or give an address.
    """
    try:
        one_line = len(text) <= LARGE_CHARACTERS and len(text.strip().splitlines()) == 1
        words = shlex.split(text) if one_line else []
        paths = [_path_of(word) for word in words]
    except ValueError:  # neither words of a shell nor addresses
        return None
    if not paths or not all(path is not None and _is_image(path) for path in paths):
        return None
    return "".join(f'@"{path}" ' if " " in str(path) else f"@{path} " for path in paths)


def _path_of(word: str) -> Path | None:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    return expand_path("", word) if word.startswith(("/", "~/")) else None


def _is_image(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return read_header(file.read(64)) is not None
    except OSError:
        return False


HELPERS: tuple[tuple[str, ...], ...] = (
    ("wl-paste", "--no-newline", "--type"),
    ("xclip", "-selection", "clipboard", "-out", "-target"),
)
"""Programs that write the clipboard's content of the kind that follows."""
KINDS = ("image/png", "image/jpeg")
PATIENCE_SECONDS = 5.0

_PASTED_NAME = re.compile(r"(?:^|(?<=\s))@(clipboard-\d+\.\w+)")


class ClipboardImages:
    """The images pasted so far, by the name under which a line mentions them."""

    def __init__(self, helpers: Sequence[Sequence[str]] = HELPERS) -> None:
        self._helpers = helpers
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: dict[str, Path] = {}

    async def take(self) -> str:
        """Keep the clipboard's image; returns its name. Raises `UsageError`."""
        data = await asyncio.to_thread(self._read)
        header = read_header(data)
        if header is None:
            raise UsageError("No image on the clipboard.")
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix=f"kogniterm-{os.getpid()}-")
        name = f"clipboard-{len(self._files) + 1}.{header.kind.lower()}"
        self._files[name] = Path(self._folder.name) / name
        self._files[name].write_bytes(data)
        return name

    def named(self, line: str) -> tuple[str, ...]:
        """Return the files of the pasted images that `line` mentions."""
        names = dict.fromkeys(_PASTED_NAME.findall(line))
        return tuple(str(self._files[name]) for name in names if name in self._files)

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        self._files.clear()

    def _read(self) -> bytes:
        found = [(find_program(helper[0]), helper[1:]) for helper in self._helpers]
        there = [(program, *options) for program, options in found if program is not None]
        if not there:
            raise UsageError(
                "Pasting an image requires wl-paste or xclip; install one, "
                "or name the file, as in @picture.png."
            )
        for helper in there:
            for kind in KINDS:
                data = _output([*helper, kind])
                if data:
                    return data
        return b""


def _output(command: Sequence[str]) -> bytes:
    """Return what a program writes; nothing when it fails or hangs."""
    env = host_environment("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")
    try:
        done = run_helper(command, env=env, seconds=PATIENCE_SECONDS)
    except OSError:
        return b""
    return done.output if done.status == 0 else b""
