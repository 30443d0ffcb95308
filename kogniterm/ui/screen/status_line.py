"""The status line under a running turn, and the lines that a turn and KogniTerm end with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kogniterm.text.shorten import one_line
from kogniterm.types import Answer, Phrase, Usage
from kogniterm.ui.locale import _, amount, duration, tokens, translate
from kogniterm.ui.screen.paint import ASCII_SPINNER, SPINNER, Painter
from kogniterm.ui.words.turn_words import EDITS, again, end_reason, limit_hint, usage_text

_FRAME_SECONDS = 0.125
NEARLY = 0.8
"""The share of a budget from which it stands out."""


class Retry(NamedTuple):
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
            left = max(self.retry.due - self._clock(), 0)
            attempt = again(left, self.retry.attempt, self.retry.of)
            text.append(f"{one_line(translate(self.retry.reason))} {attempt}", "warn")
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
        }
        for name, words in shown.items():
            if name in self.budgets:
                used, limit = self._of(name)
                far = name == "steps" and not self._nearly(name)  # nobody waits for step 1,000
                most = "" if far else f"/{amount(name, limit)}"
                yield name, words.format(used=f"{amount(name, used)}{most}")

    def _of(self, name: str) -> tuple[float, float]:
        used, limit = self.budgets[name]
        return (self.turn_seconds if name == "seconds" else used), limit

    def _nearly(self, name: str) -> bool:
        used, limit = self._of(name)
        return used >= NEARLY * limit


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
