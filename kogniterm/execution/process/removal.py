"""Removing an executor's private folder so that a removal cut short is noticed and finished later.

The lock in the folder says whose it is. It goes last: a folder that still has it and that nobody
holds is removed by the next executor.
"""

from __future__ import annotations

import contextlib
import os
import shutil

LOCK = "held"


def remove(folder: str | os.PathLike[str]) -> None:
    """Remove `folder` with all that is in it, the lock last; what cannot be removed stays."""
    path = os.fspath(folder)
    try:
        entries = os.listdir(path)  # noqa: PTH208 - the supervisor has no use for pathlib
    except OSError:
        return
    for entry in sorted(entries, key=lambda name: name == LOCK):
        whole = f"{path}/{entry}"
        if os.path.isdir(whole) and not os.path.islink(whole):  # noqa: PTH112, PTH114 - as above
            shutil.rmtree(whole, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(whole)  # noqa: PTH108 - as above
    with contextlib.suppress(OSError):
        os.rmdir(path)  # noqa: PTH106 - as above
