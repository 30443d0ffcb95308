"""A text in the person's own editor: out to a file of its own, and back when it was saved."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from kogniterm.errors import UsageError, why

Run = Callable[[Sequence[str]], Awaitable[int]]


async def edited(text: str, editor: Sequence[str], run: Run, name: str = "plan.yaml") -> str | None:
    """`text` as it was saved; None when the editor failed or nothing was changed."""
    with tempfile.TemporaryDirectory(prefix=f"kogniterm-{os.getpid()}-") as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8")
        if await run([*editor, str(file)]) != 0 or not file.is_file():
            return None
        saved = file.read_text(encoding="utf-8", errors="replace")
        return saved if saved != text else None


async def run_program(command: Sequence[str], keyboard: int | None = None) -> int:
    """Run a program on the terminal to its end; its exit status. Raises `UsageError`.

    It is named by its path: a bare name was found nowhere but perhaps in the workspace.
    """
    if not command[0].startswith("/"):
        raise UsageError(
            "{program} was not found outside the workspace; set VISUAL, EDITOR or PAGER to the "
            "full path of a program.",
            program=command[0],
        )
    try:
        done = await asyncio.to_thread(subprocess.run, list(command), stdin=keyboard, check=False)
    except OSError as error:
        raise UsageError(
            "{program} could not be started: {why}",
            program=command[0],
            why=why(error),
        ) from error
    return done.returncode
