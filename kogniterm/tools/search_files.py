"""`search_text` and `find_files`: below the workspace, bounded, what git ignores left out.

Uses ripgrep where there is one, because it is quick; the own search gives the same lines in the
same form. Both see the files that git would: tracked and untracked, not ignored. The kept output
of a command is searched where it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import Field

from kogniterm.errors import ToolError, why
from kogniterm.host.helper_programs import start_program
from kogniterm.host.processes import LOOK_SECONDS, waits_for_writer
from kogniterm.host.programs import find_program, host_environment
from kogniterm.host.safe_files import LinkMetError, open_file, working_folder
from kogniterm.host.safe_files import folder as open_folder
from kogniterm.host.safe_git import files_known_to_git
from kogniterm.host.walk import WalkLimits, walk_folder
from kogniterm.storage.folders import regular, seen_from
from kogniterm.text.bounded_regex import Pattern
from kogniterm.text.shorten import left_out
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.file_tools import (
    MAX_CHARS,
    NOTE_ROOM,
    Outputs,
    mode_of,
    real_path,
    refuse_other_folder,
    unreadable,
)

MAX_RESULTS = 200
MAX_LINE = 300
MAX_FILES = 100_000
MAX_SECRET_LINES = 2_000
"""Found lines that may turn out to be in files with secrets, before a search gives up."""
SECONDS = 20.0
_LIMITS = WalkLimits(seconds=SECONDS)
_PIECE = 16 << 20
NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox"})
_NOT_LISTED = "files that git ignores are left out"
_NOT_SEARCHED = "files that git ignores, are binary or may contain secrets are left out"


class TextArguments(Arguments):
    """A search in files."""

    pattern: str = Field(min_length=1)
    path: str = "."
    glob: str | None = None
    ignore_case: bool = False
    invert: bool = False
    context: int = Field(default=0, ge=0, le=20)
    count: bool = False


class FindFilesArguments(Arguments):
    """A search for files by name."""

    glob: str = "*"
    path: str = "."


class _FoundLines(NamedTuple):
    """Numbers of the lines found, by file; `more` if the search ended before all were.

    For a count, there are as many numbers as lines. `skipped` is what could not be looked at.
    """

    lines: dict[Path, Sequence[int]]
    more: bool
    skipped: list[str]


class _Folders(NamedTuple):
    """The folder where a search begins, and the one that its paths are relative to."""

    root: Path
    shell: str
    notes: list[str]

    def show_path(self, path: Path) -> str:
        """Return a path as every file tool takes it."""
        return seen_from(self.shell, str(path))


def _not_looked(skipped: Sequence[str]) -> list[str]:
    more = f" and {len(skipped) - 10} more" if len(skipped) > 10 else ""
    return [f"[not looked into: {', '.join(skipped[:10])}{more}]"] if skipped else []


def search_text(
    cwd: Callable[[], str],
    workspace: str,
    is_secret: Callable[[str], bool],
    outputs: Outputs,
    room: Callable[[], int] = lambda: MAX_CHARS,
) -> SchemaTool[TextArguments]:
    """Return the tool that finds lines in files, but for those that may hold secrets.

    Reading one of these is asked for, and a search never is. Kept `outputs` are searched, too.
    """

    async def run(arguments: TextArguments) -> str:
        pattern = Pattern(arguments.pattern, ignore_case=arguments.ignore_case)
        named = real_path(cwd(), arguments.path)
        if outputs.holds(named):
            return await asyncio.to_thread(_in_output, outputs, named, arguments, pattern, room())
        folders = _folders(cwd(), workspace, arguments.path)
        if is_secret(str(folders.root)):
            raise ToolError(
                "{path} may contain secrets: it is read by read_file alone, with approval.",
                path=folders.root,
            )
        if folders.root.is_file() and _is_binary(folders.root):
            raise ToolError(
                "{path} is binary or UTF-16, so it was not searched; use a command.",
                path=folders.root,
            )
        try:
            root, program, found = folders.root, find_program("rg"), None
            if program is not None:
                found = await _ripgrep(program, root, arguments, is_secret)
            async with asyncio.timeout(SECONDS):
                if found is None:
                    own = partial(_own_search, root, arguments, pattern, is_secret)
                    found = await asyncio.to_thread(own)
                shown = partial(_shown, found, arguments, pattern, folders, room())
                return await asyncio.to_thread(shown)
        except TimeoutError:
            raise ToolError(
                "The search took more than {seconds:.0f} s; name a folder with path, leave large "
                "files out with glob (!*.bin), or use grep in a command.",
                seconds=SECONDS,
            ) from None

    return SchemaTool("search_text", TextArguments, run)


def _in_output(
    outputs: Outputs, path: Path, arguments: TextArguments, pattern: Pattern, room: int
) -> str:
    hits, total = list[int](), 0
    for total, line in enumerate(outputs.lines(path), 1):
        if (pattern.search(line) is None) == arguments.invert:
            hits.append(total)
    if arguments.count:
        return f"[{len(hits)} of {total} lines]"
    if not hits:
        return f"[no match in {total} lines]"
    lines = enumerate(outputs.lines(path), 1)
    shown = list(_around(lines, hits[:MAX_RESULTS], arguments, pattern, ""))
    return _listing(shown, [], more=len(hits) > MAX_RESULTS, room=room)


def _shown(
    found: _FoundLines, arguments: TextArguments, pattern: Pattern, folders: _Folders, room: int
) -> str:
    notes = [*folders.notes, *_not_looked(found.skipped)]
    if not found.lines:
        where = folders.show_path(folders.root)
        whole = mode_of(folders.root)
        left_out = f"; {_NOT_SEARCHED}" if whole is not None and stat.S_ISDIR(whole) else ""
        notes += ["[no match spans lines]"] * ("\n" in arguments.pattern.replace(r"\n", "\n"))
        return "\n".join([f"[no match in {where}{left_out}]", *notes])
    if arguments.count:
        counts = {folders.show_path(path): len(numbers) for path, numbers in found.lines.items()}
        most = sorted(counts, key=lambda name: -counts[name])[:MAX_RESULTS]
        listed = [f"{name}: {counts[name]}" for name in most]
        notes[:0] = [f"[{sum(counts.values())} lines in {len(counts)} files]"]
        return _listing(listed, notes, more=len(counts) > len(most), room=room)
    lines: list[str] = []
    left = MAX_RESULTS
    for path, numbers in found.lines.items():
        lines += ["--"] * bool(lines and arguments.context)
        try:
            with _open_regular(path) as file:
                name = folders.show_path(path)
                lines += _around(_number_lines(file), numbers[:left], arguments, pattern, name)
        except OSError:  # it was there a moment ago
            continue
        left -= len(numbers)
        if left <= 0:
            break
    more = found.more or sum(map(len, found.lines.values())) > MAX_RESULTS
    return _listing(lines, notes, more=more, room=room)


def _around(
    lines: Iterable[tuple[int, str]],
    wanted: Sequence[int],
    arguments: TextArguments,
    pattern: Pattern,
    name: str,
) -> Iterator[str]:
    """Yield the `wanted` ones of numbered lines, each with its neighbours."""
    found, beside = frozenset(wanted), arguments.context
    near = {n + by for n in wanted for by in range(-beside, beside + 1)} if beside else found
    last = 0
    for number, line in lines:
        if number in near:
            if beside and last and number > last + 1:
                yield "--"
            mark, hit = ":" if number in found else "-", None
            if number in found and not arguments.invert and len(line) > MAX_LINE:
                hit = pattern.search(line)
            yield f"{name}{mark}{number}{mark}{_part(line, hit)}".removeprefix(mark)
            last = number
        elif number > wanted[-1] + beside:
            return


def _part(line: str, hit: tuple[int, int] | None) -> str:
    """Return a line, or the part of a long one that holds the hit."""
    if len(line) <= MAX_LINE:
        return line
    start = max(0, min((hit or (0, 0))[0] - MAX_LINE // 4, len(line) - MAX_LINE))
    end = start + MAX_LINE
    return left_out(start) + line[start:end] + left_out(len(line) - end)


def find_files(
    cwd: Callable[[], str], workspace: str, room: Callable[[], int] = lambda: MAX_CHARS
) -> SchemaTool[FindFilesArguments]:
    def find(arguments: FindFilesArguments) -> str:
        folders = _folders(cwd(), workspace, arguments.path)
        skipped: list[str] = []
        looked = list(islice(files_below(folders.root, skipped), MAX_FILES + 1))
        wanted = _matcher(arguments.glob)
        found = [folders.root / path for path in looked[:MAX_FILES] if wanted(path)]
        notes = [*folders.notes, *_not_looked(skipped)]
        if len(looked) > MAX_FILES:
            notes.append(f"[only the first {MAX_FILES} files were looked at]")
        if not found:
            return "\n".join([f"[no such file; {_NOT_LISTED}]", *notes])
        listed = _fold_names({folders.show_path(path): 1 for path in found}, room() - NOTE_ROOM)
        if len(listed) < len(found):
            notes[:0] = [f"[{len(found)} files; a folder stands for the files below it]"]
        return _listing(listed, notes, more=False, room=room())

    async def run(arguments: FindFilesArguments) -> str:
        return await asyncio.to_thread(find, arguments)

    return SchemaTool("find_files", FindFilesArguments, run)


def _matcher(glob: str) -> Callable[[Path], bool]:
    """Return a check of paths against a glob as ripgrep reads it, braces and `!` included."""
    wanted = not glob.startswith("!")
    globs = [glob.removeprefix("!").removeprefix("/").removeprefix("./")]
    while braced := [one for one in globs if _BRACES.search(one)]:
        found = _BRACES.search(braced[0])
        assert found is not None
        globs.remove(braced[0])
        head, tail = braced[0][: found.start()], braced[0][found.end() :]
        globs += [head + part + tail for part in found[1].split(",")]
    globs += [one.replace("**/", "") for one in globs if "**/" in one]

    def matches(path: Path) -> bool:
        names = (path.name, str(path))
        return wanted == any(fnmatch.fnmatch(name, one) for one in globs for name in names)

    return matches


_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def _fold_names(names: dict[str, int], room: int) -> list[str]:
    """Return sorted names; where they are too many, the fullest folders stand for their files.

    `names` are counted: a folder has the number of the files that it stands for.
    """
    while len(names) > MAX_RESULTS or sum(map(len, names)) + 20 * len(names) > room:
        inside = Counter(str(Path(name).parent) for name in names)
        inside.pop(".", None)
        excess = max(len(names) - MAX_RESULTS, len(names) // 10)
        chosen: set[str] = set()
        for folder, count in inside.most_common():
            if folder == "/" or excess <= 0:
                break
            chosen.add(folder)
            excess -= count - 1
        if not chosen:
            break
        fewer: dict[str, int] = {}
        for name, count in names.items():
            above = [str(one) for one in Path(name).parents if str(one) in chosen]
            key = f"{above[-1]}/" if above else name
            fewer[key] = fewer.get(key, 0) + count
        names = fewer
    return [f"{name} ({names[name]})" if name.endswith("/") else name for name in sorted(names)]


def _folders(cwd: str, workspace: str, name: str) -> _Folders:
    """Return the folders of a search in `name`, which lies below the workspace."""
    path, shell, top = real_path(cwd, name), os.path.realpath(cwd), os.path.realpath(workspace)
    if not path.is_relative_to(top):
        raise ToolError(
            "{path} is outside the workspace {workspace}; use a command.",
            path=path,
            workspace=workspace,
        )
    mode = mode_of(path)
    if mode is None:
        refuse_other_folder(path, cwd, workspace)
        raise ToolError("{path} does not exist; use find_files to look for it.", path=path)
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise ToolError("{path} is not a regular file.", path=path)
    try:
        # A search below would come back with nothing, as if nothing were there.
        os.close(open_file(path))
        if stat.S_ISDIR(mode):
            with open_folder(path) as descriptor:
                os.stat(".", dir_fd=descriptor)
    except OSError as error:
        raise unreadable(path, error) from error
    return _Folders(path, shell, [f"[relative paths are from {shell}]"] * (shell != top))


def _listing(lines: Sequence[str], notes: Sequence[str], *, more: bool, room: int) -> str:
    """Return lines within `room` characters, then the notes, with what was left out."""
    kept, left = list[str](), room - NOTE_ROOM
    for line in lines:
        left -= len(line) + 1
        if left < 0 and kept:
            break
        kept.append(line)
    if more or len(kept) < len(lines):
        kept.append(f"[more than these {len(kept)} lines; narrow it down]")
    return "\n".join([*kept, *notes])


async def _ripgrep(
    program: str, root: Path, arguments: TextArguments, is_secret: Callable[[str], bool]
) -> _FoundLines | None:
    """Return ripgrep's findings; None where it had to wait, or does not take the pattern."""
    options = ["--no-config", "--no-heading", "--color=never", "--hidden", "--sort=path"]
    options += [
        "--line-buffered",
        "--with-filename",
        "--encoding=none",
        "--glob=!.git",
        "--null",
        "--crlf",
    ]
    options += ["--binary", "--count" if arguments.count else "--line-number", "--max-columns=1"]
    options += ["--ignore-case"] if arguments.ignore_case else []
    options += ["--invert-match"] if arguments.invert else []
    options += ["--glob", arguments.glob] if arguments.glob else []
    mode = mode_of(root)
    is_folder = mode is not None and stat.S_ISDIR(mode)
    base, target = (root, ".") if is_folder else (root.parent, root.name)
    words = [*options, "--regexp", arguments.pattern, "--", target]
    output = await _output(program, words, base, counts=arguments.count)
    if output is None:
        return None
    numbers, more, skipped = output
    found = {base / os.path.normpath(name): wanted for name, wanted in numbers.items()}
    texts = (path for path in found if not (is_secret(str(path)) or _is_binary(path)))
    return _FoundLines({path: found[path] for path in texts}, more, skipped)


async def _output(
    program: str, words: list[str], base: Path, *, counts: bool
) -> tuple[dict[str, Sequence[int]], bool, list[str]] | None:
    """Return the line numbers ripgrep found, run in `base`, by file, and what it could not read."""
    with open_folder(base) as descriptor:
        process = await start_program(
            [program, *words], cwd=working_folder(descriptor), env=host_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    found: dict[str, list[int]] = {}
    counted: dict[str, Sequence[int]] = {}
    total, more, skipped = 0, False, list[str]()
    watch = asyncio.ensure_future(_end_when_it_waits(process))
    complaints = asyncio.ensure_future(process.stderr.read(_PIECE))
    waited = False
    try:
        async with asyncio.timeout(SECONDS):
            async for raw in process.stdout:
                rest = _REST.match(os.fsdecode(raw))  # of a text that is not searched to its end
                if rest is not None and not _is_binary(base / os.path.normpath(rest[1])):
                    skipped.append(f"{os.path.normpath(rest[1])} (behind byte {rest[2]})")
                name, _, line = os.fsdecode(raw).partition("\0")
                number = line.partition(":")[0].strip()
                if counts and number.isdigit():
                    counted[name] = range(int(number))
                elif number.isdigit():
                    found.setdefault(name, []).append(int(number))
                    total += 1
                if total > MAX_RESULTS + MAX_SECRET_LINES:
                    more = True
                    break
            else:
                await process.wait()
            waited = watch.done()
    except TimeoutError:
        if not found and not counted:
            raise
        skipped.insert(0, f"all behind the last line found, as {SECONDS:.0f} s are over")
    finally:
        watch.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    told = os.fsdecode(await complaints).splitlines()
    skipped += (f"{one[1]} ({one[2]})" for one in map(_UNREADABLE.fullmatch, told) if one)
    refused = process.returncode == 2 and not (found or counted or skipped)
    return None if waited or refused else (counted if counts else dict(found), more, skipped)


_REST = re.compile(r"([^\0]+?): (?:WARNING: )?[^\0]*binary file [^\0]*byte around offset (\d+)")
_UNREADABLE = re.compile(r"(?:rg: )?(?:\./)?(.+): (.+) \(os error (?!2\))\d+\)")


async def _end_when_it_waits(process: asyncio.subprocess.Process) -> None:
    """End a search that waits for a named pipe, which is in place of a file to ignore."""
    while not waits_for_writer(process.pid):  # noqa: ASYNC110 - the kernel reports no event
        await asyncio.sleep(LOOK_SECONDS)
    process.kill()


def _open_regular(path: Path) -> BinaryIO:
    """Return the open regular file: no link is followed, it may lead out of the workspace.

    Raises `OSError`.
    """
    return regular(open_file(path), path)


def _is_binary(path: Path) -> bool:
    """Return whether a file is no text that is searched: it has a NUL at its beginning."""
    with contextlib.suppress(OSError), _open_regular(path) as file:
        return b"\0" in file.read(8192)
    return False


def _number_lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers; a very long one comes in pieces."""
    number = 1
    while data := file.readline(_PIECE):
        yield number, data.rstrip(b"\r\n").decode("utf-8", "replace")
        number += data.endswith(b"\n")


def _own_search(
    root: Path, arguments: TextArguments, pattern: Pattern, is_secret: Callable[[str], bool]
) -> _FoundLines:
    """Find the same lines without ripgrep."""
    mode = mode_of(root)
    is_folder = mode is not None and stat.S_ISDIR(mode)
    base, skipped = (root if is_folder else root.parent), list[str]()
    names = sorted(files_below(root, skipped)) if is_folder else [Path(root.name)]
    wanted = _matcher(arguments.glob) if arguments.glob else lambda name: True
    found: dict[Path, Sequence[int]] = {}
    most, over = MAX_RESULTS, time.monotonic() + SECONDS
    for path in (base / name for name in names if wanted(name)):
        if is_secret(str(path)) or _is_binary(path):
            continue
        numbers: dict[int, None] = {}
        try:
            with _open_regular(path) as file:
                for number, line in _number_lines(file):
                    if (pattern.search(line) is None) == arguments.invert:
                        numbers[number] = None
                        if len(numbers) > most and not arguments.count:
                            break
                    if time.monotonic() > over:  # nobody waits for this thread any more
                        raise TimeoutError
        except TimeoutError:
            raise
        except LinkMetError:  # which ripgrep does not follow either
            continue
        except OSError as error:
            skipped.append(f"{path.relative_to(base)} ({why(error)})")
            continue
        if numbers:
            found[path] = list(numbers)
            most -= 0 if arguments.count else len(numbers)
            if most < 0:
                return _FoundLines(found, True, skipped)
    return _FoundLines(found, False, skipped)


def files_below(root: Path, skipped: list[str]) -> Iterator[Path]:
    """Yield regular files below `root`, relative to it, without those that git ignores.

    Folders that are left out otherwise are added to `skipped`. `root` is a resolved path.
    """
    listed = _git_files(root)
    yield from _walk_files(root, skipped) if listed is None else listed


def _walk_files(root: Path, skipped: list[str]) -> Iterator[Path]:
    def unseen(folder: str, error: OSError) -> None:
        if not folder and isinstance(error, NotADirectoryError):
            raise error  # it was one when the call was judged
        skipped.append(f"{folder or '.'}/ ({why(error)})")

    for one in walk_folder(root, unseen, _LIMITS, enters=lambda name: name not in NEVER):
        if _is_file(one.found.name, one.folder):
            yield Path(one.path)
        elif one.is_folder and one.found.name in NEVER - {".git"}:
            skipped.append(f"{one.path}/")


def _git_files(root: Path) -> list[Path] | None:
    """Return the files git knows; None outside a repository or without git."""
    try:
        with open_folder(root) as descriptor:
            names = files_known_to_git(descriptor, SECONDS)
            if names is None:
                return None
            return [Path(name) for name in names if _is_file(name, descriptor)]
    except OSError:
        return None


def _is_file(name: str, folder: int) -> bool:
    """Return whether a regular file of this name is in an open folder that may be entered."""
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder).st_mode)
    except OSError:
        return False
