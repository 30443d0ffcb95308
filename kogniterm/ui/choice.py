"""A question with a few fixed answers."""

from __future__ import annotations

from dataclasses import dataclass

from kogniterm.ui.locale import _


@dataclass(frozen=True, slots=True)
class Option:
    """One answer: its key, its words, the value it stands for."""

    key: str
    words: str
    value: str


def unknown_outcome(command: str, output: str) -> tuple[str, list[str], list[Option]]:
    """The question about a command that may or may not have run: title, body, answers."""
    from kogniterm.approval.display import render

    return (
        _("KogniTerm was stopped while this command ran; nobody knows how it ended:"),
        [f"$ {render(command)}", *(f"  {line}" for line in render(output).split("\n"))],
        [
            Option("c", _("let the model check what it did"), "check"),
            Option("a", _("let the model propose it again"), "again"),
            Option("g", _("go on without it"), "skip"),
        ],
    )
