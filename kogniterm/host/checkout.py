"""The distribution that runs: its version, its folder, and its commit where that is a checkout.

Read from files, without git and without an import: `kogniterm --version` takes no longer for it.
"""

from __future__ import annotations

import kogniterm

SHORT = 10
"""Characters of a commit that are shown."""


def running_version() -> str:
    """Return the version that runs, the folder of its package, and the commit of a checkout."""
    folder = kogniterm.__file__.rpartition("/")[0]
    commit = commit_of(folder.rpartition("/")[0])
    return f"{kogniterm.__version__} from {folder}{f', commit {commit[:SHORT]}' if commit else ''}"


def version_on_disk() -> str:
    """Return the version that the next start would run; "" where it cannot be read."""
    for line in _read(kogniterm.__file__).splitlines():
        name, _equals, value = line.partition(" = ")
        if name == "__version__":
            return value.strip("\"'")
    return ""


def commit_of(folder: str) -> str:
    """Return the commit that is checked out in `folder`; "" where it is no checkout."""
    git = _read(f"{folder}/.git").removeprefix("gitdir: ") or f"{folder}/.git"
    head = _read(f"{git}/HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    common = _read(f"{git}/commondir") or "."
    shared = common if common.startswith("/") else f"{git}/{common}"
    packed = (line.partition(" ") for line in _read(f"{shared}/packed-refs").splitlines())
    return _read(f"{shared}/{name}") or next((sha for sha, _, ref in packed if ref == name), "")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # imports nothing
            return file.read().strip()
    except OSError:
        return ""
