"""Text from a model or a file, made harmless for a terminal.

A model's words are shown, never interpreted: control characters and direction overrides could
move the cursor, set the title or make a line read differently from what it says. Commands are
not cleaned here but made visible character by character (`kogniterm.approval.render`).
"""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SGR = re.compile(r"\x1b\[[0-9;:]*m")


def clean(text: str) -> str:
    """`text` without control characters (newline and tab stay) and direction overrides."""
    return _UNSAFE.sub("", text.replace("\r\n", "\n"))


def one_line(text: str, limit: int = 200) -> str:
    """`text` on one line, cut with an ellipsis after `limit` characters.

    Blanks and line breaks become single blanks, what else cannot be seen is made visible.
    """
    from kogniterm.approval.display import render_words

    return cut(render_words(" ".join(text.split())), limit)


def cut(text: str, limit: int) -> str:
    """`text` with an ellipsis in the place of what exceeds `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_style(text: str) -> str:
    """`text` without colour sequences."""
    return _SGR.sub("", text)


def cells(text: str) -> int:
    """How many cells of a terminal `text` takes: wide letters take two, accents none."""
    if text.isascii():
        return len(text)
    from prompt_toolkit.utils import get_cwidth

    return get_cwidth(text)
