"""Results of MCP servers as observations: text that is foreign, images, and nothing that acts."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

from kogniterm.errors import ToolError
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.tools.net import mark_untrusted
from kogniterm.types import Image, Observation
from kogniterm.types.images import HEADER_BYTES, is_cut, read_header

MAX_TEXT = 2_000_000
"""Characters read of one result; the model sees the ends of what is longer than its share."""
MAX_IMAGES = 8


def call_end(server: str, tool: str, result: Any) -> tuple[Observation, bool]:
    """Return the end of a call, from the SDK's `CallToolResult`."""
    texts, images = _contents(result.content)
    structured = result.structured_content
    if structured is not None and not _repeats(structured, texts):
        texts.append(json.dumps(structured, ensure_ascii=False, indent=1))
    text = clean("\n\n".join(texts))[:MAX_TEXT]
    told = mark_untrusted(f"MCP server {server}, tool {tool}", text or "[no output]")
    return Observation(told, tuple(images)), bool(result.is_error)


def _repeats(structured: Any, texts: list[str]) -> bool:
    """Return whether the texts say it all, as JSON or, where it wraps one result, as that."""
    values = list(map(_value, texts))
    wrapped = list(structured.values()) if isinstance(structured, dict) else []
    found = [structured, *(wrapped if len(wrapped) == 1 else ())]
    return bool(texts) and any(one in (texts, values, *texts, *values) for one in found)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def resource_text(server: str, uri: str, contents: Iterable[Any]) -> Observation:
    """Return the contents of a resource, from the SDK's list of them."""
    texts: list[str] = []
    images: list[Image] = []
    for one in contents:
        _add_resource(one, texts, images)
    text = clean("\n\n".join(texts))[:MAX_TEXT]
    return Observation(mark_untrusted(f"MCP server {server}, resource {uri}", text), tuple(images))


def prompt_text(messages: Iterable[Any]) -> str:
    """Return the text of a prompt's messages."""
    texts: list[str] = []
    for message in messages:
        content = message.content
        parts = content if isinstance(content, list) else [content]
        found, _images = _contents(parts)
        said = "\n".join(found)
        texts.append(said if message.role == "user" else f"[{message.role}:] {said}")
    return clean("\n\n".join(texts))[:MAX_TEXT]


def _contents(blocks: Iterable[Any]) -> tuple[list[str], list[Image]]:
    texts: list[str] = []
    images: list[Image] = []
    for block in blocks:
        match block.type:
            case "text":
                texts.append(str(block.text))
            case "image":
                _add_image(block.data, "image", texts, images)
            case "audio":
                texts.append(f"[audio, {one_line(str(block.mime_type), 60)}: not shown]")
            case "resource_link":
                texts.append(f"[resource {one_line(str(block.uri), 300)}: {block.name}]")
            case "resource":
                _add_resource(block.resource, texts, images)
            case other:
                texts.append(f"[{one_line(str(other), 40)}: not shown]")
    return texts, images


def _add_resource(resource: Any, texts: list[str], images: list[Image]) -> None:
    uri = one_line(str(resource.uri), 300)
    text = getattr(resource, "text", None)
    if text is not None:
        texts.append(f"[{uri}]\n{text}")
    else:
        _add_image(resource.blob, uri, texts, images)


def _add_image(data: str, name: str, texts: list[str], images: list[Image]) -> None:
    """Add an image that is one by its own bytes; anything else is only described."""
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        texts.append(f"[{name}: not shown, because it is not valid base64]")
        return
    header = read_header(raw[:HEADER_BYTES])
    why = ""
    if header is None:
        why = "it is no image of a known kind"
    elif header.whole and not header.fits(len(raw)):  # before its blocks are walked
        why = f"the {header.describe(len(raw))} is too large"
    elif not header.whole or is_cut(raw):
        why = f"the {header.kind} image is damaged"
    elif len(images) >= MAX_IMAGES:
        why = f"{MAX_IMAGES} images are shown already"
    if header is None or why:
        texts.append(f"[{name}: {len(raw)} bytes, not shown, because {why}]")
        return
    images.append(Image(raw, header.media_type, name, header.width, header.height))
    texts.append(f"[{header.describe(len(raw))}]")


def check_arguments(name: str, schema: Any, arguments: Any) -> None:
    """Raise `ToolError` for arguments that lack a required one, or are no object."""
    if not isinstance(arguments, dict):
        raise ToolError("The arguments of {name} must be an object.", name=name)
    required = schema.get("required", ()) if hasattr(schema, "get") else ()
    missing = [str(one) for one in required if one not in arguments]
    if missing:
        raise ToolError(
            "Invalid arguments for {name}: {names} missing.", name=name, names=", ".join(missing)
        )
