"""Text without lone surrogates, which JSON can carry and no file, terminal or provider takes."""

from __future__ import annotations

from typing import Any


def whole(text: str) -> str:
    """Return `text` without halves of characters; halves that came apart are put together."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def whole_json(value: Any) -> Any:
    """Return a value of JSON with all its texts whole."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole_json(key): whole_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole_json(item) for item in value]
    return value
