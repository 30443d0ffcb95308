"""The end of a turn and of KogniTerm: what was proved, why it stopped, its cost, what runs on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kogniterm.approval.policy.verdict import UNATTENDED_HINT
from kogniterm.text.visible import one_line
from kogniterm.types import Answer, LeftRunning, Phrase, Usage
from kogniterm.ui.locale import _, translate
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen.status_line import usage_text

LONGEST = 300
_STATE = re.compile(r"(?<= \[)(?:pending|active|skipped|failed|judged|claimed)(?=\](?::? |\Z))")
"""Of a step that is not verified, as its line has it."""


def findings(answer: Answer, painter: Painter) -> RenderableType | None:
    """What commands and checks proved of a plan, and what nothing proved; None without a plan."""
    if not answer.verified and not answer.not_verified:
        return None
    parts: list[RenderableType] = []
    if answer.verified:
        parts += [Text(_("Verified"), "heading"), _rows(answer.verified, "done", "good", painter)]
    if answer.not_verified:
        rows = _rows(answer.not_verified, "pending", "warn", painter)
        parts += [Text(_("Not verified"), "heading"), rows]
    return Group(*parts, Text(""))


def _rows(lines: Sequence[str], sign: str, style: str, painter: Painter) -> Table:
    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True)
    rows.add_column()
    for line in lines:
        told = _STATE.sub(lambda found: state_text(found[0]), line)
        rows.add_row(Text(f" {painter.symbol(sign)}", style), Text(one_line(told, LONGEST)))
    return rows


def state_text(state: str) -> str:
    """In one word what became of a step that nothing proved."""
    return {
        "pending": _("pending"),
        "active": _("active"),
        "skipped": _("skipped"),
        "failed": _("failed"),
        "judged": _("judged"),
        "claimed": _("claimed"),
    }.get(state, state)


def last_line(answer: Answer, painter: Painter, usage: Usage, seconds: float) -> Text:
    """Why it stopped, where it is not simply done, and what it cost."""
    line = Text()
    # The user's own refusal stands where they gave it, and is no failure.
    if answer.stop != "done" and answer.refused_by != "person":
        sign = "warn" if answer.stop in ("interrupted", "plan_only") else "failed"
        line.append(f"{painter.symbol(sign)} ", "warn" if sign == "warn" else "bad")
        line.append(f"{one_line(end_reason(answer), 400)}\n", "warn" if sign == "warn" else "bad")
    if answer.stop == "budget":
        line.append(_("What is done is kept: raise the budget and say to go on.") + "\n", "muted")
    line.append(usage_text(usage, seconds, answer.waited), "muted")
    return line


def end_reason(answer: Answer) -> str:
    """Why it stopped, but for what stands above that line already."""
    told = answer.refused_by or (answer.not_verified and answer.stop == "not_done")
    reason = translate(answer.reason) if answer.reason and not told else stop_text(answer.stop)
    hint = translate(UNATTENDED_HINT) if answer.refused_by == "unattended" else ""
    return f"{reason} {hint}".strip()


def stop_text(stop: str) -> str:
    """Why a turn ended, where the runtime gave no reason of its own."""
    return {
        "not_done": _("The task is not done."),
        "refused": _("An action was refused."),
        "budget": _("A budget ran out."),
        "model_failed": _("The model failed."),
        "interrupted": _("You stopped the turn."),
        "plan_only": _("This is the plan; nothing was run."),
    }.get(stop, _("The turn ended early."))


_LONGEST_COMMAND = 200
_ENDED = {
    "sandbox": Phrase("Ended: {command} (it ran in the sandbox, where nothing can stay)"),
    "asked": Phrase("Ended: {command} (--end-jobs)"),
    "background": Phrase("Ended: {command} (in the background, neither detached nor kept)"),
}


def left_texts(programs: Sequence[LeftRunning]) -> list[Phrase]:
    """A sentence for each program, those that stay first, and what to do about it."""
    return [_told(one) for one in sorted(programs, key=lambda one: not one.stays)]


def _told(one: LeftRunning) -> Phrase:
    command = one_line(one.command, _LONGEST_COMMAND)
    if not one.stays:
        return Phrase(_ENDED[one.why].template, {"command": command})
    values = {
        "command": command,
        "pids": ", ".join(map(str, one.pids)),
        "kill": one.end_with,
        "path": one.output_path,
    }
    if one.output_path:
        return Phrase(
            "Runs on: {command} (process {pids}), output in {path}; end it with: {kill}", values
        )
    return Phrase("Runs on: {command} (process {pids}); end it with: {kill}", values)
