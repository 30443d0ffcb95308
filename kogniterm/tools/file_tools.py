"""`read_file`, `write_file` and `edit_file`.

Text files and the kept outputs of commands are read by line ranges, images as they are. An edit is
proposed as a diff, approved like a command, and applied whole or not at all. What is approved is
what is written: the digest of the content that the proposal is made for is one of its arguments,
and nothing is written when the file has another one. Whether a model knows all of that content is
found in its own history (`agent.held_files`).

A name is resolved once, when its call is checked: the resolved path is what is judged and shown.
Everything after that opens this very path without following a link (`safe_files`). Every name that
cannot be used is an error that the model can mend.
"""

from __future__ import annotations

import asyncio
import difflib
import errno
import io
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from kogniterm.errors import PathChangedError, ToolError, why
from kogniterm.host.safe_files import (
    LinkMetError,
    listable,
    look,
    open_file,
    parent,
    read_regular,
    resolve_path,
    write_regular,
)
from kogniterm.storage.folders import expand_path
from kogniterm.text.file_text import (
    MORE_FROM,
    FileText,
    count_changes,
    decode,
    digest,
    meant_foreign,
    show_foreign,
    unified_diff,
    with_ends,
)
from kogniterm.text.shorten import cut, left_out
from kogniterm.text.visible import FOREIGN, whole
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.types import EffectClass, Image, Observation
from kogniterm.types.images import HEADER_BYTES, IMAGE_BYTES, read_header


class PathArguments(Arguments):
    """Arguments of a call about one file or folder."""

    path: str


P = TypeVar("P", bound=PathArguments)


def with_real_path(cwd: str, arguments: P) -> P:
    """Return `arguments` with the resolved path in place of the name. Raises `ToolError`."""
    return arguments.model_copy(update={"path": str(real_path(cwd, arguments.path))})


def real_path(cwd: str, name: str) -> Path:
    """Return the path that `name` means from `cwd`, with links followed as far as they lead.

    Of a name that no file has, it is the path of the only file there whose name reads the same.
    Raises `ToolError` for what can be no file's name, and where a link may not be read.
    """
    path = expand_path(cwd, name)
    try:
        path = resolve_path(path)
        return path if os.path.lexists(path) else resolve_path(_that_reads_the_same(path))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError:  # a NUL, or half a character
        raise ToolError("{path} is not a valid file name.", path=ascii(name)) from None


def _that_reads_the_same(path: Path) -> Path:
    r"""Return the file beside the missing `path` whose name a model writes in the same way.

    It may have other blanks, composed letters, or bytes that are shown as `\xe9`, and so may the
    folders it is in.
    """
    if not os.path.lexists(path.parent):
        path = _that_reads_the_same(path.parent) / path.name
    try:
        with listable(path.parent) as folder, os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return path
    wanted = _as_read(path.name)
    same = [name for name in names if _as_read(name) == wanted]
    return path.with_name(same[0]) if len(same) == 1 else path


def _as_read(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", whole(name)).split())


def judged_path(cwd: str, name: str) -> Path:
    """Return the resolved path in checked arguments as it was judged, or resolve it now."""
    return Path(os.path.normpath(name)) if name.startswith("/") else real_path(cwd, name)


def refuse_other_folder(path: Path, cwd: str, workspace: str) -> None:
    """Raise `ToolError` if the missing `path` was meant from the workspace, or from above `cwd`."""
    here, top = os.path.realpath(cwd), os.path.realpath(workspace)
    if here == top or not path.is_relative_to(here):
        return
    meant = Path(top) / path.relative_to(here)
    if os.path.lexists(meant):
        raise ToolError(
            "There is no file {path}, for the shell is in {cwd}; {meant} exists.",
            path=path,
            cwd=here,
            meant=meant,
        )


def mode_of(path: Path) -> int | None:
    """Return the type and mode of what is at the resolved `path`, as `st_mode`; None for nothing.

    Raises `ToolError` when that cannot be told: a folder above may not be entered, the name is
    too long. (`Path.exists` and its like let some of these errors through and hide others.)
    """
    try:
        mode = look(path).st_mode
        if stat.S_ISLNK(mode):
            raise LinkMetError(path)
        return mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # or a name that no file can have
        return None
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> ToolError:
    """Return the error that `path` cannot be read, with the reason."""
    return _changed_error(error) or ToolError(
        "{path} cannot be read: {why}.", path=path, why=why(error)
    )


def unwritable(path: Path, error: OSError) -> ToolError:
    """Return the error that `path` cannot be written, with the reason."""
    return _changed_error(error) or ToolError(
        "{path} cannot be written: {why}.", path=path, why=why(error)
    )


def _changed_error(error: OSError) -> ToolError | None:
    if not isinstance(error, LinkMetError):
        return None
    return PathChangedError(
        "{path} was replaced by a link after it was checked, so it was not touched.",
        path=error.filename,
    )


MAX_LINES = 1_000
MAX_CHARS = 22_000
NOTE_ROOM = 500
"""Characters of a result that are kept for the notes below what was found."""
LONGEST_LINE = 2_000
SNIFF = 8_192


class Outputs(Protocol):
    """The kept outputs, by the path that the result of a command names."""

    def holds(self, path: Path) -> bool:
        """Return whether a path is that of an output."""

    def lines(self, path: Path) -> Iterator[str]:
        """Yield all lines. Raises `ToolError`."""


class ReadArguments(PathArguments):
    """Lines of a file; a negative `start` counts from the end."""

    start: int = 1
    lines: int = Field(default=250, ge=1, le=MAX_LINES)


def read_file(
    cwd: Callable[[], str],
    workspace: str,
    is_secret: Callable[[str], bool],
    outputs: Outputs,
    readable: Callable[[Path], bool] = lambda path: False,
    room: Callable[[], int] = lambda: MAX_CHARS,
) -> SchemaTool[ReadArguments]:
    """Return the tool; what is outside `workspace`, or secret, is read after approval only.

    Kept `outputs`, and other files that are `readable`, are not asked about. A result has at most
    `room` characters.
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
            return _output(outputs, path, arguments, room())
        try:
            with _open_regular(path, cwd(), workspace) as file:
                return read_image(file, path) or read_lines(
                    file, path, arguments.start, arguments.lines, room()
                )
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


def _output(outputs: Outputs, path: Path, arguments: ReadArguments, room: int) -> str:
    start, kept, left = arguments.start, list[str](), room - NOTE_ROOM
    if start < 0:
        start += 1 + sum(1 for _line in outputs.lines(path))
    start = max(start, 1)
    for number, line in enumerate(islice(outputs.lines(path), start - 1, None), start):
        if len(kept) == arguments.lines or (kept and len(line) > left):
            kept.append(f"{MORE_FROM}{number}]")
            break
        kept.append(line[:left] + left_out(len(line) - left))
        left -= len(line) + 1
    return "\n".join(kept) or "[no such line]"


def _open_regular(path: Path, cwd: str, workspace: str) -> BinaryIO:
    """Return the regular file at a judged path. Raises `ToolError` for what is missing or none."""
    mode = mode_of(path)
    if mode is None:
        refuse_other_folder(path, cwd, workspace)
        raise ToolError("There is no file {path}; use find_files to look for it.", path=path)
    if stat.S_ISDIR(mode):
        raise ToolError("{path} is a folder; use find_files.", path=path)
    file = os.fdopen(open_file(path), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ToolError("{path} is not a regular file.", path=path)
    return file


def read_image(file: BinaryIO, path: Path) -> Observation | None:
    """Return the image in the open `file` at `path`; None for anything that is none.

    Raises `ToolError` for one that no provider would take.
    """
    header, size = read_header(file.read(HEADER_BYTES)), _size(file)
    file.seek(0)
    if header is None:
        return None
    data = file.read(IMAGE_BYTES + 1)
    if header.is_damaged(data):
        raise ToolError("{path} is a damaged {kind} image.", path=path, kind=header.kind)
    what = header.describe(size)
    if not header.fits(size):
        raise ToolError(
            "{path} is too large to view ({what}); make a smaller copy with a command.",
            path=path,
            what=what,
        )
    image = Image(data, header.media_type, path.name, header.width, header.height)
    return Observation(f"[{what}]", (image,))


def read_lines(file: BinaryIO, path: Path, start: int, count: int, room: int = MAX_CHARS) -> str:
    """Return numbered lines of the open `file` at `path`; a negative `start` is from the end.

    They take at most `room` characters. Raises `ToolError` if it is no text.
    """
    head = file.read(MAX_BYTES + 1)
    if len(head) > MAX_BYTES:
        head = head[: head.rfind(b"\n") + 1 or MAX_BYTES]
    kind = decode(head)
    if "\0" in kind.text[:SNIFF]:
        raise ToolError(
            "{path} is binary ({size} bytes); use a command such as file or xxd.",
            path=path,
            size=_size(file),
        )
    file.seek(0)
    return _number_lines(file, kind, start, count, room - NOTE_ROOM)


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _number_lines(file: BinaryIO, kind: FileText, start: int, count: int, room: int) -> str:
    shown: list[str] = []
    longest = min(LONGEST_LINE, room // 2)
    size, line, long, foreign = 0, "", False, bool(FOREIGN.search(kind.text))
    errors = "surrogateescape" if kind.codec == "utf-8" else "replace"
    lines = io.TextIOWrapper(file, encoding=kind.codec, errors=errors, newline="\n")
    try:
        if start < 0:
            start += 1 + sum(1 for _line in lines)
            lines.seek(0)
        start = max(start, 1)
        for number, line in enumerate(islice(lines, start - 1, None), start):
            if len(shown) == count or (shown and size + min(len(line), longest) > room):
                shown.append(f"{MORE_FROM}{number}]")
                break
            text = line.removesuffix("\n")
            text = text if kind.ends == "\n" else text.removesuffix("\r")
            text = text.removeprefix("\ufeff") if number == 1 and kind.mark else text
            foreign = foreign or bool(FOREIGN.search(text))
            text = show_foreign(text) if foreign else text
            long = long or len(text) > longest
            text = text[:longest] + left_out(len(text) - longest)
            shown.append(f"{number}: {text}")
            size += len(shown[-1]) + 1
    finally:
        lines.detach()
    if not shown:
        return "[empty]" if start == 1 else f"[the file has fewer than {start} lines]"
    notes = [
        (kind.mark, kind.codec.upper() + " with a byte order mark"),
        (foreign, "not UTF-8: \\xe9 stands for one byte, in edit_file too"),
        (kind.ends == "\r\n", "CRLF line ends"),
        (not kind.ends, "some lines end in CRLF, some in LF"),
        (not line.endswith("\n"), "no newline at the end"),
        (long, f"see what is left out of a line with a command such as cut -c{longest + 1}-"),
    ]
    told = "; ".join(note for holds, note in notes if holds)
    return "\n".join([*shown, *([f"[{told}]"] if told else [])])


MAX_BYTES = 2 * 1024 * 1024


class ProposedArguments(PathArguments):
    """A change of a file; `digest_before` is that of the content that it is proposed for.

    It is no part of the schema: the tool fills it in, and a hook or a model can only make it wrong.
    """

    digest_before: SkipJsonSchema[str | None] = None


class WriteArguments(ProposedArguments):
    """The whole new content of a file."""

    content: str
    purpose: SkipJsonSchema[str] = ""


class EditArguments(ProposedArguments):
    """One piece of text and what takes its place."""

    old: str = Field(min_length=1)
    new: str
    every: bool = False
    purpose: SkipJsonSchema[str] = ""


Carry = Callable[[str, str], tuple[str, str] | None]
"""Fills in the placeholders that an edit keeps; None where it may not; see `Redactor.carry`."""


def as_given(old: str, new: str) -> tuple[str, str]:
    """Return both sides of an edit as they are, where nothing stands for a secret."""
    return old, new


_Planned = tuple[Path, bytes | None, bytes, int]
"""A change of a file: its path, its content before and after, and the number of replacements."""


def _refuse_mark() -> ToolError:
    return ToolError(
        "Not written: nothing is filled in for a [secret:…] mark. Use edit_file, and keep each "
        "mark in `new` as often and in the same order as in `old`, with the same text before it "
        "on its line."
    )


def write_file(cwd: Callable[[], str], carry: Carry = as_given) -> SchemaTool[Any]:
    """Return the tool that makes a file or replaces all of it.

    Encoding, byte order mark and line ends of a file that is there stay.
    """

    def plan(arguments: WriteArguments) -> _Planned:
        path, before = _load(cwd(), arguments.path)
        if arguments.digest_before != digest(before):
            raise _content_changed(path)
        kind = decode(before or b"")
        content = arguments.content.removeprefix("\ufeff") if kind.mark else arguments.content
        return path, before, _encode_text(path, kind, with_ends(content, kind.ends)), 0

    def settle(arguments: WriteArguments) -> WriteArguments:
        if carry("", arguments.content) is None:
            raise _refuse_mark()
        return _pin_content(cwd(), arguments)

    return _file_tool("write_file", WriteArguments, plan, settle, {})


def edit_file(cwd: Callable[[], str], workspace: str, carry: Carry = as_given) -> SchemaTool[Any]:
    """Return the tool that replaces one piece of text.

    An edit is judged and shown with the values that its marks stand for in the file. It may follow
    other edits, proposed in the same reply, but no other change.
    """
    edits: dict[tuple[Path, str], str] = {}

    def plan(arguments: EditArguments) -> _Planned:
        path, before = _load(cwd(), arguments.path)
        if before is None:
            refuse_other_folder(path, cwd(), workspace)
            raise ToolError("There is no file {path}; create it with write_file.", path=path)
        now, known = digest(before), arguments.digest_before or ""
        for _one in edits:
            known = known if known == now else edits.get((path, known), "")
        if known != now:
            raise _content_changed(path)
        return path, before, *_apply_edit(decode(before), arguments, path)

    def settle(arguments: EditArguments) -> EditArguments:
        filled = carry(arguments.old, arguments.new)
        if filled is None:
            raise _refuse_mark()
        known = arguments.model_copy(update=dict(zip(("old", "new"), filled, strict=True)))
        return _pin_content(cwd(), known)

    return _file_tool("edit_file", EditArguments, plan, settle, edits)


ProposedT = TypeVar("ProposedT", bound=ProposedArguments)


def _pin_content(cwd: str, arguments: ProposedT) -> ProposedT:
    """Return the arguments for the file as it is now, unless they name another content of it."""
    arguments = with_real_path(cwd, arguments)
    if arguments.digest_before is not None:
        return arguments
    try:
        before = _load(cwd, arguments.path)[1]
    except ToolError:  # which is raised again where the change is described
        return arguments
    return arguments.model_copy(update={"digest_before": digest(before)})


def _content_changed(path: Path) -> ToolError:
    return ToolError(
        "{path} changed since this was proposed, and was not touched; read it again.", path=path
    )


def _file_tool(
    name: str,
    model: type[PathArguments],
    plan: Callable[[Any], _Planned],
    settle: Callable[[Any], Any],
    edits: dict[tuple[Path, str], str],
) -> SchemaTool[Any]:
    def describe(arguments: Any) -> tuple[str, str]:
        path, before, after, count = plan(arguments)
        verb = "create" if before is None else "edit"
        return f"{verb} {path} ({_extent(path, before, after, count)})", arguments.purpose

    async def run(arguments: Any) -> str:
        path, before, after, count = plan(arguments)
        try:
            write_regular(path, after)
        except OSError as error:
            raise unwritable(path, error) from error
        edits[path, digest(before)] = digest(after)
        return f"Wrote {path} ({_extent(path, before, after, count)})."

    return SchemaTool(
        name,
        model,
        run,
        effect="edit",
        describe=describe,
        detail=lambda arguments: _diff(*plan(arguments)[:3]),
        settle=settle,
    )


def _extent(path: Path, before: bytes | None, after: bytes, count: int) -> str:
    """Return how much a change changes: in lines, in replacements where they are several."""
    if count > 1:
        return f"{count} replacements"
    if before == after:
        return "no changes"
    added, removed = count_changes(_diff(path, before, after))
    return f"+{added} -{removed} lines"


def _diff(path: Path, before: bytes | None, after: bytes) -> str:
    """Return the diff of a file: of its text in UTF-16, of its bytes otherwise."""
    kinds = [decode(one) for one in (before or b"", after)]
    if any(kind.codec != "utf-8" for kind in kinds) and before:
        return unified_diff(str(path), *("\ufeff" * bool(kind.mark) + kind.text for kind in kinds))
    return unified_diff(str(path), before, after)


def _load(cwd: str, name: str) -> tuple[Path, bytes | None]:
    """Return the judged path and its content; None when there is no such file yet."""
    path = judged_path(cwd, name)
    mode = mode_of(path)
    if mode is None:
        return path, None
    if not stat.S_ISREG(mode):
        raise ToolError("{path} is not a regular file.", path=path)
    _refuse_protected(path)
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) > MAX_BYTES:
        raise ToolError("{path} is too large to edit; use a command.", path=path)
    return path, data


def _refuse_protected(path: Path) -> None:
    """Raise `ToolError` for a file that may not be written, with what can be done."""
    try:
        with parent(path) as (folder, name):
            if os.access(name, os.W_OK, dir_fd=folder, effective_ids=True, follow_symlinks=False):
                return
            if os.fstatvfs(folder).f_flag & os.ST_RDONLY:
                raise OSError(errno.EROFS, "")
    except OSError as error:
        raise unwritable(path, error) from error
    # Renaming another over it would be possible, and not what its owner meant.
    raise ToolError(
        "{path} is write-protected; to change it, make it writable with a command.", path=path
    )


def _encode_text(path: Path, kind: FileText, text: str) -> bytes:
    try:
        return kind.mark + text.encode(kind.codec, "surrogateescape")
    except UnicodeError as error:
        raise ToolError(
            "{path} cannot hold this text in its encoding: {why}.", path=path, why=error
        ) from error


_BEYOND_ASCII = re.compile("[^\x00-\x7f\udc80-\udcff]")


def _apply_edit(kind: FileText, arguments: EditArguments, path: Path) -> tuple[bytes, int]:
    """Return the file with the edit, and its replacements; every other byte stays."""
    old, new = arguments.old, arguments.new
    if FOREIGN.search(kind.text):
        old, new = meant_foreign(old), meant_foreign(new)
        if _BEYOND_ASCII.search(new) and not _BEYOND_ASCII.search(kind.text):
            raise ToolError(
                "{path} is not UTF-8; write each byte of it above 127 in `new` as read_file shows "
                "it, such as \\xe9.",
                path=path,
            )
    if old == new:
        raise ToolError("The old and new text are the same; nothing to change.")
    text, count = _replace_text(kind.text, old, new, path, every=arguments.every)
    return _encode_text(path, kind, text), count


def _replace_text(text: str, old: str, new: str, path: Path, *, every: bool) -> tuple[str, int]:
    same = os.path.commonprefix((old, new))  # noqa: RUF071 - characters are meant
    rest = os.path.commonprefix((old[len(same) :][::-1], new[len(same) :][::-1]))[::-1]  # noqa: RUF071 - as above
    core = old[len(same) : len(old) - len(rest)], new[len(same) : len(new) - len(rest)]
    # The model sees lines: they may end in LF or CRLF, and those that stay keep their end.
    either = "" if "\r" in old + new else "\r?"
    parts = (re.escape(part).replace("\\\n", either + "\n") for part in (same, core[0], rest))
    found = list(re.finditer("({})({})({})".format(*parts), text))
    if not found:
        raise ToolError(
            "The old text is not in {path} exactly as given{similar}",
            path=path,
            similar=_similar(text, old),
        )
    if len(found) > 1 and not every:
        lines = [text.count("\n", 0, one.start()) + 1 for one in found[:MOST_SHOWN]]
        more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
        raise ToolError(
            "The old text occurs {count} times in {path}, at lines {lines}; give more of it, or "
            "set every.",
            count=len(found),
            path=path,
            lines=", ".join(map(str, lines)) + more,
        )
    pieces, at = [], 0
    for one in found:
        new_core = _with_ends_of(text, one, *core) if either else core[1]
        pieces += [text[at : one.start(2)], new_core]
        at = one.end(2)
    return "".join([*pieces, text[at:]]), len(found)


def _with_ends_of(text: str, found: re.Match[str], old: str, new: str) -> str:
    """Return `new` with the line ends where `old` was found; lines that it adds end like others."""
    near, ends = "\n", re.findall("\r?\n", found[2])
    for at in (text.rfind("\n", 0, found.start()), text.find("\n", found.start())):
        if at >= 0:
            near = "\r\n" if text[at - 1 : at] == "\r" else "\n"
    near = ends[0] if ends else near
    if len(set(ends)) < 2:
        return with_ends(new, near)
    before, after, pieces = old.split("\n"), new.split("\n"), list[str]()
    # Lines that stand alike on both sides keep their ends; so do as many lines, each its own.
    alike = len(before) == len(after)
    matcher = difflib.SequenceMatcher(None, [] if alike else before, after, autojunk=False)
    for _, a, b, c, d in matcher.get_opcodes():
        known = ends if alike else ends[a:b]
        for line, end in zip(after[c:d], [*known, *[near] * (d - c)], strict=False):
            pieces += [line, end]
    return "".join(pieces[:-1])


MOST_SHOWN = 20
"""Lines of a near miss, and numbers of lines, that an error shows."""


def _similar(text: str, old: str) -> str:
    """Return the lines of the file that are most like `old`, to save the model a reading."""
    wanted = old.strip("\n").split("\n")
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    keys = [line.strip() for line in wanted if line.strip()]
    found = difflib.get_close_matches(keys[0], stripped[:20_000], 1, 0.7) if keys else []
    if not found:
        return "; read the file again"
    places = [n for n, line in enumerate(stripped) if line == found[0]]
    best = max(places[:100], key=lambda n: sum(
        one == other for one, other in zip(wanted, lines[n:], strict=False)
    ))  # fmt: skip
    shown = [cut(x.rstrip("\r"), LONGEST_LINE) for x in lines[best:][: len(wanted)][:MOST_SHOWN]]
    told = [f"{n}: {show_foreign(line)}" for n, line in enumerate(shown, best + 1)]
    told += ["[… and what follows]"] * (len(wanted) > MOST_SHOWN)
    return "; this is similar:\n" + "\n".join(told)
