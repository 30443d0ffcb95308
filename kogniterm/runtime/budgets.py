"""Budgets: limits of a turn and of a session, as they are typed, and what was used of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.protocols import Clock
from kogniterm.text.money import money
from kogniterm.types import Answer, CommandResult, Phrase, Plan, Usage

if TYPE_CHECKING:
    from kogniterm.sessions.records import Record


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of a turn or session; None means unlimited. Money in US dollars, time in seconds."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    dollars: float | None = None
    commands: int | None = None
    output_bytes: int | None = None


NOTHING: Mapping[str, float] = dict.fromkeys((field.name for field in fields(Limits)), 0)
OF_SESSION = ("steps", "tokens", "dollars")
"""The budgets that a whole session may have: those of model calls."""


@dataclass(slots=True)
class Budget:
    """A session's limits, which may change at any time, and what its turn has spent so far.

    `limits` are those of a turn, `session` those of the whole session (of `OF_SESSION`). `price`
    returns the cost of model calls in US dollars, None where it is not known. `spent` is set by
    the turn that runs, or ran last; `before` is what was spent before that turn.
    """

    limits: Limits = field(default_factory=Limits)
    session: Limits = field(default_factory=Limits)
    price: Callable[[Usage], float | None] = lambda usage: None
    spent: Callable[[], Mapping[str, float]] = lambda: NOTHING
    before: Mapping[str, float] = field(default_factory=lambda: NOTHING)

    def over(self) -> Phrase | None:
        """Return which budget is used up, or None."""
        of_turn = _exceeded(self.limits, self.spent())
        return of_turn or _exceeded(self.session, self._in_session(), _OVER_SESSION)

    def _in_session(self) -> Mapping[str, float]:
        spent = self.spent()
        return {name: self.before[name] + spent[name] for name in NOTHING}

    def over_acting(self) -> Phrase | None:
        """Return which budget forbids another action, or None."""
        acting = replace(self.limits, steps=None, tokens=None, dollars=None)
        return _exceeded(acting, self.spent())

    def left(self, name: str) -> float | None:
        """Return what is left of one budget; None when it has no limit."""
        limit: float | None = getattr(self.limits, name)
        return max(limit - self.spent()[name], 0) if limit is not None else None

    def shown(self) -> Mapping[str, tuple[float, float]]:
        """Return (used, limit) of every budget with a limit: the session's where it ends sooner."""
        both = ((self.limits, self.spent()), (self.session, self._in_session()))
        found: dict[str, tuple[float, float]] = {}
        for limits, used in both:
            for name in NOTHING:
                most = getattr(limits, name)
                left = most - used[name] if most is not None else math.inf
                if left < (found[name][1] - found[name][0] if name in found else math.inf):
                    found[name] = (used[name], most)
        return found


_OVER = {
    "steps": "Model call limit reached: {limit}.",
    "seconds": "Time limit reached: {limit} s.",
    "tokens": "Token limit reached: {limit}.",
    "dollars": "Cost limit reached: {limit}.",
    "commands": "Command limit reached: {limit}.",
    "output_bytes": "Command output limit reached: {limit} bytes.",
}


_OVER_SESSION = {
    "steps": "Session limit of model calls reached: {limit}.",
    "tokens": "Session token limit reached: {limit}.",
    "dollars": "Session cost limit reached: {limit}.",
}


_OPTIONS = {
    "steps": "--max-steps",
    "seconds": "--timeout",
    "tokens": "--max-tokens",
    "dollars": "--max-cost",
    "commands": "--max-commands",
    "output_bytes": "--max-output",
}
_OPTIONS_SESSION = {"tokens": "--max-session-tokens", "dollars": "--max-session-cost"}
_RAISED_WITH = {
    sentences[name]: option
    for sentences, options in ((_OVER, _OPTIONS), (_OVER_SESSION, _OPTIONS_SESSION))
    for name, option in options.items()
}


def option_that_raises(reached: Phrase) -> str:
    """Return the option that raises the limit that a sentence of `over` names, or ""."""
    return _RAISED_WITH.get(reached.template, "")


def _exceeded(
    limits: Limits, used: Mapping[str, float], sentences: Mapping[str, str] = _OVER
) -> Phrase | None:
    """Return which budget is used up, or None. `used` has the names of `Limits`' fields."""
    for name, template in sentences.items():
        limit = getattr(limits, name)
        if limit is not None and used[name] >= limit:
            return Phrase(template, {"limit": money(limit) if name == "dollars" else limit})
    return None


def unknown_price(model: str, date: str) -> Phrase:
    """Return the notice about a money budget for a model whose price is not known."""
    return Phrase(
        "The price of {model} is unknown (price table of {date}), so the "
        "cost limit does not apply. Set a limit on tokens or steps instead.",
        {"model": model, "date": date},
    )


@dataclass(slots=True)
class TurnCount:
    """The use of budgets by a turn so far. Durations by the monotonic clock.

    `unknown` are commands of unknown outcome that nobody could be asked about, `unasked` the
    model's questions that nobody was there to answer, and `refused` the reasons of refusals with
    who refused. `earlier` is the usage before this turn. The time in which the turn `waited` for
    the user is not part of its seconds.
    """

    budget: Budget
    clock: Clock
    steps: int = 0
    purpose: str = ""
    usage: Usage = field(default_factory=Usage)
    commands: int = 0
    output_bytes: int = 0
    dollars: float = 0.0
    refused: list[tuple[Phrase | str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    began: float = 0.0
    waited: float = 0.0
    plan_before: Plan | None = None
    earlier: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self.began = self.clock.monotonic()
        self.budget.spent = self.spent
        self.budget.before = {
            **NOTHING,
            "steps": self.earlier.calls,
            "tokens": self.earlier.input + self.earlier.output,
            "dollars": self.budget.price(self.earlier) or 0.0,
        }

    def begin_call(self, purpose: str) -> None:
        """Count a model call that begins."""
        self.steps += 1
        self.purpose = purpose

    def add_usage(self, usage: Usage) -> None:
        """Count the end of a model call; an unknown price counts as nothing."""
        self.usage += usage
        self.dollars += self.budget.price(usage) or 0.0

    def add_command(self, result: CommandResult) -> None:
        """Count a command that ended."""
        self.commands += 1
        self.output_bytes += result.output_bytes

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of a question to the user as waiting."""
        since = self.clock.monotonic()
        try:
            yield
        finally:
            self.waited += self.clock.monotonic() - since

    @property
    def seconds(self) -> float:
        """Return the seconds that the turn worked, without the waits for the user."""
        return self.clock.monotonic() - self.began - self.waited

    def timed(self, answer: Answer) -> Answer:
        """Return the answer with how long the turn took."""
        return replace(answer, seconds=self.seconds, waited=self.waited)

    def spent(self) -> Mapping[str, float]:
        """Return what the turn has used so far, by the names of `Limits`' fields."""
        return {
            "steps": self.steps,
            "seconds": self.seconds,
            "tokens": self.usage.input + self.usage.output,
            "dollars": self.dollars,
            "commands": self.commands,
            "output_bytes": self.output_bytes,
        }


WHOLE = frozenset({"steps", "tokens", "commands", "output_bytes"})
COUNTS: Mapping[str, float] = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}
BYTES: Mapping[str, float] = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9}
TIMES: Mapping[str, float] = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
UNITS: Mapping[str, Mapping[str, float]] = {
    "steps": COUNTS,
    "seconds": TIMES,
    "tokens": COUNTS,
    "dollars": {"": 1},
    "commands": COUNTS,
    "output_bytes": BYTES,
}
"""The units that may follow the number of each budget: 200k, 15min, 50MB."""
_AMOUNT = re.compile(r"\$?(\d+(?:[.,]\d+)?)\s*([a-zA-Z]*)")


def parse_amount(name: str, value: str) -> float:
    """Read a limit with its unit. Raises `UsageError`."""
    found = _AMOUNT.fullmatch(value.strip())
    factor = UNITS[name].get(found[2].lower()) if found is not None else None
    if found is None or factor is None:
        units = ", ".join(unit for unit in UNITS[name] if unit)
        if not units:
            raise UsageError("Specify a number above 0, or off.")
        raise UsageError("Specify a number above 0, or off. Units: {units}.", units=units)
    number = float(found[1].replace(",", ".")) * factor
    if number <= 0 or not math.isfinite(number) or (name in WHOLE and number < 1):
        raise UsageError("Specify a number above 0, or off.")
    return int(number) if name in WHOLE else number


def session_spent(records: Iterable[Record]) -> tuple[Mapping[str, float], Usage]:
    """Return the sums over all turns, by the names of the limits, and the tokens used.

    Seconds are those of turns, by the journal's clock; dollars are left to the caller, who knows
    the price.
    """
    from kogniterm.sessions.records import Compacted, InputReceived, NodeRan, Outcome, TurnEnded

    spent, usage = dict(NOTHING), Usage()
    begun: float | None = None
    last = 0.0
    for record in records:
        match record.body:
            case InputReceived():
                if begun is not None:
                    spent["seconds"] += max(last - begun, 0)
                begun = record.time
            case TurnEnded() if begun is not None:
                spent["seconds"] += max(record.time - begun, 0)
                begun = None
            case NodeRan(update=update):
                usage += update.usage
            case Compacted(usage=summary):
                usage += summary
            case Outcome(result=result) if result is not None:
                spent["commands"] += 1
                spent["output_bytes"] += result.output_bytes
        last = record.time
    if begun is not None:
        spent["seconds"] += max(last - begun, 0)
    spent["steps"], spent["tokens"] = usage.calls, usage.input + usage.output
    return spent, usage
