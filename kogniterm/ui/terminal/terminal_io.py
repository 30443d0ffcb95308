"""Input and output of the terminal for prompt_toolkit, configured by parameters only.

The output can hold its flushes, so that erasing the prompt, writing lines above it and drawing
it again reach the terminal as one write: nothing flickers. It never asks for the cursor's
position. The input takes the terminal's answer about its background out of the keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from kogniterm.ui.screen.screen_preferences import Background, Preferences, split_osc11
from kogniterm.ui.screen.surface import discard_output, stream_size

__all__ = ["FilteredInput", "HeldOutput", "discard_output", "make_output"]


class HeldOutput(Vt100_Output):
    """A VT100 output whose flushes can be held back, so that a frame is one write.

    What was held is wrapped in the marks of a synchronized update (DEC private mode 2026):
    terminals that know them show the frame at once, the others ignore them.
    """

    held = False

    def hold(self) -> None:
        """Begin a frame."""
        self.held = True
        self.write_raw("\x1b[?2026h")

    def release(self) -> None:
        if self.held:
            self.held = False
            self.write_raw("\x1b[?2026l")
            self.flush()

    def flush(self) -> None:
        """Write the buffer, unless it is held back; discard it once the terminal is gone."""
        if self.held:
            return
        try:
            super().flush()
        except OSError:
            discard_output(self.stdout)


class FilteredInput(Vt100Input):
    """A VT100 input whose filter takes the terminal's answer out before keys are read."""

    filter: AnswerFilter | None = None
    _stays_raw = False

    @contextmanager
    def resting_raw(self) -> Iterator[None]:
        """Echo nothing and make no signals where the prompt rests meanwhile."""
        self._stays_raw = True
        try:
            yield
        finally:
            self._stays_raw = False

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Return the modes in which the prompt rests."""
        return nullcontext() if self._stays_raw else super().cooked_mode()

    def read_keys(self) -> list[KeyPress]:
        """Return the keys typed since the last call."""
        data = self.stdin_reader.read()
        self.vt100_parser.feed(self.filter.feed(data) if self.filter is not None else data)
        keys, self._buffer = self._buffer, []
        return keys

    def flush_keys(self) -> list[KeyPress]:
        """Return the input that was held back in case more would follow."""
        if self.filter is not None:
            self.vt100_parser.feed(self.filter.release())
        return super().flush_keys()


def make_output(stream: TextIO, preferences: Preferences) -> HeldOutput:
    """Return the output on `stream`, in the colours that the preferences allow."""

    def size() -> Size:
        rows, columns = stream_size(stream)
        return Size(rows=rows, columns=columns)

    depth = ColorDepth.DEPTH_8_BIT
    if preferences.truecolor:
        depth = ColorDepth.DEPTH_24_BIT
    if not preferences.color:
        depth = ColorDepth.DEPTH_1_BIT
    return HeldOutput(
        stream, size, term=preferences.term, default_color_depth=depth, enable_cpr=False
    )


ASK_BACKGROUND = "\x1b]11;?\x1b\\"
LONGEST = 64
"""Most characters of an answer; anything longer is other input."""

_BEGUN = re.compile(r"\x1b(?:\](?:1(?:1(?:;[rgba:0-9a-fA-F/]*\x1b?)?)?)?)?\Z")
"""The end of data in which an answer is not all there yet."""
_TERMS = (
    "xterm", "tmux", "screen", "rxvt", "alacritty", "foot", "kitty", "wezterm", "ghostty",
    "contour", "konsole", "st-", "vte",
)  # fmt: skip
"""Terminals that answer the question, or swallow it without a trace."""


def worth_asking(preferences: Preferences) -> bool:
    """Return whether the answer matters and the terminal is known to understand the question."""
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
        """Return the keys in `data`; what may be the beginning of the answer is held back."""
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
        if self._held != "\x1b":
            return ""
        self._held = ""
        return "\x1b"
