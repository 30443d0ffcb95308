"""The state machine that the keys of every question go through, until one answers.

A key answers only if the user can have seen the question and meant the key: the question was
drawn, no key came for a pause, the key is one of its options, and no other key follows within
the pause. Every other printable key is text for the input line. Nothing here knows a terminal;
time comes from the clock that is passed in.
"""

from __future__ import annotations

from collections.abc import Callable

PAUSE_SECONDS = 0.5
"""The quiet before and after a key that answers: a typist's next key comes sooner."""


class AnswerKeys:
    """The keyboard at a question.

    `ask` opens a question (or the next menu of one), `drawn` says that it is on the screen,
    `press` takes a key while the input line is empty, `typed` every other key, and `settle` is
    to be called `due` seconds later, once no key is left unread.
    """

    def __init__(self, clock: Callable[[], float], pause: float = PAUSE_SECONDS) -> None:
        self._clock = clock
        self.pause = pause
        self.open = False
        self.armed = False
        self.ready = False
        self.held = ""
        self._seen = False
        self._quiet_from = 0.0
        self._answered = ""
        self._repeats = ""
        self._repeats_end = float("-inf")

    def ask(self, *, invited: bool = False) -> None:
        """Open a question: keys that come before it is drawn are text.

        One that the user asked for (`invited`) takes its keys without a pause.
        """
        self.open, self._seen = True, False
        self.armed = self.ready = invited
        self.held = ""

    def close(self) -> None:
        """Forget the question."""
        self.ask()
        self.open = False

    def drawn(self) -> None:
        """Note that the question is on the screen; later calls change nothing."""
        if self.open and not self._seen:
            self._seen = True
            self._quiet_from = self._clock()

    def typed(self) -> None:
        """Note a key that is no answer, or a change of the input line."""
        self.ready, self.held = False, ""
        self._quiet_from = self._clock()

    def moved(self) -> None:
        """Note an arrow or a page key: nobody writes words with them, so they need no pause."""
        self.held = ""
        if not self.armed:
            self.typed()

    @property
    def repeating(self) -> bool:
        """Return whether the key that answered may still be held down."""
        return self._clock() < self._repeats_end

    def press(self, key: str, *, option: bool) -> str:
        """Take a key pressed on an empty line; return the text that goes to the line.

        A key of one character is printable, longer names (enter, paste) are not. An `option` is
        held back when nothing stands in the way; `settle` returns it later.
        """
        if self.repeating and key == self._answered:
            self._repeats += _printable(key)
            self._repeats_end = self._clock() + self.pause
            self.typed()
            return ""
        before = (self._repeats if self.repeating else "") + self.held
        self._repeats, self._repeats_end = "", float("-inf")
        if option and self.ready and not before:
            self.held, self._quiet_from = key, self._clock()
            return ""
        self.typed()
        return _printable(before) + _printable(key)

    def due(self) -> float | None:
        """Return the seconds until `settle` has something to do; None while it has not."""
        if not self._seen or (self.ready and not self.held):
            return None
        return max(self._quiet_from + self.pause - self._clock(), 0.0)

    def settle(self) -> str:
        """Arm the question after a quiet pause; return the key that answers now, if one does."""
        if not self._seen or self._clock() < self._quiet_from + self.pause:
            return ""
        if not self.held:
            self.armed = self.ready = True
            return ""
        key = self.held
        self.ask()
        self._answered, self._repeats = key, ""
        self._repeats_end = self._clock() + self.pause
        return key


def _printable(keys: str) -> str:
    return "" if keys in ("enter", "paste") else keys
