"""The question that a session was left at, and the user's answer, as records of its journal.

Whoever may open the session can read the question and answer it, on any machine that shares the
database. Both are in the audited chain. An answer names the digest of the question that was shown.
"""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.host.identity import account_name
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.records import Noted
from kogniterm.text.redact import redact
from kogniterm.types.parked_questions import CHOICES, AnswerChoice, ParkedQuestion, StoredAnswer

if TYPE_CHECKING:
    from kogniterm.sessions.store import SessionInfo, SessionStore

PARKED = "parked"
"""The kind of the note that holds a question."""
ANSWERED = "answered"
"""The kind of the note that holds an answer."""
USED = "answer_used"
"""The kind of the note that an answer to a question of the model was used."""


_NOTE = codec.kind_of(Noted(""))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A session that waits for an answer, its question, and since when."""

    session: SessionInfo
    question: ParkedQuestion
    since: float


def waiting_questions(store: SessionStore) -> tuple[Waiting, ...]:
    """Return the questions that wait on all machines, the longest waiting one first."""
    rows = store.database.execute(
        "SELECT session_id, max(time) FROM records WHERE kind = ? AND payload LIKE ? "
        "GROUP BY session_id ORDER BY max(time)",
        (_NOTE, f'%"kind":"{PARKED}"}}%'),
    )
    found = ((store.info(session_id), since) for session_id, since in rows)
    return tuple(
        Waiting(info, question, since)
        for info, since in found
        if info is not None and (question := open_question(store, info.id)) is not None
    )


def open_question(store: SessionStore, session_id: str) -> ParkedQuestion | None:
    """Return the question at which a session waits; None if none does or it has its answer."""
    state, _damaged = load_state(store.database, session_id)
    if not (state.open_turn or state.unknown):
        return None
    question, answered = None, set()
    records = codec.readable_records(store.database, session_id, kinds=(_NOTE,))
    for record in state.conversation(records):
        body = record.body
        if isinstance(body, Noted) and body.kind == PARKED:
            question = codec.from_fields(ParkedQuestion, body.data)
        elif isinstance(body, Noted) and body.kind == ANSWERED:
            answered.add(str(body.data.get("digest")))
    if question is None or question.digest in answered:
        return None
    if question.request is not None and question.request.id not in {r.id for r in state.waiting}:
        return None
    return question


def answer_now(digest: str, choice: AnswerChoice, text: str) -> StoredAnswer:
    """Return an answer that the user of this process gives."""
    return StoredAnswer(digest, choice, text, f"{account_name()}@{socket.gethostname()}")


def store_answer(store: SessionStore, session_id: str, answer: StoredAnswer) -> ParkedQuestion:
    """Write the user's answer to the journal and return the question that it is about.

    Raises `UsageError` when the session waits for no answer, or not for one to this question, and
    `SessionBusyError` while the session is open.
    """
    with closing(store.hold(session_id)) as journal:
        question = open_question(store, session_id)
        if question is None:
            raise UsageError("Session {session} waits for no answer.", session=session_id)
        if question.digest != answer.digest:
            raise UsageError(
                "Session {session} waits for the answer to another question by now; look at it "
                "again with: kogniterm queue inbox",
                session=session_id,
            )
        if answer.choice not in CHOICES[question.kind]:
            raise UsageError(
                "This question does not take {choice}; answer it with one of: {choices}.",
                choice=answer.choice,
                choices=", ".join(CHOICES[question.kind]),
            )
        text = redact(answer.text)
        if answer.choice == "edit" and text != answer.text:
            raise UsageError(
                "A command with a secret is not stored; edit it at the prompt, where secrets stay "
                "in memory: kogniterm resume {session}",
                session=session_id,
            )
        note = Noted(ANSWERED, codec.to_plain(replace(answer, text=text)))
        journal.append(note, durable=True)
    return question
