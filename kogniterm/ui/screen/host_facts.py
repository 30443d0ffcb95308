"""Facts of many hosts on the screen: hosts that are alike once, and what differs as a range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kogniterm.runtime.operations.host_overview import HostOverview
from kogniterm.text.visible import render_line
from kogniterm.ui.locale import _, plural, size
from kogniterm.ui.screen.host_lines import state_head

_DAY, _HOUR = 86_400, 3_600


def fact_blocks(
    found: Sequence[HostOverview], symbol: Callable[[str], str]
) -> Iterator[RenderableType]:
    """Yield a block for the hosts that are alike, the largest first, then those without facts."""
    alike: dict[tuple[object, ...], list[HostOverview]] = {}
    for one in found:
        # Load and time differ on hosts that are alike.
        memory = None if one.memory is None else round(one.memory / 1e9, 1)
        disk = None if one.disk is None else round(one.disk / 1e9)
        steady = (one.os, one.architecture, one.kernel, one.cpus, memory, disk, one.python)
        alike.setdefault((one.state, str(one.reason or ""), *steady), []).append(one)
    order = sorted(alike.values(), key=lambda of: (of[0].state != "answered", -len(of)))
    for number, members in enumerate(order):
        if number:
            yield Text()
        first = members[0]
        yield state_head(first.state, [one.host for one in members], symbol, first.reason)
        if first.state == "answered":
            yield _block(members)


def _block(members: Sequence[HostOverview]) -> Table:
    first = members[0]
    rows = [
        (_("System"), " ".join(one for one in (first.os, first.architecture) if one)),
        (_("Kernel"), first.kernel),
        (_("Processors"), "" if first.cpus is None else str(first.cpus)),
        (_("Memory"), _room(first.memory, [one.memory_free for one in members])),
        (_("Disk"), _room(first.disk, [one.disk_free for one in members])),
        (_("Running for"), _span([one.uptime for one in members], _age)),
        (_("Python"), first.python),
    ]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row("", Text(name, "muted"), Text(render_line(value) or "–"))
    return table


def _room(total: int | None, free: Sequence[int | None]) -> str:
    if total is None:
        return ""
    left = _span(free, size)
    return _("{total}, {free} free").format(total=size(total), free=left) if left else size(total)


def _span(values: Sequence[int | None], text: Callable[[int], str]) -> str:
    """Return the smallest and the largest value, once where they read the same."""
    known = sorted(one for one in values if one is not None)
    ends = dict.fromkeys(text(one) for one in (*known[:1], *known[-1:]))
    return " – ".join(ends)


def _age(seconds: int) -> str:
    if seconds >= _DAY:
        return plural("{count} day", "{count} days", seconds // _DAY)
    if seconds >= _HOUR:
        return plural("{count} hour", "{count} hours", seconds // _HOUR)
    return plural("{count} minute", "{count} minutes", seconds // 60)
