"""Git, run by tests to make the repositories that they are about."""

from __future__ import annotations

import subprocess
from pathlib import Path

_AUTHOR = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org")


def git(folder: Path, *words: str, data: str | None = None) -> str:
    """Run git in `folder`, with an author for commits, and return what it prints."""
    done = subprocess.run(
        ["git", *_AUTHOR, *words],
        cwd=folder,
        input=data,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
