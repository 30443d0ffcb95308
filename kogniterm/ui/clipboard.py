"""The image on the clipboard, taken with the desktop's own program and kept while the REPL runs.

wl-paste (Wayland) and xclip (X11) are asked in turn. Pasted images are files of this process
alone: what is sent goes into the journal, the file goes away with the REPL.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kogniterm.errors import UsageError
from kogniterm.system_programs import find_program, host_environment
from kogniterm.tools.image_header import read_header

HELPERS: tuple[tuple[str, ...], ...] = (
    ("wl-paste", "--no-newline", "--type"),
    ("xclip", "-selection", "clipboard", "-out", "-target"),
)
"""Programs that write the clipboard's content of the kind that follows."""
KINDS = ("image/png", "image/jpeg")
PATIENCE_SECONDS = 5.0

_NAMED = re.compile(r"(?:^|(?<=\s))@(clipboard-\d+\.\w+)")


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
            raise UsageError("There is no image on the clipboard.")
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix=f"kogniterm-{os.getpid()}-")
        name = f"clipboard-{len(self._files) + 1}.{header.kind.lower()}"
        self._files[name] = Path(self._folder.name) / name
        self._files[name].write_bytes(data)
        return name

    def named(self, line: str) -> tuple[str, ...]:
        """The files of the pasted images that `line` mentions."""
        names = dict.fromkeys(_NAMED.findall(line))
        return tuple(str(self._files[name]) for name in names if name in self._files)

    def close(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        self._files.clear()

    def _read(self) -> bytes:
        found = [(find_program(helper[0]), helper[1:]) for helper in self._helpers]
        there = [(program, *options) for program, options in found if program is not None]
        if not there:
            raise UsageError(
                "Images are pasted with wl-paste or xclip, and neither is installed; name the "
                "file instead, as in @picture.png."
            )
        for helper in there:
            for kind in KINDS:
                data = _output([*helper, kind])
                if data:
                    return data
        return b""


def _output(command: Sequence[str]) -> bytes:
    """What a program writes; nothing when it fails or hangs."""
    try:
        done = subprocess.run(
            list(command),
            env=host_environment("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""
