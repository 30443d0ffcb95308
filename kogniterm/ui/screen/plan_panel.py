"""The plan on the screen: a panel while a turn runs, one line per step that changes state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kogniterm.agent.plan.plan_steps import active_step, number_steps
from kogniterm.text.shorten import one_line
from kogniterm.types import Check, Evidence, Plan, PlanStep
from kogniterm.ui.locale import _
from kogniterm.ui.screen.paint import Painter, Readable
from kogniterm.ui.words.turn_words import EDITS, tool_label

_STYLES = {"done": "good", "failed": "bad", "active": "accent", "pending": "", "skipped": "muted"}


def whole(plan: Plan, painter: Painter, previous: Plan | None = None) -> RenderableType:
    """Return the plan as it is written when it is made, or rewritten with its changes."""
    head = Text()
    title = _("Plan") if plan.revision == 1 else _("Plan, revision {n}").format(n=plan.revision)
    head.append(title, "heading")
    head.append(f" {painter.symbol('arrow')} {one_line(plan.goal)}", "muted")
    before = previous if plan.revision > 1 else None
    own = {step.id for step in plan.walk()}
    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True)
    rows.add_column()
    for number, step in walk(plan):
        indent = " " * (2 * number.count(".") + 1)
        sign = Text.assemble(indent, (painter.symbol(step.status), _STYLES[step.status]))
        sign.append(f" {number}.", "muted")
        words = _words(step, painter)
        if "." not in number or step.id in own:
            words.append_text(_mark(step, before))
        rows.add_row(sign, words)
    return Readable(Group(head, *_why(plan), rows, *dropped_steps(plan, before, painter), Text("")))


def full(
    plan: Plan, painter: Painter, previous: Plan | None = None, *, working: bool = False
) -> RenderableType:
    """Return the plan with all that it holds of its steps; `working` marks the current one."""
    parts: list[RenderableType] = [*_why(plan)]
    now = active_step(plan) if working else None
    parts += [
        step_rows(plan, number, step, painter, previous, selected=step == now)
        for number, step in number_steps(plan)
    ]
    return Group(*parts, *dropped_steps(plan, previous, painter))


def step_rows(
    plan: Plan,
    number: str,
    step: PlanStep,
    painter: Painter,
    previous: Plan | None = None,
    *,
    selected: bool = False,
) -> RenderableType:
    """Return one step with its parts in words, and what it says about itself.

    Its substeps that are steps of their own have rows of their own.
    """
    inner = "." in number
    depth = 2 if inner else 0
    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True, width=len(str(len(plan.steps))) + (9 if inner else 5))
    rows.add_column()
    pointer = painter.symbol("active") if selected else " "
    sign = Text.assemble((pointer, "accent"), " " * (depth + 1))
    sign.append(
        painter.symbol("pending" if step.status == "active" else step.status), _STYLES[step.status]
    )
    sign.append(f" {number}.", "muted")
    words = _words(step, painter)
    if selected:
        words.stylize("bold", 0, len(one_line(step.what)))
    rows.add_row(sign, words.append_text(_mark(step, previous)))
    for part in () if step.subplan else step.substeps:
        rows.add_row(
            "", Text.assemble((f"{painter.symbol('bullet')} ", "muted"), one_line(part.what))
        )
    for line in _details(step):
        rows.add_row("", line)
    return rows


def _details(step: PlanStep) -> Iterator[Text]:
    for name, value in (
        (_("why"), step.why),
        (_("expected"), step.expect),
        (_("inputs"), ", ".join(step.inputs)),
        (_("after"), ", ".join(step.after)),
        (_("tools"), ", ".join(tool_label(name).rstrip(":") for name in step.tools)),
        (_("sub-agent"), step.delegate or ""),
        (_("may change"), ", ".join(step.writes)),
        (_("check"), check_text(step.check) if step.check is not None else ""),
        (_("fallback"), step.fallback),
    ):
        if value:
            yield Text(f"{name}: {one_line(value, 400)}", "muted")


def check_text(check: Check) -> str:
    """Return how a step proves itself."""
    words = {
        "command": _("command succeeds: {value}"),
        "file": _("file exists: {value}"),
        "exit_code": _("last command exits with {value}"),
        "pattern": _("output matches /{value}/"),
        "judgement": _("model confirms: {value}"),
    }
    return words[check.kind].format(value=check.value)


def _why(plan: Plan) -> list[Text]:
    if not plan.reason:
        return []
    return [
        Text.assemble((f" {_('Reason for the change')}: ", "muted"), one_line(plan.reason, 400))
    ]


def _mark(step: PlanStep, previous: Plan | None) -> Text:
    """Return whether a step is new, reworded or in another place than in `previous`."""
    from kogniterm.runtime.plan_edits import difference

    if previous is None:
        return Text("")
    change = difference(previous, Plan("", (step,)))
    if any(one.id == step.id for one in change.added):
        return Text(f" ({_('new')})", "added")
    reworded = any(now.id == step.id for _before, now in change.changed)
    return Text(f" ({_('changed')})", "warn") if reworded else Text("")


def dropped_steps(plan: Plan, previous: Plan | None, painter: Painter) -> list[Text]:
    """Return the steps of `previous` that are no more, one line each."""
    from kogniterm.runtime.plan_edits import difference

    gone = difference(previous, plan).dropped if previous is not None else ()
    return [
        Text.assemble(
            (f" {painter.symbol('failed')} ", "removed"),
            (one_line(step.what), "muted"),
            (f" ({_('dropped')})", "removed"),
        )
        for step in gone
    ]


def window(plan: Plan, painter: Painter, width: int, rows: int) -> list[str]:
    """Return at most `rows` lines of the plan around the step in progress."""
    lines = [
        _step_line(number, step, painter, indent=2 * number.count(".") + 1)
        for number, step in walk(plan)
    ]
    now = active_step(plan)
    active = next((i for i, (_n, step) in enumerate(walk(plan)) if step == now), 0)
    first = max(0, min(active - rows // 2, len(lines) - rows))
    shown = lines[first : first + rows]
    for line in shown:
        line.truncate(width, overflow="ellipsis")
    return [painter.lines(line, width)[0] for line in shown]


def changes(previous: Plan, plan: Plan, painter: Painter) -> list[Text]:
    """Return a line for each step that ended since `previous`, with its evidence; its parts first.

    Steps whose check failed, or that use their fallback now, have one too.
    """
    known = {step.id: step for step in previous.walk()}
    before = {step.id: step.status for _n, step in walk(previous)}
    total = len(plan.steps)
    lines = []
    for number, step in sorted(walk(plan), key=_behind_its_parts):
        earlier = known.get(step.id)
        ended = step.status in ("done", "failed", "skipped")
        if earlier is not None and step.on_fallback and not earlier.on_fallback:
            lines.append(_fallback_line(number, step, painter))
        elif earlier is not None and not ended and step.failed_checks > earlier.failed_checks:
            lines.append(_failed_line(number, step, painter))
        if not ended or before.get(step.id) == step.status:
            continue
        line = _step_line(number, step, painter)
        if "." not in number:
            line.append(f" ({number}/{total})", "muted")
        lines.append(line)
    return lines


def _behind_its_parts(numbered: tuple[str, PlanStep]) -> tuple[int, bool]:
    step, _dot, part = numbered[0].partition(".")
    return int(step), not part


def refusal(by: str, reason: str, painter: Painter) -> Text:
    words = _("You rejected the plan") if by == "person" else _("The plan was refused")
    line = Text.assemble((f"{painter.symbol('failed')} ", "bad"), (words, "bad"))
    return line.append(f": {one_line(reason)}" if reason else "", "muted")


def same_steps(previous: Plan, plan: Plan) -> bool:
    """Return whether only the states differ."""
    return [(s.id, s.what) for _n, s in walk(previous)] == [(s.id, s.what) for _n, s in walk(plan)]


def walk(plan: Plan) -> Iterator[tuple[str, PlanStep]]:
    """Return every step and part with its number, as in 1, 2, 2.1.

    A part in words has the state of its step.
    """
    for index, step in enumerate(plan.steps, start=1):
        yield str(index), step
        for place, part in enumerate(step.substeps, start=1):
            words = not step.subplan and not step.open
            yield f"{index}.{place}", replace(part, status=step.status) if words else part


def _step_line(number: str, step: PlanStep, painter: Painter, indent: int = 0) -> Text:
    line = Text(" " * indent)
    line.append(painter.symbol(step.status), _STYLES[step.status])
    line.append(f" {number}. ", "muted")
    line.append_text(_words(step, painter))
    return line


def _fallback_line(number: str, step: PlanStep, painter: Painter) -> Text:
    line = Text.assemble((f" {painter.symbol('arrow')}", "warn"), (f" {number}. ", "muted"))
    line.append(one_line(step.fallback))
    return line.append(
        f" ({_('instead of: {what}').format(what=one_line(step.what, 80))})", "muted"
    )


def _failed_line(number: str, step: PlanStep, painter: Painter) -> Text:
    line = Text.assemble((f"{painter.symbol('warn')} ", "warn"), (f"{number}. ", "muted"))
    why = one_line(step.evidence[-1].note, 200) if step.evidence else ""
    return line.append(_("check failed: {why}").format(why=why), "muted")


def _words(step: PlanStep, painter: Painter) -> Text:
    line = Text()
    line.append(one_line(step.what), "" if step.status != "skipped" else "muted")
    if step.evidence and step.status in ("done", "failed"):
        line.append(f" {painter.symbol('arrow')} {evidence_text(step.evidence[-1])}", "muted")
    return line


def evidence_text(evidence: Evidence) -> str:
    """Return the evidence of a step: the command's exit status and the finding."""
    if evidence.note in EDITS and not evidence.exit_code:
        return _("edit of a file")
    parts = []
    if evidence.exit_code is not None:
        parts.append(_("exit {code}").format(code=evidence.exit_code))
    if evidence.note:
        parts.append(one_line(evidence.note, 80))
    return ", ".join(parts) or _("no evidence")
