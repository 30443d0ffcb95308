"""Short forms for a place with little space: of texts, with a mark for a cut, and of money."""

from __future__ import annotations

from kogniterm.text.visible import render_words


def cut(text: str, limit: int) -> str:
    """Return `text` with an ellipsis in the place of what exceeds `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def gist(text: str, limit: int) -> str:
    """Return `text` on one line, its white space as single blanks, cut after `limit` characters."""
    return cut(" ".join(text.split()), limit)


def one_line(text: str, limit: int = 200) -> str:
    """Return `text` on one line for a screen, cut with an ellipsis after `limit` characters.

    Blanks and line breaks become single blanks, what else cannot be seen is made visible.
    """
    return cut(render_words(" ".join(text.split())), limit)


def below_home(folder: str, home: str) -> str:
    """Return `folder` with ~ in place of `home`, which may be empty."""
    home = home.rstrip("/")
    inside = bool(home) and f"{folder}/".startswith(f"{home}/")
    return f"~{folder.removeprefix(home)}" if inside else folder


def head_and_tail(text: str, limit: int) -> str:
    """Return the start and the longer end of `text`, for errors stand at the end.

    `limit` are the characters that are kept; a line between them says how many are not.
    """
    if len(text) <= limit:
        return text
    head, tail = limit // 3, limit - limit // 3
    return f"{text[:head]}\n{left_out(len(text) - head - tail)}\n{text[-tail:]}"


def left_out(count: int) -> str:
    """Return the mark of `count` characters left out of a text for the model; "" for none."""
    return f"[… {count} characters left out …]" if count > 0 else ""


def money(dollars: float) -> str:
    """Return $0.00, <$0.0001, $0.0123, $0.50 or $12.30: never fewer than two decimals."""
    if 0 < dollars < 0.0001:
        return "<$0.0001"
    if dollars >= 1:
        return f"${dollars:.2f}"
    whole, _point, decimals = f"{dollars:.4f}".partition(".")
    return f"${whole}.{decimals.rstrip('0').ljust(2, '0')}"
