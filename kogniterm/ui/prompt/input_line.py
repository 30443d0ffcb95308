"""The input line and its history: a private file, one JSON string a line, newest last.

A line that begins with a space is not kept, nor is one that holds a secret, nor the same line
twice in a row. Losing the file costs nothing but convenience, so no error here stops anybody.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DummyCompleter, DynamicCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.key_binding.vi_state import InputMode

from kogniterm.storage.folders import private_folder
from kogniterm.ui.prompt.attachments import Pastes
from kogniterm.ui.screen_preferences import Preferences

KEPT = 5000
LONGEST = 8000


class PrivateHistory(History):
    """prompt_toolkit's history over a 0600 file."""

    def __init__(self, file: Path | None) -> None:
        super().__init__()
        self._file = file
        self._last = ""

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
        if not string.strip() or string[0] == " " or string == self._last or len(string) > LONGEST:
            return False
        from kogniterm.text.redact import redact

        return redact(string) == string

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


class InputLine:
    """The line being written: its buffer, its history, its pastes, and what was set aside."""

    app: Application[int]

    def __init__(self, preferences: Preferences) -> None:
        self.history = PrivateHistory(preferences.history)
        self.pastes = Pastes()
        self.completer: Completer = DummyCompleter()
        self._set_aside: list[str] = []
        self.buffer = Buffer(
            name="input",
            multiline=True,
            history=self.history,
            complete_while_typing=Condition(self._completes_while_typing),
            completer=DynamicCompleter(lambda: self.completer),
            enable_history_search=False,
        )

    @property
    def text(self) -> str:
        """What stands on the line, pastes and all."""
        return self.pastes.expand(self.buffer.text)

    def draft(self) -> str:
        """Return what stands on the line, or was set aside from it, and was not sent."""
        return "\n".join(text for text in (*self._set_aside, self.buffer.text) if text)

    def restore(self, text: str) -> None:
        """Put `text` back on the line, before what stands there."""
        if text:
            draft = self.buffer.text
            whole = f"{text}\n{draft}" if draft else text
            self.buffer.document = Document(whole, len(whole))

    def take(self) -> str:
        """Return the text, which leaves the line for the history."""
        self.use_insert_mode()
        text = self.text
        self.buffer.append_to_history()
        self.buffer.reset()
        if not self._set_aside:
            self.pastes.clear()
        return text

    def set_aside(self) -> None:
        """Empty the line; its text comes back with `bring_back`."""
        self._set_aside.append(self.buffer.text)
        self.buffer.reset()

    def bring_back(self) -> None:
        """Put what was set aside back on the line."""
        aside, self._set_aside = self._set_aside, []
        self.restore("\n".join(aside))

    # --- vi ------------------------------------------------------------------------------------

    def use_keys(self, keys: str) -> None:
        """Switch between emacs and vi keys."""
        self.app.editing_mode = EditingMode.VI if keys == "vi" else EditingMode.EMACS

    @property
    def vi(self) -> bool:
        """Whether vi's keys are in use."""
        return self.app.editing_mode is EditingMode.VI

    @property
    def vi_waits(self) -> bool:
        """Whether letters are vi's commands now, and no text."""
        return self.vi and self.app.vi_state.input_mode is InputMode.NAVIGATION

    def use_insert_mode(self) -> None:
        """Take letters as text."""
        self.app.vi_state.input_mode = InputMode.INSERT

    def _completes_while_typing(self) -> bool:
        before = self.buffer.document.current_line_before_cursor
        word = before.rpartition(" ")[2]
        return before.startswith("/") or word.startswith("@")
