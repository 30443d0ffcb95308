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
"""Where distributions, Nix, Homebrew and snap install programs for all users."""
SYSTEM_PATH = ":".join(SYSTEM_FOLDERS)
"""PATH for a program of ours that starts others, as git starts its own."""


def find_program(name: str) -> str | None:
    """Return the absolute path of the program `name`, or None when no system folder has it."""
    for folder in SYSTEM_FOLDERS:
        path = f"{folder}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113 - called at the start
            return path
    return None
