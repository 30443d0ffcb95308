"""Approval: pure rules that read a command and say what it would do, and what may happen then.

Each name is loaded at its first use: the prompt shows words of approval long before anything is to
be approved, and a session that only answers reads no command. `__init__.pyi` has the types.
"""

from importlib import import_module

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


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(_MODULES[name]), name))
