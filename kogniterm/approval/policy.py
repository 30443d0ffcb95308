"""Policy: from a risk report to a verdict, with a trace of everything that was looked at.

Order, strictest first: the floor, deny rules, the mode's own refusals, ask rules and what may have
run already, a repository's own programs outside a sandbox, allow rules, leases, and last what the
mode does with the label. Auto mode never runs what is dangerous, and runs what needs approval only
inside a sandbox (or where the user typed `--no-sandbox`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kogniterm.approval.floor import floor_reason
from kogniterm.approval.leases import Lease
from kogniterm.approval.repository import repository_reason
from kogniterm.approval.rules import Choice, Rule, RuleSet
from kogniterm.types import (
    ActionRequest,
    ApprovalMode,
    Decision,
    Plan,
    RiskReport,
    RuleTrace,
    Text,
    Verdict,
)

EVERY_COMMAND = Text("Manual mode asks for every command.")
UNKNOWN_OUTCOME = Text(
    "This may have run already: KogniTerm was stopped while it ran, and its outcome is unknown."
)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What besides the command decides.

    `unsandboxed_ok`: the person typed `--no-sandbox`. `safe_unasked`: manual mode may run
    `safe_readonly` without asking. `small_model`: a local model too small to be trusted proposed
    it; `small_model_forced`: the person lets it change more than nothing in auto mode, but never
    delete. `unknown_outcome`: the same
    was started before, and nobody knows how it ended.
    """

    mode: ApprovalMode = "manual"
    sandboxed: bool = False
    unsandboxed_ok: bool = False
    safe_unasked: bool = False
    small_model: bool = False
    small_model_forced: bool = False
    unknown_outcome: bool = False
    folder: str = "/"
    now: float = 0.0


@dataclass
class _Trace:
    entries: list[RuleTrace] = field(default_factory=list)

    def add(self, origin: str, decision: Choice, reason: Text, *, matched: bool = True) -> None:
        self.entries.append(RuleTrace(origin, decision, matched, reason))


def judge(
    report: RiskReport,
    request: ActionRequest | None = None,
    *,
    rules: RuleSet | None = None,
    leases: Iterable[Lease] = (),
    circumstances: Circumstances | None = None,
) -> Verdict:
    """The verdict on `report`; `request` names the tool (default: a command)."""
    now = circumstances or Circumstances()
    trace = _Trace()
    floor = floor_reason(report)
    trace.add(
        "floor", "deny", floor or Text("nothing the floor forbids"), matched=floor is not None
    )
    if floor is not None:
        return Verdict("deny", (floor, *report.reasons), tuple(trace.entries))
    tool = request.tool if request is not None else "execute_command"
    matching = _matching(report, rules or RuleSet(), tool, now.mode, trace)
    denying = tuple(rule.text for rule in matching if rule.decision == "deny")
    if denying:
        return Verdict("deny", (*denying, *report.reasons), tuple(trace.entries))
    dangerous = report.label == "dangerous"
    if dangerous and now.mode == "auto":
        refused = Text("Auto mode does not run dangerous commands.")
        trace.add("mode auto", "deny", refused)
        return Verdict("deny", (refused, *report.reasons), tuple(trace.entries))
    asking = tuple(rule.text for rule in matching if rule.decision == "ask")
    if now.unknown_outcome:
        trace.add("unknown outcome", "ask", UNKNOWN_OUTCOME)
        asking = (UNKNOWN_OUTCOME, *asking)
    if asking or dangerous:
        always = Text("Dangerous commands are always asked about.")
        trace.add("mode manual", "ask", always, matched=dangerous)
        return Verdict("ask", (*asking, *report.reasons), tuple(trace.entries))
    repository = repository_reason(report)
    if repository is not None and not now.sandboxed:
        unconfined = Text("A repository's own programs run unasked in a sandbox only.")
        trace.add(f"mode {now.mode}", "ask", unconfined)
        return Verdict(
            "ask", (repository, unconfined, *_others(report, repository)), tuple(trace.entries)
        )
    allowing = [rule for rule in matching if rule.decision == "allow"]
    if allowing:
        return Verdict("allow", tuple(rule.text for rule in allowing), tuple(trace.entries))
    command = request is None or request.effect == "command"
    lease = _lease(report, leases if command else (), now, trace)
    if lease is not None:
        return Verdict("allow", (lease.text,), tuple(trace.entries), lease_id=lease.id)
    return _by_mode(report, now, trace)


def _others(report: RiskReport, first: Text) -> tuple[Text, ...]:
    return tuple(reason for reason in report.reasons if reason != first)


def _matching(
    report: RiskReport, rules: RuleSet, tool: str, mode: ApprovalMode, trace: _Trace
) -> list[Rule]:
    matching = []
    for rule in rules.rules:
        matched = rule.matches(report, tool=tool, mode=mode)
        trace.add(rule.origin, rule.decision, rule.text, matched=matched)
        if matched:
            matching.append(rule)
    return matching


def _lease(
    report: RiskReport, leases: Iterable[Lease], now: Circumstances, trace: _Trace
) -> Lease | None:
    for lease in leases:
        why = lease.mismatch(report, folder=now.folder, now=now.now)
        trace.add(f"lease {lease.id}", "allow", why or lease.text, matched=why is None)
        if why is None:
            return lease
    return None


def _by_mode(report: RiskReport, now: Circumstances, trace: _Trace) -> Verdict:
    safe = report.label == "safe_readonly"
    if now.mode == "manual":
        if safe and now.safe_unasked:
            return _end(trace, "mode manual", "allow", Text("It only reads."), report)
        return _end(trace, "mode manual", "ask", EVERY_COMMAND, report)
    if now.small_model and any(effect.kind == "delete" for effect in report.effects):
        reason = Text("A small local model may not delete anything by itself.")
        return _end(trace, "mode auto", "ask", reason, report)
    if now.small_model and not now.small_model_forced and not safe:
        reason = Text("A small local model may only read by itself in auto mode.")
        return _end(trace, "mode auto", "ask", reason, report)
    if safe:
        return _end(trace, "mode auto", "allow", Text("It only reads."), report)
    if report.label == "workspace_write":
        return _end(trace, "mode auto", "allow", Text("It changes the workspace only."), report)
    if now.sandboxed:
        return _end(trace, "mode auto", "allow", Text("It runs inside the sandbox."), report)
    if now.unsandboxed_ok:
        return _end(trace, "mode auto", "allow", Text("The person typed --no-sandbox."), report)
    reason = Text("It needs approval, and there is no sandbox to run it in.")
    return _end(trace, "mode auto", "ask", reason, report)


def _end(trace: _Trace, origin: str, kind: Choice, reason: Text, report: RiskReport) -> Verdict:
    trace.add(origin, kind, reason)
    if kind == "allow":
        return Verdict("allow", (reason,), tuple(trace.entries))
    return Verdict("ask", (reason, *report.reasons), tuple(trace.entries))


UNATTENDED_HINT = Text(
    "Start with --allow-reads to let read-only commands run unasked, or with --auto-approve to let "
    "everything run that your rules do not deny."
)
"""Advice to the user where nobody could be asked."""


class Unattended:
    """The approver where nobody can be asked: rejects, and says clearly why."""

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Reject `request`."""
        del report
        nobody = Text("Nobody is there to approve this, so it was not run.")
        reasons = (nobody, *verdict.reasons[:3])
        reason = " ".join(map(str, reasons))
        return Decision("reject", request.command, "unattended", reason, reasons)

    async def review_plan(self, plan: Plan, previous: Plan | None) -> None:
        """Nobody looks at plans here."""
