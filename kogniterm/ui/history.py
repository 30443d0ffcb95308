"""The input history: a private file, one JSON string a line, newest last.

A line that begins with a space is not kept, nor is one that holds a secret, nor the same line
twice in a row. Losing the file costs nothing but convenience, so no error here stops anybody.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from kogniterm.paths import private_folder

KEPT = 5000
LONGEST = 8000


class PrivateHistory(History):
    """prompt_toolkit's history over a 0600 file; `redact` finds secrets (None: the usual ones)."""

    def __init__(self, file: Path | None) -> None:
        super().__init__()
        self._file = file
        self._last = ""
        self.redact: Callable[[str], str] | None = None

    def load_history_strings(self) -> Iterable[str]:
        """Newest first. Lines that cannot be read are left out."""
        if self._file is None:
            return []
        try:
            raw = self._file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        if len(raw) > 2 * KEPT:
            self._rewrite(raw[-KEPT:])
        entries = [entry for line in raw[-KEPT:] if (entry := _decode(line))]
        self._last = entries[-1] if entries else ""
        return reversed(entries)

    def append_string(self, string: str) -> None:
        """Remember `string` for this run and, where allowed, in the file."""
        if not self._worth_keeping(string):
            return
        super().append_string(string)
        self._last = string

    def store_string(self, string: str) -> None:
        """Append to the file, creating it private."""
        if self._file is None:
            return
        with suppress(OSError):
            private_folder(self._file.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with os.fdopen(os.open(self._file, flags, 0o600), "a", encoding="utf-8") as stream:
                stream.write(json.dumps(string, ensure_ascii=False) + "\n")

    def _worth_keeping(self, string: str) -> bool:
        if not string.strip() or string[0] == " " or string == self._last:
            return False
        if len(string) > LONGEST:
            return False
        if self.redact is None:
            # The first line may be sent before the session is open.
            from kogniterm.text.redact import redact

            self.redact = redact
        return self.redact(string) == string

    def _rewrite(self, lines: list[str]) -> None:
        """Shorten the file in place of letting it grow for ever."""
        if self._file is None:
            return
        temporary = self._file.with_suffix(".new")
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as stream:
                stream.write("\n".join(lines) + "\n")
            temporary.replace(self._file)


def _decode(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
