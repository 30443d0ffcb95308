"""The values of MCP servers as KogniTerm keeps them: tools, prompts, resources, and results.

What is known of a server (how it was started, what it offered, what the user trusts) is kept in one
file, named by a hash of its name and of where it is configured. A tool is trusted with its whole
definition; one whose definition changed, or that is new, is not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kogniterm.storage.folders import private_folder, read_own_json, write_private
from kogniterm.tools.mcp.server_config import ServerConfig


class ServerTool(NamedTuple):
    """A tool as its server describes it. The last fields are claims of the server, not facts."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False

    @property
    def text(self) -> str:
        """Return its definition as text, for the user and for comparing."""
        told = {
            "description": self.description,
            "arguments": self.schema,
            "read_only": self.read_only,
            "destructive": self.destructive,
            "idempotent": self.idempotent,
        }
        return json.dumps(told, indent=1, sort_keys=True, ensure_ascii=False)

    @classmethod
    def of(cls, name: str, text: str) -> ServerTool:
        """Return the tool whose definition is `text`. Raises `ValueError` for another text."""
        told = json.loads(text)
        return cls(
            name, str(told["description"]), dict(told["arguments"]),
            read_only=bool(told["read_only"]), destructive=bool(told["destructive"]),
            idempotent=bool(told["idempotent"]),
        )  # fmt: skip

    @property
    def may_be_repeated(self) -> bool:
        """Return whether the server says that a second call of it changes nothing more."""
        return self.read_only or self.idempotent


class ServerPrompt(NamedTuple):
    """A prompt of a server; `arguments` are names, each with whether it is required."""

    name: str
    description: str
    arguments: tuple[tuple[str, bool], ...] = ()


class ServerResource(NamedTuple):
    """A resource of a server that can be attached as `@SERVER:URI`, or a template of such."""

    uri: str
    name: str
    description: str = ""


class Listing(NamedTuple):
    """Tools and all else that a server offers, and for how many seconds that holds."""

    tools: tuple[ServerTool, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    resources: tuple[ServerResource, ...] = ()
    title: str = ""
    valid_for: float = 0.0
    instructions: str = ""
    left_out: tuple[str, ...] = ()
    """Names of tools and other offers that are no valid ones."""
    task_only: tuple[str, ...] = ()
    """Names of tools that run only as tasks of the protocol, which KogniTerm does not support."""

    def tool(self, name: str) -> ServerTool | None:
        """Return the tool called `name`."""
        return next((one for one in self.tools if one.name == name), None)


LEFT_OUT = "kogniterm/left_out"
"""The key of a list's own notes below which `leave_out_invalid` names what it left out."""


def leave_out_invalid(result: object) -> None:
    """Keep the valid tools, prompts and resources of a list: the SDK would refuse all for one."""
    if not isinstance(result, dict):
        return
    if isinstance(notes := result.get("_meta"), dict):
        notes.pop(LEFT_OUT, None)  # ours, which no server may write
    import mcp_types
    from pydantic import ValidationError

    kinds = (
        ("tools", mcp_types.Tool),
        ("prompts", mcp_types.Prompt),
        ("resources", mcp_types.Resource),
        ("resourceTemplates", mcp_types.ResourceTemplate),
    )
    for name, kind in kinds:
        if isinstance(result.get(name), list):
            valid, left_out = [], []
            for number, one in enumerate(result[name], 1):
                if isinstance(one, dict) and isinstance(one.get("inputSchema"), dict):
                    one["inputSchema"]["type"] = "object"
                try:
                    kind.model_validate(one, by_name=False)
                    valid.append(one)
                except ValidationError:
                    named = one.get("name") if isinstance(one, dict) else None
                    left_out.append(named if isinstance(named, str) else f"{name} {number}")
            result[name] = valid
            if left_out:
                result["_meta"] = {**(result.get("_meta") or {}), LEFT_OUT: left_out}


FieldKind = Literal["text", "number", "integer", "boolean", "list"]


class FormField(NamedTuple):
    """A field of a form that a server asks the user to fill in.

    `choices` are the values that it may have, by what the user sees of them; `default` is seen so
    too. `schema` says what a value has to be.
    """

    name: str
    title: str
    kind: FieldKind = "text"
    required: bool = False
    choices: Mapping[str, str] = {}
    default: str = ""
    schema: Mapping[str, Any] = {}


class ServerQuestion(NamedTuple):
    """A question of a server for the user: a form, or an address to open."""

    server: str
    message: str
    fields: tuple[FormField, ...] = ()
    url: str = ""


Answers = Mapping[str, str | int | float | bool | list[str]]
Elicit = Callable[[ServerQuestion], Awaitable[Answers | None]]
"""Asks the user; returns None where they decline or nobody is there."""

Progress = Callable[[str], None]
"""Takes what a server tells of a call that runs."""


MAX_FILE = 32 * 1024 * 1024


class ServerRecord(NamedTuple):
    """One server: how the user trusts it to be started, which tools, and what it offered last."""

    launch: Mapping[str, Any] = {}
    trusted: Mapping[str, str] = {}
    """The texts of the tools that the user trusts, by name."""
    listing: Listing = Listing()
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
        return self._replace(trusted={**self.trusted, **{one.name: one.text for one in tools}})


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
