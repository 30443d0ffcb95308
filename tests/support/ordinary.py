"""Whoever runs the tests, root in a container included: the permissions of files count."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None, use_errno=True)
_VERSION_3 = 0x20080522
_ABOVE_PERMISSIONS = 0b1111
"""CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER: capabilities 0 to 3."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    """One word of each set; the kernel takes two of these, the lower capabilities first."""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


@contextmanager
def ordinary() -> Iterator[None]:
    """Root is refused in this thread, and those it starts, what anybody else is refused.

    The capabilities stay permitted and come back at the end; programs that are started have
    them all the same. For everybody but root nothing changes.
    """
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    _call(_libc.capget, header, sets)
    before = sets[0].effective
    sets[0].effective &= ~_ABOVE_PERMISSIONS
    _call(_libc.capset, header, sets)
    try:
        yield
    finally:
        sets[0].effective = before
        _call(_libc.capset, header, sets)


def _call(function: ctypes._NamedFuncPointer, header: _Header, sets: ctypes.Array[_Sets]) -> None:
    if function(ctypes.byref(header), sets) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
