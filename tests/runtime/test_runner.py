"""Stopping a command, or making a job of it, also before it has started."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from kogniterm.runtime.runner import CommandStop, until_done
from kogniterm.types import CommandResult

ENDED = CommandResult("sleep 9", "stopped", None, "", 0.1, "/")


class SlowToStart:
    """A command that misses the first stop because it has not started yet."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.asked = 0

    def run(self) -> CommandResult:
        assert self.stopped.wait()
        return ENDED

    def stop(self) -> None:
        self.asked += 1
        if self.asked > 1:
            self.stopped.set()

    def detach(self) -> bool:
        self.stop()
        return self.stopped.is_set()


def executor(command: SlowToStart) -> Any:
    return command


async def test_a_stop_that_comes_too_early_is_repeated() -> None:
    command = SlowToStart()
    stopping = CommandStop(executor(command))
    task = asyncio.ensure_future(asyncio.to_thread(command.run))
    waiting = asyncio.ensure_future(until_done(task, stopping))
    await asyncio.sleep(0)
    stopping.request()
    assert await waiting is False
    assert task.result() is ENDED


async def test_a_command_that_has_not_started_becomes_a_job_once() -> None:
    command = SlowToStart()
    stopping = CommandStop(executor(command))
    task = asyncio.ensure_future(asyncio.to_thread(command.run))
    waiting = asyncio.ensure_future(until_done(task, stopping))
    stopping.request_job()
    assert await waiting is False
    assert task.result() is ENDED
    assert command.asked == 2


async def test_a_cancelled_turn_waits_for_the_end_of_its_command() -> None:
    command = SlowToStart()
    task = asyncio.ensure_future(asyncio.to_thread(command.run))
    waiting = asyncio.ensure_future(until_done(task, CommandStop(executor(command))))
    await asyncio.sleep(0)
    waiting.cancel()
    assert await waiting is True
    assert task.result() is ENDED


async def test_a_stop_does_not_reach_the_next_command() -> None:
    command = SlowToStart()
    stopping = CommandStop(executor(command))
    stopping.request()
    stopping.begin()
    task = asyncio.ensure_future(asyncio.to_thread(command.run))
    waiting = asyncio.ensure_future(until_done(task, stopping))
    await asyncio.sleep(0)
    assert command.asked == 1
    command.stopped.set()
    assert await waiting is False
    assert command.asked == 1
