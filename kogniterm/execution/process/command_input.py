"""Input of a running command: prepared keystrokes, or the user's own terminal handed over.

A terminal that is handed over is joined to the command's, both ways, byte for byte. Keys go to the
command as they are typed and are recorded nowhere; when the program has turned echo off, the result
says only that a secret was entered. Ctrl-] stays ours, as does Ctrl-G Ctrl-G Ctrl-D for keyboards
without that key: they let the command go on as a job and give the terminal back. Terminal modes
that the program leaves switched on are switched off again.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import termios
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from kogniterm.errors import ToolError
from kogniterm.execution.process.pty import line_modes, set_output_processing, set_size, take_unread
from kogniterm.protocols import Terminal
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
    """Return keystrokes made of look-alikes, mappings, (wait_for, delay, send) or texts."""
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
        """Return whether keys are still to be sent."""
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
        """Return when to look again (monotonic seconds); None when only output brings the next."""
        if self._armed is None or not self._waiting:
            return None
        key = self._waiting[0]
        return self._armed + max(key.delay, _SETTLES if self.signals else 0.0)

    @property
    def signals(self) -> bool:
        """Return whether the next keys are to send a signal."""
        return bool(self._waiting) and not _SIGNALS.isdisjoint(self._waiting[0].send)

    def take(self, now: float, *, reading: bool, begins: bool = False) -> str | None:
        """Return the keys to send now, if any.

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
        """Return whether bytes wait for room."""
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


SEQUENCE_SECONDS = 1.5
"""The longest time from the first to the last key of Ctrl-G Ctrl-G Ctrl-D."""
_DETACH = re.compile(
    rb"(?P<leave>\x1d|\x1b\[93;5u|\x1b\[27;5;93~)"
    rb"|(?P<first>\x07|\x1b\[103;5u|\x1b\[27;5;103~)"
    rb"|(?P<last>\x04|\x1b\[100;5u|\x1b\[27;5;100~)"
    rb"|(?s:.)"
)
"""Ctrl-], Ctrl-G and Ctrl-D, as control characters and as extended keyboard protocols send them."""
SIZE_LOOK = 0.25
"""Seconds between two looks at the size of the user's terminal."""
_REPLAY = 8 << 10

_PRIVATE_MODE = re.compile(rb"\x1b\[\?([0-9;]{1,32})([hl])")
_SWITCHED_OFF = frozenset(
    b"1 9 47 1000 1001 1002 1003 1004 1005 1006 1007 1015 1016 1047 1049 2004 2026".split()
)
"""Private modes that are off in a plain terminal (xterm's control sequences)."""
_OWN_SCREENS = (b"47", b"1047", b"1049")
_PLAIN = b"\x1b[m\x1b[?25h\x1b[?7h\x1b>\x0f\x1b(B"
"""No colours, cursor shown, wrapping on, numeric keypad, the plain character set."""


class DetachKeys:
    """Finds the keys that leave a command.

    The first keys of the sequence are passed on at once, so that no program waits for a key:
    Ctrl-G cancels or shows information in most of them, and leaves nothing behind.
    """

    def __init__(self) -> None:
        self.passed_on = 0
        """Keys of the sequence that the command got, where the sequence left it."""
        self._pressed: list[float] = []

    def find(self, data: bytes, now: float) -> int | None:
        """Return where in `data`, typed at `now`, the user asks for the terminal back."""
        for match in _DETACH.finditer(data):
            recent = [time for time in self._pressed if now - time <= SEQUENCE_SECONDS]
            if match["leave"] or (match["last"] and len(recent) >= 2):
                self.passed_on = len(recent) if match["last"] else 0
                return match.start()
            self._pressed = [*recent, now] if match["first"] else []
        return None


class ModeTracker:
    """The private modes that a stream of output has switched on."""

    def __init__(self) -> None:
        self._rest = b""
        self.on: list[bytes] = []

    @property
    def own_screen(self) -> bool:
        """Return whether the program draws on the terminal's other screen."""
        return any(mode in self.on for mode in _OWN_SCREENS)

    def saw(self, data: bytes) -> None:
        """Take in output, split anywhere."""
        if b"\x1b" not in data and not self._rest:
            return
        text = self._rest + data
        for match in _PRIVATE_MODE.finditer(text):
            for mode in match[1].split(b";"):
                if mode in self.on:
                    self.on.remove(mode)
                if match[2] == b"h" and mode in _SWITCHED_OFF:
                    self.on.append(mode)
        last = text.rfind(b"\x1b", max(0, len(text) - 40))
        self._rest = text[last:] if last >= 0 and not _PRIVATE_MODE.match(text, last) else b""

    def undo(self) -> bytes:
        """Return the sequences that make the terminal plain again."""
        return b"".join(b"\x1b[?" + mode + b"l" for mode in reversed(self.on)) + _PLAIN

    def redo(self) -> bytes:
        """Return the sequences that put a terminal into the modes that the program expects."""
        return b"".join(b"\x1b[?" + mode + b"h" for mode in self.on)


class HandOver:
    """The user's terminal joined to a command's; `master` is the command's."""

    def __init__(
        self, terminal: Terminal, master: int, outgoing: Outgoing, modes: ModeTracker
    ) -> None:
        self._terminal = terminal
        self._master = master
        self._outgoing = outgoing
        self._modes = modes
        self._detach = DetachKeys()
        self._detach = DetachKeys()
        self._size = (0, 0)
        self._out = -1
        self._began = time.monotonic()
        self._typed = False
        self._secret = False
        self.input = -1
        self.hung_up = False

    def begin(self, shown: bytes) -> None:
        """Take the terminal; `shown` is recent output that the program expects on the screen."""
        self.input, self._out = self._terminal.acquire()
        _echo, canonical = line_modes(self._master)
        line_by_line = canonical or not self._modes.own_screen
        if not canonical:
            self.show(self._modes.redo())
        if line_by_line:
            # Line editors (readline) leave the translation of newlines to the terminal, and
            # nothing makes them write their prompt again.
            with contextlib.suppress(termios.error):
                set_output_processing(self._master, on=True)
            self.show(shown[-_REPLAY:].rpartition(b"\n")[2].rpartition(b"\r")[2])
        if not canonical:
            rows, columns = self._terminal.size()
            with contextlib.suppress(OSError):
                # Two changes of size make a full-screen program draw everything again.
                set_size(self._master, max(1, rows - 1), columns)
        self.follow_size()

    def follow_size(self) -> None:
        """Give the command's terminal the size of the user's."""
        try:
            size = self._terminal.size()
        except OSError:
            self.hung_up = True
            return
        if size != self._size:
            self._size = size
            with contextlib.suppress(OSError):
                set_size(self._master, *size)

    def show(self, data: bytes) -> None:
        """Write output to the user's terminal."""
        if b"\n" in data and _translates_nothing(self._master, self._modes.own_screen):
            data = re.sub(rb"(?<!\r)\n", b"\r\n", data)
        while data:
            try:
                data = data[os.write(self._out, data) :]
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                self.hung_up = True
                return

    def pass_keys(self) -> bool:
        """Pass on what was typed; True when the user asks for the terminal back."""
        try:
            data = os.read(self.input, 1 << 14)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self.hung_up = True
            return False
        end = self._detach.find(data, time.monotonic())
        data = data[:end]
        if data:
            echo, canonical = line_modes(self._master)
            self._typed = True
            self._secret = self._secret or (not echo and canonical)
            self._outgoing.send(data)
        if end is not None:
            # A line that the program has not read gets no keys: its answer is still to come.
            with contextlib.suppress(termios.error):
                modes = termios.tcgetattr(self._master)
                if self._detach.passed_on and modes[3] & termios.ICANON:
                    self._outgoing.send(modes[6][termios.VERASE] * self._detach.passed_on)
        return end is not None

    def end(self, *, over: bool) -> None:
        """Switch off what the program left on and give the terminal back.

        When the command is `over`, what was typed too late for it goes back as well; otherwise
        it is still the command's.
        """
        try:
            self.show(self._modes.undo())
        finally:
            unread = b""
            if over and not self.hung_up:
                with contextlib.suppress(OSError, termios.error):
                    unread = take_unread(self._master)
            # A terminal that is gone cannot be restored, and must not cost the result.
            with contextlib.suppress(OSError, termios.error):
                self._terminal.release(unread)

    def notes(self) -> list[str]:
        """Return notes for the model: that the user was there, never what was typed."""
        lasted = time.monotonic() - self._began
        did = "typed into the program" if self._typed else "watched and typed nothing"
        notes = [f"The user had the keyboard for {lasted:.0f} s and {did}."]
        if self._secret:
            notes.append("A secret was entered with echo off; it was not recorded.")
        return notes


def _translates_nothing(master: int, own_screen: bool) -> bool:
    """Return whether line feeds come bare from a program that does not position its cursor.

    Line editors switch back, after each line, to the modes they were started with.
    """
    try:
        modes = termios.tcgetattr(master)
    except termios.error:
        return False
    by_lines = bool(modes[3] & termios.ICANON) or not own_screen
    return by_lines and not modes[1] & termios.OPOST
