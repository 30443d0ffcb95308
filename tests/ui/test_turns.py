"""The queue of a REPL: one entry at a time, in order, and what is left when it stops."""

from __future__ import annotations

import asyncio

from kogniterm.types import UserInput
from kogniterm.ui.turns import Turns, Work


class Desk:
    """Works on entries until each is let go."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.go_on = asyncio.Semaphore(0)
        self.turns = Turns(self.work, lambda: None)

    async def work(self, work: Work) -> None:
        self.begun.put_nowait(work.text)
        await self.go_on.acquire()


async def test_the_queue_is_drained_when_its_last_entry_has_ended() -> None:
    desk = Desk()
    await desk.turns.wait_until_idle()  # nothing runs
    desk.turns.add(Work(UserInput("first")))
    desk.turns.add(Work(shell="second"))
    await desk.turns.wait_until_idle()  # it has not begun, and nothing runs
    desk.turns.begin()
    waiting = []
    for text in ("first", "!second"):
        assert await desk.begun.get() == text
        waiting.append(asyncio.ensure_future(desk.turns.wait_until_idle()))
        await asyncio.sleep(0)
        assert not any(one.done() for one in waiting)
        desk.go_on.release()
    await asyncio.gather(*waiting)
    assert not desk.turns.running


async def test_a_stop_gives_back_what_waited_or_else_what_ran() -> None:
    desk = Desk()
    desk.turns.begin()
    desk.turns.add(Work(UserInput("first")))
    desk.turns.add(Work(UserInput("second")))
    desk.turns.add(Work(shell="third"))
    assert desk.turns.take_inputs() == ["second"]
    assert desk.turns.waiting == ["!third"]
    assert desk.turns.stop() == "!third"
    await desk.turns.settle()
    desk.turns.add(Work(UserInput("again")))
    await asyncio.sleep(0)
    assert desk.turns.stop() == "again"
    await desk.turns.settle()
