"""Asking a terminal for its background (OSC 11), without its answer ever passing for typing.

The question goes out once the prompt is drawn and nothing waits for the answer. It may come in
pieces, between keys, late, or never.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.ui.preferences import Preferences
from kogniterm.ui.theme import Background, split_osc11

ASK_BACKGROUND = "\x1b]11;?\x1b\\"
LONGEST = 64
"""Characters an answer has at most; what is longer is something else."""

_BEGUN = re.compile(r"\x1b(?:\](?:1(?:1(?:;[rgba:0-9a-fA-F/]*\x1b?)?)?)?)?\Z")
"""What an answer that is not all there yet ends the data with."""
_TERMS = (
    "xterm", "tmux", "screen", "rxvt", "alacritty", "foot", "kitty", "wezterm", "ghostty",
    "contour", "konsole", "st-", "vte",
)  # fmt: skip
"""Terminals that answer the question, or swallow it without a trace."""


def worth_asking(preferences: Preferences) -> bool:
    """Whether the answer matters and the terminal is known to understand the question."""
    return (
        preferences.theme == "auto"
        and preferences.color
        and not preferences.colorfgbg
        and preferences.term.startswith(_TERMS)
    )


class AnswerFilter:
    """Takes the one answer out of what the terminal sends; everything else are keys."""

    def __init__(self, on_answer: Callable[[Background | None], None]) -> None:
        self.expecting = False
        self._on_answer = on_answer
        self._held = ""

    def feed(self, data: str) -> str:
        """The keys in `data`; what may be the beginning of the answer is held back."""
        if not self.expecting:
            return data
        data, self._held = self._held + data, ""
        rest, background = split_osc11(data)
        if rest != data:
            self.expecting = False
            self._on_answer(background)
            return rest
        begun = _BEGUN.search(data)
        if begun is not None and len(begun[0]) <= LONGEST:
            self._held = begun[0]
            return data[: begun.start()]
        return data

    def release(self) -> str:
        """Nothing came after it for a while: a lone escape was the Esc key."""
        if self._held != "\x1b":
            return ""
        self._held = ""
        return "\x1b"
