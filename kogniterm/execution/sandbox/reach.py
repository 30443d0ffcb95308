"""The parts of a folder that a sandbox may open, where others below it must stay closed.

Used before a sandbox starts (its mounts) and in the supervisor (Landlock's rules), so it looks at
names only and follows no link.
"""

from __future__ import annotations

import os
import time

# Set here and not imported: this runs before every sandboxed command.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

States = dict[str, tuple[int, ...]]
"""Folders by their paths, each with its `lasting_state`."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
"""Devices that programs need. Terminals other than a command's own stay closed."""

_DATING = frozenset(
    (
        0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0xF2F52010, 0x2FC12FC1, 0xCA451A4E,
    )
)  # fmt: skip
"""Magic numbers (statfs(2)) of ext, xfs, btrfs, tmpfs, overlay, f2fs, zfs and bcachefs.

On others, such as FUSE, 9p, NFS and FAT, a folder may change without its ctime.
"""
_COARSE = 3_000_000_000
MOST_PARTS = 500
"""A folder with more entries is opened in part: folders first."""
_SYSTEM = frozenset(
    (
        "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "lost+found", "nix",
        "opt", "proc", "root", "run", "sbin", "snap", "sys", "usr", "var", "tmp",
    )
)  # fmt: skip
"""Top folders that the system lives in: never writable because the workspace is `/`."""
_RUN_FROM_HOME = frozenset(("bin", "sbin", "snap", "Library"))
"""Folders of a home whose programs are found through PATH or started by a login."""


def within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it; both absolute, without links."""
    return path == folder or folder == "/" or path.startswith(f"{folder}/")


def real(path: str) -> str:
    """Return the path without links; never raises."""
    return os.path.realpath(path)


def writable_parts(
    root: str,
    closed: Sequence[str],
    home: str,
    *,
    can_cover: bool = False,
    listed: States | None = None,
) -> list[str]:
    """Return the parts of the folder `root` that may be written.

    A home, and everything above it, is opened by its entries and never as a whole: new names at
    its top would steer shells and logins. Hidden entries stay closed there. Elsewhere a folder is
    opened as a whole, unless something in `closed` lies below it and the sandbox cannot cover that
    afterwards. `listed` gets the states of the folders whose entries were looked at.
    """
    if any(within(root, one) for one in closed):
        return []
    broad = within(home, root)
    if not broad and (can_cover or not any(within(one, root) for one in closed)):
        return [root]
    parts: list[str] = []
    for path, is_folder in _entries(root, listed):
        if any(within(path, one) for one in closed):
            continue
        if broad and not _may_open(root, path, home):
            continue
        if not is_folder:
            parts.append(path)
        else:
            parts += writable_parts(path, closed, home, can_cover=can_cover, listed=listed)
    return parts


def readable_parts(root: str, hidden: Sequence[str], listed: States | None = None) -> list[str]:
    """Return the parts of the folder `root` that may be read: all that are not in `hidden`."""
    if any(within(root, one) for one in hidden):
        return []
    if not any(within(one, root) for one in hidden):
        return [root]
    parts: list[str] = []
    for path, is_folder in _entries(root, listed, most=None):
        if is_folder:
            parts += readable_parts(path, hidden, listed)
        elif path not in hidden:
            parts.append(path)
    return parts


def folders_between(path: str, root: str) -> list[str]:
    """Return the folders above `path` and below `root`, from the top down."""
    found = []
    parent = path.rpartition("/")[0]
    while parent not in (root, "") and within(parent, root):
        found.append(parent)
        parent = parent.rpartition("/")[0]
    return found[::-1]


def _may_open(folder: str, path: str, home: str) -> bool:
    """Return whether an entry of a home, or of a folder above one, may be written."""
    name = path.rpartition("/")[2]
    if path == home or within(home, path):
        return True
    if name.startswith("."):
        return False
    if folder == home:
        return name not in _RUN_FROM_HOME
    # Beside the way to a home are the homes of others, or the system's own folders.
    return folder == "/" and name not in _SYSTEM


def folder_state(path: str | int) -> tuple[int, ...]:
    """Return values of a folder that change with its entries: nobody can set its ctime."""
    try:
        seen = os.fstat(path) if isinstance(path, int) else os.lstat(path)
    except OSError:
        return ()
    return seen.st_ctime_ns, seen.st_ino, seen.st_dev


def lasting_state(path: str | int) -> tuple[int, ...]:
    """Return the `folder_state`; () where a later change of the folder might not change it.

    That is so on some file systems, and after a change just now: their clocks are coarse.
    """
    from kogniterm.host.kernel_calls import file_system_of

    state = folder_state(path)
    try:
        lasts = state and state[0] < time.time_ns() - _COARSE and file_system_of(path) in _DATING
    except OSError:
        return ()
    return state if lasts else ()


def is_unchanged(path: str, state: tuple[int, ...]) -> bool:
    """Return whether a folder has the entries that it had with this `lasting_state`."""
    return bool(state) and folder_state(path) == state


def _entries(
    folder: str, listed: States | None, most: int | None = MOST_PARTS
) -> Iterable[tuple[str, bool]]:
    """Return (path, whether it is a folder) of what is in `folder`, links left out."""
    if listed is not None:
        listed[folder] = lasting_state(folder)
    try:
        with os.scandir(folder) as found:
            entries = [
                (entry.path, entry.is_dir(follow_symlinks=False))
                for entry in found
                if not entry.is_symlink()
            ]
    except OSError:
        if listed is not None:
            listed[folder] = ()  # to be looked at again
        return []
    entries.sort(key=lambda entry: (not entry[1], entry[0]))
    return entries if most is None else entries[:most]
