"""`read_file`: text files by line ranges, images as they are; anything else is described."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.paths import named
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.edit import MAX_BYTES, FileVersions
from kogniterm.tools.image_header import HEADER_BYTES, read_header
from kogniterm.tools.places import mode_of, real_path, unreadable
from kogniterm.types import EffectClass, Image, Observation

MAX_LINES = 1_000
MAX_CHARS = 24_000
SNIFF = 8_192


class ReadArguments(Arguments):
    """Which lines of which file."""

    path: str
    start: int = Field(default=1, ge=1, description="first line")
    lines: int = Field(default=250, ge=1, le=MAX_LINES)


def read_file(
    cwd: Callable[[], str],
    workspace: str,
    is_secret: Callable[[str], bool],
    versions: FileVersions,
) -> SchemaTool[ReadArguments]:
    """The tool, reading below `workspace` freely; elsewhere and secrets only after approval."""

    def place(arguments: ReadArguments) -> Path:
        return named(cwd(), arguments.path)

    def effect_of(arguments: ReadArguments) -> EffectClass:
        real = real_path(cwd(), arguments.path)
        inside = real.is_relative_to(os.path.realpath(workspace))
        return "none" if inside and not is_secret(str(real)) else "read"

    async def run(arguments: ReadArguments) -> str | Observation:
        path = place(arguments)
        seen = read_image(path, arguments.path)
        if seen is not None:
            return seen
        text = read_lines(path, arguments.start, arguments.lines)
        real = real_path(cwd(), arguments.path)
        if real.stat().st_size <= MAX_BYTES:
            versions.saw(real, real.read_bytes())
        return text

    return SchemaTool(
        "read_file",
        "Read lines of a text file, or see an image.",
        ReadArguments,
        run,
        effect_of=effect_of,
        describe=lambda arguments: (f"read {place(arguments)}", ""),
    )


def read_image(path: Path, name: str) -> Observation | None:
    """The image in the file `path`, asked for as `name`; None for anything that is none.

    Raises `ToolError` for one that no provider would take.
    """
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            header = read_header(file.read(HEADER_BYTES))
        size = path.stat().st_size
        if header is None:
            return None
        if not header.whole:
            raise ToolError("{path} is a damaged {kind} image.", path=path, kind=header.kind)
        what = header.described(size)
        if not header.fits(size):
            raise ToolError(
                "{path} is too large to look at ({what}); make a smaller copy with a command.",
                path=path,
                what=what,
            )
        image = Image(path.read_bytes(), header.media_type, name, header.width, header.height)
    except OSError as error:
        raise unreadable(path, error) from error
    return Observation(f"[{what}]", (image,))


def read_lines(path: Path, start: int, count: int) -> str:
    """Numbered lines of `path`. Raises `ToolError` for what is missing or no text."""
    mode = mode_of(path)
    if mode is None:
        raise ToolError("There is no file {path}.", path=path)
    if not stat.S_ISREG(mode):
        kind = "a folder; list it with a command" if stat.S_ISDIR(mode) else "no regular file"
        raise ToolError("{path} is {kind}.", path=path, kind=kind)
    try:
        with path.open("rb") as file:
            head = file.read(SNIFF)
        if b"\0" in head:
            raise ToolError(
                "{path} is binary ({size} bytes); use a command such as file or xxd.",
                path=path,
                size=path.stat().st_size,
            )
        return _numbered(path, start, count)
    except OSError as error:
        raise unreadable(path, error) from error


def _numbered(path: Path, start: int, count: int) -> str:
    shown: list[str] = []
    size = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(islice(file, start - 1, None), start):
            if len(shown) == count or size > MAX_CHARS:
                return "\n".join([*shown, f"[more from line {number}]"])
            text = line.rstrip("\n")
            shown.append(f"{number}: {text[:2_000]}")
            size += len(text)
    if not shown:
        return "[empty]" if start == 1 else f"[the file has fewer than {start} lines]"
    return "\n".join(shown)
