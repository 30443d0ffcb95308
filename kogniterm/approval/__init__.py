"""Approval: pure rules that read a command and say what it would do."""

from kogniterm.approval.display import render, unrender, warnings
from kogniterm.approval.redact import Redactor, redact
from kogniterm.approval.risk import classify
from kogniterm.approval.sanitize import Sanitizer, sanitize

__all__ = [
    "Redactor",
    "Sanitizer",
    "classify",
    "redact",
    "render",
    "sanitize",
    "unrender",
    "warnings",
]
