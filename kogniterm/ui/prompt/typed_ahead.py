"""What was typed before anything read it. Loads nothing, for terminals that get plain lines."""

from __future__ import annotations

import asyncio
import os
import termios

from kogniterm.ui.questions.answer_keys import PAUSE_SECONDS

_CHUNK = 65536
_LOCAL, _CONTROL = 3, 6


def take_typed(fd: int) -> str:
    """Empty the terminal's input queue and return what was in it; "" where `fd` is none."""
    try:
        before = termios.tcgetattr(fd)
        raw = termios.tcgetattr(fd)
        # Only a terminal that edits no lines hands out the beginning of one.
        raw[_LOCAL] &= ~termios.ICANON
        raw[_CONTROL][termios.VMIN] = raw[_CONTROL][termios.VTIME] = 0
        termios.tcsetattr(fd, termios.TCSANOW, raw)
        try:
            data = os.read(fd, _CHUNK)
        finally:
            termios.tcsetattr(fd, termios.TCSANOW, before)
    except (termios.error, OSError, ValueError):
        return ""
    return data.decode("utf-8", "replace").replace("\r", "\n")


async def typed_before(fd: int, pause: float = PAUSE_SECONDS) -> str:
    """Wait until no key came for `pause` seconds; return what was typed until then.

    To be called once the question is on the screen. Returns at once where `fd` is no terminal.
    """
    if not os.isatty(fd):
        return ""
    typed = take_typed(fd)
    while True:
        await asyncio.sleep(pause)
        more = take_typed(fd)
        if not more:
            return typed
        typed += more
