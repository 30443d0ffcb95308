"""Files as a model names them: every name that cannot be used is an error it can mend."""

from __future__ import annotations

import os
from pathlib import Path

from kogniterm.errors import ToolError, why
from kogniterm.paths import named


def real_path(cwd: str, name: str) -> Path:
    """The path that `name` means from `cwd`, with links followed as far as they lead anywhere.

    Raises `ToolError` for what can be no file's name, and where a link may not be read.
    """
    path = named(cwd, name)
    try:
        # `Path.resolve` has an error of its own kind for links that lead round in circles.
        return Path(os.path.realpath(path))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError:  # a NUL, or half a character
        raise ToolError("{path} can be no file's name.", path=ascii(name)) from None


def mode_of(path: Path) -> int | None:
    """The type and mode of what `path` leads to, as `st_mode`; None when nothing is there.

    Raises `ToolError` when that cannot be told: a folder above may not be entered, the name is
    too long. (`Path.exists` and its like let some of these errors through and hide others.)
    """
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # or a name that no file can have
        return None
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> ToolError:
    """That `path` cannot be read, and why."""
    return ToolError("{path} cannot be read: {why}.", path=path, why=why(error))
