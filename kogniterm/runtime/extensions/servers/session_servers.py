"""The MCP servers of a session as an extension: what they bring to its turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kogniterm import prompts
from kogniterm.agent.compaction import CHARS_PER_TOKEN, observation_limit
from kogniterm.agent.messages import ImageBlock, observed_images
from kogniterm.protocols import EventSink
from kogniterm.runtime.extensions.extension_port import Extension, Moment, Right
from kogniterm.runtime.extensions.servers.mcp_servers import McpServers, why_unusable
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import AskPort, Attached, SessionModes, TurnIO
from kogniterm.text.shorten import cut, head_and_tail, one_line
from kogniterm.text.visible import clean
from kogniterm.tools.mcp.server_tools import as_plugin, server_prefix
from kogniterm.tools.net import mark_untrusted
from kogniterm.tools.plugins import Plugin
from kogniterm.types import CALL_TOOL, Phrase, UserInput, events

WINDOW_SHARE = 0.02
"""The part of the model's window that the instructions of all servers may take."""


class SessionServers(Extension):
    """Offers the tools and resources of the servers, and ends them with the session."""

    name = "servers"
    moments: ClassVar[Mapping[Moment, Right]] = {
        "connect": "watch", "before_input": "add", "offer_tools": "add", "closed": "watch",
    }  # fmt: skip
    catalogue_tool = CALL_TOOL

    def __init__(
        self, servers: McpServers, journal: TurnJournal, modes: SessionModes, asker: AskPort
    ) -> None:
        self.servers = servers
        self.journal = journal
        self.modes = modes
        self.asker = asker

    def connect(self, io: TurnIO) -> None:
        self.servers.attendant = None
        if io.ask is not None and self.servers.servers:
            from kogniterm.runtime.extensions.servers.server_elicitation import ServerQuestions

            self.servers.attendant = ServerQuestions(self.asker)
        self.servers.progress = lambda tool, text: io.sink(events.ActionProgress(tool, text))

    async def before_input(self, given: UserInput, io: TurnIO) -> Attached:
        """Return the resources that the input names, as data, within the limits of files."""
        info = self.modes.model.info
        texts, images, notices = list[str](), list[ImageBlock](), list[Phrase]()
        for one in await self.servers.read_named(given.text):
            if one.found is None:
                values = {"name": one.name, "why": one.problem}
                notices.append(Phrase("@{name} could not be read: {why}", values))
                continue
            text, shown = observed_images(one.found, info)
            limit = observation_limit(info.context_window)
            texts.append(head_and_tail(self.journal.redact(text), limit))
            images += shown
        return Attached("\n\n".join(texts), tuple(images), tuple(notices))

    def tools(self) -> Mapping[str, Plugin]:
        return {tool.name: as_plugin(tool) for tool in self.servers.tools()}

    def why_without(self, tool: str) -> Phrase | None:
        for name in (*self.servers.servers, *self.servers.dropped):
            if tool.startswith(f"{server_prefix(name)}__"):
                return why_unusable(self.servers, name)
        return None

    def catalogue(self) -> str | None:
        """Return a line for each server, and what it says of its use.

        Only what the user trusted is told. None for a model that cannot call tools.
        """
        model = self.modes.model.info
        if model.one_command:
            return None
        known = [one for one in self.servers.servers.values() if one.state != "off"]
        room = int(model.context_window * WINDOW_SHARE * CHARS_PER_TOKEN) // max(1, len(known))
        lines = []
        for one in known:
            name = one.config.name
            if not one.usable:
                lines.append(prompts.text("servers.not_trusted", server=name))
                continue
            names = one_line(clean(", ".join(tool.name for tool in one.tools)), 300)
            count = len(one.tools)
            lines.append(prompts.text("servers.tools", server=name, count=count, names=names))
            if one.record.instructions and room > 0:
                lines.append(
                    mark_untrusted(f"MCP server {name}", cut(one.record.instructions, room))
                )
        told = prompts.text("servers.catalogue", servers="\n".join(lines)) if lines else ""
        return self.journal.redact(told)

    def withdrawal(self) -> str:
        return prompts.text("servers.gone")

    def news(self, sink: EventSink) -> list[str]:
        changed = self.servers.take_changed()
        for name in changed:
            told = Phrase("The MCP server {name} changed its tools (/mcp).", {"name": name})
            sink(events.Notice(told))
        return [prompts.text("servers.changed", server=name) for name in changed]

    async def closed(self, reason: str) -> tuple[()]:
        await self.servers.close()
        return ()
