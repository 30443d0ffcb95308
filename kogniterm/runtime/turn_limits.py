"""A limit that is used up: at the prompt the user decides whether the turn goes on.

The question is journaled before it is asked, so after a crash at the question whoever resumes the
session is asked again. Where no user is there, the turn ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from kogniterm.runtime.budgets import NOTHING, TurnCount, limit_text
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import TurnIO
from kogniterm.sessions.fold import limit_note
from kogniterm.types import LimitReached, Phrase, events


async def limit_that_ends(
    journal: TurnJournal, io: TurnIO, count: TurnCount, names: Iterable[str] = NOTHING
) -> Phrase | None:
    """Return which of these limits ends the turn, or None when none does.

    At a limit the user is asked, where one is there. Sub-agents that run side by side reach a limit
    together: one question is asked, and its answer holds for all.
    """
    async with count.asking:
        while (reached := _reached(journal, count, tuple(names))) is not None:
            if count.ended is None and not await _goes_on(journal, io, count, reached):
                count.ended = reached
            if count.ended is not None:
                return limit_text(count.ended)
    return None


def _reached(journal: TurnJournal, count: TurnCount, names: tuple[str, ...]) -> LimitReached | None:
    """Return the limit that is used up: in this process, or before a crash at its question."""
    asked = journal.state.limit
    if asked is None or asked.name not in NOTHING:  # a limit that earlier versions had
        return count.budget.over(names)
    limit = count.budget.limit(asked.name, of_session=asked.of_session)
    if limit is None or limit > asked.limit:  # it was raised for the resume
        journal.record(limit_note(asked, "more"))
        return count.budget.over(names)
    return asked


async def _goes_on(
    journal: TurnJournal, io: TurnIO, count: TurnCount, reached: LimitReached
) -> bool:
    """Ask the user about a limit that is used up, and apply the answer."""
    if io.at_limit is None:
        journal.record(limit_note(reached, "end"))
        io.sink(events.LimitDecided(reached, "end", "unattended"))
        return False
    journal.record(limit_note(reached), durable=True)
    with count.waiting():
        choice = await io.at_limit(reached)
    journal.record(limit_note(reached, choice), durable=True)
    io.sink(events.LimitDecided(reached, choice, "person"))
    if choice == "more":
        count.budget.grant(reached)
    elif choice == "unlimited":
        count.budget.set_limit(reached.name, None, of_session=reached.of_session)
    return choice != "end"
