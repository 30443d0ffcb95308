"""Regular expressions written by users and models: checked first, and bounded in time.

An expression such as `(a|aa)+$` needs exponential time. The library `regex` reads the syntax of
Python's own `re`, stops at a timeout, and lets other threads run meanwhile.
"""

from __future__ import annotations

import re
import time

from kogniterm.errors import ToolError

SECONDS = 2.0
"""CPU time that all searches of one pattern may take together."""


class Pattern:
    """A regular expression; `^` and `$` match at each line's ends.

    Raises `ToolError` when `text` is not a regular expression, and when its searches together
    took `seconds` of CPU time.
    """

    def __init__(self, text: str, *, ignore_case: bool = False, seconds: float = SECONDS) -> None:
        import regex

        flags = regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0)
        try:
            # `regex` reads more than `re`; only what both read is accepted.
            re.compile(text)
            self._compiled = regex.compile(text, flags)
        except (re.error, regex.error, OverflowError, RecursionError) as error:
            raise ToolError(
                "The pattern is not a valid regular expression: {why}.", why=error
            ) from None
        self._seconds = self._left = seconds
        self._slow = False

    def search(self, text: str) -> tuple[int, int] | None:
        """Return where the first match begins and ends, or None."""
        begun, left = time.thread_time(), self._left
        try:
            found = self._compiled.search(text, timeout=max(left, 1e-3), concurrent=True)
        except TimeoutError:
            self._left = 0.0
        else:
            self._left -= time.thread_time() - begun
            if self._left > 0:
                return found.span() if found else None
        # One text that took most of the time is the fault of the pattern, many are not.
        self._slow = self._slow or left - self._left > self._seconds / 2
        if self._slow:
            raise ToolError("The pattern takes too long to match; use a simpler one.")
        raise ToolError(
            "This is too much text to search within {seconds} s; search less of it, or use grep "
            "in a command.",
            seconds=f"{self._seconds:g}",
        )
