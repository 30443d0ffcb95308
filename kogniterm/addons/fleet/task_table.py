"""Tasks of a queue on the screen: a table, the details of one, and how far a batch is."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kogniterm.addons.fleet.queue_values import (
    ENDED_STATES,
    STATES,
    QueueCounts,
    QueuedTask,
    TaskOverview,
    TaskState,
)
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import render, render_line
from kogniterm.types import Phrase
from kogniterm.types.parked_questions import ParkedQuestion
from kogniterm.ui.locale import _, age, amount, duration, tokens, translate

STYLES: dict[TaskState, str] = {
    "queued": "muted",
    "running": "accent",
    "parked": "warn",
    "unknown": "warn",
    "done": "good",
    "failed": "bad",
    "cancelled": "muted",
}
_BAR = 30


def state_text(state: TaskState) -> str:
    """Return a state in words."""
    return {
        "queued": _("queued"),
        "running": _("running"),
        "parked": _("waits for you"),
        "unknown": _("outcome unknown"),
        "done": _("done"),
        "failed": _("failed"),
        "cancelled": _("cancelled"),
    }[state]


def reason_text(reason: str | Phrase) -> str:
    """Return why a task stands as it does; a sentence of ours in the user's language."""
    return translate(reason) if isinstance(reason, Phrase) else reason


def task_table(tasks: Sequence[QueuedTask]) -> Table:
    """Return the tasks, one a row."""
    table = Table.grid(padding=(0, 2))
    for _number in range(3):
        table.add_column(no_wrap=True)
    table.add_column(ratio=1)  # gives way first; its text stays on one line
    table.add_column(no_wrap=True, justify="right")
    now = time.time()
    for one in tasks:
        style = STYLES[one.state]
        words = one_line(one.task.text, 200)
        if one.state in ("failed", "cancelled") and one.reason:
            words += f" — {one_line(reason_text(one.reason), 200)}"
        table.add_row(
            Text(one.id, "accent"),
            Text(state_text(one.state), style),
            Text(_where(one, now), "muted"),
            Text(words, no_wrap=True, overflow="ellipsis"),
            Text(_spent(one), "muted"),
        )
    return table


def overview_table(tasks: Sequence[TaskOverview]) -> Table:
    """Return the tasks of all users, without their contents, one a row."""
    table = Table.grid(padding=(0, 2))
    for _number in range(6):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    now = time.time()
    for one in tasks:
        table.add_row(
            Text(render_line(one.user)),
            Text(render_line(one.id), "accent"),
            Text(render_line(one.queue)),
            Text(state_text(one.state), STYLES[one.state]),
            Text(render_line(one.worker), "muted"),
            Text(age(max(now - one.updated, 0.0)), "muted"),
            Text(amount("dollars", one.cost) if one.cost else "", "muted"),
        )
    return table


def _where(one: QueuedTask, now: float) -> str:
    """Return where it runs, or since when it is as it is."""
    if one.state == "running":
        return one.worker
    if one.state == "queued" and one.task.due > now:
        return _("in {time}").format(time=duration(one.task.due - now))
    return age(max(now - one.updated, 0.0))


def _spent(one: QueuedTask) -> str:
    if one.cost:
        return amount("dollars", one.cost)
    return _("{count} tokens").format(count=tokens(one.tokens)) if one.tokens else ""


def totals(counts: QueueCounts) -> Text:
    """Return how many tasks are in each state, in one line."""
    line = Text()
    for state in STATES:
        count = counts.states.get(state, 0)
        if count:
            line.append("  ·  " if line.plain else "", "muted")
            line.append(f"{count} {state_text(state)}", STYLES[state])
    if counts.cost:
        line.append(f"  ·  {amount('dollars', counts.cost)}", "muted")
    return line


def task_details(
    one: QueuedTask, question: ParkedQuestion | None, hindrance: Phrase | None
) -> list[RenderableType]:
    """Return everything about a task."""
    head = Text.assemble((one.id, "accent"), "  ", (state_text(one.state), STYLES[one.state]))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="muted", no_wrap=True)
    table.add_column(overflow="fold")
    rows = [
        (_("Task"), render(one.task.text)),
        (_("Folder"), "" if one.task.workspace else render_line(one.task.folder)),
        (_("Workspace"), render_line(one.task.workspace)),
        (_("Commit"), one.commit_id),
        (_("Queue"), one.task.queue),
        (_("Batch"), one.task.batch),
        (_("Options"), render_line(" ".join(one.task.options))),
        (_("Worker"), one.worker),
        (_("Starts lost"), str(one.lost) if one.lost else ""),
        (_("Took"), duration(one.seconds) if one.seconds else ""),
        (_("Tokens"), tokens(one.tokens) if one.tokens else ""),
        (_("Cost"), amount("dollars", one.cost) if one.cost else ""),
        (_("Reason"), render_line(reason_text(one.reason))),
        (_("Waits for"), translate(hindrance) if hindrance is not None else ""),
        (_("Answer"), render(one.answer)),
    ]
    if question is not None:
        asked = f"{kind_text(question)}: {render_line(question.title)}"
        rows.append((_("Question"), asked))
        rows.append((_("To answer"), f"kogniterm queue answer {one.id}"))
    for name, value in rows:
        if value:
            table.add_row(name, Text(value))
    return [head, table]


def summary_table(tasks: Sequence[QueuedTask], counts: QueueCounts) -> Table:
    """Return what a batch came to, a state a row."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _number in range(4):
        table.add_column(justify="right", no_wrap=True)
    head = (_("State"), _("Tasks"), _("Time"), _("Tokens"), _("Cost"))
    table.add_row(*(Text(word, "muted") for word in head))
    for state in STATES:
        found = [one for one in tasks if one.state == state]
        if found:
            cost = sum(one.cost or 0.0 for one in found)
            table.add_row(
                Text(state_text(state), STYLES[state]),
                str(len(found)),
                duration(sum(one.seconds for one in found)),
                tokens(sum(one.tokens for one in found)),
                amount("dollars", cost) if cost else "–",
            )
    table.add_row(
        Text(_("all"), "heading"),
        str(counts.total),
        duration(sum(one.seconds for one in tasks)),
        tokens(counts.tokens),
        amount("dollars", counts.cost) if counts.cost else "–",
    )
    return table


def progress_lines(
    counts: QueueCounts, rate: float, running: Sequence[QueuedTask], *, unicode: bool
) -> list[RenderableType]:
    """Return a bar, the totals, rate and time left, and what runs. `rate`: tasks ended a second."""
    ended = sum(counts.states.get(state, 0) for state in ENDED_STATES)
    filled = _BAR * ended // counts.total if counts.total else 0
    full, empty = ("█", "░") if unicode else ("#", "-")
    bar = Text.assemble((full * filled, "good"), (empty * (_BAR - filled), "muted"))
    bar.append(f"  {ended} / {counts.total}", "heading")
    if rate > 0:
        bar.append("  " + _("{count} a minute").format(count=f"{rate * 60:.1f}"), "muted")
        ahead = counts.states.get("queued", 0) + counts.states.get("running", 0)
        if ahead:
            left = duration(ahead / rate)
            bar.append("  " + _("about {time} left").format(time=left), "muted")
    lines: list[RenderableType] = [bar, totals(counts)]
    if running:
        lines.append(task_table(running))
    waiting = sum(counts.states.get(state, 0) for state in ("parked", "unknown"))
    if waiting:
        lines.append(
            Text.assemble((_("To answer:"), "muted"), (" kogniterm queue inbox", "command"))
        )
    return lines


def kind_text(question: ParkedQuestion) -> str:
    """Return the name of the kind of a question."""
    dangerous = question.report is not None and question.report.label == "dangerous"
    return {
        "action": _("dangerous command") if dangerous else _("approval"),
        "plan": _("plan"),
        "question": _("question"),
        "unknown": _("outcome unknown"),
    }[question.kind]
