"""Whether a permission speaks of everything a command does: shared by allow rules and leases."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from kogniterm.approval.findings import UNREAD
from kogniterm.types import CHANGING_KINDS, Effect, RiskReport


def uncovered_program(
    report: RiskReport, covers: Callable[[tuple[str, ...]], bool]
) -> tuple[str, ...] | None:
    """Return the first program that `covers` does not speak of, or None.

    What could not be read is never covered.
    """
    return next((argv for argv in report.programs if argv == UNREAD or not covers(argv)), None)


def unnamed_changes(report: RiskReport) -> tuple[Effect, ...]:
    """Return the changes of files that no program's own arguments name, as redirections make."""
    words = [word for argv in report.programs for word in argv[1:]]
    return tuple(
        effect
        for effect in report.effects
        if effect.kind in CHANGING_KINDS
        and not any(posixpath.basename(effect.target) in word for word in words)
    )
