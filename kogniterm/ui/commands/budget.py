"""/budget and /cost: what a turn may use up, and what the session has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kogniterm.errors import UsageError
from kogniterm.types import Text
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.commands.shown import first_word, write_table
from kogniterm.ui.context import ReplContext
from kogniterm.ui.locale import _

UNITS: Mapping[str, Callable[[str], float]] = {
    "steps": int,
    "seconds": float,
    "tokens": int,
    "dollars": float,
    "commands": int,
    "output_bytes": int,
}
OFF = "off"


def budget(context: ReplContext, argument: str) -> None:
    """/budget [NAME VALUE|off]."""
    name, value = first_word(argument)
    session = context.session
    if name:
        if name not in UNITS:
            raise UsageError("{value} is none of: {allowed}.", value=name, allowed=", ".join(UNITS))
        changed: dict[str, Any] = {name: _amount(name, value)}
        session.use_limits(replace(session.limits, **changed))
    write_table(
        context,
        [(one, _shown(getattr(session.limits, one)), _used(context, one)) for one in UNITS],
        ("accent", "", "muted"),
    )
    context.say(Text("Each limit holds for one turn; /budget NAME VALUE sets it, off lifts it."))


def _amount(name: str, value: str) -> float | None:
    if value == OFF:
        return None
    try:
        amount = UNITS[name](value)
    except ValueError:
        amount = -1
    if amount <= 0 or not math.isfinite(amount):
        raise UsageError("Give a number above 0, or off.")
    return amount


def _shown(limit: float | None) -> str:
    return _("no limit") if limit is None else _("at most {limit}").format(limit=f"{limit:g}")


def _used(context: ReplContext, name: str) -> str:
    """What the whole session has used, where it is counted."""
    usage = context.session.usage
    dollars = context.session.price(usage)
    used = {
        "steps": str(usage.calls),
        "tokens": str(usage.input + usage.output),
        "dollars": f"{dollars:.4f}" if dollars is not None else "",
    }.get(name)
    return _("the session has used {amount}").format(amount=used) if used else ""


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
        Text("show or set what a turn may use up"),
        budget,
        "[NAME VALUE|off]",
        choices=lambda context: UNITS,
    ),
    Command("cost", Text("show the tokens this session has used, and their price"), cost),
)
