"""The place of this installation, its bytecode, and the command that adds a package to it.

Another program has the name kogniterm on the Python package index, so a hint never names an extra
of ours there: it names the missing package itself, and the environment that it has to go to.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import NamedTuple

import kogniterm
from kogniterm.host.programs import find_user_program

_LOADED_BY_EVERY_RUN = (
    ("kogniterm", "runtime/session.py"),
    ("langgraph", "graph/state.py"),
    ("langchain_core", "messages/ai.py"),
    ("pydantic", "main.py"),
)
"""Modules that stand for their packages: the package, and the module's file in it."""
_CHECKED_BY_TIME = 0
"""Flags of a bytecode file that is valid for one time and size of its source (PEP 552)."""


class MissingBytecode(NamedTuple):
    """Packages without bytecode: the folders that contain them, and how they are compiled.

    `unsaved` is "setting" where Python was told to save no bytecode, "folder" where it may not
    write to one of `folders`, and empty where the next start saves it.
    """

    folders: tuple[str, ...]
    command: str
    unsaved: str


def own_command(*words: str) -> tuple[str, ...]:
    """Return the command that runs `kogniterm WORDS` with this Python.

    No module of the folder that it is started in takes the place of ours (`-P`).
    """
    return (sys.executable, "-P", "-m", "kogniterm", *words)


def missing_bytecode() -> MissingBytecode | None:
    """Return which of KogniTerm's packages Python compiles again, None where none is.

    Only what every run loads is looked at: a package that is not compiled lacks that too. uv
    compiles nothing at installation unless it is told to.
    """
    folders, closed = list[Path](), False
    for package, module in _LOADED_BY_EVERY_RUN:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            source = Path(folder, module)
            if source.is_file() and not _has_bytecode(source):
                folders.append(Path(folder))
                closed = closed or not _is_writable(Path(cache_from_source(str(source))).parent)
    if not folders:
        return None
    # An environment is compiled as a whole: it has more packages than these.
    tops = (one.parent if one.parent.name.endswith("-packages") else one for one in folders)
    named = tuple(dict.fromkeys(map(str, tops)))
    command = shlex.join((sys.executable, "-m", "compileall", "-q", "-j", "0", *named))
    unsaved = "setting" if sys.dont_write_bytecode else "folder" if closed else ""
    return MissingBytecode(named, command, unsaved)


def _has_bytecode(source: Path) -> bool:
    """Return whether Python would use the bytecode of `source` as it is."""
    try:
        with open(cache_from_source(str(source)), "rb") as file:  # noqa: PTH123  # a name, no path
            head = file.read(16)
        about = source.stat()
    except OSError:
        return False
    if int.from_bytes(head[4:8], "little") != _CHECKED_BY_TIME:
        return True
    written = (int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:16], "little"))
    return written == (int(about.st_mtime) & 0xFFFFFFFF, about.st_size & 0xFFFFFFFF)


def _is_writable(folder: Path) -> bool:
    nearest = next(one for one in (folder, *folder.parents) if one.exists())
    return os.access(nearest, os.W_OK | os.X_OK, effective_ids=True)


def program_folder() -> Path:
    return Path(kogniterm.__file__).parent


def install_command(*packages: str) -> str:
    """Return the shell command that installs `packages` where KogniTerm runs.

    An environment of pipx (https://pipx.pypa.io) is changed by pipx; one without pip, as uv makes
    them, by uv. Elsewhere it is pip, with the interpreter's path where `pip` alone is another's.
    """
    names = shlex.join(packages)
    prefix = Path(sys.prefix)
    if prefix.parent.name == "venvs" and "pipx" in prefix.parts:
        return f"pipx inject {prefix.name} {names}"
    if find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(sys.executable)} {names}"
    found = shutil.which("pip")
    if found is not None and Path(found).parent == prefix / "bin":
        return f"pip install {names}"
    return f"{shlex.quote(sys.executable)} -m pip install {names}"


def installer(*packages: str, folder: str) -> list[str] | None:
    """Return the program that installs `packages` where KogniTerm runs, as a list of arguments.

    It does what `install_command` says, but is never one that the working `folder` provides: pip
    is run by KogniTerm's own interpreter, without modules of the folder it runs in. None where
    there is no such program.
    """
    if find_spec("pip") is not None:
        pip = (sys.executable, "-P", "-m", "pip", "--disable-pip-version-check")
        return [*pip, "install", *packages]
    uv = find_user_program("uv", folder)
    return [uv, "pip", "install", "--python", sys.executable, *packages] if uv else None
