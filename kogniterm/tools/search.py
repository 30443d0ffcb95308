"""`search_text` and `find_files`: below the workspace, bounded, what git ignores left out.

Uses ripgrep where there is one, because it is quick; the own search gives the same lines in the
same form. Both see the files that git would: tracked and untracked, not ignored.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.patterns import Pattern
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.places import mode_of, real_path, unreadable

MAX_RESULTS = 200
MAX_LINE = 300
MAX_FILE = 4 * 1024 * 1024
MAX_FILES = 100_000
SECONDS = 20.0
NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox"})


class TextArguments(Arguments):
    """What to look for in files."""

    pattern: str = Field(min_length=1, description="regular expression")
    path: str = Field(default=".", description="folder or file")
    glob: str | None = Field(default=None, description="only files like *.py")
    ignore_case: bool = False


class FindArguments(Arguments):
    """Which files to find."""

    glob: str = Field(default="*", description="name like *.py or path like src/*/test_*.py")
    path: str = "."


def search_text(
    cwd: Callable[[], str], workspace: str, is_secret: Callable[[str], bool]
) -> SchemaTool[TextArguments]:
    """The tool that finds lines in files, but for those that may hold secrets.

    Reading one of these is asked for, and a search never is.
    """

    async def run(arguments: TextArguments) -> str:
        root = _inside(cwd(), workspace, arguments.path)
        if is_secret(str(root)):
            raise ToolError("{path} may hold secrets; read_file asks the person first.", path=root)
        Pattern(arguments.pattern)  # refused here, before a program is asked
        try:
            async with asyncio.timeout(SECONDS):
                return _listing(await _search(root, arguments, is_secret), "no match")
        except TimeoutError:
            raise ToolError(
                "The search took more than {seconds:.0f} s; search below a smaller folder.",
                seconds=SECONDS,
            ) from None

    return SchemaTool("search_text", "Find lines in files below a folder.", TextArguments, run)


def find_files(cwd: Callable[[], str], workspace: str) -> SchemaTool[FindArguments]:
    """The tool that finds files by name."""

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

    return SchemaTool("find_files", "List files below a folder by name.", FindArguments, run)


def _inside(cwd: str, workspace: str, name: str) -> Path:
    path = real_path(cwd, name)
    if not path.is_relative_to(os.path.realpath(workspace)):
        raise ToolError(
            "{path} lies outside the workspace {workspace}; use a command for that.",
            path=path,
            workspace=workspace,
        )
    mode = mode_of(path)
    if mode is None:
        raise ToolError("There is no {path}.", path=path)
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise ToolError("{path} is no regular file.", path=path)
    try:
        # A search below would come back with nothing, as if nothing were there.
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        if stat.S_ISDIR(mode):
            os.stat(f"{path}/.")  # noqa: PTH116 - pathlib drops the dot
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
    program = shutil.which("rg")
    if program is not None:
        return await _ripgrep(program, root, arguments, is_secret)
    return await asyncio.to_thread(
        lambda: list(islice(own_search(root, arguments, is_secret), MAX_RESULTS + 1))
    )


async def _ripgrep(
    program: str, root: Path, arguments: TextArguments, is_secret: Callable[[str], bool]
) -> list[str]:
    options = ["--no-config", "--line-number", "--no-heading", "--color=never", "--hidden"]
    options += ["--with-filename", "--sort=path", "--max-columns", str(MAX_LINE)]
    options += ["--max-columns-preview", "--glob=!.git", "--no-messages", "--null"]
    options += ["--ignore-case"] if arguments.ignore_case else []
    options += ["--glob", arguments.glob] if arguments.glob else []
    base, target = (root, ".") if root.is_dir() else (root.parent, root.name)
    process = await asyncio.create_subprocess_exec(
        program, *options, "--regexp", arguments.pattern, "--", target,
        cwd=base, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    lines: list[str] = []
    try:
        assert process.stdout is not None
        async for raw in process.stdout:
            name, found, line = raw.decode("utf-8", "replace").rstrip("\n").partition("\0")
            if found and is_secret(os.path.normpath(base / name)):
                continue
            lines.append(f"{name.removeprefix('./')}:{line}" if found else name)
            if len(lines) > MAX_RESULTS:
                break
        else:
            _, complaint = await process.communicate()
            if process.returncode == 2 and not lines:
                said = complaint.decode("utf-8", "replace").strip().splitlines()
                raise ToolError("The search failed: {why}.", why=said[-1] if said else "rg")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return lines


def own_search(
    root: Path, arguments: TextArguments, is_secret: Callable[[str], bool]
) -> Iterator[str]:
    """The same lines without ripgrep: `path:line: text`, sorted by path."""
    pattern = Pattern(arguments.pattern, ignore_case=arguments.ignore_case)
    base = root if root.is_dir() else root.parent
    files = sorted(files_below(root)) if root.is_dir() else [Path(root.name)]
    for name in files:
        if arguments.glob and not fnmatch.fnmatch(name.name, arguments.glob):
            continue
        if is_secret(str(base / name)):
            continue
        try:
            file = base / name
            found = file.lstat()
            # No link is followed, as ripgrep follows none: it may lead out of the workspace.
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE:
                continue
            data = file.read_bytes()
        except OSError:
            continue
        if b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if pattern.search(line):
                yield f"{name}:{number}:{line[:MAX_LINE]}"


def files_below(root: Path) -> Iterator[Path]:
    """Regular files below `root`, as paths relative to it, what git ignores left out."""
    listed = _git_files(root)
    if listed is not None:
        yield from listed
        return
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in NEVER)
        for name in sorted(files):
            path = Path(folder) / name
            if _is_file(path):
                yield path.relative_to(root)


def _git_files(root: Path) -> list[Path] | None:
    """What git says is there; None outside a repository or without git."""
    import subprocess

    # A hostile repository's configuration must not run anything.
    safe = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    command = ["git", *safe, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    names = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    return [Path(name) for name in names if name and _is_file(root / name)]


def _is_file(path: Path) -> bool:
    """Whether a regular file is there. One in a folder that may not be entered is none: it takes
    no more than one such folder for `Path.is_file` to raise."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
