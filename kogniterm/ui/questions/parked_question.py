"""Questions of sessions that wait without a process: listed, and asked as at the terminal.

What is asked is the question that the session would ask: the same model, drawn by the same driver.
Only its end is another one: the end of the input answers nothing, and the question keeps waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from kogniterm.errors import TurnInterruptedError
from kogniterm.runtime.fixed_questions import RecoveryQuestion
from kogniterm.runtime.plan_edits import PlanDraft
from kogniterm.runtime.session_approver import Approval
from kogniterm.sessions.records import Intent
from kogniterm.text.shorten import one_line
from kogniterm.types.parked_questions import AnswerChoice, ParkedQuestion
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.approval import ApprovalQuestion, Subject
from kogniterm.ui.questions.model_question import ask_user
from kogniterm.ui.questions.plan_review import PlanQuestion
from kogniterm.ui.questions.question import Asker, ask_fixed


@dataclass(frozen=True)
class ParkedApproval(ApprovalQuestion):
    """The approval question of a session that waits."""

    def ended(self) -> Approval:
        """Answer nothing. Raises `TurnInterruptedError`."""
        raise TurnInterruptedError("The question was not answered; it keeps waiting.")

    def _answers(self) -> list[tuple[str, str, str]]:
        later = _("answer later")
        answers = super()._answers()
        return [one if one[0] != "stop" else ("stop", later, later) for one in answers]


async def ask_parked(asker: Asker, question: ParkedQuestion) -> tuple[AnswerChoice, str] | None:
    """Ask the user; return the answer with its words, None for no answer.

    Raises `TurnInterruptedError` when the user leaves the question open.
    """
    if question.kind == "unknown":
        command = question.about.get("command", question.title)  # the title is one cut line
        intent = Intent("", command, question.folder, "")
        return await ask_fixed(asker, RecoveryQuestion(intent, question.output)), ""
    if question.plan is not None:
        draft = PlanDraft(question.plan, question.previous)
        review = await asker.ask(PlanQuestion(draft, editable=False, asks=question.grants))
        return (review.grant or "approve") if review.kind == "approve" else "reject", review.reason
    if question.request is None or question.report is None or question.verdict is None:
        words = "\n".join(translate(line) for line in question.lines)
        reply = await ask_user(asker, words, question.answers)
        return None if reply is None else ("words", reply)
    subject = Subject(
        question.request,
        question.report,
        question.verdict,
        cwd=question.folder,
        preview=question.preview,
    )
    decision = (await asker.ask(ParkedApproval(subject))).decision
    text = decision.command if decision.kind == "edit" else decision.reason
    return decision.kind, text


def question_head(session_id: str, title: str, question: ParkedQuestion) -> Text:
    """Return the line above a question: its session, and the machine where it came up."""
    told = f"  {one_line(title or session_id)}"
    return Text.assemble((session_id, "accent"), (told, "heading"), (f"  {question.host}", "muted"))
