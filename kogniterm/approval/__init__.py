"""Approval: pure rules that read a command and say what it would do, and what may happen then."""

from kogniterm.approval.display import render, unrender, warnings
from kogniterm.approval.leases import Lease, Offer, explain, grant, offers
from kogniterm.approval.outcomes import SandboxFailure, sandbox_failure
from kogniterm.approval.policy import Circumstances, Unattended, judge
from kogniterm.approval.risk import classify, fills
from kogniterm.approval.rules import Rule, RuleSet, load_rules
from kogniterm.approval.sameness import repeats, same_command
from kogniterm.approval.sanitize import Sanitizer, sanitize
from kogniterm.approval.trust import TrustFinding, TrustRecord, compare
from kogniterm.text.redact import Redactor, redact

__all__ = [
    "Circumstances",
    "Lease",
    "Offer",
    "Redactor",
    "Rule",
    "RuleSet",
    "SandboxFailure",
    "Sanitizer",
    "TrustFinding",
    "TrustRecord",
    "Unattended",
    "classify",
    "compare",
    "explain",
    "fills",
    "grant",
    "judge",
    "load_rules",
    "offers",
    "redact",
    "render",
    "repeats",
    "same_command",
    "sandbox_failure",
    "sanitize",
    "unrender",
    "warnings",
]
