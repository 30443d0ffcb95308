"""Rows of the questions that wait, as `kogniterm queue inbox` lists them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from kogniterm.addons.fleet.task_table import kind_text
from kogniterm.runtime.plan_edits import plan_as_text
from kogniterm.runtime.unattended.signed_answers import WaitingSession
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import render, render_line, render_request
from kogniterm.types.parked_questions import ParkedQuestion
from kogniterm.ui.locale import _, age, translate
from kogniterm.ui.words.approval_words import effect_text

_LINES = 12


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
        effects = _effect_lines(question)
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


def _effect_lines(question: ParkedQuestion) -> list[str]:
    """Return the effects of an action, as the question tells them."""
    effects = question.report.effects if question.report is not None else ()
    told = [translate(one) for one in question.preview] or [effect_text(one) for one in effects]
    why = [translate(question.ignored)] if question.ignored is not None else []
    return list(dict.fromkeys((*why, *told)))
