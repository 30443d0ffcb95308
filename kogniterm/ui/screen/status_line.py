"""The status line under a running turn, and the lines that a turn and KogniTerm end with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kogniterm.lazy_dataclasses import dataclass
from kogniterm.runtime.budgets import option_that_raises
from kogniterm.text.visible import one_line
from kogniterm.types import Answer, LeftRunning, Phrase, Usage
from kogniterm.ui.locale import _, amount, duration, tokens, translate
from kogniterm.ui.screen.paint import ASCII_SPINNER, SPINNER, Painter
from kogniterm.ui.screen.tool_lines import EDITS

_FRAME_SECONDS = 0.125
WORTH_TELLING = 30.0
"""Seconds of waiting for the user from which that is told."""
NEARLY = 0.8
"""The share of a budget from which it stands out."""


@dataclass(slots=True)
class Retry:
    """A call that failed and is made again at `due` (monotonic seconds)."""

    attempt: int
    of: int
    due: float
    reason: Phrase


class Status:
    """The activity of a turn; drawn as one line."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self._since = self._started
        self._waited = 0.0
        self._waiting_from: float | None = None
        self.activity = ""
        self.retry: Retry | None = None
        self.usage = Usage()
        self.budgets: Mapping[str, tuple[float, float]] = {}

    def start(self) -> None:
        """Begin a turn."""
        self._started = self._since = self._clock()
        self._waited, self._waiting_from = 0.0, None
        self.retry = None
        self.usage = Usage()
        self.budgets = {}

    def now(self, activity: str) -> None:
        """Show another activity; the elapsed time starts again."""
        self.activity, self._since, self.retry = activity, self._clock(), None

    def wait(self) -> None:
        """Stop the turn's time: the user is asked for something."""
        if self._waiting_from is None:
            self._waiting_from = self._clock()

    def go_on(self) -> None:
        """Let the turn's time run again: the user has answered."""
        if self._waiting_from is not None:
            self._waited += self._clock() - self._waiting_from
            self._waiting_from = None

    @property
    def turn_seconds(self) -> float:
        """Seconds that the turn has worked, without the waits for the user."""
        now = self._clock() if self._waiting_from is None else self._waiting_from
        return now - self._started - self._waited

    def line(self, painter: Painter, width: int, *, timed: bool = True) -> str:
        """Return the line as drawn now; without its time where that stands elsewhere."""
        text = Text()
        frames = SPINNER if painter.unicode else ASCII_SPINNER
        frame = frames[int(self._clock() / _FRAME_SECONDS) % len(frames)]
        text.append(f"{frame} ", "accent")
        if self.retry is None:
            text.append(self.activity)
            if timed:
                text.append(f" {duration(self._clock() - self._since)}", "muted")
        else:
            text.append(self._retry_text(self.retry), "warn")
        used = self.usage.input + self.usage.output
        if used and "tokens" not in self.budgets:
            text.append(f" · {_('{count} tokens').format(count=tokens(used))}", "muted")
        for name, words in self._budget_words():
            text.append(f" · {words}", "warn" if self._nearly(name) else "muted")
        text.truncate(width, overflow="ellipsis")
        return painter.lines(text, width)[0]

    def _budget_words(self) -> Iterator[tuple[str, str]]:
        """Return the budgets that have a limit, time first because it runs by itself."""
        shown = {
            "seconds": "{used}",
            "steps": _("step {used}"),
            "tokens": _("{used} tokens"),
            "dollars": "{used}",
            "commands": _("{used} commands"),
            "output_bytes": _("{used} output"),
        }
        for name, words in shown.items():
            if name in self.budgets:
                used, limit = self._of(name)
                yield name, words.format(used=f"{amount(name, used)}/{amount(name, limit)}")

    def _of(self, name: str) -> tuple[float, float]:
        used, limit = self.budgets[name]
        return (self.turn_seconds if name == "seconds" else used), limit

    def _nearly(self, name: str) -> bool:
        used, limit = self._of(name)
        return used >= NEARLY * limit

    def _retry_text(self, retry: Retry) -> str:
        left = max(retry.due - self._clock(), 0)
        return f"{one_line(translate(retry.reason))} {again(left, retry.attempt, retry.of)}"


def again(seconds: float, attempt: int, of: int) -> str:
    """Return when a failed call is made again, and which of how many tries failed.

    A call that waits for a limit, of the attempt 0, has not failed.
    """
    if not attempt:
        return _("Continues in {left}.").format(left=f"{max(seconds, 0):.0f} s")
    numbers = {"attempt": attempt, "of": of}
    if seconds < 0.5:
        return _("Retrying ({attempt} of {of}).").format(**numbers)
    left = f"{seconds:.0f} s"
    return _("Retrying in {left} ({attempt} of {of}).").format(left=left, **numbers)


def usage_text(usage: Usage, seconds: float, waited: float = 0.0) -> str:
    """Return what a turn cost, in one line."""
    parts = [duration(seconds)]
    if waited >= WORTH_TELLING:
        wait = duration(waited)
        parts = [_("{time} (waited {wait} for you)").format(time=duration(seconds), wait=wait)]
    if usage.input or usage.output:
        spent = _("{input} tokens in, {output} out").format(
            input=tokens(usage.input), output=tokens(usage.output)
        )
        if usage.cached:
            spent += " " + _("({cached} from the cache)").format(cached=tokens(usage.cached))
        parts.append(spent)
    return " · ".join(parts)


LONGEST = 300
_STATE = re.compile(r"(?<= \[)(?:pending|active|skipped|failed|judged|claimed)(?=\](?::? |\Z))")
"""The state in the line of a step that is not verified."""
_EXIT = re.compile(r"(?<=\()exit (-?\d+)(?=\)\Z)")
"""The exit status in the line of a verified step."""
_EDITED = re.compile(rf"(?<=: )(?:{'|'.join(sorted(EDITS))})(?: \(exit 0\))?\Z")
"""The tool that proved a step by an edit, which has no exit status of its own."""


def findings(answer: Answer, painter: Painter) -> RenderableType | None:
    """Return the steps of a plan that commands and checks proved, and the others."""
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
        told = _EDITED.sub(lambda _found: _("edit of a file"), told)
        told = _EXIT.sub(lambda found: _("exit {code}").format(code=found[1]), told)
        rows.add_row(Text(f" {painter.symbol(sign)}", style), Text(one_line(told, LONGEST)))
    return rows


def state_text(state: str) -> str:
    """Return the state of a step without proof, in one word."""
    return {
        "pending": _("not started"),
        "active": _("not finished"),
        "skipped": _("skipped"),
        "failed": _("failed"),
        "judged": _("checked by the model"),
        "claimed": _("claimed by the model"),
    }.get(state, state)


def last_line(answer: Answer, painter: Painter, usage: Usage, seconds: float) -> Text:
    """Return why the turn stopped, where it is not simply done, and what it cost."""
    line = Text()
    # The user's own refusal is already on the screen, and is no failure.
    if answer.stop != "done" and answer.refused_by != "person":
        sign = "warn" if answer.stop in ("interrupted", "plan_only", "parked") else "failed"
        line.append(f"{painter.symbol(sign)} ", "warn" if sign == "warn" else "bad")
        line.append(f"{one_line(end_reason(answer), 400)}\n", "warn" if sign == "warn" else "bad")
    if hint := limit_hint(answer):
        line.append(f"{hint}\n", "muted")
    line.append(usage_text(usage, seconds, answer.waited), "muted")
    return line


def limit_hint(answer: Answer) -> str:
    """Return how to raise the limit that ended the turn; "" when none did."""
    if answer.stop != "budget":
        return ""
    option = option_that_raises(answer.reason) if answer.reason else ""
    if not option:
        return _("Completed work is kept. Raise the limit with /budget, then continue.")
    return _(
        "Completed work is kept. Raise the limit with {option}, or with /budget at the prompt, "
        "then continue."
    ).format(option=option)


def end_reason(answer: Answer) -> str:
    """Return why the turn stopped, without reasons that are already on the screen."""
    told = answer.refused_by or (answer.not_verified and answer.stop == "not_done")
    reason = translate(answer.reason) if answer.reason and not told else stop_text(answer.stop)
    hint = answer.reason.values.get("hint") if answer.reason else None
    return f"{reason} {translate(hint)}" if told and isinstance(hint, Phrase) else reason


def stop_text(stop: str) -> str:
    """Return why a turn ended, where the runtime gave no reason of its own."""
    return {
        "not_done": _("The task was not completed."),
        "refused": _("The task may be incomplete: an action was refused."),
        "budget": _("A limit was reached."),
        "model_failed": _("The model failed."),
        "interrupted": _("You stopped the turn."),
        "plan_only": _("This is the plan; nothing was changed."),
    }.get(stop, _("The turn ended early."))


_LONGEST_COMMAND = 200
_ENDED = {
    "sandbox": Phrase("Stopped: {command} (programs in the sandbox cannot stay running)"),
    "asked": Phrase("Stopped: {command} (--end-jobs)"),
    "background": Phrase("Stopped: {command} (background job; keep one with nohup or /jobs keep)"),
}


def left_texts(programs: Sequence[LeftRunning]) -> list[Phrase]:
    """Return a sentence for each program, those that stay first, and what to do about it."""
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
            "Still running: {command} (process {pids}), output in {path}; stop it with: {kill}",
            values,
        )
    return Phrase("Still running: {command} (process {pids}); stop it with: {kill}", values)
