"""The floor: what no rule, lease, mode or switch ever lets through."""

from __future__ import annotations

import re

from kogniterm.types import RiskReport, Text

_ALWAYS = frozenset(
    {
        "{name} starts itself again and again.",
        "It writes to the device {path}.",
        "It deletes the device {path}.",
        "{program} destroys what is on a disk.",
        "{program} is told to delete even the root folder.",
        "It gives a shell of this machine to the network.",
        "{program} gives a program of this machine to the network.",
        "{program} gives a shell of this machine to the network.",
        "{program} would end every process, or the first one.",
    }
)
_BROAD = frozenset(
    {
        "It deletes far more than one file: {path}.",
        "It changes the rights of far more than one file: {path}.",
        "It moves far more than one file: {path}.",
        "{program} deletes what is not in its source from {path}.",
    }
)
_HOME = re.compile(r"(?:/home/[^/]+|/Users/[^/]+|/root)(?:/\*)?")
_ROOTS = frozenset({"/", "/*", "~", "~/*", "/home", "/home/*", "/etc", "/usr", "/boot", "/var"})


def floor_reason(report: RiskReport) -> Text | None:
    """Why the floor denies this command, or None if it does not."""
    for reason in report.reasons:
        if reason.template in _ALWAYS:
            return reason
        path = str(reason.values.get("path"))
        if reason.template in _BROAD and (path in _ROOTS or _HOME.fullmatch(path)):
            return reason
    return None
