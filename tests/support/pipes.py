"""Named pipes that tell whether commands run at once: each waits until another one reads."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.support.forge import until


def fifos(folder: Path, *names: str) -> list[Path]:
    """Make named pipes that belong to the owner of `folder`."""
    owner, made = folder.stat(), [folder / name for name in names]
    for path in made:
        os.mkfifo(path)
        os.chown(path, owner.st_uid, owner.st_gid)
    return made


def opened_for(path: Path) -> int | None:
    """Return a descriptor to write to `path`; None while nobody reads there."""
    with suppress(OSError):
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    return None


def writer_of(path: Path) -> int:
    """Return a descriptor to write to `path`, once somebody reads there."""
    found: list[int] = []

    def opened() -> bool:
        descriptor = opened_for(path)
        if descriptor is not None:
            found.append(descriptor)
        return descriptor is not None

    until(opened)
    return found[0]
