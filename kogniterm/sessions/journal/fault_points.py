"""Named points where a crash would matter, and how a test makes one happen there.

The journal calls its `fault` before a record is written (`before-intent`), when it is written
and not committed (`written-intent`), when it is committed and the head file does not know yet
(`unnoted-intent`), and when it is safe (`after-intent`), with the kind's
stored name from `codec.KINDS`. Other rooms' owners may call the same function with points of
their own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from kogniterm.errors import SettingsError, StorageFullError, StorageLockedError

Fault = Callable[[str], None]
"""Called with the name of each point that is passed."""

_ACTIONS = ("kill", "full", "locked")


def no_fault(point: str) -> None:
    """What everybody uses outside of tests: nothing happens."""


def armed(spec: str | None) -> Fault:
    """The fault described by `ACTION:POINT[:N]`, armed for the N-th time the point is passed.

    Actions: `kill` ends the process as `kill -9` does; `full` and `locked` fail as a full disk
    and a held database do. `*` as the point means any. Raises `SettingsError`.
    """
    if not spec:
        return no_fault
    action, _, rest = spec.partition(":")
    point, _, number = rest.partition(":")
    if action not in _ACTIONS or not point or (number and not number.isdigit()):
        raise SettingsError(
            "{spec} is no fault; write ACTION:POINT[:N] with an action of {actions}.",
            spec=spec,
            actions=", ".join(_ACTIONS),
        )
    remaining = int(number or 1)

    def fault(passed: str) -> None:
        nonlocal remaining
        if point not in ("*", passed):
            return
        remaining -= 1
        if remaining == 0:
            _happen(action, passed)

    return fault


def _happen(action: str, point: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    error = StorageFullError if action == "full" else StorageLockedError
    raise error("The fault {action} was injected at {point}.", action=action, point=point)
