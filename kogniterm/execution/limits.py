"""Resource limits between shells: what the kernel says of one, as commands for the next."""

from __future__ import annotations

import math
import re

_LETTERS = {
    b"Max cpu time": (b"t", 1),
    b"Max file size": (b"f", 1024),
    b"Max data size": (b"d", 1024),
    b"Max stack size": (b"s", 1024),
    b"Max core file size": (b"c", 1024),
    b"Max resident set": (b"m", 1024),
    b"Max processes": (b"u", 1),
    b"Max open files": (b"n", 1),
    b"Max locked memory": (b"l", 1024),
    b"Max address space": (b"v", 1024),
    b"Max file locks": (b"x", 1),
    b"Max pending signals": (b"i", 1),
    b"Max msgqueue size": (b"q", 1),
    b"Max nice priority": (b"e", 1),
    b"Max realtime priority": (b"r", 1),
    b"Max realtime timeout": (b"R", 1),
}
"""The kernel's names (proc(5), /proc/PID/limits) with the letters and units of bash's `ulimit`."""

_LINE = re.compile(rb"(Max [a-z ]{1,30}?) {2,40}(\d{1,20}|unlimited) {1,40}(\d{1,20}|unlimited)")
"""Bounded throughout: a sandboxed shell may say anything of its limits."""

_UNLIMITED = b"unlimited"


def commands(before: bytes, after: bytes) -> bytes:
    """`ulimit` commands that lead from the limits `before` to `after`; none when they are equal.

    Both are texts in which the lines of /proc/PID/limits stand, in whatever quotes.
    """
    if before == after or not after:
        return b""
    old = {match[1]: match.groups()[1:] for match in _LINE.finditer(before)}
    raised: list[bytes] = []
    soft: list[bytes] = []
    lowered: list[bytes] = []
    for match in _LINE.finditer(after):
        name, values = match[1], match.groups()[1:]
        if name not in _LETTERS or name not in old:
            continue
        letter, unit = _LETTERS[name]
        for flag, was, now in zip((b"S", b"H"), old[name], values, strict=True):
            if was == now:
                continue
            lines = soft if flag == b"S" else raised if _value(now) > _value(was) else lowered
            value = now if now == _UNLIMITED else b"%d" % (int(now) // unit)
            lines.append(b"\\builtin ulimit -" + flag + b" -" + letter + b" " + value + b"\n")
    # A soft limit is never above its hard one, neither on the way up nor on the way down.
    return b"".join(raised + soft + lowered)


def _value(limit: bytes) -> float:
    return math.inf if limit == _UNLIMITED else int(limit)
