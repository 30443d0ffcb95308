"""Signals outside the text: title, taskbar progress, and a nudge when a person is needed.

The sequences: OSC 2 sets the title (xterm), OSC 9;4 the taskbar's progress (ConEmu, also
Windows Terminal, WezTerm, Ghostty), OSC 9 a desktop notification (iTerm2, kitty), BEL a bell.
"""

from __future__ import annotations

from collections.abc import Callable

from kogniterm.text.visible import one_line
from kogniterm.ui.screen_preferences import Preferences

BELL = "\a"


class Attention:
    """Sends the signals that the preferences allow; on a bare terminal none."""

    def __init__(self, preferences: Preferences, send: Callable[[str], None]) -> None:
        self._preferences = preferences
        self._send = send
        self._progress = False
        self._titled = False

    def title(self, text: str) -> None:
        """Name the window."""
        if self._preferences.title and not self._preferences.bare:
            self._titled = True
            self._send(f"\x1b]2;{one_line(text, 80)}\a")

    def working(self, on: bool) -> None:
        """Show that something runs (of unknown length), or that nothing does."""
        if self._preferences.progress and not self._preferences.bare and on != self._progress:
            self._progress = on
            self._send(f"\x1b]9;4;{3 if on else 0};0\a")

    def call(self, message: str) -> None:
        """A person is needed or a long turn is over."""
        notify = self._preferences.notify
        if notify == "off" or (self._preferences.bare and notify != "bell"):
            return
        self._send(BELL if notify == "bell" else f"\x1b]9;{one_line(message, 120)}\a")

    def close(self) -> None:
        """Leave no progress and no title behind."""
        self.working(False)
        if self._titled:
            self._send("\x1b]2;\a")
