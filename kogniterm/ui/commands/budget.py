"""/budget and /cost: what a turn may use up, what it has, and what the session has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kogniterm.errors import UsageError
from kogniterm.runtime.limits import OF_SESSION, Limits
from kogniterm.types import Text
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.commands.shown import first_word, write_table
from kogniterm.ui.context import ReplContext
from kogniterm.ui.format import amount
from kogniterm.ui.locale import _

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
"""The budgets, and what may stand behind their numbers: 200k, 15min, 50MB."""
OFF = "off"
SESSION = "session"
_AMOUNT = re.compile(r"\$?(\d+(?:[.,]\d+)?)\s*([a-zA-Z]*)")


def budget(context: ReplContext, argument: str) -> None:
    """/budget [[session] NAME VALUE|off]."""
    name, value = first_word(argument)
    held = context.session.budget
    if name == SESSION:
        name, value = first_word(value)
        held.session = replace(held.session, **_changed(name, value, OF_SESSION))
    elif name:
        held.limits = replace(held.limits, **_changed(name, value, tuple(UNITS)))
    turn, session = held.spent(), _session_spent(context)
    rows = [(_("budget"), _("this turn"), _("limit"), _("session"), _("limit"))]
    for one in UNITS:
        most, in_all = _limit(held.limits, one), _limit(held.session, one)
        rows.append((one, amount(one, turn[one]), most, amount(one, session[one]), in_all))
    write_table(context, rows, ("accent", "", "", "", ""))
    context.say(
        Text(
            "/budget NAME VALUE sets the limit of a turn (200k, 15min, 50MB), off lifts it; "
            "/budget session NAME VALUE that of the whole session ({names}).",
            {"names": ", ".join(OF_SESSION)},
        )
    )


def _changed(name: str, value: str, allowed: Sequence[str]) -> dict[str, Any]:
    if name not in allowed:
        raise UsageError("{value} is none of: {allowed}.", value=name, allowed=", ".join(allowed))
    return {name: _amount(name, value)}


def _limit(limits: Limits, name: str) -> str:
    limit = getattr(limits, name)
    return amount(name, limit) if limit is not None else _("no limit")


def _session_spent(context: ReplContext) -> Mapping[str, float]:
    from kogniterm.runtime.spent import session_spent

    spent, usage = session_spent(context.session.journal.records())
    return {**spent, "dollars": context.session.price(usage) or 0.0}


def _amount(name: str, value: str) -> float | None:
    if value == OFF:
        return None
    found = _AMOUNT.fullmatch(value.strip())
    factor = UNITS[name].get(found[2].lower()) if found is not None else None
    if found is None or factor is None:
        units = ", ".join(unit for unit in UNITS[name] if unit)
        raise UsageError("Give a number above 0, or off. Units: {units}.", units=units or "-")
    number = float(found[1].replace(",", ".")) * factor
    if number <= 0 or not math.isfinite(number) or (name in WHOLE and number < 1):
        raise UsageError("Give a number above 0, or off.")
    return int(number) if name in WHOLE else number


def _choices(context: ReplContext) -> Iterable[str]:
    yield from UNITS
    yield from (f"{name} {OFF}" for name in UNITS)
    yield from (f"{SESSION} {name}" for name in OF_SESSION)


def cost(context: ReplContext, argument: str) -> None:
    """/cost."""
    from kogniterm.models.prices import PRICES_DATE
    from kogniterm.ui.format import tokens

    usage = context.session.usage
    values: dict[str, object] = {
        "calls": usage.calls,
        "input": tokens(usage.input),
        "cached": tokens(usage.cached),
        "share": round(100 * usage.cached / usage.input) if usage.input else 0,
        "output": tokens(usage.output),
    }
    context.say(
        Text(
            "This session: {calls} model calls, {input} tokens in ({cached} of them, {share} %, "
            "from the cache), {output} out.",
            values,
        )
    )
    dollars = context.session.price(usage)
    about: dict[str, object] = {"model": context.session.model.name, "date": PRICES_DATE}
    if dollars is None:
        context.say(Text("The price of {model} is not known (table of {date}).", about))
    else:
        amount = {**about, "dollars": f"{dollars:.4f}"}
        context.say(Text("About {dollars} US dollars, by the list prices of {date}.", amount))


BUDGET = (
    Command(
        "budget",
        Text("show or set what a turn and the session may use up"),
        budget,
        "[[session] NAME VALUE|off]",
        choices=_choices,
    ),
    Command("cost", Text("show the tokens this session has used, and their price"), cost),
)
