"""What a watcher of a running command gets: every byte of a trickle, the ends of a flood."""

from __future__ import annotations

import time

from kogniterm.protocols import OutputSink

_INTERVAL = 0.04
_CHUNK = 32 << 10
_CANCEL = b"\x18"
"""CAN ends an escape sequence that the cut may have left open."""


class LiveFeed:
    """Passes output on to a sink at most every 40 ms and 32 KB at a time.

    A faster flood is thinned: the newest 32 KB of each interval are passed on, cut at a line,
    after a line that counts what was skipped. A sink sees lines that end in a bare line feed
    (the pseudo-terminal does not translate them) unless the program itself turned that on.
    """

    def __init__(self, sink: OutputSink | None) -> None:
        self._sink = sink
        self._buffer = bytearray()
        self._skipped = 0
        self._next = 0.0

    def add(self, data: bytes) -> None:
        """Take in `data`; passes it on when the interval is over."""
        if self._sink is None:
            return
        self._buffer += data
        if len(self._buffer) > 2 * _CHUNK:
            cut = len(self._buffer) - _CHUNK
            line = self._buffer.find(b"\n", cut, cut + _CHUNK // 2)
            cut = line + 1 if line >= 0 else cut
            self._skipped += cut
            del self._buffer[:cut]
        if time.monotonic() >= self._next:
            self.flush()

    @property
    def due(self) -> float | None:
        """When `flush` is due (monotonic seconds); None when nothing waits."""
        return self._next if self._buffer else None

    def flush(self) -> None:
        """Pass on what waits."""
        if self._sink is None or not self._buffer:
            return
        data = bytes(self._buffer)
        if self._skipped:
            data = _CANCEL + f"\r\n[… {self._skipped} B …]\r\n".encode() + data
        self._buffer.clear()
        self._skipped = 0
        self._next = time.monotonic() + _INTERVAL
        self._sink.output(data)
