"""A session whose ID the caller chose, made by the first call and continued by later ones.

A program that starts tasks must be able to repeat a start of which it does not know the end, and
the same task must not be done twice by that. So a task that the session was given before is not
begun again: an interrupted one continues, and of a finished one the answer is returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.sessions.history import PastTurn, SessionHistory
from kogniterm.text.redact import without_numbers
from kogniterm.types import Answer, Phrase, UserInput, events

if TYPE_CHECKING:
    from kogniterm.protocols import EventSink
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.turn_journal import TurnJournal


def given_before(journal: TurnJournal, task: UserInput) -> PastTurn | None:
    """Return the last turn that was given `task`, or None.

    Raises `UsageError` while a turn with another task is open.
    """
    state, wanted = journal.state, _key(journal.redact_input(task))
    turns = SessionHistory(journal.records()).conversation
    found = next((one for one in reversed(turns) if _key(one.input) == wanted), None)
    if state.open_turn and (found is None or found.number != state.turn):
        raise UsageError(
            "Session {session} is in the middle of another task. Continue that one first: "
            "kogniterm run --resume {session}",
            session=state.session_id,
        )
    return found


def _key(task: UserInput) -> tuple[str, str]:
    """Return what makes two tasks the same; secrets have other numbers in each process."""
    return without_numbers(task.typed), without_numbers(task.data or "")


def repeat_answer(session: LiveSession, turn: PastTurn, sink: EventSink) -> Answer:
    """Report the answer of a task that has ended before; nothing is run or recorded."""
    ended = turn.end
    assert ended is not None
    told = Phrase("The task ended before ({stop}).", {"stop": ended.stop})
    reason = told if ended.exit_code else None
    answer = Answer(
        ended.answer,
        ended.stop,  # type: ignore[arg-type]  # the records hold it as it was given
        ended.exit_code,
        reason,
        verbatim=turn.input.source == "recipe",
    )
    sink(events.TurnStarted(session.id, turn.number, session.model.name, session.executor.cwd))
    sink(events.Notice(Phrase("This task has ended before; its answer is shown again.")))
    sink(events.TurnEnded(answer))
    return answer
