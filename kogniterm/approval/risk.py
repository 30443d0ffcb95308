"""What a command would do, as far as its text tells: from shell text to a `RiskReport`."""

from __future__ import annotations

from collections.abc import Collection

from kogniterm.approval.characters import hidden_characters
from kogniterm.approval.findings import Findings
from kogniterm.approval.places import Ground
from kogniterm.approval.scope import TAINTED, Scope
from kogniterm.approval.walk import Walk
from kogniterm.approval.worst import worst_of_text
from kogniterm.types import RiskReport


def classify(
    command: str,
    *,
    cwd: str | None = None,
    workspace: str | None = None,
    filled: Collection[str] = (),
) -> RiskReport:
    """The risk report of `command`, run in `cwd` with `workspace` (default: `cwd`) as its own.

    `filled` names the shell's variables that earlier commands filled with data they read
    (`fills`). Never raises, does no I/O, and takes time bounded by the text's length. Without
    `cwd`, relative paths count as inside the workspace.
    """
    return _judged(command, cwd, workspace, filled)[0]


def fills(command: str, *, cwd: str | None = None, filled: Collection[str] = ()) -> frozenset[str]:
    """The variables that hold data nobody judged, after `command` ran in a shell with `filled`."""
    scope = _judged(command, cwd, None, filled)[1]
    return frozenset(name for name, value in scope.variables.items() if value.tainted)


def _judged(
    command: str, cwd: str | None, workspace: str | None, filled: Collection[str]
) -> tuple[RiskReport, Scope]:
    findings = Findings()
    ground = Ground.of(cwd, workspace)
    scope = Scope(ground, cwd or ground.workspace, dict.fromkeys(filled, TAINTED))
    hidden = hidden_characters(command)
    if hidden:
        names = ", ".join(f"U+{ord(char):04X}" for char in hidden[:5])
        findings.danger("It contains characters that cannot be seen: {names}.", names=names)
    walk = Walk(findings)
    try:
        walk.text(command, scope)
    except RecursionError:
        findings.ask("It is nested too deeply to be judged.")
    if walk.gave_up:
        what = worst_of_text(command)
        if what:
            findings.danger("Its text {what}.", what=what)
    if findings.has("secret") and findings.has("network"):
        findings.danger("It reads secrets and talks to the network.")
    return findings.report(command), scope
