"""Lines for tools and sub-agents; what a sub-agent does is drawn indented."""

from __future__ import annotations

import json
from typing import Any

from rich.text import Text

from kogniterm.text.shorten import one_line
from kogniterm.types import ActionRequest, events
from kogniterm.ui.locale import _
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.words.turn_words import (
    EDITS,
    agent_label,
    edit_words,
    shown_result,
    tool_label,
    tool_words,
)

INDENT = 2
DELEGATE = "delegate"


def tool_line(
    painter: Painter,
    name: str,
    arguments: str,
    observation: str,
    *,
    failed: bool,
    malformed: bool = False,
    folder: str = "",
) -> Text:
    """Return the line of a tool that ran: what it did, to what, and a telling result.

    A file that was edited is named as seen from the `folder` of the session. The observation of a
    `malformed` call is for the model: it names tools and their parameters.
    """
    if malformed:
        observation = _("invalid call, sent back to the model")
    line = Text()
    sign = "failed" if failed else "bullet"
    line.append(f"{painter.symbol(sign)} ", "bad" if failed else "accent")
    if not failed and name in EDITS:
        return line.append(one_line(edit_words(observation, folder), 160), "muted")
    given = tool_words(name, arguments, strict=malformed) if arguments else ""
    line.append(tool_label(name) if given else tool_label(name).removesuffix(":"))
    if given:
        line.append(f" {given}", "muted")
    if failed or not arguments:
        line.append(f": {shown_result(observation, 160)}", "bad" if failed else "muted")
    else:
        line.no_wrap, line.overflow = True, "ellipsis"
    return line


class AgentLines:
    """The sub-agents of a turn: which are at work, and which of them asked for what."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, str, str]] = {}
        self._asked: dict[str, str] = {}
        self._begun = 0

    def clear(self) -> None:
        self._open.clear()
        self._asked.clear()
        self._begun = 0

    def started(self, event: events.AgentStarted, painter: Painter) -> Text:
        self._begun += 1
        self._open[event.agent] = (self._begun, " ".join(event.task.split()), event.name)
        return _head(painter, "active", "accent", *self._open[event.agent])

    def proposed(self, request: ActionRequest, painter: Painter) -> Text | None:
        """Remember who asks; the line of one that began in another process."""
        if not request.agent:
            return None
        self._asked[request.id] = request.agent
        if request.agent in self._open:
            return None
        begun = events.AgentStarted(request.agent, request.agent_task, request.agent_name)
        return self.started(begun, painter)

    def ended(self, event: events.ToolRan, painter: Painter) -> Text | None:
        """Return the line of the sub-agent whose result this is; None when it never began."""
        task = " ".join(str(json.loads(event.arguments).get("task", "")).split())
        key = next((key for key, (_n, own, _name) in self._open.items() if own == task), None)
        if key is None:
            return None
        sign, style = ("failed", "bad") if event.failed else ("done", "good")
        line = _head(painter, sign, style, *self._open.pop(key))
        found = f"\n  {shown_result(event.observation, 300)}\n"
        return line.append(found, "bad" if event.failed else "")

    def indent(self, request_id: str) -> int:
        """Return how far in an action is drawn, in cells."""
        return INDENT if request_id in self._asked else 0

    def inside(self, agent: str, line: Text) -> Text:
        """Return `line` as done by `agent`, with its number where several are at work."""
        if not agent:
            return line
        number = self._open.get(agent, (0,))[0]
        told = f"{number} " if number and len(self._open) > 1 else ""
        inside = Text.assemble(" " * INDENT, (told, "muted"), line)
        inside.no_wrap, inside.overflow = line.no_wrap, line.overflow
        return inside

    def inside_action(self, request_id: str, line: Text) -> Text:
        """Return `line` as what came of an action."""
        return self.inside(self._asked.get(request_id, ""), line)


def _head(painter: Painter, sign: str, style: str, *shown: Any) -> Text:
    return Text.assemble((f"{painter.symbol(sign)} ", style), (agent_label(*shown), "heading"))
