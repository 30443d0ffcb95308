"""JSON files to which named entries are added below one key, as the user wrote them otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kogniterm.errors import UnusableValueError
from kogniterm.text.shorten import one_line


def entries_in(data: bytes | None, key: str) -> dict[str, Any]:
    """Return the object that a file holds, empty for no file or an empty one.

    Raises `UnusableValueError` for a file to which nothing can be added below `key`.
    """
    try:
        text = (data or b"").decode("utf-8-sig")
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UnusableValueError("it is not JSON ({why})", why=one_line(str(error), 200)) from error
    if not isinstance(found, dict) or not isinstance(found.get(key, {}), dict):
        raise UnusableValueError("it needs an object {key}, with a name for each entry", key=key)
    return found


def entries_data(whole: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file with these entries."""
    text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "replace")
