"""Files as a model names them: every name that cannot be used is an error it can mend.

A name is resolved once, when its call is checked: the resolved path is what is judged and shown.
Everything after that opens this very path without following a link (`safe_files`).
"""

from __future__ import annotations

import os
import stat
import unicodedata
from pathlib import Path
from typing import TypeVar

from kogniterm.errors import PathChangedError, ToolError, why
from kogniterm.host.safe_files import LinkMetError, listable, look, resolve_path
from kogniterm.storage.folders import expand_path
from kogniterm.text.visible import whole
from kogniterm.tools.base import Arguments


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
