"""Questions of sessions that wait without a process: listed, and asked as at the terminal.

What is asked is the question that the session would ask: the same model, drawn by the same driver.
Only its end is another one: the end of the input answers nothing, and the question keeps waiting.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from kogniterm.errors import TurnInterruptedError
from kogniterm.runtime.fixed_questions import RecoveryQuestion
from kogniterm.runtime.plan_edits import PlanDraft, plan_as_text
from kogniterm.runtime.session_approver import Approval
from kogniterm.sessions.records import Intent
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import render, render_line, render_request
from kogniterm.types.parked_questions import AnswerChoice, ParkedQuestion
from kogniterm.ui.locale import _, age, translate
from kogniterm.ui.questions.approval import ApprovalQuestion, Subject
from kogniterm.ui.questions.model_question import ask_user
from kogniterm.ui.questions.plan_review import PlanQuestion
from kogniterm.ui.questions.question import Asker, ask_fixed
from kogniterm.ui.words.approval_words import effect_text, kind_text

if TYPE_CHECKING:
    from kogniterm.runtime.unattended.signed_answers import WaitingSession

_LINES = 12


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


def inbox_rows(found: Sequence[WaitingSession], answer: str) -> list[RenderableType]:
    """Return the waiting questions, each with what is needed to decide whether to look closer.

    `answer` is the command that answers one, without its ID.
    """
    rows: list[RenderableType] = []
    for one in found:
        question = one.question
        head = Text(one_line(one.session.title or one.session.id), "heading")
        line = Text.assemble((one.session.id, "accent"), "  ", head)
        where = f"{kind_text(question)} · {question.host}:{render_line(question.folder)} · "
        where += age(max(time.time() - one.since, 0.0))
        rows += [line, Padding(Text(where, "muted"), (0, 0, 0, 2))]
        body = Text("\n".join(_body(question)))
        rows.append(Padding(body, (0, 0, 0, 4)))
        effects = effect_lines(question)
        if effects:
            rows.append(Padding(Text("\n".join(effects), "warn"), (0, 0, 0, 4)))
        line = Text(f"{answer} {one.session.id}", "command")
        rows += [Padding(line, (0, 0, 0, 2)), Text("")]
    return rows


def _body(question: ParkedQuestion) -> list[str]:
    """Return what is asked about, in at most a few lines."""
    if question.plan is not None:
        lines = plan_as_text(question.plan).splitlines()
    elif question.request is not None:
        sign = "$ " if question.request.effect in ("command", "hosts") else ""
        lines = f"{sign}{render_request(question.request)}".split("\n")
    elif question.kind == "unknown":
        lines = f"$ {render(question.about.get('command', question.title))}".split("\n")
    else:
        lines = [render_line(translate(line)) for line in question.lines]
        lines += [f"- {render_line(one)}" for one in question.answers]
    more = len(lines) - _LINES
    return lines if more <= 0 else [*lines[:_LINES], _("({count} more lines)").format(count=more)]


def effect_lines(question: ParkedQuestion) -> list[str]:
    """Return the effects of an action, as the question tells them."""
    effects = question.report.effects if question.report is not None else ()
    told = [translate(one) for one in question.preview] or [effect_text(one) for one in effects]
    why = [translate(question.ignored)] if question.ignored is not None else []
    return list(dict.fromkeys((*why, *told)))
