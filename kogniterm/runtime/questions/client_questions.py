"""Questions to a user behind another program, as text: an agent's form, an editor's panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kogniterm.runtime.questions.approval_facts import (
    ActionFacts,
    Say,
    label_phrase,
    proposed_by,
)
from kogniterm.text.file_text import count_changes, shown_lines
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import (
    clean,
    render_line,
    render_request,
    warnings,
)
from kogniterm.types import ActionRequest, Phrase, Plan

if TYPE_CHECKING:
    from kogniterm.runtime.turn_ports import Question

HOSTS_STOP = Phrase("It stops where answers fail or differ; the hosts behind are left alone.")
_MOST_DETAIL = 20_000
"""Characters of the detail of a question, such as a diff; the rest is in the journal."""


def approving_word(request: ActionRequest) -> str:
    """Return the word that approves a dangerous command: on other machines, their number."""
    return str(len(request.hosts)) if request.effect == "hosts" else "yes"


def action_lines(facts: ActionFacts, folder: str, say: Say) -> list[str]:
    """Return what the terminal's question shows besides the command, a line each."""
    request = facts.request
    told = [*warnings(request.command), *facts.refusal]
    lines = [f"! {say(text)}" for text in told]
    if request.effect != "hosts":
        lines.append(say(Phrase("Folder: {folder}", {"folder": render_line(folder)})))
    if request.purpose:
        why = {"why": one_line(facts.purpose(say), 400)}
        lines.append(say(Phrase("Purpose: {why}", why)))
    asks = proposed_by(request)
    if asks is not None:
        lines.append(say(asks))
    if request.effect == "hosts":
        count = {"count": len(request.hosts), "hosts": render_line(", ".join(request.hosts))}
        lines.append(say(Phrase("Hosts ({count}): {hosts}", count)))
        if len(facts.report.groups) > 1:
            lines.append(say(HOSTS_STOP))
    elif request.hosts:
        lines.append(say(Phrase("Contacts: {hosts}", {"hosts": ", ".join(request.hosts)})))
    risk = {"label": label_phrase(facts.report.label)}
    lines.append(say(Phrase("Risk: {label}", risk)))
    effects = facts.effects(say)
    lines += [f"- {effect}" for effect in effects]
    return [*lines, *(f"- {reason}." for reason in facts.reasons(say, told=bool(effects)))]


def action_text(facts: ActionFacts, folder: str, say: Say) -> str:
    """Return a question about an action: the whole command, what it does, and its detail."""
    request = facts.request
    lines = [say(Phrase("KogniTerm asks to run this:")), "", render_request(request), ""]
    lines += action_lines(facts, folder, say)
    if request.detail:
        shown = shown_lines(request.detail[:_MOST_DETAIL])
        if len(request.detail) > _MOST_DETAIL:
            del shown[-1]
        lines += ["", *shown]
        if left := sum(count_changes(request.detail, len(shown))):
            lines.append(say(Phrase("Changed lines not shown here: {count}", {"count": left})))
    return "\n".join(lines)


def plan_text(plan: Plan, say: Say) -> str:
    """Return a question whether a plan may start."""
    lines = [say(Phrase("KogniTerm asks to start this plan:")), "", one_line(plan.goal, 400)]
    lines += [f"{step.id}. {one_line(step.what, 400)}" for step in plan.walk()]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class AskedText:
    """A question of the model or of KogniTerm; `answers` are those it suggests, as shown."""

    text: str
    answers: tuple[str, ...]
    _values: tuple[str, ...]

    def meant(self, said: str | None) -> str | None:
        """Return the answer that `said` stands for, in English where it is KogniTerm's own."""
        words = (said or "").strip()
        if words in self.answers:
            return self._values[self.answers.index(words)]
        return words or None


def asked_text(question: Question, answers: Sequence[str | Phrase], say: Say) -> AskedText:
    """Return a question in the user's language."""
    words = [question] if isinstance(question, str) else list(map(say, question))
    shown = tuple(clean(one if isinstance(one, str) else say(one)).strip() for one in answers)
    return AskedText(clean("\n".join(words)), shown, tuple(map(str, answers)))
