"""`search_text` and `find_files`: below the workspace, bounded, what git ignores left out.

Uses ripgrep where there is one, because it is quick; the own search gives the same lines in the
same form. Both see the files that git would: tracked and untracked, not ignored. The kept output
of a command is searched where it is.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.host.programs import LOOK_SECONDS, find_program, host_environment, waits_for_writer
from kogniterm.host.safe_files import folder as open_folder
from kogniterm.host.safe_files import listable, open_file, read_regular, working_folder
from kogniterm.host.safe_git import GitTooSlowError, files_known_to_git
from kogniterm.text.bounded_regex import Pattern
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.file_tools import Outputs
from kogniterm.tools.workspace_paths import mode_of, real_path, unreadable

MAX_RESULTS = 200
MAX_LINE = 300
MAX_FILE = 4 * 1024 * 1024
MAX_FILES = 100_000
MAX_SECRET_LINES = 2_000
"""Found lines that may turn out to be in files with secrets, before a search gives up."""
SECONDS = 20.0
NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox"})


class TextArguments(Arguments):
    """A search in files."""

    pattern: str = Field(min_length=1)
    path: str = "."
    glob: str | None = None
    ignore_case: bool = False


class FindArguments(Arguments):
    """A search for files by name."""

    glob: str = "*"
    path: str = "."


def search_text(
    cwd: Callable[[], str], workspace: str, is_secret: Callable[[str], bool], outputs: Outputs
) -> SchemaTool[TextArguments]:
    """Return the tool that finds lines in files, but for those that may hold secrets.

    Reading one of these is asked for, and a search never is. Kept `outputs` are searched, too.
    """

    async def run(arguments: TextArguments) -> str:
        named = real_path(cwd(), arguments.path)
        if outputs.holds(named):
            return await asyncio.to_thread(_in_output, outputs, named, arguments)
        root = _inside(cwd(), workspace, arguments.path)
        if is_secret(str(root)):
            raise ToolError(
                "{path} may contain secrets; use read_file, which asks the user first.", path=root
            )
        Pattern(arguments.pattern)  # refused here, before a program is asked
        try:
            async with asyncio.timeout(SECONDS):
                return _listing(await _search(root, arguments, is_secret), "no match")
        except TimeoutError:
            raise ToolError(
                "The search took more than {seconds:.0f} s; search in a smaller folder.",
                seconds=SECONDS,
            ) from None

    return SchemaTool("search_text", TextArguments, run)


def _in_output(outputs: Outputs, path: Path, arguments: TextArguments) -> str:
    pattern = f"(?i:{arguments.pattern})" if arguments.ignore_case else arguments.pattern
    found = outputs.search(path, pattern, limit=MAX_RESULTS + 1)
    return _listing([f"{number}: {text[:MAX_LINE]}" for number, text in found], "no match")


def find_files(cwd: Callable[[], str], workspace: str) -> SchemaTool[FindArguments]:
    """Return the tool that finds files by name."""

    async def run(arguments: FindArguments) -> str:
        root = _inside(cwd(), workspace, arguments.path)
        files = await asyncio.to_thread(list, islice(files_below(root), MAX_FILES))
        wanted = arguments.glob
        found = [
            str(path)
            for path in files
            if fnmatch.fnmatch(path.name, wanted) or fnmatch.fnmatch(str(path), wanted)
        ]
        return _listing(sorted(found)[: MAX_RESULTS + 1], "no such file")

    return SchemaTool("find_files", FindArguments, run)


def _inside(cwd: str, workspace: str, name: str) -> Path:
    path = real_path(cwd, name)
    if not path.is_relative_to(os.path.realpath(workspace)):
        raise ToolError(
            "{path} is outside the workspace {workspace}; use a command.",
            path=path,
            workspace=workspace,
        )
    mode = mode_of(path)
    if mode is None:
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
    return path


def _listing(found: list[str], nothing: str) -> str:
    if not found:
        return f"[{nothing}]"
    lines = found[:MAX_RESULTS]
    if len(found) > MAX_RESULTS:
        lines.append(f"[more than {MAX_RESULTS}; narrow it down]")
    return "\n".join(lines)


async def _search(
    root: Path, arguments: TextArguments, is_secret: Callable[[str], bool]
) -> list[str]:
    program = find_program("rg")
    found = program and await _ripgrep(program, root, arguments, is_secret)
    if isinstance(found, list):
        return found
    return await asyncio.to_thread(
        lambda: list(islice(own_search(root, arguments, is_secret), MAX_RESULTS + 1))
    )


async def _ripgrep(
    program: str, root: Path, arguments: TextArguments, is_secret: Callable[[str], bool]
) -> list[str] | None:
    options = ["--no-config", "--line-number", "--no-heading", "--color=never", "--hidden"]
    options += ["--with-filename", "--sort=path", "--max-columns=1", "--max-columns-preview"]
    options += ["--encoding=none", "--glob=!.git", "--no-messages", "--null"]
    options += ["--ignore-case"] if arguments.ignore_case else []
    options += ["--glob", arguments.glob] if arguments.glob else []
    mode = mode_of(root)
    is_folder = mode is not None and stat.S_ISDIR(mode)
    base, target = (root, ".") if is_folder else (root.parent, root.name)
    found = await _output(program, [*options, "--regexp", arguments.pattern, "--", target], base)
    if found is None:
        return None
    lines: list[str] = []
    for name, wanted in found.items():
        path = base / os.path.normpath(name)
        if not is_secret(str(path)):
            lines += _lines_of(path, name.removeprefix("./"), wanted)
    return lines[: MAX_RESULTS + 1]


async def _output(program: str, words: list[str], base: Path) -> dict[str, list[int]] | None:
    """Return the line numbers ripgrep found, run in `base`, by file; None where it had to wait."""
    with open_folder(base) as descriptor:
        process = await asyncio.create_subprocess_exec(
            program, *words, cwd=working_folder(descriptor), env=host_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    found: dict[str, list[int]] = {}
    count = 0
    watch = asyncio.ensure_future(_end_when_it_waits(process))
    try:
        assert process.stdout is not None
        async for raw in process.stdout:
            name, _, line = os.fsdecode(raw).partition("\0")
            number = line.partition(":")[0]
            if number.isdigit():
                found.setdefault(name, []).append(int(number))
                count += 1
            if count > MAX_RESULTS + MAX_SECRET_LINES:
                break
        else:
            _, complaint = await process.communicate()
            if process.returncode == 2 and not count:
                said = complaint.decode("utf-8", "replace").strip().splitlines()
                raise ToolError("The search failed: {why}.", why=said[-1] if said else "rg")
    finally:
        waited = watch.done()
        watch.cancel()
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return None if waited else found


async def _end_when_it_waits(process: asyncio.subprocess.Process) -> None:
    """End a search that waits for a named pipe, which is in place of a file to ignore."""
    while not waits_for_writer(process.pid):  # noqa: ASYNC110 - the kernel reports no event
        await asyncio.sleep(LOOK_SECONDS)
    process.kill()


def _lines_of(path: Path, name: str, wanted: list[int]) -> list[str]:
    """Return the lines of these numbers, read by us: ripgrep may have been led through a link."""
    try:
        data = read_regular(path)
    except OSError:
        return []
    lines = data.split(b"\n")
    return [
        f"{name}:{number}:{lines[number - 1].decode('utf-8', 'replace')[:MAX_LINE]}"
        for number in wanted
        if number <= len(lines)
    ]


def own_search(
    root: Path, arguments: TextArguments, is_secret: Callable[[str], bool]
) -> Iterator[str]:
    """Return the same lines without ripgrep: `path:line: text`, sorted by path."""
    pattern = Pattern(arguments.pattern, ignore_case=arguments.ignore_case)
    mode = mode_of(root)
    is_folder = mode is not None and stat.S_ISDIR(mode)
    base = root if is_folder else root.parent
    files = sorted(files_below(root)) if is_folder else [Path(root.name)]
    for name in files:
        if arguments.glob and not fnmatch.fnmatch(name.name, arguments.glob):
            continue
        if is_secret(str(base / name)):
            continue
        try:
            # No link is followed, as ripgrep follows none: it may lead out of the workspace.
            data = read_regular(base / name, MAX_FILE + 1)
        except OSError:
            continue
        if len(data) > MAX_FILE or b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if pattern.search(line):
                yield f"{name}:{number}:{line[:MAX_LINE]}"


def files_below(root: Path) -> Iterator[Path]:
    """Yield regular files below `root`, relative to it, without those that git ignores.

    `root` is a resolved path. No folder is opened through a link, so what is listed lies below the
    folder that was judged, whatever is put in its place.
    """
    listed = _git_files(root)
    yield from _walked(root) if listed is None else listed


def _walked(root: Path) -> Iterator[Path]:
    waiting = [Path()]
    while waiting:
        below = waiting.pop()
        try:
            folders, files = _inside_folder(root / below)
        except OSError:
            continue
        yield from (below / name for name in files)
        waiting += (below / name for name in reversed(folders))


def _inside_folder(path: Path) -> tuple[list[str], list[str]]:
    """Return names of folders to search, and of regular files. Raises `OSError`."""
    with listable(path) as listed:
        with os.scandir(listed) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        folders = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
        files = [one.name for one in entries if _is_file(one.name, listed)]
    return [name for name in folders if name not in NEVER], files


def _git_files(root: Path) -> list[Path] | None:
    """Return the files git knows; None outside a repository or without git."""
    try:
        with open_folder(root) as descriptor:
            names = files_known_to_git(descriptor, SECONDS)
            if names is None:
                return None
            return [Path(name) for name in names if _is_file(name, descriptor)]
    except (OSError, GitTooSlowError):
        return None


def _is_file(name: str, folder: int) -> bool:
    """Return whether a regular file of this name is in an open folder that may be entered."""
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder).st_mode)
    except OSError:
        return False
