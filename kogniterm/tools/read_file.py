"""`read_file`: text files by line ranges, images as they are; anything else is described."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.host.safe_files import open_file
from kogniterm.tools.base import SchemaTool
from kogniterm.tools.edit_file import MAX_BYTES, FileVersions
from kogniterm.tools.workspace_paths import (
    PathArguments,
    judged_path,
    mode_of,
    unreadable,
    with_real_path,
)
from kogniterm.types import EffectClass, Image, Observation
from kogniterm.types.images import HEADER_BYTES, read_header

MAX_LINES = 1_000
MAX_CHARS = 24_000
SNIFF = 8_192


class ReadArguments(PathArguments):
    """Which lines of which file."""

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
        return judged_path(cwd(), arguments.path)

    def effect_of(arguments: ReadArguments) -> EffectClass:
        real = place(arguments)
        inside = real.is_relative_to(os.path.realpath(workspace))
        return "none" if inside and not is_secret(str(real)) else "read"

    async def run(arguments: ReadArguments) -> str | Observation:
        path = place(arguments)
        try:
            with _opened(path) as file:
                return read_image(file, path) or _text(file, path, arguments, versions)
        except OSError as error:
            raise unreadable(path, error) from error

    return SchemaTool(
        "read_file",
        "Read lines of a text file, or see an image.",
        ReadArguments,
        run,
        effect_of=effect_of,
        describe=lambda arguments: (f"read {place(arguments)}", ""),
        settle=lambda arguments: with_real_path(cwd(), arguments),
    )


def _opened(path: Path) -> BinaryIO:
    """The regular file at a judged path. Raises `ToolError` for what is missing or none."""
    mode = mode_of(path)
    if mode is None:
        raise ToolError("There is no file {path}.", path=path)
    if not stat.S_ISREG(mode):
        kind = "a folder; list it with a command" if stat.S_ISDIR(mode) else "no regular file"
        raise ToolError("{path} is {kind}.", path=path, kind=kind)
    file = os.fdopen(open_file(path), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ToolError("{path} is {kind}.", path=path, kind="no regular file")
    return file


def _text(
    file: BinaryIO, path: Path, arguments: ReadArguments, versions: FileVersions
) -> Observation:
    text = read_lines(file, path, arguments.start, arguments.lines)
    if _size(file) <= MAX_BYTES:
        file.seek(0)
        versions.saw(path, file.read())
    return Observation(text)


def read_image(file: BinaryIO, path: Path) -> Observation | None:
    """The image in the open `file` at `path`; None for anything that is none.

    Raises `ToolError` for one that no provider would take.
    """
    header, size = read_header(file.read(HEADER_BYTES)), _size(file)
    file.seek(0)
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
    image = Image(file.read(), header.media_type, path.name, header.width, header.height)
    return Observation(f"[{what}]", (image,))


def read_lines(file: BinaryIO, path: Path, start: int, count: int) -> str:
    """Numbered lines of the open `file` at `path`. Raises `ToolError` for what is no text."""
    if b"\0" in file.read(SNIFF):
        raise ToolError(
            "{path} is binary ({size} bytes); use a command such as file or xxd.",
            path=path,
            size=_size(file),
        )
    file.seek(0)
    return _numbered(file, start, count)


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _numbered(file: BinaryIO, start: int, count: int) -> str:
    shown: list[str] = []
    size = 0
    lines = io.TextIOWrapper(file, encoding="utf-8", errors="replace")
    try:
        for number, line in enumerate(islice(lines, start - 1, None), start):
            if len(shown) == count or size > MAX_CHARS:
                return "\n".join([*shown, f"[more from line {number}]"])
            text = line.rstrip("\n")
            shown.append(f"{number}: {text[:2_000]}")
            size += len(text)
    finally:
        lines.detach()
    if not shown:
        return "[empty]" if start == 1 else f"[the file has fewer than {start} lines]"
    return "\n".join(shown)
