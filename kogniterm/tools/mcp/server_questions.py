"""Questions of an MCP server for the user: forms of plain fields, and addresses to open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.tools.mcp.server_values import Elicit, FieldKind, FormField, ServerQuestion

MAX_FIELDS = 20
_KINDS: dict[str, FieldKind] = {
    "string": "text", "number": "number", "integer": "integer", "boolean": "boolean",
    "array": "list",
}  # fmt: skip


async def answered(server: str, params: Any, elicit: Elicit | None) -> Any:
    """Return the SDK's `ElicitResult` with what the user answered; declined where nobody is."""
    from mcp_types import ElicitResult

    if elicit is None:
        return ElicitResult(action="decline")
    message = clean(params.message)[:2_000]
    if params.mode == "url":
        url = one_line(clean(str(params.url)), 1_000)
        if not url.startswith(("https://", "http://")):
            return ElicitResult(action="decline")
        agreed = await elicit(ServerQuestion(server, message, url=url))
        return ElicitResult(action="decline" if agreed is None else "accept")
    schema = params.requested_schema
    dump = getattr(schema, "model_dump", None)
    fields = form_fields(dump(by_alias=True, exclude_none=True) if dump is not None else schema)
    if fields is None:
        return ElicitResult(action="decline")
    answers = await elicit(ServerQuestion(server, message, fields))
    if answers is None:
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=dict(answers))


def roots_result(workspace: str) -> Any:
    """Return the SDK's answer to a server that asks for the folders it is to work in."""
    from mcp_types import ListRootsResult, Root
    from pydantic import FileUrl

    uri = FileUrl(Path(workspace).as_uri())
    return ListRootsResult(roots=[Root(uri=uri, name=Path(workspace).name)])


def form_fields(schema: Any) -> tuple[FormField, ...] | None:
    """Return the fields of a form; None where it has one that cannot be asked in a terminal."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
    required = schema.get("required") or () if isinstance(schema, dict) else ()
    if not isinstance(properties, dict) or len(properties) > MAX_FIELDS:
        return None
    fields: list[FormField] = []
    for name, one in properties.items():
        kind = _KINDS.get(str(one.get("type", "string"))) if isinstance(one, dict) else None
        if kind is None:
            if name in required:
                return None
            continue
        title = one.get("description") or one.get("title") or name
        fields.append(
            FormField(
                str(name),
                one_line(clean(str(title)), 300),
                kind,
                name in required,
                _choices(one),
            )
        )
    return tuple(fields)


def _choices(schema: dict[str, Any]) -> tuple[str, ...]:
    if isinstance(schema.get("items"), dict):
        schema = schema["items"]
    given = schema.get("enum")
    if given is None:
        listed = schema.get("oneOf") or schema.get("anyOf") or ()
        given = [one.get("const") for one in listed if isinstance(one, dict)]
    return tuple(str(one) for one in given if one is not None)[:50]
