"""Approval: pure rules that read a command and say what it would do, and what may happen then."""

from kogniterm.approval.analysis.analyser import classify, fills
from kogniterm.approval.analysis.footprint import Footprint, disjoint, footprint
from kogniterm.approval.analysis.same_command import repeats, same_command
from kogniterm.approval.analysis.sandbox_failures import SandboxFailure, sandbox_failure
from kogniterm.approval.policy.leases import Lease, Offer, explain, grant, offers
from kogniterm.approval.policy.rules import Rule, RuleSet, load_rules
from kogniterm.approval.policy.verdict import Circumstances, Unattended, judge
from kogniterm.text.redact import Redactor, redact
from kogniterm.text.sanitize import Sanitizer, sanitize
from kogniterm.text.visible import render, unrender, warnings

__all__ = [
    "Circumstances",
    "Footprint",
    "Lease",
    "Offer",
    "Redactor",
    "Rule",
    "RuleSet",
    "SandboxFailure",
    "Sanitizer",
    "Unattended",
    "classify",
    "disjoint",
    "explain",
    "fills",
    "footprint",
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
