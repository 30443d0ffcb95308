"""`kogniterm queue watch`: the progress of tasks, drawn on a terminal, in lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from kogniterm.addons.fleet.queue_values import ENDED_STATES
from kogniterm.addons.fleet.task_table import progress_lines, state_text
from kogniterm.settings import environment, quick
from kogniterm.ui.display import Display
from kogniterm.ui.screen.screen_preferences import from_quick
from kogniterm.ui.screen.surface import LiveSurface

if TYPE_CHECKING:
    from kogniterm.addons.fleet.queue_ports import Queue
    from kogniterm.addons.fleet.queue_values import QueueCounts

PAUSE = 0.5
"""Seconds between two looks at the database."""
_RUNNING = 8
"""Running tasks that are shown."""


def watch(queue: Queue, batch: str | None, *, until_empty: bool) -> None:
    """Show the progress until nothing is queued or runs, or the user ends it."""
    with suppress(KeyboardInterrupt):
        asyncio.run(_on_terminal(queue, batch, until_empty) if sys.stdout.isatty()
                    else _in_lines(queue, batch, until_empty))  # fmt: skip


async def _on_terminal(queue: Queue, batch: str | None, until_empty: bool) -> None:
    preferences = from_quick(quick(environment()), "/")
    painter, surface = Display(preferences).painter, LiveSurface(sys.stdout)
    first, began = queue.counts(batch), time.monotonic()
    drawn: list[str] = []
    surface.attach(lambda columns, rows: drawn)
    while True:
        counts = queue.counts(batch)
        running = queue.tasks(states=("running",), batch=batch, limit=_RUNNING)
        rate = _count_ended(counts, first) / max(time.monotonic() - began, 0.001)
        columns = max(surface.size()[1] - 1, 20)
        lines = progress_lines(counts, rate, running, unicode=painter.unicode)
        text = "".join(painter.paint(line, columns) for line in lines)
        if until_empty and counts.is_over:
            drawn = []
            surface.commit(text)
            return
        drawn = text.splitlines()
        surface.refresh()
        await asyncio.sleep(PAUSE)


def _count_ended(counts: QueueCounts, before: QueueCounts) -> int:
    def number(one: QueueCounts) -> int:
        return sum(one.states.get(state, 0) for state in ENDED_STATES)

    return number(counts) - number(before)


async def _in_lines(queue: Queue, batch: str | None, until_empty: bool) -> None:
    """Write a line for each task whose state changed."""
    known: dict[str, str] = {}
    while True:
        counts = queue.counts(batch)
        for one in reversed(queue.tasks(batch=batch)):
            if known.get(one.id) != one.state:
                known[one.id] = one.state
                sys.stdout.write(f"{one.id}: {state_text(one.state)}\n")
        sys.stdout.flush()
        if until_empty and counts.is_over:
            return
        await asyncio.sleep(PAUSE)
