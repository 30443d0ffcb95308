"""Slash commands: one table that feeds dispatch, completion, /help and the documentation."""

from kogniterm.ui.commands.registry import Command, Registry, split_line

__all__ = ["Command", "Registry", "split_line"]
