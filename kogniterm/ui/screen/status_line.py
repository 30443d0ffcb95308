"""The status line under a running turn: what happens now, for how long, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rich.text import Text

from kogniterm.text.visible import one_line
from kogniterm.types import Phrase, Usage
from kogniterm.ui.locale import _, translate
from kogniterm.ui.screen.number_format import amount, duration, tokens
from kogniterm.ui.screen.paint import ASCII_SPINNER, SPINNER, Painter

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
    """What the turn is doing; drawn as one line."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self._since = self._started
        self._waited = 0.0
        self._waiting_from: float | None = None
        self.activity = ""
        self.retry: Retry | None = None
        self.usage = Usage()
        self.hint = ""
        self.budgets: Mapping[str, tuple[float, float]] = {}

    def start(self) -> None:
        """A turn begins."""
        self._started = self._since = self._clock()
        self._waited, self._waiting_from = 0.0, None
        self.retry, self.hint = None, ""
        self.usage = Usage()
        self.budgets = {}

    def now(self, activity: str) -> None:
        """Something else is happening; the elapsed time starts again."""
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
        """The line as drawn now; without its time where that stands elsewhere."""
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
        if self.hint:
            text.append(f" · {self.hint}", "muted")
        text.truncate(width, overflow="ellipsis")
        return painter.lines(text, width)[0]

    def _budget_words(self) -> Iterator[tuple[str, str]]:
        """The budgets that have a limit, time first because it runs by itself."""
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
    """Return when a failed call is made again, and which of how many tries failed."""
    numbers = {"attempt": attempt, "of": of}
    if seconds < 0.5:
        return _("Trying again ({attempt} of {of}).").format(**numbers)
    left = f"{seconds:.0f} s"
    return _("Trying again in {left} ({attempt} of {of}).").format(left=left, **numbers)


def usage_text(usage: Usage, seconds: float, waited: float = 0.0) -> str:
    """What a turn cost, in one line."""
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
