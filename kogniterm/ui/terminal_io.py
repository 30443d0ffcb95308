"""The terminal's two ends for prompt_toolkit, told everything by parameters.

The output can hold its flushes, so that erasing the prompt, writing lines above it and drawing
it again reach the terminal as one write: nothing flickers. It never asks for the cursor's
position. The input takes the terminal's answer about its background out of the keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from kogniterm.ui.background import AnswerFilter
from kogniterm.ui.preferences import Preferences
from kogniterm.ui.surface import discard_output, stream_size

__all__ = ["FilteredInput", "HeldOutput", "discard_output", "make_output"]


class HeldOutput(Vt100_Output):
    """A VT100 output whose flushes can be held back, so that a frame is one write.

    What was held is wrapped in the marks of a synchronized update (DEC private mode 2026):
    terminals that know them show the frame at once, the others ignore them.
    """

    held = False

    def hold(self) -> None:
        """A frame begins."""
        self.held = True
        self.write_raw("\x1b[?2026h")

    def release(self) -> None:
        """The frame is whole, if one was begun."""
        if self.held:
            self.held = False
            self.write_raw("\x1b[?2026l")
            self.flush()

    def flush(self) -> None:
        """Write what is buffered, unless held; to nowhere once the terminal is gone."""
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
        """Keys typed since the last call."""
        data = self.stdin_reader.read()
        self.vt100_parser.feed(self.filter.feed(data) if self.filter is not None else data)
        keys, self._buffer = self._buffer, []
        return keys

    def flush_keys(self) -> list[KeyPress]:
        """What was held back in case more would follow."""
        if self.filter is not None:
            self.vt100_parser.feed(self.filter.release())
        return super().flush_keys()


def make_output(stream: TextIO, preferences: Preferences) -> HeldOutput:
    """The output on `stream`, in the colours that the preferences allow."""

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
