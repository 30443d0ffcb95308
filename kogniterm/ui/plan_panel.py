"""The plan on the screen: a panel while a turn runs, one line per step that changes state."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kogniterm.types import Evidence, Plan, PlanStep
from kogniterm.ui.clean import one_line
from kogniterm.ui.locale import _
from kogniterm.ui.paint import Painter

_STYLES = {"done": "good", "failed": "bad", "active": "accent", "pending": "", "skipped": "muted"}


def whole(plan: Plan, painter: Painter) -> RenderableType:
    """The plan as it is written once, when it is made or rewritten."""
    head = Text()
    title = _("Plan") if plan.revision == 1 else _("Plan, revision {n}").format(n=plan.revision)
    head.append(title, "heading")
    head.append(f" {painter.symbol('arrow')} {one_line(plan.goal)}", "muted")
    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True)
    rows.add_column()
    for number, step in walk(plan):
        indent = " " * (2 * number.count(".") + 1)
        sign = Text.assemble(indent, (painter.symbol(step.status), _STYLES[step.status]))
        sign.append(f" {number}.", "muted")
        rows.add_row(sign, _words(step, painter))
    return Group(head, rows, Text(""))


def window(plan: Plan, painter: Painter, width: int, rows: int) -> list[str]:
    """At most `rows` lines of the plan around the step in progress."""
    lines = list(_lines(plan, painter))
    active = next((i for i, (_n, step) in enumerate(walk(plan)) if step.status == "active"), 0)
    first = max(0, min(active - rows // 2, len(lines) - rows))
    shown = lines[first : first + rows]
    for line in shown:
        line.truncate(width, overflow="ellipsis")
    return [painter.lines(line, width)[0] for line in shown]


def changes(previous: Plan, plan: Plan, painter: Painter) -> list[Text]:
    """One line for each step that ended since `previous`, with what it rests on."""
    before = {step.id: step.status for _n, step in walk(previous)}
    total = len(plan.steps)
    lines = []
    for number, step in walk(plan):
        ended = step.status in ("done", "failed", "skipped")
        if not ended or before.get(step.id) == step.status:
            continue
        line = _step_line(number, step, painter)
        line.append(f" ({number}/{total})", "muted")
        lines.append(line)
    return lines


def same_steps(previous: Plan, plan: Plan) -> bool:
    """Whether only the states differ."""
    return [(s.id, s.what) for _n, s in walk(previous)] == [(s.id, s.what) for _n, s in walk(plan)]


def walk(plan: Plan) -> Iterator[tuple[str, PlanStep]]:
    """Every step with its number: 1, 2, 2.1, 2.2, 3 …"""

    def deeper(steps: tuple[PlanStep, ...], prefix: str) -> Iterator[tuple[str, PlanStep]]:
        for index, step in enumerate(steps, start=1):
            number = f"{prefix}{index}"
            yield number, step
            yield from deeper(step.substeps, f"{number}.")

    return deeper(plan.steps, "")


def _lines(plan: Plan, painter: Painter) -> Iterator[Text]:
    for number, step in walk(plan):
        yield _step_line(number, step, painter, indent=2 * number.count(".") + 1)


def _step_line(number: str, step: PlanStep, painter: Painter, indent: int = 0) -> Text:
    line = Text(" " * indent)
    line.append(painter.symbol(step.status), _STYLES[step.status])
    line.append(f" {number}. ", "muted")
    line.append_text(_words(step, painter))
    return line


def _words(step: PlanStep, painter: Painter) -> Text:
    line = Text()
    line.append(one_line(step.what), "" if step.status != "skipped" else "muted")
    if step.evidence and step.status in ("done", "failed"):
        line.append(f" {painter.symbol('arrow')} {evidence_text(step.evidence[-1])}", "muted")
    return line


def evidence_text(evidence: Evidence) -> str:
    """What a step rests on: the command's exit status and the finding."""
    parts = []
    if evidence.exit_code is not None:
        parts.append(_("exit {code}").format(code=evidence.exit_code))
    if evidence.note:
        parts.append(one_line(evidence.note, 80))
    return ", ".join(parts) or _("no evidence")
