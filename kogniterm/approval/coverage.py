"""Check that a permission covers everything a command does, for allow rules and leases."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable

from kogniterm.approval.findings import UNREAD
from kogniterm.types import CHANGING_KINDS, Effect, RiskReport


def uncovered_program(
    report: RiskReport, covers: Callable[[tuple[str, ...]], bool]
) -> tuple[str, ...] | None:
    """Return the first program that `covers` does not speak of, or None.

    What could not be read is never covered.
    """
    return next((argv for argv in report.programs if argv == UNREAD or not covers(argv)), None)


def unnamed_changes(report: RiskReport, programs: Iterable[tuple[str, ...]]) -> tuple[Effect, ...]:
    """Return the changes of files that no argument of `programs` names, as redirections make."""
    words = [word.rstrip("/") for argv in programs for word in argv[1:]]
    named = {posixpath.basename(part) for word in words for part in (word, word.rpartition("=")[2])}
    return tuple(
        effect
        for effect in report.effects
        if effect.kind in CHANGING_KINDS and posixpath.basename(effect.target) not in named
    )
