"""Budgets: limits of a turn and of a session, as they are typed, and what was used of them."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from kogniterm.errors import UsageError
from kogniterm.text.shorten import money
from kogniterm.types import Answer, LimitReached, Phrase, Plan, Usage

if TYPE_CHECKING:
    from kogniterm.protocols import Clock


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of a turn or session; None means unlimited. Money in US dollars, time in seconds."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    dollars: float | None = None


NO_OTHERS: Mapping[str, Usage] = {}
NOTHING: Mapping[str, float] = dict.fromkeys((field.name for field in fields(Limits)), 0)
OF_ACTIONS = ("seconds",)
"""The budget that another action needs; the other ones are those of model calls."""
OF_SESSION = ("steps", "tokens", "dollars")
"""The budgets that a whole session may have: those of model calls."""


@dataclass(slots=True)
class Budget:
    """A session's limits, which may change at any time, and what its turn has spent so far.

    `limits` are those of a turn, `session` those of the whole session (of `OF_SESSION`). `price`
    returns the cost of calls of a model ("": the session's) in US dollars, None where it is not
    known. `usage_so_far` is set by the turn that runs, or ran last; `before` is what was spent
    before that turn. `_granted` is what the user allowed beyond a limit that was reached: in a turn
    for that turn alone. `_priced` is the part of the session's usage, and of that of other models,
    with its dollars that earlier models took.
    """

    limits: Limits = field(default_factory=Limits)
    session: Limits = field(default_factory=Limits)
    price: Callable[[Usage, str], float | None] = lambda usage, model: None
    usage_so_far: Callable[[], Mapping[str, float]] = lambda: NOTHING
    before: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    _granted: dict[tuple[bool, str], float] = field(default_factory=dict)
    _priced: tuple[Usage, Mapping[str, Usage], float] = (Usage(), NO_OTHERS, 0.0)

    def total(self, used: Usage, others: Mapping[str, Usage] = NO_OTHERS) -> float | None:
        """Return the cost of what the session has used; None when the model's price is unknown.

        `others` is the part of it that other models used, by name. What they cost is nothing where
        it is unknown.
        """
        dollars = self._of_others(others)
        since = self.price(self._own(used, others), "")
        return None if since is None else dollars + since

    def settle(self, used: Usage, others: Mapping[str, Usage] = NO_OTHERS) -> None:
        """Price what the session has used, before another model is. An unknown price is nothing."""
        dollars = self._of_others(others)
        self._priced = used, others, dollars + (self.price(self._own(used, others), "") or 0.0)

    def _of_others(self, others: Mapping[str, Usage]) -> float:
        """Return what earlier models took, and what other models took since."""
        _used_amounts, before, dollars = self._priced
        since = {name: usage - before.get(name, Usage()) for name, usage in others.items()}
        return dollars + sum(self.price(usage, name) or 0.0 for name, usage in since.items())

    def _own(self, used: Usage, others: Mapping[str, Usage]) -> Usage:
        """Return what the session's own model has used since it is in use."""
        before, others_before, _dollars = self._priced
        theirs = sum(others.values(), Usage()) - sum(others_before.values(), Usage())
        return used - before - theirs

    def begin_turn(
        self, spent: Callable[[], Mapping[str, float]], before: Mapping[str, float]
    ) -> None:
        """Count another turn, which has the limits as they were set."""
        self.usage_so_far, self.before = spent, before
        for name in NOTHING:
            self._granted.pop((False, name), None)

    def limit(self, name: str, *, of_session: bool = False) -> float | None:
        """Return a limit with what was granted beyond it; None when there is no limit."""
        limit: float | None = getattr(self.session if of_session else self.limits, name)
        return None if limit is None else limit + self._granted.get((of_session, name), 0)

    def set_limit(self, name: str, value: float | None, *, of_session: bool = False) -> None:
        """Change or remove a limit; what was granted beyond it is gone."""
        self._granted.pop((of_session, name), None)
        changed: dict[str, Any] = {name: value}
        if of_session:
            self.session = replace(self.session, **changed)
        else:
            self.limits = replace(self.limits, **changed)

    def grant(self, reached: LimitReached) -> None:
        """Allow as much again as the limit that is used up was set to."""
        limit = self.limit(reached.name, of_session=reached.of_session)
        if limit is not None:
            used = self._used_amounts(of_session=reached.of_session)[reached.name]
            self._granted[reached.of_session, reached.name] = max(used, limit)

    def over(self, names: Iterable[str] = NOTHING) -> LimitReached | None:
        """Return which of these limits is used up, or None."""
        names = tuple(names)
        return self._over(names, of_session=False) or self._over(names, of_session=True)

    def _over(self, names: Iterable[str], *, of_session: bool) -> LimitReached | None:
        used = self._used_amounts(of_session=of_session)
        for name in names:
            limit = self.limit(name, of_session=of_session)
            if limit is not None and used[name] >= limit:
                return LimitReached(name, limit, of_session)
        return None

    def _used_amounts(self, *, of_session: bool) -> Mapping[str, float]:
        spent = self.usage_so_far()
        if not of_session:
            return spent
        return {name: self.before[name] + spent[name] for name in NOTHING}

    def remaining(self, name: str) -> float | None:
        """Return what is left of one budget; None when it has no limit."""
        limit = self.limit(name)
        return max(limit - self.usage_so_far()[name], 0) if limit is not None else None

    def use_and_limits(self) -> Mapping[str, tuple[float, float]]:
        """Return (used, limit) of every budget with a limit: the session's where it ends sooner."""
        found: dict[str, tuple[float, float]] = {}
        for of_session in (False, True):
            used = self._used_amounts(of_session=of_session)
            for name in NOTHING:
                most = self.limit(name, of_session=of_session)
                left = most - used[name] if most is not None else math.inf
                if left < (found[name][1] - found[name][0] if name in found else math.inf):
                    found[name] = (used[name], most or 0)
        return found


_OVER = {
    "steps": "Model call limit reached: {limit}.",
    "seconds": "Time limit reached: {limit} s.",
    "tokens": "Token limit reached: {limit}.",
    "dollars": "Cost limit reached: {limit}.",
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
}
_OPTIONS_SESSION = {"tokens": "--max-session-tokens", "dollars": "--max-session-cost"}
_RAISED_WITH = {
    sentences[name]: option
    for sentences, options in ((_OVER, _OPTIONS), (_OVER_SESSION, _OPTIONS_SESSION))
    for name, option in options.items()
}


def option_that_raises(reached: Phrase) -> str:
    """Return the option that raises the limit that a sentence of `limit_text` names, or ""."""
    return _RAISED_WITH.get(reached.template, "")


def limit_text(reached: LimitReached) -> Phrase:
    """Return the sentence that says which limit is used up."""
    limit = money(reached.limit) if reached.name == "dollars" else reached.limit
    return Phrase((_OVER_SESSION if reached.of_session else _OVER)[reached.name], {"limit": limit})


def unknown_price(model: str, date: str) -> Phrase:
    """Return the notice about a money budget for a model whose price is not known."""
    return Phrase(
        "The price of {model} is unknown (price table of {date}), so the "
        "cost limit does not apply. Set a limit on tokens or steps instead.",
        {"model": model, "date": date},
    )


class TurnCount:
    """The use of budgets by a turn so far. Durations by the monotonic clock.

    `unknown` are commands of unknown outcome that nobody could be asked about, `unasked` the
    model's questions that nobody was there to answer, and `refused` the reasons of refusals with
    who refused. `plan_left` is whether a plan that was made in plan mode waits for a user, who is
    not there. `earlier` is the usage before this turn, and `others` what other models took of it.
    The time in which the turn `waited` for the user is not part of its seconds, nor does it run
    into `deadline`; `before_question` stores what the question is about. At a limit one question
    is asked at a time (`asking`); `ended` is the limit at which the user ended the turn.
    """

    def __init__(
        self,
        budget: Budget,
        clock: Clock,
        before_question: Callable[[], None] = lambda: None,
        *,
        plan_before: Plan | None = None,
        earlier: Usage | None = None,
        others: Mapping[str, Usage] | None = None,
    ) -> None:
        self.budget = budget
        self.clock = clock
        self.before_question = before_question
        self.steps = 0
        self.purpose = ""
        self.usage = Usage()
        self.dollars = 0.0
        self.refused: list[tuple[Phrase | str, str]] = []
        self.unknown: list[str] = []
        self.unasked: list[str] = []
        self.plan_left = False
        self.began = clock.monotonic()
        self.waited = 0.0
        self.plan_before = plan_before
        self.earlier = earlier or Usage()
        self.others = others or {}
        self.unpriced: set[str] = set()
        self.asking = asyncio.Lock()
        self.ended: LimitReached | None = None
        self.deadline: asyncio.Timeout | None = None
        before = {
            **NOTHING,
            "steps": self.earlier.calls,
            "tokens": self.earlier.input + self.earlier.output,
            "dollars": budget.total(self.earlier, self.others) or 0.0,
        }
        budget.begin_turn(self.usage_so_far, before)

    def begin_call(self, purpose: str) -> None:
        """Count a model call that begins."""
        self.steps += 1
        self.purpose = purpose

    def add_usage(self, usage: Usage, model: str = "") -> bool:
        """Count the end of a call of `model` ("": the session's); an unknown price is nothing.

        Returns whether a limit on money counts it; False once for each other model whose price is
        not known.
        """
        self.usage += usage
        dollars = self.budget.price(usage, model)
        self.dollars += dollars or 0.0
        limited = (self.budget.limits.dollars, self.budget.session.dollars) != (None, None)
        if not model or dollars is not None or not limited or model in self.unpriced:
            return True
        self.unpriced.add(model)
        return False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of a question to the user, which is asked inside, as waiting."""
        self.before_question()
        since, deadline = self.clock.monotonic(), self.deadline
        if deadline is not None:
            deadline.reschedule(None)
        try:
            yield
        finally:
            self.waited += self.clock.monotonic() - since
            left = self.budget.remaining("seconds")
            if deadline is not None and left is not None:
                deadline.reschedule(asyncio.get_running_loop().time() + left)

    @asynccontextmanager
    async def time_limit(self) -> AsyncIterator[asyncio.Timeout]:
        """Cancel what runs inside when the turn's time is used up, with a `TimeoutError`."""
        async with asyncio.timeout(self.budget.remaining("seconds")) as deadline:
            self.deadline = deadline
            try:
                yield deadline
            finally:
                self.deadline = None

    @property
    def seconds(self) -> float:
        """Return the seconds that the turn worked, without the waits for the user."""
        return self.clock.monotonic() - self.began - self.waited

    def with_times(self, answer: Answer) -> Answer:
        """Return the answer with how long the turn took."""
        return answer._replace(seconds=self.seconds, waited=self.waited)

    def usage_so_far(self) -> Mapping[str, float]:
        """Return what the turn has used so far, by the names of `Limits`' fields."""
        return {
            "steps": self.steps,
            "seconds": self.seconds,
            "tokens": self.usage.input + self.usage.output,
            "dollars": self.dollars,
        }


WHOLE = frozenset({"steps", "tokens"})
COUNTS: Mapping[str, float] = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}
TIMES: Mapping[str, float] = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
UNITS: Mapping[str, Mapping[str, float]] = {
    "steps": COUNTS,
    "seconds": TIMES,
    "tokens": COUNTS,
    "dollars": {"": 1},
}
"""The units that may follow the number of each budget: 200k, 15min."""
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
