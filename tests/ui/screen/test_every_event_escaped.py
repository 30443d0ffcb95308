"""No painter passes on a control or bidirectional character of any text in any event."""

from __future__ import annotations

import asyncio
import io
import json
import re
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest

from kogniterm import installed
from kogniterm.cli.text_output import TextSink
from kogniterm.types import Answer, Job
from kogniterm.types import events as ev
from kogniterm.ui.screen.renderer import ScreenOptions, ScreenSink
from kogniterm.ui.screen.surface import LiveRegion
from kogniterm.ui.words.turn_words import EDITS
from tests.support.filled import filled
from tests.ui.face import PLAIN

HOSTILE = "a\x1b]0;t\x07b\x1b[2Jc\x9b1Ad\x08e\x85f\u202eg\u2066h\x1b[1Ai"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
TOOLS = (HOSTILE, "read_file", "run_on_hosts", "delegate", "execute_command", *sorted(EDITS))
VARIANTS = range(8)
DRAWN_BY_ADD_ONS = (ev.HostsStarted, ev.HostsEnded)
"""Events that no sink gets where the add-on that draws them is not installed."""
KINDS = [
    kind for kind in get_args(ev.Event) if installed.rows("DRAWN") or kind not in DRAWN_BY_ADD_ONS
]
CHOSEN_BY_PROGRAM = {
    "level": "warning",
    "purpose": "decide_action",
    "id": "s1",
    "signal": "SIGTERM",
    "jobs": (Job("j1", HOSTILE, "running", (1,), 1.0),),
}
"""Fields that only the program fills; painters look some of them up in their tables."""


@dataclass
class Drawn:
    """A surface that keeps everything that is drawn, the live region included."""

    parts: list[str] = field(default_factory=list)
    live: LiveRegion = lambda columns, rows: []

    def size(self) -> tuple[int, int]:
        return 24, 80

    def commit(self, text: str) -> None:
        self.parts.append(text)

    def control(self, sequence: str) -> None:
        self.parts.append(sequence)

    def refresh(self) -> None:
        self.parts += self.live(80, 24)

    def animate(self, on: bool) -> None:
        pass

    def attach(self, live: LiveRegion) -> None:
        self.live = live


def variants(kind: type[Any]) -> list[Any]:
    """Return events of this kind in which every text is hostile, of known tools and others."""
    made = [filled(kind, HOSTILE, number, **CHOSEN_BY_PROGRAM) for number in VARIANTS]
    for number, tool in enumerate(TOOLS):
        arguments = json.dumps({"path": HOSTILE, "task": HOSTILE, "query": HOSTILE})
        named = {"tool": tool, "name": tool, "arguments": arguments, "agent": ""}
        if any(name in kind.__annotations__ for name in ("tool", "name")):
            made += [
                filled(kind, HOSTILE, number + more, **CHOSEN_BY_PROGRAM, **named)
                for more in range(3)
            ]
    return made


def session_of(event: Any) -> list[Any]:
    """Return the events around `event` without which some painters show nothing of it."""
    before: list[Any] = [ev.TurnStarted("s", 1, "m", "/w"), ev.ModelCalled("decide_action", 1)]
    asked = getattr(event, "request_id", None)
    if asked is not None and type(event) not in (ev.CommandStarted, ev.HostsStarted):
        before.append(ev.CommandStarted(asked, "true", "/w"))
        if ev.HostsStarted in KINDS:
            before.append(ev.HostsStarted(asked, "true", (("a",),)))
    return [*before, event]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("live", [True, False], ids=["live", "lines"])
def test_the_screen_escapes_every_text(kind: type[Any], live: bool) -> None:
    async def drawn(event: Any) -> str:
        surface = Drawn()
        options = ScreenOptions(live=live, thoughts="shown")
        sink = ScreenSink(PLAIN, surface, clock=lambda: 1.0, options=options)
        for one in session_of(event):
            sink(one)
            surface.refresh()
        sink(ev.TurnEnded(Answer("Done.")))
        return "".join(surface.parts)

    for event in variants(kind):
        assert CONTROLS.findall(asyncio.run(drawn(event))) == [], event


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_lines_off_a_terminal_escape_every_text(kind: type[Any]) -> None:
    for event in variants(kind):
        out, err = io.StringIO(), io.StringIO()
        sink = TextSink(out, err)
        for one in session_of(event):
            sink(one)
        sink.finish(Answer(HOSTILE))
        assert CONTROLS.findall(out.getvalue() + err.getvalue()) == [], event
        assert out.getvalue() == "a]0;tb[2Jc1Adefgh[1Ai\n"
