"""Decides when a key answers a question, from the times of the keys alone.

A key answers only if the user can have seen the question and meant the key. Nobody is typing: the
line is empty, and no key came in the half second before the question was drawn. The question has
stood for a moment; a key that comes sooner is dropped. And the key stands alone: no other key
follows for a while, or Enter does, in a later read. Every other printable key is text for the
input line. Nothing here knows a terminal; time comes from the clock that is passed in.
"""

from __future__ import annotations

from collections.abc import Callable

from kogniterm.ui.screen.screen_preferences import KEY_TIMES, KeyTimes

NEVER = float("-inf")


class AnswerKeys:
    """The keyboard at a question.

    `ask` opens a question (or the next menu of one), `drawn` says that it is on the screen,
    `press` takes a key while the input line is empty, `typed` every other key, and `settle` is
    to be called `due` seconds later, once no key is left unread. `dropped` is the key that came
    too early, until the question takes keys. Where the answer grants something, it has to be
    `confirm`ed: a key counts only with Enter.
    """

    def __init__(self, clock: Callable[[], float], times: KeyTimes = KEY_TIMES) -> None:
        self._clock = clock
        self.times = times
        self.open = False
        self.confirm = False
        self.armed = False
        self.ready = False
        self.held = ""
        self.dropped = ""
        self._seen = False
        self._typed = self._typed_before = NEVER
        self._ready_at = 0.0
        self._pressed, self._read = NEVER, 0
        self._entered = False
        self._answered, self._repeats_end = "", NEVER

    def ask(self, *, invited: bool = False) -> None:
        """Open a question: keys that come before it is drawn are text.

        One that the user asked for (`invited`) takes its keys at once.
        """
        self.open, self._seen = True, False
        self.armed = self.ready = invited
        self.held = self.dropped = ""

    def close(self) -> None:
        """Forget the question."""
        self.ask()
        self.open = False

    def drawn(self) -> None:
        """Note that the question is on the screen; later calls change nothing."""
        if self.open and not self._seen:
            self._seen = True
            self._wait(self._clock() + self.times.early, self._typed + self.times.typing)

    def typed(self) -> None:
        """Note a key that is no answer, whether a question is open or not."""
        self._typed, self._typed_before = self._clock(), self._typed
        self.ready, self.held = False, ""
        self._wait(self._ready_at, self._typed + self.times.typing)

    def sent(self) -> None:
        """Note that the last key sent the line or answered, which is not typing."""
        self._typed = self._typed_before

    @property
    def repeating(self) -> bool:
        """Return whether the key that answered may still be held down."""
        return self._clock() < self._repeats_end

    def press(self, key: str, *, option: bool, read: int = 0) -> str:
        """Take a key pressed on an empty line; return the text that goes to the line.

        A key of one character is printable, longer names (enter, paste) are not; `read` numbers
        the reads of the terminal. An `option` is held back when nothing stands in the way;
        `settle` returns it later.
        """
        now = self._clock()
        if self.repeating and key == self._answered:
            self._repeats_end = max(self._repeats_end, now + self.times.alone)
            self.dropped = key if self.open else ""
            return ""
        self._repeats_end = NEVER
        before, apart = self.held, now >= self._pressed + self.times.enter and read != self._read
        if before and key == "enter" and apart and not self._entered:
            self._entered = True
            return ""
        if self.ready and option and (not before or self.confirm):
            self.held, self._pressed, self._read = key, now, read
            self._entered = False
            return ""
        typing = not self._seen or self.armed or now < self._typed + self.times.typing
        if not typing and key != "paste" and (self.dropped in ("", key) or len(key) > 1):
            self.dropped = key
            self._wait(self._ready_at, now + self.times.alone)
            return ""
        self.typed()
        return "".join(one for one in (before, key) if len(one) == 1)

    def due(self) -> float | None:
        """Return the seconds until `settle` has something to do; None while it has not."""
        if not self._seen or (self.ready and not self.held):
            return None
        at = self._ready_at
        if self.held and self.confirm and not self._entered:
            return None
        if self.held:
            at = NEVER if self._entered else self._pressed + self.times.alone
        return max(at - self._clock(), 0.0)

    def settle(self) -> str:
        """Let the question take keys after the pause; return the key that answers now, if any."""
        if self.due() != 0.0:
            return ""
        if not self.held:
            self.armed = self.ready = True
            self.dropped = ""
            return ""
        key = self.held
        self._answered = "enter" if self._entered else key
        self._repeats_end = self._pressed + self.times.repeat
        self.ask()
        return key

    def _wait(self, *moments: float) -> None:
        """Take keys only after the last of these moments."""
        self._ready_at = max(moments)
