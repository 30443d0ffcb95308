"""The place of this installation, and the command that adds a package to it.

Another program has the name kogniterm on the Python package index, so a hint never names an extra
of ours there: it names the missing package itself, and the environment that it has to go to.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import kogniterm
from kogniterm.host.programs import find_user_program


def program_folder() -> Path:
    """Return the folder of the package that is running."""
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
