"""What a sent line is: a slash command, or words that may name files."""

from __future__ import annotations

from pathlib import Path


def mentions(line: str) -> tuple[str, ...]:
    """The files named with @ in `line` that exist."""
    words = (word[1:].strip("\"'.,;:()") for word in line.split() if word.startswith("@"))
    return tuple(word for word in words if word and Path(word).exists())


def is_slash_command(line: str) -> bool:
    """A path like /etc/hosts is an input, /help is a command."""
    return line.startswith("/") and "\n" not in line and "/" not in line.split()[0][1:]
