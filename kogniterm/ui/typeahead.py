"""What was typed before a question must not answer it."""

from __future__ import annotations

import termios


def drop_typed_ahead(fd: int) -> None:
    """Empty the terminal's input queue; does nothing where `fd` is no terminal."""
    try:
        termios.tcflush(fd, termios.TCIFLUSH)
    except (termios.error, OSError, ValueError):
        return
