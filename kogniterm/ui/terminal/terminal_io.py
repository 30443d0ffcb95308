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
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from kogniterm.text.visible import whole
from kogniterm.ui.screen.screen_preferences import Background, Preferences, split_osc11
from kogniterm.ui.screen.surface import ERASE_DOWN, discard_output, stream_size

__all__ = ["FilteredInput", "HeldOutput", "discard_output", "make_output"]


class HeldOutput(Vt100_Output):
    """A VT100 output whose flushes can be held back, so that a frame is one write.

    What was held is wrapped in the marks of a synchronized update (DEC private mode 2026):
    terminals that know them show the frame at once, the others ignore them.
    """

    held = False

    def hold(self) -> None:
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

    def erase_down(self) -> None:
        """Erase from the cursor, which is at the start of a row, to the end of the screen."""
        self.write_raw(ERASE_DOWN)


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
        return nullcontext() if self._stays_raw else super().cooked_mode()

    def read_keys(self) -> list[KeyPress]:
        """Return the keys typed since the last call."""
        data = whole(self.stdin_reader.read())
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
LONGEST = 4096
"""Most characters of an answer; anything longer is other input."""

_PASTE, _PASTE_END = "\x1b[200~", "\x1b[201~"
_SEQUENCE = re.compile(
    rf"{re.escape(_PASTE)}.*?{re.escape(_PASTE_END)}"
    rf"|\x1b[]P_^][^\x07\x1b]{{0,{LONGEST}}}(?:\x07|\x1b\\)"
    r"|\x1b\[[0-?]*[ -/]*[@-Z^-~]",
    re.DOTALL,
)
"""A paste, an answer in a string of its own, or a control sequence."""
_BEGUN = re.compile(r"\x1b(?:[]P_^](?:[0-9>G][^\x07\x1b]{0,64}\x1b?)?|\[[0-?]{0,64}[ -/]?|O)?\Z")
"""The end of data in which a sequence is not all there yet."""
_KEY = re.compile(r"\x1b\[(?:27;(?P<by>\d+);)?(?P<code>\d+)(?:;(?P<with>\d+))?[u~]")
"""A key as the extended keyboard protocols send it, which a program may have left switched on."""

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


_PASTE_SECONDS = 0.5
"""Seconds of silence after which the end of a paste was lost."""
_ESCAPE_SECONDS = 0.1
"""Seconds after which an Esc was the key, and not the beginning of a sequence."""


class AnswerFilter:
    """Lets through only what keys and pastes send: no answer of a terminal is ever text.

    What programs ask a terminal may be answered after they have ended, and modes that they left on
    let it report on its own. The answer about the background is passed on while it is expected.
    """

    def __init__(self, on_answer: Callable[[Background | None], None]) -> None:
        self.expecting = False
        self._on_answer = on_answer
        self._held = ""
        self._goes_on = False

    @property
    def patience(self) -> float | None:
        """Return after how many seconds of silence to release what is held; None for nothing."""
        if not self._held:
            return None
        return _PASTE_SECONDS if self._held.startswith(_PASTE) else _ESCAPE_SECONDS

    def feed(self, data: str) -> str:
        """Return the keys in `data`; a sequence is held back until all of it is there."""
        more = _PASTE_END in data or (len(data) > 1 and data[0] != "\x1b")
        if self._goes_on and more and not data.startswith(_PASTE):
            data = _PASTE + data  # it was slow; no key sends so much at once
        self._goes_on = False
        end = self._held[-len(_PASTE_END) :]
        if self._held.startswith(_PASTE) and _PASTE_END not in end + data:
            self._held += data
            return ""
        data, self._held = _SEQUENCE.sub(self._keys, self._held + data), ""
        begun = data.rfind(_PASTE)
        if begun < 0 or _PASTE_END in data[begun:]:
            found = _BEGUN.search(data)
            begun = found.start() if found is not None else len(data)
        self._held = data[begun:]
        return data[:begun]

    def release(self) -> str:
        """Return what was held back, such as Esc, once no more comes; the start of an answer stays.

        A paste whose end was lost ends here, so that the next key is one.
        """
        if self._held[1:2] in ("]", "P", "_", "^") and (self.expecting or self._held[2:]):
            return ""
        held, self._held = self._held, ""
        self._goes_on = held.startswith(_PASTE)
        return held + _PASTE_END if self._goes_on else held

    def _keys(self, found: re.Match[str]) -> str:
        """Return what the keys are that sent a sequence; "" for an answer of the terminal."""
        sequence = found[0]
        if sequence in ANSI_SEQUENCES or sequence.startswith(_PASTE):
            return sequence
        key = _KEY.fullmatch(sequence)
        if key is not None:
            code, modifiers = int(key["code"]), key["by"] or key["with"] or "1"
            plain = {"1": chr(code), "3": f"\x1b{chr(code)}", "5": chr(code & 0x1F)}
            return plain.get(modifiers, "") if code < 0x7F else ""
        rest, background = split_osc11(sequence)
        if self.expecting and not rest:
            self.expecting = False
            self._on_answer(background)
        return ""
