"""Approval: pure rules that read a command and say what it would do, and what may happen then.

Each name is loaded at its first use: the prompt shows words of approval long before anything is to
be approved, and a session that only answers reads no command.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kogniterm.approval.analysis.analyser import classify, values_after
    from kogniterm.approval.analysis.arguments import ShellValues
    from kogniterm.approval.analysis.footprint import Footprint, disjoint, footprint
    from kogniterm.approval.analysis.same_command import repeats, same_command
    from kogniterm.approval.analysis.sandbox_failures import SandboxFailure, sandbox_failure
    from kogniterm.approval.analysis.secret_use import SecretUse, names_variables, secret_use
    from kogniterm.approval.analysis.shown_command import mask_command, redact_command
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
    "SecretUse",
    "ShellValues",
    "Unattended",
    "classify",
    "disjoint",
    "explain",
    "footprint",
    "grant",
    "judge",
    "load_rules",
    "mask_command",
    "names_variables",
    "offers",
    "redact",
    "redact_command",
    "render",
    "repeats",
    "same_command",
    "sandbox_failure",
    "sanitize",
    "secret_use",
    "unrender",
    "values_after",
    "warnings",
]

_NAMES = {
    "kogniterm.approval.analysis.analyser": ("classify", "values_after"),
    "kogniterm.approval.analysis.arguments": ("ShellValues",),
    "kogniterm.approval.analysis.footprint": ("Footprint", "disjoint", "footprint"),
    "kogniterm.approval.analysis.same_command": ("repeats", "same_command"),
    "kogniterm.approval.analysis.sandbox_failures": ("SandboxFailure", "sandbox_failure"),
    "kogniterm.approval.analysis.shown_command": ("mask_command", "redact_command"),
    "kogniterm.approval.analysis.secret_use": ("SecretUse", "names_variables", "secret_use"),
    "kogniterm.approval.policy.leases": ("Lease", "Offer", "explain", "grant", "offers"),
    "kogniterm.approval.policy.rules": ("Rule", "RuleSet", "load_rules"),
    "kogniterm.approval.policy.verdict": ("Circumstances", "Unattended", "judge"),
    "kogniterm.text.redact": ("Redactor", "redact"),
    "kogniterm.text.sanitize": ("Sanitizer", "sanitize"),
    "kogniterm.text.visible": ("render", "unrender", "warnings"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(_MODULES[name]), name))
