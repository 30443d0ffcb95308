"""The kept knowledge of MCP servers: how each was started, what it offered, what the user trusts.

One file for each server, named by a hash of its name and of where it is configured. A tool is
trusted with its whole definition; one whose definition changed, or that is new, is not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from kogniterm.storage.folders import private_folder, read_own_json, write_private
from kogniterm.tools.mcp.server_config import ServerConfig
from kogniterm.tools.mcp.server_values import Listing, ServerPrompt, ServerResource, ServerTool

MAX_FILE = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """One server: how the user trusts it to be started, which tools, and what it offered last."""

    launch: Mapping[str, Any] = field(default_factory=dict)
    trusted: Mapping[str, str] = field(default_factory=dict)
    """The texts of the tools that the user trusts, by name."""
    listing: Listing = field(default_factory=Listing)
    instructions: str = ""
    """The instructions of the server that the user trusts."""

    def launches(self, config: ServerConfig) -> bool:
        """Return whether the user trusts the server to be started as it is configured now."""
        return bool(self.launch) and self.launch == config.launch

    @property
    def tools(self) -> tuple[ServerTool, ...]:
        """Return the tools as the user trusts them, whatever the server says now."""
        return tuple(_parse_tool(name, text) for name, text in self.trusted.items())

    def trusts(self, tool: ServerTool) -> bool:
        """Return whether the user trusts the tool as it is defined here."""
        return self.trusted.get(tool.name) == tool.text

    def untrusted_tools(self, listing: Listing) -> tuple[ServerTool, ...]:
        """Return the tools of a listing that are new, or changed since they were trusted."""
        return tuple(tool for tool in listing.tools if not self.trusts(tool))

    def trusting(self, tools: Iterable[ServerTool]) -> ServerRecord:
        """Return the record after the user trusted `tools` as well."""
        return replace(self, trusted={**self.trusted, **{one.name: one.text for one in tools}})


class ServerRecords:
    """The records of a user's servers, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, config: ServerConfig) -> ServerRecord:
        """Return what is kept of a server; an empty record where nothing is, or it is damaged."""
        try:
            data = read_own_json(self._file(config))
            record = ServerRecord(
                data["launch"], data["trusted"], _listing(data["listing"]),
                str(data.get("instructions", "")),
            )  # fmt: skip
            assert len(record.tools) == len(record.trusted)  # or one cannot be read
            return record
        except (ValueError, TypeError, KeyError):
            return ServerRecord()

    def write(self, config: ServerConfig, record: ServerRecord) -> None:
        """Keep what is known of a server. Raises `StorageError`."""
        private_folder(self._folder)
        data = {
            "server": config.name,
            "origin": config.origin,
            "launch": dict(record.launch),
            "trusted": dict(record.trusted),
            "instructions": record.instructions,
            "listing": _plain(record.listing),
        }
        write_private(self._file(config), json.dumps(data, ensure_ascii=False).encode())

    def _file(self, config: ServerConfig) -> Path:
        place = f"{config.origin}\0{config.name}".encode("utf-8", "surrogatepass")
        return self._folder / f"{hashlib.sha256(place).hexdigest()[:32]}.json"


@lru_cache(maxsize=2_000)
def _parse_tool(name: str, text: str) -> ServerTool:
    """Return the tool of a definition; a session asks for all of them at every call."""
    return ServerTool.of(name, text)


def _plain(listing: Listing) -> dict[str, Any]:
    return {
        "tools": [
            [one.name, one.description, one.schema, one.read_only, one.destructive, one.idempotent]
            for one in listing.tools
        ],
        "prompts": [[one.name, one.description, one.arguments] for one in listing.prompts],
        "resources": [[one.uri, one.name, one.description] for one in listing.resources],
        "title": listing.title,
        "valid_for": listing.valid_for,
        "instructions": listing.instructions,
        "left_out": listing.left_out,
        "task_only": listing.task_only,
    }


def _listing(data: Mapping[str, Any]) -> Listing:
    tools = tuple(
        ServerTool(
            str(name), str(told), dict(schema),
            read_only=bool(reads), destructive=bool(destroys), idempotent=bool(repeats),
        )
        for name, told, schema, reads, destroys, repeats in data["tools"]
    )  # fmt: skip
    prompts = tuple(
        ServerPrompt(str(name), str(told), tuple((str(a), bool(b)) for a, b in arguments))
        for name, told, arguments in data["prompts"]
    )
    resources = tuple(ServerResource(*map(str, one)) for one in data["resources"])
    return Listing(
        tools, prompts, resources, str(data["title"]), float(data["valid_for"]),
        str(data.get("instructions", "")), tuple(map(str, data.get("left_out", ()))),
        tuple(map(str, data.get("task_only", ()))),
    )  # fmt: skip
