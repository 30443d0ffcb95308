"""Turns that end at a question for the user and hold nothing while it waits, for days if need be.

`Parking` stands where a user would be asked. It writes the question to the journal and leaves the
turn open, so that the process can end; the answer is another record, written by whoever gives it
(`signed_answers`). A resume comes to the same question, finds the answer to exactly this digest and
goes on with it if the user signed it. An action has one outcome, and so its answer has an effect
once; other questions are numbered.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Never

from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.errors import EXIT_REFUSED, KognitermError, ModelError
from kogniterm.runtime.session_plans import may_grant, use_grant
from kogniterm.runtime.turn_end import failed_answer
from kogniterm.runtime.unattended import signed_answers
from kogniterm.runtime.unattended.signed_answers import ANSWERED, PARKED, USED
from kogniterm.sessions.history import PastNote, notes
from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import Noted
from kogniterm.text.shorten import one_line
from kogniterm.types import (
    ActionRequest,
    Answer,
    Decision,
    Phrase,
    Plan,
    PlanReview,
    RiskReport,
    Verdict,
)
from kogniterm.types.events import BY_USER
from kogniterm.types.parked_questions import ParkedQuestion, QuestionKind, StoredAnswer
from kogniterm.types.turn_values import GRANTS, LEFT_OPEN

if TYPE_CHECKING:
    from kogniterm.runtime.fixed_questions import RecoveryChoice, RecoveryQuestion
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.turn_ports import Question

_TITLE = 200
HOLDS_SECRET = Phrase(
    "It holds a secret, so it cannot wait for the user: only its redacted text would be kept. Read "
    "the secret inside the command, from the file it is in."
)


class Parking:
    """Answers questions of a session from its journal, and leaves the turn open at any other.

    Implements `protocols.Approver`. `question` is the one at which the turn was left, `failure`
    the model's, after which a turn may go on later.
    """

    answers_later: ClassVar[bool] = True

    def __init__(self, session: LiveSession) -> None:
        self.session = session
        self.question: ParkedQuestion | None = None
        self.failure: ModelError | None = None
        self._lock = asyncio.Lock()
        # A resumed turn gets again what the signed answer about the plan in force granted.
        with suppress(*signed_answers.UNREADABLE):
            parked = [codec.from_fields(ParkedQuestion, one.data) for one in self._notes(PARKED)]
            asked = next((one for one in reversed(parked) if one.plan is not None), None)
            now = session.state.plan
            if asked and asked.plan and now and now.revision == asked.plan.revision:
                digest = signed_answers.question_digest(session.id, asked)
                if (found := self._signed_answer(replace(asked, digest=digest))) is not None:
                    review = _review(asked.plan, found)
                    use_grant(session.journal, session.modes, review)

    @property
    def answer(self) -> Answer | None:
        """Return the end of this process's part of the turn, None if nothing waits."""
        if self.failure is not None:
            return failed_answer(self.failure, self.session.state.usage)
        if self.question is None:
            return None
        stop = "unknown" if self.question.kind == "unknown" else "parked"
        reason = Phrase(
            "A question waits for you. To answer it: kogniterm queue answer {session}",
            {"session": self.session.id},
        )
        if why := self.question.ignored:
            reason = Phrase("{why} {reason}", {"why": why, "reason": reason})
        usage = self.session.state.usage
        return Answer("", stop, EXIT_REFUSED, reason, usage)  # type: ignore[arg-type]  # one of two

    def may_wait(self, error: KognitermError) -> bool:
        """Return whether a turn is left open after `error`: the same call may succeed later."""
        if isinstance(error, ModelError) and error.passes:
            self.failure = error
        return self.failure is not None

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Return the stored decision about exactly this request, or park.

        What redaction changes goes back to the model: only its redacted text could wait.
        """
        session = self.session
        kept = session.journal.show_request(request)
        if (kept.command, kept.arguments) != (request.command, dict(request.arguments)):
            return Decision("reject", request.command, "policy", reasons=(HOLDS_SECRET,))
        asked = session.state.requested.get(request.id)
        # What decides what would run: the files it reads included.
        files = asked.script_hashes if asked else {}
        question = self._new("action", request.command, files, request=kept, report=report,
                             verdict=verdict)  # fmt: skip
        found = self._signed_answer(question)
        if found is None:
            preview = tuple(session.undo.preview(request, report))
            found = await self._park(replace(question, preview=preview))
        if found.choice == "edit":
            return Decision("edit", found.text, BY_USER)
        if found.choice == "approve":
            return Decision("approve", request.command, BY_USER)
        return Decision("reject", request.command, BY_USER, found.text)

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Return the stored review of exactly this plan, or park."""
        waiting = (one for one in self.session.state.waiting if one.tool == MAKE_PLAN.name)
        request = next((one.id for one in waiting), "")
        about = {"request": request}
        grants = may_grant(self.session.modes, sandboxed=self.session.policy.sandboxed)
        question = self._new("plan", plan.goal, about, plan=plan, previous=previous, grants=grants)
        return _review(plan, self._signed_answer(question) or await self._park(question))

    async def recover(self, asked: RecoveryQuestion) -> RecoveryChoice:
        """Return the stored choice for a command of unknown outcome, or park."""
        intent = asked.intent
        about = {"request": intent.request_id, "command": intent.command}
        question = self._new("unknown", intent.command, about, output=asked.output)
        question = replace(question, folder=intent.cwd)
        found = self._signed_answer(question) or await self._park(question)
        return found.choice if found.choice in ("check", "again") else "skip"

    async def ask(self, question: Question, answers: Sequence[str | Phrase]) -> str | None:
        """Return the stored words for this question, once, or park."""
        lines = (Phrase("{text}", {"text": question}),) if isinstance(question, str) else question
        texts = [self.session.journal.redact(str(one)) for one in lines]
        told = tuple(Phrase("{text}", {"text": text}) for text in texts)
        words = tuple(map(str, answers))
        new = partial(self._new, "question", texts[0], lines=told, answers=words)
        turn = {"turn": str(self.session.state.turn)}
        base = new(turn).digest
        used = sum(one.data.get("base") == base for one in self._notes(USED))
        asked = new({**turn, "used": str(used)})
        found = self._signed_answer(asked) or await self._park(asked)
        used_up = Noted(USED, {"base": base, "digest": asked.digest})
        self.session.journal.record(used_up, durable=True)
        return found.text or None

    def _new(
        self, kind: QuestionKind, title: str, about: Mapping[str, str], **told: Any
    ) -> ParkedQuestion:
        title, host = one_line(title, _TITLE), socket.gethostname()
        cwd = self.session.executor.cwd
        question = ParkedQuestion("", kind, title, host, cwd, about=about, **told)
        return replace(question, digest=signed_answers.question_digest(self.session.id, question))

    def _notes(self, kind: str) -> list[PastNote]:
        records = self.session.journal.records()
        return list(notes(self.session.state.conversation(records), kind))

    def _signed_answer(self, question: ParkedQuestion) -> StoredAnswer | None:
        """Return the last answer to the question that the user signed."""
        key = self.session.archive.paths.queue_key
        given = (one.data for one in reversed(self._notes(ANSWERED)))
        signed = (signed_answers.signed_answer(data, key) for data in given)
        return next((one for one in signed if one and one.digest == question.digest), None)

    async def _park(self, question: ParkedQuestion) -> Never:
        """Write the question to the journal and stop here, with the turn open."""
        async with self._lock:
            if self.question is None:
                note = Noted(PARKED, codec.to_plain(question))
                self.session.journal.record(note, durable=True)
                given = (one.data.get("digest") for one in self._notes(ANSWERED))
                ignored = signed_answers.UNSIGNED if question.digest in given else None
                self.question = replace(question, ignored=ignored)
        # As if the terminal went away at the question: `run_turn` leaves the turn open.
        raise asyncio.CancelledError(LEFT_OPEN)


def _review(plan: Plan, found: StoredAnswer) -> PlanReview:
    grant = GRANTS.get(found.choice)
    return PlanReview(
        "reject" if grant is None else "approve", plan, BY_USER, found.text, grant or ""
    )
