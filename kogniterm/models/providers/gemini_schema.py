"""Schemas of tools as Gemini takes them: a part of OpenAPI 3.0, and nothing else.

A server's tool may use all of JSON Schema, and one word that Gemini does not know makes it refuse
the request with all of its tools. What has no such form becomes part of the description.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kogniterm.types import ToolSpec

_MOST_DEPTH = 16
_Seen = tuple[str, ...]
"""The references that a schema stands below: a recursive one ends there."""


def declared(tool: ToolSpec) -> dict[str, Any]:
    """Return `tool` as a function declaration."""
    found = {"name": tool.name, "description": tool.description}
    parameters = _converted(tool.parameters, tool.parameters, ())
    return {**found, "parameters": parameters} if parameters.get("properties") else found


def _converted(schema: object, root: Mapping[str, Any], seen: _Seen) -> dict[str, Any]:
    plain, seen = _plain(schema, root, seen)
    about = plain.get("description")
    made: dict[str, Any] = {"description": about} if isinstance(about, str) and about else {}
    choices = plain.get("anyOf") or plain.get("oneOf")
    kinds = _kinds(plain)
    if not isinstance(choices, Sequence) and len(kinds) > 1:
        choices = [{**plain, "type": kind} for kind in kinds]
        made, kinds = {}, [*kinds, "null"] if "null" in plain["type"] else kinds
    if isinstance(choices, Sequence) and choices:
        others = [one for one in choices if _plain(one, root, seen)[0].get("type") != "null"]
        options = [_converted(one, root, seen) for one in others]
        only = options[0] if len(options) == 1 else {"anyOf": options}
        nullable = len(others) < len(choices) or "null" in kinds
        return {**only, **made} | ({"nullable": True} if nullable else {})
    kind = kinds[0] if kinds else "string"
    if "null" in (plain.get("type") or ()) and not isinstance(plain.get("type"), str):
        made["nullable"] = True
    values = [plain["const"]] if "const" in plain else plain.get("enum")
    if isinstance(values, list) and values:
        made["nullable"] = made.get("nullable", False) or None in values
        if all(isinstance(one, str) and one for one in values if one is not None):
            made["enum"] = [one for one in values if one is not None]
        else:
            listed = ", ".join(json.dumps(one) for one in values)
            made["description"] = f"{made.get('description', '')} One of: {listed}.".strip()
    properties = plain.get("properties")
    if kind == "array":
        made["items"] = _converted(plain.get("items"), root, seen)
    elif kind == "object" and isinstance(properties, Mapping) and properties:
        named = {str(name): _converted(one, root, seen) for name, one in properties.items()}
        wanted = plain.get("required")
        required = [name for name in wanted if name in named] if isinstance(wanted, list) else []
        made |= {"properties": named} | ({"required": required} if required else {})
    return {"type": kind.upper()} | {name: one for name, one in made.items() if one is not False}


_TYPES = ("string", "number", "integer", "boolean", "array", "object")


def _kinds(plain: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema allows, as far as it says."""
    given = plain.get("type")
    listed = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    known = [kind for kind in listed if kind in _TYPES]
    values = [plain["const"]] if "const" in plain else plain.get("enum")
    if known or not isinstance(values, list):
        implied = {"properties": "object", "items": "array"}
        return known or [kind for word, kind in implied.items() if word in plain][:1]
    kinds = {bool: "boolean", int: "integer", float: "number"}
    found = {kinds.get(type(one), "string") for one in values if one is not None}
    return list(found) if len(found) == 1 else ["string"]


def _plain(schema: object, root: Mapping[str, Any], seen: _Seen) -> tuple[dict[str, Any], _Seen]:
    """Return a schema with its reference and its `allOf` put in place."""
    plain = dict(schema) if isinstance(schema, Mapping) else {}
    reference = plain.pop("$ref", None)
    if isinstance(reference, str) and reference not in seen and len(seen) < _MOST_DEPTH:
        target: object = root
        for step in reference.removeprefix("#").split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, Mapping) else None
        found, seen = _plain(target, root, (*seen, reference))
        plain = {**found, **plain}
    parts = plain.pop("allOf", None)
    for part in parts if isinstance(parts, list) else ():
        found, seen = _plain(part, root, seen)
        both = {**(plain.get("properties") or {}), **(found.get("properties") or {})}
        plain = {**found, **plain} | ({"properties": both} if both else {})
    return plain, seen
