"""The values of MCP servers as KogniTerm keeps them: tools, prompts, resources, and results."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True, slots=True)
class ServerTool:
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


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A prompt of a server; `arguments` are names, each with whether it is required."""

    name: str
    description: str
    arguments: tuple[tuple[str, bool], ...] = ()


class ServerResource(NamedTuple):
    """A resource of a server that can be attached as `@SERVER:URI`, or a template of such."""

    uri: str
    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
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


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form that a server asks the user to fill in.

    `choices` are the values that it may have, by what the user sees of them; `default` is seen so
    too. `schema` says what a value has to be.
    """

    name: str
    title: str
    kind: FieldKind = "text"
    required: bool = False
    choices: Mapping[str, str] = field(default_factory=dict)
    default: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerQuestion:
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
