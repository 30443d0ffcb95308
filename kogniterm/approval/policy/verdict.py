"""Policy: from a risk report to a verdict, with a trace of every rule and lease considered.

Order, strictest first: the hard limits, deny rules, the mode's own refusals, ask rules, what may
have run already and what receives a secret of the user, a repository's own programs outside a
sandbox, leases, allow rules, and last what the mode does with the label. Nothing dangerous runs
without the user's word, and auto mode runs what needs approval only inside a sandbox (or where the
user typed `--no-sandbox`). Plan mode refuses whatever could change something, and treats the rest
as manual mode does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.approval.analysis.shared_findings import ALWAYS_DENIED, DENIED_FOR_ROOTS
from kogniterm.approval.policy.rules import Choice, RuleSet
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    ApprovalMode,
    Decision,
    Phrase,
    Plan,
    RiskReport,
    RuleTrace,
    Verdict,
)

if TYPE_CHECKING:
    from kogniterm.approval.policy.leases import Lease

EVERY_COMMAND = Phrase("In ask mode, every action needs approval.")
ASKED_BY_MODE: Mapping[ApprovalMode, Phrase] = {
    "manual": EVERY_COMMAND,
    "accept-edits": Phrase("In accept-edits mode, only edits of workspace files run unasked."),
}
"""The reason to ask, by mode, where no other is known."""
ONLY_PLANS = Phrase("Plan mode only reads; it changes nothing.")
ONLY_READS = Phrase("Without a sandbox, a small local model can only read without approval.")
ONLY_UNDOABLE = Phrase("A small local model can only do what /undo takes back without approval.")
UNKNOWN_OUTCOME = Phrase(
    "May already have run: KogniTerm stopped while it was running, and its outcome is unknown."
)


class Circumstances(NamedTuple):
    """The facts that decide besides the command.

    `unsandboxed_ok`: the user typed `--no-sandbox`. `safe_unasked`: manual mode may run
    `safe_readonly` without asking. `small_model`: a local model too small to be trusted proposed
    it. `undoable`: undo keeps all of the workspace that it may change. `unknown_outcome`: the same
    command was started before, and its outcome is unknown. `guarded`: an edit changes a file that
    other tools run or read by themselves. `at_prompt`: a user sits at the prompt. `secret`: a
    sentence about secrets of the user that it receives.
    """

    mode: ApprovalMode = "manual"
    sandboxed: bool = False
    unsandboxed_ok: bool = False
    safe_unasked: bool = False
    small_model: bool = False
    undoable: bool = False
    unknown_outcome: bool = False
    guarded: bool = False
    at_prompt: bool = False
    folder: str = "/"
    secret: Phrase | None = None


class _Trace(list[RuleTrace]):
    def add(self, origin: str, decision: Choice, reason: Phrase, *, matched: bool = True) -> None:
        self.append(RuleTrace(origin, decision, matched, reason))


def judge(
    report: RiskReport,
    request: ActionRequest | None = None,
    *,
    rules: RuleSet | None = None,
    leases: Iterable[Lease] = (),
    circumstances: Circumstances | None = None,
) -> Verdict:
    """Return the verdict on `report`; `request` names the tool (default: a command)."""
    now = circumstances or Circumstances()
    trace = _Trace()
    limit = hard_limit_reason(report)
    trace.add("floor", "deny", limit or Phrase("none apply"), matched=limit is not None)
    if limit is not None:
        return Verdict("deny", (limit, *report.reasons), tuple(trace))
    tool = request.tool if request is not None else EXECUTE_COMMAND
    matching = _matching(report, rules or RuleSet(), tool, now.mode, trace)
    denying = tuple(text for decision, text in matching if decision == "deny")
    if denying:
        return Verdict("deny", (*denying, *report.reasons), tuple(trace))
    refused = _refused_by_mode(report, now)
    if refused is not None:
        trace.add(f"mode {now.mode}", "deny", refused)
        return Verdict("deny", (refused, *report.reasons), tuple(trace))
    dangerous = report.label == "dangerous"
    asking = tuple(text for decision, text in matching if decision == "ask")
    if now.unknown_outcome:
        trace.add("unknown outcome", "ask", UNKNOWN_OUTCOME)
        asking = (UNKNOWN_OUTCOME, *asking)
    if now.secret is not None:
        trace.add("secret", "ask", now.secret)
        asking = (now.secret, *asking)
    if asking or dangerous:
        always = Phrase("Dangerous commands always need approval.")
        trace.add(f"mode {now.mode}", "ask", always, matched=dangerous)
        return Verdict("ask", (*asking, *report.reasons), tuple(trace))
    repository = repository_reason(report)
    if repository is not None and not now.sandboxed:
        unconfined = Phrase("A repository's own programs run without approval only in a sandbox.")
        trace.add(f"mode {now.mode}", "ask", unconfined)
        others = (reason for reason in report.reasons if reason != repository)
        return Verdict("ask", (repository, unconfined, *others), tuple(trace))
    lease = _lease(report, _of_effect(leases, request), now, trace)
    if lease is not None:
        return Verdict("allow", (lease.text,), tuple(trace), lease_id=lease.id)
    allowing = tuple(text for decision, text in matching if decision == "allow")
    if allowing:
        return Verdict("allow", allowing, tuple(trace))
    kind, reason = _by_mode(report, now, request)
    trace.add(f"mode {now.mode}", kind, reason)
    more = report.reasons if kind == "ask" else ()
    return Verdict(kind, (reason, *more), tuple(trace))


def _matching(
    report: RiskReport, rules: RuleSet, tool: str, mode: ApprovalMode, trace: _Trace
) -> list[tuple[Choice, Phrase]]:
    """Return the decisions of the rules about a command, each with its reason."""
    matching: list[tuple[Choice, Phrase]] = []
    for rule in rules.rules:
        decision, text = rule.decision, rule.text
        matched = rule.matches(report, tool=tool, mode=mode)
        if not matched and decision == "allow" and rule.applies(tool, mode):
            text = rule.mismatch(report, tool=tool) or text
        elif not matched and decision != "allow" and rule.may_match(report, tool=tool, mode=mode):
            matched, decision = True, "ask"
            text = Phrase("A rule may apply to this: {rule}", {"rule": text})
        trace.add(rule.origin, decision, text, matched=matched)
        if matched:
            matching.append((decision, text))
    return matching


def _of_effect(leases: Iterable[Lease], request: ActionRequest | None) -> list[Lease]:
    """Return the leases that speak about such a request, those that need no sandbox first."""
    effect = request.effect if request is not None else "command"
    special = {"edits": "edit", "calls": "external", "server": "external"}
    found = [lease for lease in leases if special.get(lease.kind, "command") == effect]
    return sorted(found, key=lambda lease: not lease.outside)


def _lease(
    report: RiskReport, leases: Iterable[Lease], now: Circumstances, trace: _Trace
) -> Lease | None:
    for lease in leases:
        why = lease.mismatch(report, folder=now.folder)
        if lease.kind == "runs" and not now.sandboxed:
            why = Phrase("it applies only in a sandbox")
        elif now.guarded:
            why = Phrase("it does not cover files that other tools run or read automatically")
        elif why is None and lease.outside:
            why = repository_reason(report)
        trace.add(f"lease {lease.id}", "allow", why or lease.text, matched=why is None)
        if why is None:
            return lease
    return None


def only_plans(verdict: Verdict) -> bool:
    """Return whether plan mode refused this, and no rule or limit."""
    return any(one.origin == "mode plan" and one.decision == "deny" for one in verdict.trace)


def _refused_by_mode(report: RiskReport, now: Circumstances) -> Phrase | None:
    """Return why the mode refuses what no rule and no limit denies, or None."""
    if now.mode == "plan" and report.label != "safe_readonly":
        return ONLY_PLANS
    if now.mode == "auto" and report.label == "dangerous" and not now.at_prompt:
        return Phrase("In auto mode, dangerous actions need approval at the prompt.")
    return None


def _by_mode(
    report: RiskReport, now: Circumstances, request: ActionRequest | None
) -> tuple[Choice, Phrase]:
    effect = request.effect if request is not None else "command"
    if now.mode != "auto":
        if report.label == "safe_readonly" and (now.safe_unasked or now.mode == "plan"):
            return "allow", Phrase("Only reads.")
        edits = now.mode == "accept-edits" and effect == "edit"
        if edits and not now.small_model and _only_edits(report):
            return "allow", Phrase("Edits a file of the workspace; /undo restores it.")
        return "ask", ASKED_BY_MODE[now.mode]
    if effect == "command" or report.label in ("safe_readonly", "workspace_write"):
        safe = report.label == "safe_readonly"
        if now.small_model and _loses_files(report):
            return "ask", Phrase("A small local model cannot delete anything without approval.")
        if now.small_model and not safe and not now.sandboxed:
            return "ask", ONLY_READS
        if now.small_model and not safe and not (now.undoable and _stays_inside(report)):
            return "ask", ONLY_UNDOABLE
        if safe:
            return "allow", Phrase("Only reads.")
        if report.label == "workspace_write":
            return "allow", Phrase("Changes only the workspace.")
        if now.sandboxed:
            return "allow", Phrase("Runs in the sandbox.")
        if now.unsandboxed_ok:
            return "allow", Phrase("The sandbox is switched off.")
        return "ask", Phrase("Needs approval because no sandbox is available.")
    if now.unsandboxed_ok:
        return "allow", Phrase("The sandbox is switched off.")
    return "ask", Phrase("Needs approval: the sandbox confines only commands.")


def _only_edits(report: RiskReport) -> bool:
    """Return whether all effects are edits of files that accept-edits mode may change."""
    if report.label != "workspace_write" or not report.effects:
        return False
    return all(one.kind in _EDITS and not one.outside for one in report.effects)


_EDITS = frozenset({"create", "write", "overwrite"})


def _loses_files(report: RiskReport) -> bool:
    """Return whether a file is deleted, and not moved."""
    return any(one.kind == "delete" and not one.source for one in report.effects)


def _stays_inside(report: RiskReport) -> bool:
    """Return whether its text tells of effects on the workspace alone, besides reading.

    A name known only at run time counts as inside: the sandbox lets nothing else be written.
    """
    inside = (*_EDITS, "delete", "execute")
    return all(
        one.kind == "read"
        or (one.kind in inside and (not one.outside or one.target.startswith("…")))
        for one in report.effects
    )


UNATTENDED_HINT = Phrase(
    "Use --allow-reads to run read-only commands without a question, or "
    "--auto-approve to also run what your rules and the sandbox permit."
)
"""Advice to the user where no user could be asked."""
AUTO_HINT = Phrase(
    "Allow it with a rule (kogniterm help rules), or give the task at the prompt, where you are "
    "asked."
)
"""The same in auto mode, which these options have switched on already."""


class Unattended:
    """The approver for runs without a user: rejects every request, with the reason."""

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Reject `request`."""
        del report
        nobody = Phrase("No user is available to approve this.")
        reasons = (nobody, *verdict.reasons[:3])
        reason = " ".join(map(str, reasons))
        return Decision("reject", request.command, "unattended", reason, reasons)

    async def review_plan(self, plan: Plan, previous: Plan | None) -> None:
        """Accept the plan: there is no user to review it."""


_HOME = re.compile(r"(?:/home/[^/]+|/Users/[^/]+|/root)(?:/\*)?")
_ROOTS = frozenset({"/", "/*", "~", "~/*", "/home", "/home/*", "/etc", "/usr", "/boot", "/var"})


def hard_limit_reason(report: RiskReport) -> Phrase | None:
    """Return why a hard limit denies this command, or None if none does."""
    for reason in report.reasons:
        if reason.template in ALWAYS_DENIED:
            return reason
        path = str(reason.values.get("path"))
        if reason.template in DENIED_FOR_ROOTS and (path in _ROOTS or _HOME.fullmatch(path)):
            return reason
    return None


SETTINGS_RUN = Phrase("The repository's settings make git run another program ({name}).")
HOOKS_RUN = Phrase("Runs the repository's own hooks ({name}).")
UNKNOWN_REPOSITORY = Phrase("The repository that git would use is unknown ({path}).")
VARIABLES_STEER = Phrase("The variable {name} is set, so git may use another repository.")
_ALL = frozenset(
    one.template for one in (SETTINGS_RUN, HOOKS_RUN, UNKNOWN_REPOSITORY, VARIABLES_STEER)
)


def repository_reason(report: RiskReport) -> Phrase | None:
    """Return why git may run a repository's own programs, or None when it does not."""
    return next((reason for reason in report.reasons if reason.template in _ALL), None)
