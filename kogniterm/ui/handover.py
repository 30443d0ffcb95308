"""The person's own terminal, lent to a command: raw while it is lent, as it was afterwards."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable

_FALLBACK = (24, 80)


class PersonTerminal:
    """Implements `protocols.Terminal` for the terminal this process runs in.

    `suspend` is called before the terminal is taken and `resume` after it was given back: the
    prompt's own drawing has to rest meanwhile. `typed` gets the keys that came too late for the
    command. All may be called from the executor's thread.
    """

    def __init__(
        self,
        input_fd: int | None = None,
        output_fd: int | None = None,
        *,
        suspend: Callable[[], None] | None = None,
        resume: Callable[[], None] | None = None,
        typed: Callable[[bytes], None] | None = None,
    ) -> None:
        self._input = sys.stdin.fileno() if input_fd is None else input_fd
        self._output = sys.stdout.fileno() if output_fd is None else output_fd
        self._suspend = suspend
        self._resume = resume
        self._typed = typed
        self._modes: list[int | list[bytes | int]] | None = None

    def size(self) -> tuple[int, int]:
        """(rows, columns) now; 24 by 80 where there is no terminal."""
        for fd in (self._output, self._input):
            with contextlib.suppress(OSError):
                columns, rows = os.get_terminal_size(fd)
                if rows and columns:
                    return rows, columns
        return _FALLBACK

    def acquire(self) -> tuple[int, int]:
        """Take the terminal, in raw mode; returns (input fd, output fd)."""
        if self._suspend is not None:
            self._suspend()
        if self._modes is None:
            with contextlib.suppress(termios.error):
                self._modes = termios.tcgetattr(self._input)
                # Draining, not flushing: what was typed ahead belongs to the program.
                tty.setraw(self._input, termios.TCSADRAIN)
        return self._input, self._output

    def release(self, unread: bytes = b"") -> None:
        """Give the terminal back with the modes it had; harmless when it was not taken."""
        modes, self._modes = self._modes, None
        try:
            if modes is not None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(self._input, termios.TCSADRAIN, modes)
        finally:
            if self._resume is not None:
                self._resume()
            if unread and self._typed is not None:
                self._typed(unread)
