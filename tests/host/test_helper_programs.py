"""Programs that help KogniTerm: their limits, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from kogniterm.host.helper_programs import (
    HelperEnd,
    await_helper,
    run_helper,
    start_apart,
)
from tests.support.forge import until
from tests.support.typing_user import running

ENV = {"PATH": "/usr/bin:/bin"}
PATIENCE = 60.0


def shell(code: str) -> list[str]:
    return ["/bin/sh", "-c", code]


async def test_the_end_of_a_program_is_returned() -> None:
    told = HelperEnd(3, b"out", b"why")
    code = shell("printf out; printf why >&2; exit 3")
    assert run_helper(code, env=ENV, seconds=PATIENCE) == told
    assert await await_helper(code, env=ENV, seconds=PATIENCE) == told
    assert (await await_helper(["/bin/cat"], env=ENV, seconds=None, given=b"x")).output == b"x"


async def test_a_program_that_takes_too_long_is_ended_with_its_children() -> None:
    nap = f"sleep {os.getpid() + 4_000_000}"
    with pytest.raises(TimeoutError):
        run_helper(shell(f"{nap} & wait"), env=ENV, seconds=0.01)
    with pytest.raises(TimeoutError):
        await await_helper(shell(f"{nap} & wait"), env=ENV, seconds=0.01)
    until(lambda: not running(nap))


async def test_a_program_that_prints_too_much_is_ended() -> None:
    with pytest.raises(TimeoutError):
        run_helper(["/usr/bin/yes"], env=ENV, seconds=PATIENCE)
    with pytest.raises(TimeoutError):
        await await_helper(["/usr/bin/yes"], env=ENV, seconds=PATIENCE)


@pytest.mark.parametrize("steps", [2, 3, 4, 5, 50])
async def test_a_cancelled_program_is_ended(steps: int) -> None:
    """While asyncio connects its pipes (the first steps), and later."""
    nap = f"sleep {os.getpid() + 5_000_000 + steps}"
    code = shell(f"{nap} & {nap} & wait")
    task = asyncio.ensure_future(await_helper(code, env=ENV, seconds=None))
    for _ in range(steps):
        await asyncio.sleep(0)
    until(lambda: len(running(nap)) == 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    until(lambda: not running(nap))


def test_a_program_that_cannot_be_started_is_told() -> None:
    with pytest.raises(OSError, match="No such file"):
        run_helper(["/no/such/program"], env=ENV, seconds=PATIENCE)


def test_a_program_started_apart_goes_on(tmp_path: Path) -> None:
    start_apart(shell(f"echo done > {tmp_path}/file"), env=ENV)
    until(lambda: (tmp_path / "file").exists() and (tmp_path / "file").read_text() == "done\n")
