"""The tools offered to the model; `tool` marks a function of another package as one."""

from kogniterm.tools.plugins import tool

__all__ = ["tool"]
