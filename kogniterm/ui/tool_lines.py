"""What tools and sub-agents did, a line each; what a sub-agent does is drawn indented."""

from __future__ import annotations

import json

from rich.text import Text

from kogniterm.runtime import events
from kogniterm.types import ActionRequest
from kogniterm.ui.clean import one_line
from kogniterm.ui.locale import _
from kogniterm.ui.paint import Painter
from kogniterm.ui.tool_words import tool_words

INDENT = 2
DELEGATE = "delegate"


def tool_line(
    painter: Painter, name: str, arguments: str, observation: str, *, failed: bool
) -> Text:
    """A tool that ran: its name and what it was given, on one line of the screen; what came of
    it where that tells more."""
    line = Text()
    sign = "failed" if failed else "bullet"
    line.append(f"{painter.symbol(sign)} ", "bad" if failed else "accent")
    line.append(name)
    given = tool_words(name, arguments) if arguments else ""
    if given:
        line.append(f" {given}", "muted")
    if failed or not arguments:
        line.append(f": {one_line(observation, 160)}", "bad" if failed else "muted")
    else:
        line.no_wrap, line.overflow = True, "ellipsis"
    return line


def agent_name(number: int, task: str) -> str:
    """How a sub-agent is called on the screen."""
    return _("sub-agent {number}: {task}").format(number=number, task=one_line(task, 100))


class AgentLines:
    """The sub-agents of a turn: which are at work, and which of them asked for what."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, str]] = {}
        self._asked: dict[str, str] = {}
        self._begun = 0

    def clear(self) -> None:
        """A turn begins."""
        self._open.clear()
        self._asked.clear()
        self._begun = 0

    @property
    def at_work(self) -> bool:
        """Whether one has begun and not ended."""
        return bool(self._open)

    def started(self, event: events.AgentStarted, painter: Painter) -> Text:
        """The line of a sub-agent that begins."""
        self._begun += 1
        self._open[event.agent] = (self._begun, " ".join(event.task.split()))
        return _head(painter, "active", "accent", *self._open[event.agent])

    def proposed(self, request: ActionRequest, painter: Painter) -> Text | None:
        """Remember who asks; the line of one that began in another process."""
        if not request.agent:
            return None
        self._asked[request.id] = request.agent
        if request.agent in self._open:
            return None
        return self.started(events.AgentStarted(request.agent, request.agent_task), painter)

    def ended(self, event: events.ToolRan, painter: Painter) -> Text | None:
        """The line of the sub-agent whose result this is; None when it never began."""
        task = " ".join(str(json.loads(event.arguments).get("task", "")).split())
        key = next((key for key, (_number, own) in self._open.items() if own == task), None)
        if key is None:
            return None
        sign, style = ("failed", "bad") if event.failed else ("done", "good")
        line = _head(painter, sign, style, *self._open.pop(key))
        found = f"\n  {one_line(event.observation, 300)}\n"
        return line.append(found, "bad" if event.failed else "")

    def indent(self, request_id: str) -> int:
        """How far in an action is drawn, in cells."""
        return INDENT if request_id in self._asked else 0

    def inside(self, agent: str, line: Text) -> Text:
        """`line` as something that `agent` did; with its number where several are at work."""
        if not agent:
            return line
        number, _task = self._open.get(agent, (0, ""))
        told = f"{number} " if number and len(self._open) > 1 else ""
        inside = Text.assemble(" " * INDENT, (told, "muted"), line)
        inside.no_wrap, inside.overflow = line.no_wrap, line.overflow
        return inside

    def inside_action(self, request_id: str, line: Text) -> Text:
        """`line` as what came of an action."""
        return self.inside(self._asked.get(request_id, ""), line)


def _head(painter: Painter, sign: str, style: str, number: int, task: str) -> Text:
    return Text.assemble((f"{painter.symbol(sign)} ", style), (agent_name(number, task), "heading"))
