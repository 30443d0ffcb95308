"""Programs that KogniTerm itself starts: found in system folders only.

A folder of the workspace often stands first on PATH (`.venv/bin`, `node_modules/.bin`), and a
command may have put a program named `git` there. What the host process starts is therefore looked
for where only the system's administrator installs programs, never through PATH.
"""

from __future__ import annotations

import os

SYSTEM_FOLDERS = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/run/current-system/sw/bin",
    "/nix/var/nix/profiles/default/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/snap/bin",
)
"""Folders in which distributions, Nix, Homebrew and snap install programs for all users."""
SYSTEM_PATH = ":".join(SYSTEM_FOLDERS)
"""PATH for a program of ours that starts others, as git starts its own."""


def find_program(name: str) -> str | None:
    """Return the absolute path of the program `name`, or None when no system folder has it."""
    for folder in SYSTEM_FOLDERS:
        path = f"{folder}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113 - called at the start
            return path
    return None


def find_user_program(name: str, *workspaces: str) -> str | None:
    """Return the absolute path of a program of the user's own choice, such as their editor.

    It is looked for on the user's PATH, but never in a folder of a workspace, nor in one that PATH
    names relative to the working folder. A path is taken as it is when it is absolute.
    """
    if "/" in name:
        return name if name.startswith("/") else None
    from kogniterm.settings import environment  # its only reader

    own = [os.path.realpath(folder) for folder in workspaces]
    for folder in environment().get("PATH", "").split(":"):
        real = os.path.realpath(folder)
        if not folder.startswith("/") or any(f"{real}/".startswith(f"{one}/") for one in own):
            continue
        path = f"{folder}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113 - as above
            return path
    return None


_KEPT = frozenset({"HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "TERM"})


def host_environment(*more: str) -> dict[str, str]:
    """Return the environment of a started program: user, home, locale, and those in `more`.

    Nothing in it makes a program load or start another: no LD_*, GIT_*, PYTHON* or BASH_ENV.
    """
    from kogniterm.settings import environment  # its only reader

    kept = _KEPT | set(more)
    own = {
        name: value
        for name, value in environment().items()
        if name in kept or name.startswith("LC_")
    }
    return own | {"PATH": SYSTEM_PATH}
