"""Programs that help KogniTerm: run quietly, without a terminal, within limits of time and output.

The words begin with an absolute path (`host/programs`). Neither the user's terminal nor the output
of KogniTerm is the program's, and it is ended with the group of processes that it leads.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kogniterm.host.processes import LOOK_SECONDS, waits_for_writer

MAX_OUTPUT = 64 * 1024 * 1024
"""Bytes that a program may print."""


Starting = asyncio.Future[asyncio.subprocess.Process]


class HelperEnd(NamedTuple):
    """The end of a program: its status, and what it printed to its two outputs."""

    status: int
    output: bytes
    complaints: bytes


def run_helper(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    seconds: float,
    cwd: Path | str = "/",
    descriptors: Sequence[int] = (),
) -> HelperEnd:
    """Run a program without input to its end. Raises `OSError`.

    That is `TimeoutError` where it took too long or printed too much, and was ended. It is ended
    at once where it waits for a named pipe that is in place of a file.
    """
    until = time.monotonic() + seconds
    with subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=descriptors,
        start_new_session=True,
    ) as process:
        while True:
            try:
                told = process.communicate(timeout=LOOK_SECONDS)
            except subprocess.TimeoutExpired as error:
                slow = time.monotonic() > until or waits_for_writer(process.pid)
                if slow or len(error.output or b"") > MAX_OUTPUT:
                    _end(process.pid)
                    raise TimeoutError(f"{argv[0]} was ended") from error
            except BaseException:
                _end(process.pid)
                raise
            else:
                return HelperEnd(process.returncode, *told)


async def await_helper(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    seconds: float | None,
    cwd: Path | str = "/",
    given: bytes = b"",
) -> HelperEnd:
    """Run a program, which gets `given`, without blocking. Raises `OSError`.

    That is `TimeoutError` as for `run_helper`. It is ended where this is cancelled.
    """
    process = await start_program(
        argv,
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            output, complaints, _ = await asyncio.gather(
                _read(process, process.stdout),
                _read(process, process.stderr),
                _write(process, given),
            )
            status = await process.wait()
    finally:
        if process.returncode is None:
            await _end_group(process)
    if max(len(output), len(complaints)) > MAX_OUTPUT:
        raise TimeoutError(f"{argv[0]} printed too much")
    return HelperEnd(status, output, complaints)


async def _end_started(starting: Starting) -> None:
    with suppress(OSError):  # it was not started, and nobody waits for the reason
        await _end_group(await starting)


async def start_program(
    argv: Sequence[str],
    *,
    abandon: Callable[[Starting], Awaitable[None]] = _end_started,
    **options: Any,
) -> asyncio.subprocess.Process:
    """Start a program in a group of its own, with `options` of asyncio. Raises `OSError`.

    Where this is cancelled, `abandon` waits for the start, and ends the program: asyncio would
    kill its first process alone, and wait forever for pipes that were not connected by then.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*argv, start_new_session=True, **options)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.shield(abandon(starting))
        raise


async def _end_group(process: asyncio.subprocess.Process) -> None:
    _end(process.pid)
    await process.communicate()


async def _read(process: asyncio.subprocess.Process, pipe: asyncio.StreamReader | None) -> bytes:
    """Return what comes out of a pipe; end the process where that is more than it may be."""
    assert pipe is not None
    told = bytearray()
    while piece := await pipe.read(1 << 16):
        told += piece
        if len(told) > MAX_OUTPUT:
            _end(process.pid)
            del told[MAX_OUTPUT + 1 :]
    return bytes(told)


async def _write(process: asyncio.subprocess.Process, given: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # it may end before it has read all
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()


def start_apart(
    argv: Sequence[str], *, env: Mapping[str, str], descriptors: Sequence[int] = ()
) -> None:
    """Start a program that goes on by itself, and whose end nobody waits for. Raises `OSError`."""
    started = subprocess.Popen(
        list(argv),
        cwd="/",
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
    )
    started.returncode = 0  # waiting for it would delay the end of this process


def _end(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
