"""/budget and /cost: what a turn may use up, what it has, and what the session has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kogniterm.errors import UsageError
from kogniterm.runtime.budgets import OF_SESSION, UNITS, Limits, parse_amount, session_spent
from kogniterm.types import Phrase
from kogniterm.ui.commands.columns import first_word, write_table
from kogniterm.ui.commands.registry import ReplContext
from kogniterm.ui.locale import _
from kogniterm.ui.screen.number_format import amount

OFF = "off"
SESSION = "session"


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
        Phrase(
            "/budget NAME VALUE sets the limit of a turn (200k, 15min, 50MB), off lifts it; "
            "/budget session NAME VALUE that of the whole session ({names}).",
            {"names": ", ".join(OF_SESSION)},
        )
    )


def _changed(name: str, value: str, allowed: Sequence[str]) -> dict[str, Any]:
    if name not in allowed:
        raise UsageError("{value} is none of: {allowed}.", value=name, allowed=", ".join(allowed))
    return {name: None if value == OFF else parse_amount(name, value)}


def _limit(limits: Limits, name: str) -> str:
    limit = getattr(limits, name)
    return amount(name, limit) if limit is not None else _("no limit")


def _session_spent(context: ReplContext) -> Mapping[str, float]:
    spent, usage = session_spent(context.session.journal.records())
    return {**spent, "dollars": context.session.budget.price(usage) or 0.0}


def choices(context: ReplContext) -> Iterable[str]:
    """Return the limits that can be set."""
    yield from UNITS
    yield from (f"{name} {OFF}" for name in UNITS)
    yield from (f"{SESSION} {name}" for name in OF_SESSION)


def cost(context: ReplContext, argument: str) -> None:
    """/cost."""
    from kogniterm.models.catalog import PRICES_DATE
    from kogniterm.ui.screen.number_format import tokens

    usage = context.session.state.usage
    values: dict[str, object] = {
        "calls": usage.calls,
        "input": tokens(usage.input),
        "cached": tokens(usage.cached),
        "share": round(100 * usage.cached / usage.input) if usage.input else 0,
        "output": tokens(usage.output),
    }
    context.say(
        Phrase(
            "This session: {calls} model calls, {input} tokens in ({cached} of them, {share} %, "
            "from the cache), {output} out.",
            values,
        )
    )
    dollars = context.session.budget.price(usage)
    about: dict[str, object] = {"model": context.session.model.name, "date": PRICES_DATE}
    if dollars is None:
        context.say(Phrase("The price of {model} is not known (table of {date}).", about))
    else:
        amount = {**about, "dollars": f"{dollars:.4f}"}
        context.say(Phrase("About {dollars} US dollars, by the list prices of {date}.", amount))
