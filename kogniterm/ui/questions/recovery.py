"""The question about a command that may or may not have run, because KogniTerm was stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kogniterm.ui.locale import _
from kogniterm.ui.questions.choice import ChoiceQuestion, Option

if TYPE_CHECKING:
    from kogniterm.runtime.turn_ports import RecoveryChoice
    from kogniterm.sessions.records import Intent
    from kogniterm.ui.questions.question import Asker


async def ask_what_to_do(asker: Asker, intent: Intent, output: str) -> RecoveryChoice:
    """Ask what becomes of a command whose outcome is unknown, given its output so far."""
    answer = await asker.ask(_question(intent.command, output))
    return "check" if answer == "check" else "again" if answer == "again" else "skip"


def _question(command: str, output: str) -> ChoiceQuestion:
    from kogniterm.text.visible import render

    return ChoiceQuestion(
        _("KogniTerm was stopped while this command ran; nobody knows how it ended:"),
        [
            *(
                f"{'  ' if number else '$ '}{line}"
                for number, line in enumerate(render(command).split("\n"))
            ),
            *(f"  {line}" for line in render(output).split("\n")),
        ],
        [
            Option("check", _("let the model check what it did"), "check"),
            Option("again", _("let the model propose it again"), "again"),
            Option("skip", _("go on without it"), "skip"),
        ],
    )
