"""`read_file`, `write_file` and `edit_file`.

Text files and the kept outputs of commands are read by line ranges, images as they are. An edit is
proposed as a diff, approved like a command, and applied whole or not at all. What is approved is
what is written: the content is worked out when the edit is proposed, and the edit is refused when
the file is no longer what it was then, or when the model read it.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import io
import os
import stat
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.host.safe_files import open_file, parent, read_regular, write_regular
from kogniterm.tools.base import SchemaTool
from kogniterm.tools.workspace_paths import (
    PathArguments,
    judged_path,
    mode_of,
    unreadable,
    unwritable,
    with_real_path,
)
from kogniterm.types import EffectClass, Image, Observation
from kogniterm.types.images import HEADER_BYTES, read_header

MAX_LINES = 1_000
MAX_CHARS = 24_000
SNIFF = 8_192


class OutputPage(Protocol):
    """Lines of an output, and whether others follow."""

    @property
    def last(self) -> int:
        """Number of the last line."""

    @property
    def text(self) -> str:
        """The lines."""

    @property
    def more(self) -> bool:
        """Return whether others follow."""


class OutputMatch(Protocol):
    """A line that matches."""

    @property
    def line(self) -> int:
        """Its number."""

    @property
    def text(self) -> str:
        """The line."""


class Outputs(Protocol):
    """The kept outputs, by the path that the result of a command names."""

    def holds(self, path: Path) -> bool:
        """Return whether a path is that of an output."""

    def page(self, path: Path, start_line: int = 1, count: int = 200) -> OutputPage:
        """Return lines from `start_line` on; a negative start counts from the end."""

    def search(self, path: Path, pattern: str, *, limit: int = 50) -> Sequence[OutputMatch]:
        """Return lines that match a regular expression. Raises `ToolError` for an invalid one."""


class ReadArguments(PathArguments):
    """Lines of a file; a negative `start` counts from the end."""

    start: int = 1
    lines: int = Field(default=250, ge=1, le=MAX_LINES)


def read_file(
    cwd: Callable[[], str],
    workspace: str,
    is_secret: Callable[[str], bool],
    versions: FileVersions,
    outputs: Outputs,
    readable: Callable[[Path], bool] = lambda path: False,
) -> SchemaTool[ReadArguments]:
    """Return the tool; what is outside `workspace`, or secret, is read after approval only.

    Kept `outputs`, and other files that are `readable`, are not asked about.
    """

    def place(arguments: ReadArguments) -> Path:
        return judged_path(cwd(), arguments.path)

    def effect_of(arguments: ReadArguments) -> EffectClass:
        real = place(arguments)
        inside = real.is_relative_to(os.path.realpath(workspace))
        if inside and not is_secret(str(real)):
            return "none"
        return "none" if not inside and (outputs.holds(real) or readable(real)) else "read"

    def read(arguments: ReadArguments) -> str | Observation:
        path = place(arguments)
        if outputs.holds(path):
            return _output(outputs, path, arguments)
        try:
            with _opened(path) as file:
                return read_image(file, path) or _text(file, path, arguments, versions)
        except OSError as error:
            raise unreadable(path, error) from error

    async def run(arguments: ReadArguments) -> str | Observation:
        # To count the lines of a large file from its end takes a while.
        return await asyncio.to_thread(read, arguments)

    return SchemaTool(
        "read_file",
        ReadArguments,
        run,
        effect_of=effect_of,
        may="read",
        describe=lambda arguments: (f"read {place(arguments)}", ""),
        settle=lambda arguments: with_real_path(cwd(), arguments),
    )


def _output(outputs: Outputs, path: Path, arguments: ReadArguments) -> str:
    page = outputs.page(path, arguments.start, arguments.lines)
    if not page.text:
        return "[no such line]"
    return f"{page.text}\n[more from line {page.last + 1}]" if page.more else page.text


def _opened(path: Path) -> BinaryIO:
    """Return the regular file at a judged path. Raises `ToolError` for what is missing or none."""
    mode = mode_of(path)
    if mode is None:
        raise ToolError("There is no file {path}; use find_files to look for it.", path=path)
    if not stat.S_ISREG(mode):
        if stat.S_ISDIR(mode):
            raise ToolError("{path} is a folder; use find_files.", path=path)
        raise ToolError("{path} is not a regular file.", path=path)
    file = os.fdopen(open_file(path), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ToolError("{path} is not a regular file.", path=path)
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
    """Return the image in the open `file` at `path`; None for anything that is none.

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
            "{path} is too large to view ({what}); make a smaller copy with a command.",
            path=path,
            what=what,
        )
    image = Image(file.read(), header.media_type, path.name, header.width, header.height)
    return Observation(f"[{what}]", (image,))


def read_lines(file: BinaryIO, path: Path, start: int, count: int) -> str:
    """Return numbered lines of the open `file` at `path`; a negative `start` is from the end.

    Raises `ToolError` if it is no text.
    """
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
        if start < 0:
            start += 1 + sum(1 for _line in lines)
            lines.seek(0)
        start = max(start, 1)
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


MAX_BYTES = 2 * 1024 * 1024
MAX_DIFF_LINES = 2_000


class WriteArguments(PathArguments):
    """The whole new content of a file."""

    content: str
    purpose: str = ""


class EditArguments(PathArguments):
    """One piece of text and what takes its place."""

    old: str = Field(min_length=1)
    new: str
    every: bool = False
    purpose: str = ""


class FileVersions:
    """The content of each file that the model knows, by digest; shared by reading and editing."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def saw(self, path: Path, data: bytes | None) -> None:
        """Note the content that the model was shown or proposed an edit on; None: no such file."""
        self._known[path] = _digest(data)

    def check(self, path: Path, data: bytes | None) -> None:
        """Raise `ToolError` when the file is no longer what the model knows."""
        known = self._known.get(path)
        if known is not None and known != _digest(data):
            raise ToolError(
                "{path} changed since you read it; read it again before editing it.", path=path
            )


Carry = Callable[[str, str], tuple[str, str] | None]
"""Fills in the placeholders that an edit keeps; None where it may not; see `Redactor.carry`."""


def as_given(old: str, new: str) -> tuple[str, str]:
    """Return both sides of an edit as they are, where nothing stands for a secret."""
    return old, new


def _refuse_mark() -> ToolError:
    return ToolError(
        "Not written: nothing is filled in for a [secret:…] mark. Use edit_file, and keep each "
        "mark in `new` as often and in the same order as in `old`, with the same text before it "
        "on its line."
    )


def write_file(
    cwd: Callable[[], str], versions: FileVersions, carry: Carry = as_given
) -> SchemaTool[Any]:
    """Return the tool that makes a file or replaces all of it."""

    def plan(arguments: WriteArguments) -> tuple[Path, bytes | None, str]:
        path, before = _load(cwd(), arguments.path)
        versions.check(path, before)
        return path, before, arguments.content

    def settle(arguments: WriteArguments) -> WriteArguments:
        if carry("", arguments.content) is None:
            raise _refuse_mark()
        return with_real_path(cwd(), arguments)

    return _file_tool("write_file", WriteArguments, plan, settle, versions)


def edit_file(
    cwd: Callable[[], str], versions: FileVersions, carry: Carry = as_given
) -> SchemaTool[Any]:
    """Return the tool that replaces one piece of text.

    An edit is judged and shown with the values that its marks stand for in the file.
    """

    def plan(arguments: EditArguments) -> tuple[Path, bytes | None, str]:
        path, before = _load(cwd(), arguments.path)
        if before is None:
            raise ToolError("There is no file {path}; create it with write_file.", path=path)
        versions.check(path, before)
        text = _decode(path, before)
        return path, before, _replaced(text, arguments, path)

    def settle(arguments: EditArguments) -> EditArguments:
        filled = carry(arguments.old, arguments.new)
        if filled is None:
            raise _refuse_mark()
        known = arguments.model_copy(update=dict(zip(("old", "new"), filled, strict=True)))
        return with_real_path(cwd(), known)

    return _file_tool("edit_file", EditArguments, plan, settle, versions)


def _file_tool(
    name: str,
    model: type[PathArguments],
    plan: Callable[[Any], tuple[Path, bytes | None, str]],
    settle: Callable[[Any], Any],
    versions: FileVersions,
) -> SchemaTool[Any]:
    def describe(arguments: Any) -> tuple[str, str]:
        path, before, after = plan(arguments)
        versions.saw(path, before)
        added, removed = _counts(_unified(path, before, after))
        verb = "create" if before is None else "edit"
        return f"{verb} {path} (+{added} -{removed} lines)", arguments.purpose

    def diff(arguments: Any) -> str:
        path, before, after = plan(arguments)
        return _shown(_unified(path, before, after))

    async def run(arguments: Any) -> str:
        path, before, after = plan(arguments)
        try:
            write_regular(path, after.encode("utf-8"))
        except OSError as error:
            raise unwritable(path, error) from error
        versions.saw(path, after.encode("utf-8"))
        added, removed = _counts(_unified(path, before, after))
        return f"Wrote {path} (+{added} -{removed} lines)."

    return SchemaTool(
        name,
        model,
        run,
        effect="edit",
        describe=describe,
        detail=diff,
        settle=settle,
    )


def _load(cwd: str, name: str) -> tuple[Path, bytes | None]:
    """Return the judged path and its content; None when there is no such file yet."""
    path = judged_path(cwd, name)
    mode = mode_of(path)
    if mode is None:
        return path, None
    if not stat.S_ISREG(mode):
        raise ToolError("{path} is not a regular file.", path=path)
    if not _writable(path):
        # Renaming another over it would be possible, and not what its owner meant.
        raise ToolError(
            "{path} is write-protected; to change it, make it writable with a command.",
            path=path,
        )
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) > MAX_BYTES:
        raise ToolError("{path} is too large to edit; use a command.", path=path)
    return path, data


def _writable(path: Path) -> bool:
    try:
        with parent(path) as (folder, name):
            return os.access(
                name, os.W_OK, dir_fd=folder, effective_ids=True, follow_symlinks=False
            )
    except OSError as error:
        raise unreadable(path, error) from error


def _decode(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError("{path} is not UTF-8 text; use a command.", path=path) from error


def _replaced(text: str, arguments: EditArguments, path: Path) -> str:
    old, new = arguments.old, arguments.new
    if old not in text and "\r\n" in text:
        # The model sees lines; a file with Windows line ends must keep them.
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    found = text.count(old)
    if not found:
        line = _nearest(text, old)
        if line is not None:
            raise ToolError(
                "The old text is not in {path} exactly as given (line {line} is similar); read "
                "the file again.",
                path=path,
                line=line,
            )
        raise ToolError(
            "The old text is not in {path} exactly as given; read the file again.", path=path
        )
    if found > 1 and not arguments.every:
        raise ToolError(
            "The old text occurs {count} times in {path}; give more of it, or set every.",
            count=found,
            path=path,
        )
    if old == new:
        raise ToolError("The old and new text are the same; nothing to change.")
    return text.replace(old, new)


def _nearest(text: str, old: str) -> int | None:
    """Return where a line much like the first one of `old` stands, to save the model a search."""
    wanted = old.strip().splitlines()[0].strip() if old.strip() else ""
    lines = [line.strip() for line in text.splitlines()]
    close = difflib.get_close_matches(wanted, lines[:20_000], n=1, cutoff=0.7) if wanted else []
    return lines.index(close[0]) + 1 if close else None


def _unified(path: Path, before: bytes | None, after: str) -> list[str]:
    old = before.decode("utf-8", "replace") if before is not None else ""
    # A line break in the name would forge lines of the diff.
    name = "".join(c if c.isprintable() else f"\\u{{{ord(c):X}}}" for c in str(path))
    source = name if before is not None else "/dev/null"
    return list(
        difflib.unified_diff(old.splitlines(), after.splitlines(), source, name, lineterm="", n=3)
    )


def _counts(diff: list[str]) -> tuple[int, int]:
    body = [line for line in diff if not line.startswith(("---", "+++"))]
    return sum(line.startswith("+") for line in body), sum(line.startswith("-") for line in body)


def _shown(diff: list[str]) -> str:
    if len(diff) > MAX_DIFF_LINES:
        diff = [*diff[:MAX_DIFF_LINES], f"… {len(diff) - MAX_DIFF_LINES} more lines"]
    return "\n".join(diff)


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()
