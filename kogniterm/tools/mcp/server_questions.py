"""Questions of an MCP server for the user: forms of plain fields, and addresses to open."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.tools.mcp.server_values import Elicit, FieldKind, FormField, ServerQuestion

MAX_FIELDS = 20
_KINDS: dict[str, FieldKind] = {
    "string": "text", "number": "number", "integer": "integer", "boolean": "boolean",
    "array": "list",
}  # fmt: skip


async def answer_elicitation(server: str, params: Any, elicit: Elicit | None) -> Any:
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
        title = ": ".join(str(one[key]) for key in ("title", "description") if one.get(key)) or name
        choices = _choices(one)
        fields.append(
            FormField(
                str(name), one_line(clean(str(title)), 300), kind, name in required,
                choices, _default(one, choices), one,
            )
        )  # fmt: skip
    return tuple(fields)


def _choices(schema: dict[str, Any]) -> dict[str, str]:
    if isinstance(schema.get("items"), dict):
        schema = schema["items"]
    values = schema.get("enum")
    if values is None:
        listed = schema.get("oneOf") or schema.get("anyOf") or ()
        pairs = [(one.get("title"), one.get("const")) for one in listed if isinstance(one, dict)]
    else:
        names = schema.get("enumNames") or ()
        pairs = list(zip_longest(names[: len(values)], values))
    known = [(title or value, value) for title, value in pairs if value is not None]
    return {one_line(clean(str(title)), 100): str(value) for title, value in known[:50]}


def _default(schema: dict[str, Any], choices: Mapping[str, str]) -> str:
    """Return the value that a field begins with, as the user sees it; "" without one."""
    given = schema.get("default", "")
    if isinstance(given, bool):
        return "yes" if given else "no"
    shown = {value: title for title, value in choices.items()}
    values = given if isinstance(given, list) else [given]
    return one_line(clean(", ".join(shown.get(str(one), str(one)) for one in values)), 300)


def why_wrong(schema: Mapping[str, Any], value: object) -> str:
    """Return why a value is none of a field with this schema; "" if it is."""
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError

    formats = FormatChecker()
    formats.checks("uri")(lambda text: bool(urlsplit(str(text)).scheme))
    formats.checks("date-time", raises=ValueError)(lambda text: datetime.fromisoformat(str(text)))
    try:
        errors = Draft202012Validator(dict(schema), format_checker=formats).iter_errors(value)
        first = next(errors, None)
    except SchemaError:
        return ""  # the server judges it
    return one_line(clean(first.message), 200) if first is not None else ""
