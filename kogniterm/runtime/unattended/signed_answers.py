"""The question that a session was left at, and the user's answer, as records of its journal.

Both are in the audited chain, which anybody can continue who can write the database or an export.
So an answer counts only with a signature by the user's key. It is for the digest of the question
that was shown: of its session, action and text, computed again wherever it is read.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.errors import StorageError, UsageError
from kogniterm.host.identity import account_name
from kogniterm.sessions.history import notes
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.records import Noted
from kogniterm.storage.user_key import read_key
from kogniterm.text.redact import redact
from kogniterm.types import Phrase
from kogniterm.types.parked_questions import CHOICES, ParkedQuestion, StoredAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kogniterm.sessions.store import SessionInfo, SessionStore

PARKED = "parked"
"""The kind of the note that holds a question."""
ANSWERED = "answered"
"""The kind of the note that holds an answer."""
USED = "answer_used"
"""The kind of the note that an answer to a question of the model was used."""


_NOTE = codec.kind_of(Noted(""))
UNREADABLE = (TypeError, ValueError, KeyError, AttributeError)
UNSIGNED = Phrase(
    "A stored answer is not signed with your key of this machine, so it does not count. If it is "
    "yours, of another machine, bring that key here: kogniterm queue key --help"
)


def question_digest(session_id: str, question: ParkedQuestion) -> str:
    """Return what stands for a question: all of it that is the same on any machine and start."""
    folder = question.folder if question.kind == "action" else ""
    same = replace(question, digest="", host="", folder=folder, verdict=None, preview=(),
                   previous=None, output="", ignored=None, grants=False)  # fmt: skip
    return hashlib.sha256(codec.dumps([session_id, codec.to_plain(same)]).encode()).hexdigest()


def _signature(answer: StoredAnswer, key: Path) -> str:
    told = ["kogniterm answer", codec.to_plain(replace(answer, signature=""))]
    return hmac.new(read_key(key), codec.dumps(told).encode(), hashlib.sha256).hexdigest()


def signed_answer(note: Mapping[str, object], key: Path) -> StoredAnswer | None:
    """Return the answer in a note, or None for one that is not signed with the key in `key`."""
    with suppress(*UNREADABLE, StorageError):
        answer = codec.from_fields(StoredAnswer, note)
        if hmac.compare_digest(answer.signature.encode(), _signature(answer, key).encode()):
            return answer
    return None


class WaitingSession(NamedTuple):
    """A session that waits for an answer, its question, and since when."""

    session: SessionInfo
    question: ParkedQuestion
    since: float


def waiting_questions(store: SessionStore, key: Path) -> tuple[WaitingSession, ...]:
    """Return the questions that wait on all machines, the longest waiting one first."""
    rows = store.database.execute(
        "SELECT session_id, max(time) FROM records WHERE kind = ? AND payload LIKE ? "
        "GROUP BY session_id ORDER BY max(time)",
        (_NOTE, f'%"kind":"{PARKED}"}}%'),
    )
    found = ((store.info(session_id), since) for session_id, since in rows)
    return tuple(
        WaitingSession(info, question, since)
        for info, since in found
        if info is not None and (question := open_question(store, info.id, key)) is not None
    )


def open_question(store: SessionStore, session_id: str, key: Path) -> ParkedQuestion | None:
    """Return the question at which a session waits; None if none does or it has its answer."""
    state, _damaged = load_state(store.database, session_id)
    if not (state.open_turn or state.unknown):
        return None
    question: ParkedQuestion | None = None
    answered, ignored = set[str](), set[str]()
    records = codec.readable_records(store.database, session_id, kinds=(_NOTE,))
    for note in notes(state.conversation(records), PARKED, ANSWERED):
        if note.kind == ANSWERED:
            counts = signed_answer(note.data, key) is not None
            (answered if counts else ignored).add(str(note.data.get("digest")))
            continue
        with suppress(*UNREADABLE):
            found = codec.from_fields(ParkedQuestion, note.data)
            question = found if found.kind in CHOICES else None
    digest = question_digest(session_id, question) if question is not None else ""
    if question is None or digest in answered:
        return None
    if question.request is not None and question.request.id not in {r.id for r in state.waiting}:
        return None
    return replace(question, digest=digest, ignored=UNSIGNED if digest in ignored else None)


def store_answer(
    store: SessionStore, session_id: str, digest: str, choice: str, text: str, key: Path
) -> None:
    """Sign the answer of this process's user to the question `digest`, and write it to the journal.

    Raises `UsageError` when the session waits for no answer, or not for one to this question, and
    `SessionBusyError` while the session is open.
    """
    with closing(store.hold(session_id)) as journal:
        question = open_question(store, session_id, key)
        if question is None:
            raise UsageError("Session {session} waits for no answer.", session=session_id)
        if question.digest != digest:
            raise UsageError(
                "Session {session} waits for the answer to another question by now; look at it "
                "again with: kogniterm queue inbox",
                session=session_id,
            )
        kind = next((one for one in CHOICES[question.kind] if one == choice), None)
        if kind is None:
            raise UsageError(
                "This question does not take {choice}; answer it with one of: {choices}.",
                choice=choice,
                choices=", ".join(CHOICES[question.kind]),
            )
        clean, by = redact(text), f"{account_name()}@{socket.gethostname()}"
        if choice == "edit" and clean != text:
            raise UsageError(
                "A command with a secret is not stored; edit it at the prompt, where secrets stay "
                "in memory: kogniterm resume {session}",
                session=session_id,
            )
        answer = StoredAnswer(digest, kind, clean, by)
        answer = replace(answer, signature=_signature(answer, key))
        journal.append(Noted(ANSWERED, codec.to_plain(answer)), durable=True)
