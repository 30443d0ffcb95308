"""A program without a terminal, in the sandbox: hooks and MCP servers.

A guard process stands between it and KogniTerm (`program_guard`). It ends the program with
everything that the program started when it is told to, and when KogniTerm is gone, however that
happened. Ctrl-C at the terminal does not reach either of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from kogniterm.errors import ExecutionError, why
from kogniterm.execution.process.program_guard import NOT_STARTED
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.host.helper_programs import HelperEnd, run_helper, start_program

_GUARD = Path(__file__).resolve().with_name("program_guard.py")
_ROOT = _GUARD.parents[3]
_PIECE = 1 << 16
MAX_COMPLAINTS = 1 << 16
"""Bytes kept of what a program writes to its standard error: the last ones."""

Ended = Literal["exited", "timeout", "too_much"]


class ProgramResult(NamedTuple):
    """The end of a program. `exit_code` is None where it was ended, 127 if it cannot be started."""

    exit_code: int | None
    output: bytes
    complaints: bytes
    ended: Ended = "exited"

    @property
    def started(self) -> bool:
        """Return whether the program itself ran."""
        return self.exit_code != NOT_STARTED


class ConfinedProgram:
    """A running program, with its pipes."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int) -> None:
        self.process, self.lifeline = process, lifeline
        self._complaints = bytearray()
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        sandbox: Sandbox | None,
        temporary: str,
    ) -> ConfinedProgram:
        """Start `argv` in `cwd` with `env` and nothing else of this process.

        Text is UTF-8 where `env` has no locale: the guard's interpreter sees to that (PEP 538).
        `temporary` is a private folder that is /tmp in the sandbox. Raises `ExecutionError`.
        """
        environment = dict(env)
        if sandbox is not None:
            environment |= sandbox.variables(temporary)
        guard, passed, lifeline = _guard(argv, sandbox, temporary)

        async def abandon(starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
            """End the program by its guard, which knows all that the program started."""
            try:
                program = cls(await starting, lifeline)
            except (OSError, ValueError):
                os.close(lifeline)
            else:
                await program._finish()

        try:
            process = await start_program(
                guard,
                abandon=abandon,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=cwd,
                pass_fds=passed,
            )
        except (OSError, ValueError) as error:
            os.close(lifeline)
            raise ExecutionError(
                "{program} could not be started: {why}.", program=argv[0], why=why_not(error)
            ) from error
        finally:
            for fd in passed:
                os.close(fd)
        return cls(process, lifeline)

    @property
    def complaints(self) -> bytes:
        """Return the end of what it wrote to its standard error so far."""
        return bytes(self._complaints)

    async def communicate(self, data: bytes, *, limit: int, seconds: float) -> ProgramResult:
        """Write `data`, and read up to `limit` bytes until it ends, for that many `seconds`.

        It is ended when it writes more or takes longer, and when this task is cancelled.
        """
        output = bytearray()
        ended: Ended = "exited"
        try:
            async with asyncio.timeout(seconds):
                writing = asyncio.create_task(self.write(data))
                try:
                    while piece := await self._read():
                        output += piece
                        if len(output) > limit:
                            ended = "too_much"
                            break
                    else:
                        await self.process.wait()
                finally:
                    writing.cancel()
        except TimeoutError:
            ended = "timeout"
        finally:
            await self._finish()
        code = self.process.returncode if ended == "exited" else None
        return ProgramResult(code, bytes(output[:limit]), self.complaints, ended)

    async def _finish(self) -> None:
        # What is still in its pipe would keep the pipe open, and the end from being seen.
        discarding = asyncio.create_task(self._discard())
        await self.end()
        await discarding

    async def end(self) -> None:
        """End it with all that it started. Safe to call twice."""
        lifeline, self.lifeline = self.lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)
        if self.process.stdin is not None:
            self.process.stdin.close()
        await asyncio.shield(self._wait_for_end())

    async def _wait_for_end(self) -> None:
        await self.process.wait()
        await self._listening
        # What was not read would keep its pipe open.
        self.process._transport.close()  # type: ignore[attr-defined]  # asyncio has no other way

    async def write(self, data: bytes) -> None:
        """Write `data` to its standard input and close that; it may end before it has read all."""
        pipe = self.process.stdin
        assert pipe is not None
        with suppress(OSError):
            pipe.write(data)
            await pipe.drain()
            pipe.close()

    async def _discard(self) -> None:
        while await self._read():
            pass

    async def _read(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.read(_PIECE)

    async def _listen(self) -> None:
        assert self.process.stderr is not None
        while piece := await self.process.stderr.read(_PIECE):
            self._complaints += piece
            del self._complaints[:-MAX_COMPLAINTS]


def run_confined(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    sandbox: Sandbox,
    temporary: str,
    seconds: float,
) -> HelperEnd:
    """Run a program without input in the sandbox. Raises `OSError` and `TimeoutError`."""
    guard, passed, lifeline = _guard(argv, sandbox, temporary)
    try:
        own = {**env, **sandbox.variables(temporary)}
        return run_helper(guard, env=own, seconds=seconds, cwd=cwd, descriptors=passed)
    finally:
        for fd in (*passed, lifeline):
            os.close(fd)


def _guard(
    argv: Sequence[str], sandbox: Sandbox | None, temporary: str
) -> tuple[list[str], tuple[int, ...], int]:
    """Return the words of a guard, the descriptors it is given, and the end of its lifeline."""
    reading, lifeline = os.pipe()
    passed: tuple[int, ...] = (reading,)
    view = -1
    if sandbox is not None:
        wanted = sandbox.view(shell_files=temporary, temporary=temporary)
        view = os.memfd_create("view")
        os.write(view, json.dumps(wanted).encode("utf-8"))
        os.lseek(view, 0, os.SEEK_SET)
        passed = (reading, view)
    python = [sys.executable, "-I", "-S", str(_GUARD), str(_ROOT)]
    return [*python, str(reading), str(view), "--", *argv], passed, lifeline


def why_not(error: Exception) -> str:
    """Return the reason in an error that Python raises for a program or its folder."""
    return str(why(error)) if isinstance(error, OSError) else str(error)
