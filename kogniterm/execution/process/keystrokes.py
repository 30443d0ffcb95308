"""Keystrokes prepared for a command: when each is due, and the bytes on their way."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from kogniterm.errors import ToolError
from kogniterm.text.bounded_regex import Pattern
from kogniterm.types import Keystrokes

_WINDOW = 64 << 10
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
)
_SIGNALS = frozenset("\x03\x1a\x1c")
_SETTLES = 0.15
"""Seconds before a key that sends a signal: a program just being started by the shell would lose
it between fork and exec, and no user is that quick."""
_BEGUN_LIMIT = 2.0
"""Seconds more that it waits while that program still has not been executed: on a crowded machine
its turn may come late. A subshell that computes looks the same."""
READY_LIMIT = 1.0
"""Seconds a key without condition waits for the program to read its terminal."""


def as_keystrokes(items: Iterable[object]) -> tuple[Keystrokes, ...]:
    """Keystrokes from `Keystrokes`, look-alikes, mappings, (wait_for, delay, send) or texts."""
    made = []
    for item in items:
        if isinstance(item, str):
            item = {"send": item}
        elif isinstance(item, (tuple, list)):
            item = dict(zip(("wait_for", "delay", "send"), item, strict=True))
        read = item.get if isinstance(item, Mapping) else partial(getattr, item)
        delay = float(read("delay", 0.0) or 0.0)
        made.append(Keystrokes(str(read("send", "")), read("wait_for", None), delay))
    return tuple(made)


class KeySequence:
    """Decides when the next of the prepared keystrokes is to be sent."""

    def __init__(self, keystrokes: tuple[Keystrokes, ...]) -> None:
        self._waiting = list(keystrokes)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._recent = ""
        self._armed: float | None = None
        self._arm(time.monotonic())

    @property
    def pending(self) -> bool:
        """Whether keys are still to be sent."""
        return bool(self._waiting)

    def _arm(self, now: float) -> None:
        """Start the clock of the next key when it has no condition."""
        self._armed = None
        if self._waiting and self._waiting[0].wait_for is None:
            self._armed = now

    def saw(self, data: bytes) -> None:
        """Take in output; a condition that matches starts the clock of its key."""
        if not self._waiting:
            return
        self._recent = (self._recent + self._decoder.decode(data))[-_WINDOW:]
        self._match(time.monotonic())

    def _match(self, now: float) -> None:
        if self._armed is not None or not self._waiting:
            return
        pattern = self._waiting[0].wait_for
        if pattern is None:
            self._arm(now)
            return
        text = _ESCAPES.sub("", self._recent)
        try:
            found = Pattern(pattern).search(text)
        except ToolError:
            # No expression, or one that never ends: its own letters are waited for.
            self._waiting[0] = replace(self._waiting[0], wait_for=re.escape(pattern))
            self._match(now)
            return
        if found is not None:
            self._recent = text[found[1] :]
            self._armed = now

    def due(self) -> float | None:
        """When to look again (monotonic seconds); None when only output can bring the next."""
        if self._armed is None or not self._waiting:
            return None
        key = self._waiting[0]
        return self._armed + max(key.delay, _SETTLES if self.signals else 0.0)

    @property
    def signals(self) -> bool:
        """Whether the next keys are to send a signal."""
        return bool(self._waiting) and not _SIGNALS.isdisjoint(self._waiting[0].send)

    def take(self, now: float, *, reading: bool, begins: bool = False) -> str | None:
        """The keys to send now, if any.

        `reading`: the program is reading its terminal; `begins`: one is yet to be executed, and
        would not hear a signal.
        """
        due = self.due()
        if due is None or now < due:
            return None
        key = self._waiting[0]
        if key.wait_for is None and key.delay <= 0 and not reading and now < due + READY_LIMIT:
            return None
        if begins and self.signals and now < due + _BEGUN_LIMIT:
            return None
        self._waiting.pop(0)
        self._arm(now)
        self._match(now)
        return key.send


class Outgoing:
    """Bytes on their way into a terminal, which takes some 4 KB at a time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._queue = bytearray()

    @property
    def waiting(self) -> bool:
        """Whether bytes wait for room."""
        return bool(self._queue)

    def send(self, data: bytes) -> None:
        """Queue `data` and write what fits."""
        self._queue += data
        self.flush()

    def flush(self) -> None:
        """Write what fits; a closed terminal swallows the rest."""
        while self._queue:
            with contextlib.suppress(InterruptedError):
                try:
                    written = os.write(self._fd, self._queue[:4096])
                except BlockingIOError:
                    return
                except OSError:
                    self._queue.clear()
                    return
                del self._queue[:written]
