"""Learn facts from the user's messages: one model call for several turns, checked line by line.

What the user asks to remember is stored by rule as the turn ends. A model reads finished turns at
the prompt alone, once they fill a request, the session is idle, or another one starts. The cursor
moves in the same transaction as the facts from the messages before it, so a crash neither loses nor
doubles anything. A model that cannot be reached leaves the cursor where it is; after two unusable
replies the messages are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, NamedTuple

from kogniterm import prompts
from kogniterm.errors import ModelError, UnusableValueError, UsageError
from kogniterm.memory import statements
from kogniterm.memory.fact_records import Candidate, Fact, Message, Origin, StoredChange
from kogniterm.memory.recall import cited_facts
from kogniterm.memory.short_term import Mention, SessionNotes
from kogniterm.memory.statements import Proposal, Rejection, Statement
from kogniterm.memory.user_memory import Memory
from kogniterm.protocols import Model
from kogniterm.text.language import raw_words, stems_of
from kogniterm.types import ModelRequest, Phrase, Reply, Usage

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

COVERED = 0.6
"""Share of a text's content words that must have been stored for it to be nothing new."""

OVERLAP = 0.6
"""Share of the shorter of two wordings that must be one run of words in the other."""


def from_message(facts: Iterable[Fact], session_id: str, said: str) -> list[Fact]:
    """Return the facts of this session whose quote is in the message `said`."""
    own = (one for one in facts if one.origin.session_id == session_id)
    return [
        one
        for one in own
        if raw_words(one.origin.quote) and statements.holds_words(said, one.origin.quote)
    ]


def of_wording(facts: Sequence[Fact], said: str) -> list[Fact]:
    """Return the facts whose quote and the words `said` overlap."""
    spoken = raw_words(said)
    return [fact for fact in facts if _overlap(raw_words(fact.origin.quote), spoken)]


def same_as(text: str, stored: Sequence[Fact], *, quotes: bool) -> Fact | None:
    """Return the stored fact closest to `text`, if the stored facts together cover it.

    With `quotes` the words that the facts rest on count too: for a text in other words.
    """
    sought = set(stems_of(text))
    said = {one.id: f"{one.text} {one.origin.quote}" if quotes else one.text for one in stored}
    known = {number: set(stems_of(words)) for number, words in said.items()}
    covered = sought & set().union(*known.values())
    if not sought or len(covered) < COVERED * len(sought):
        return None
    return max(stored, key=lambda fact: len(known[fact.id] & sought))


def _overlap(one: Sequence[str], two: Sequence[str]) -> bool:
    if not one or not two:
        return False
    run = SequenceMatcher(None, one, two, autojunk=False).find_longest_match()
    return run.size >= OVERLAP * min(len(one), len(two))


ENOUGH = 4
"""New messages (of the user or the model) that are read at a pause even where the rules find
nothing worth reading."""

BATCH_TOKENS = 3_000
"""About how many tokens of new messages one request reads; as many are read without a pause."""

CHARS_PER_TOKEN = 3

MOST_TURNS = 20
LONGEST_WAIT = 7 * 86_400.0
"""Turns that wait to be read at a later start, and the seconds for which they do."""

Reason = Literal["full", "idle", "start", "remember"]
Pause = Literal["idle", "start"]

CONTEXT_MESSAGES = 10
KNOWN_FACTS = 12
MOST_KNOWN_FACTS = 30
"""Known facts that a request of one turn has, and one of many turns, which may concern more."""
MOST_SUPERSESSIONS = 2
LONGEST_MESSAGE = 2000
_ATTEMPTS = 2


class Extraction(NamedTuple):
    """The result of reading new messages. `failure` says why some could not be read.

    `usage` is that of the model calls, `model` the name of the model that was asked.
    """

    changes: tuple[StoredChange, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    failure: Phrase | None = None
    usage: Usage = Usage()
    model: str = ""

    def followed_by(self, other: Extraction) -> Extraction:
        """Return the result of both."""
        return Extraction(
            self.changes + other.changes,
            self.rejected + other.rejected,
            other.failure or self.failure,
            self.usage + other.usage,
            other.model or self.model,
        )


def due(
    notes: SessionNotes, messages: Sequence[Message], *, pause: Pause | None = None
) -> Reason | None:
    """Return why facts should be extracted now, or None.

    The cursor decides: the messages since it, whatever the length of the session. `pause` says that
    the session is idle, or that another one starts.
    """
    new = [one for one in messages if one.seq > notes.cursor and one.role in ("person", "model")]
    if not any(one.role == "person" for one in new):
        return None
    if any(one.role == "person" and statements.find_statements(_own(one)) for one in new):
        return "remember"
    if pause:
        return pause
    return "full" if _tokens(new) >= BATCH_TOKENS else None


def _tokens(messages: Iterable[Message]) -> int:
    """Return about how many tokens the messages take in a request."""
    return sum(len(_shown(one, "NEW ")) for one in messages) // CHARS_PER_TOKEN


def first_batch(new: Sequence[Message]) -> Sequence[Message]:
    """Return the oldest of the new messages that one request reads: whole turns."""
    for end in range(1, len(new)):
        if new[end].role == "person" and _tokens(new[:end]) >= BATCH_TOKENS:
            return new[:end]
    return new


class Extractor:
    """Extracts facts for one memory; without a model, by the rules of `statements` alone."""

    def __init__(self, memory: Memory, model: Model | None) -> None:
        self._memory = memory
        self.model = model

    @property
    def provider(self) -> str:
        """The service that the model's requests go to, "" without a model."""
        info = self.model.info if self.model is not None else None
        return f"{info.provider} {info.server}".strip() if info is not None else ""

    def keep_stated(
        self, session_id: str, messages: Sequence[Message], since: int = 0
    ) -> Extraction:
        """Store what the user stated in the turn after record `since`, and note where it ended.

        `messages` are as for `after_turn`. What was said before, while memory was not to be
        written, is passed over. Without a model the turn is read with that.
        """
        notes = self._memory.sessions.load(session_id)
        own = [one for one in messages if one.role == "person"]
        if any(notes.ended < one.seq <= since for one in own):
            notes = notes._replace(cursor=max(notes.cursor, since))
        new = [one for one in own if one.seq > max(notes.cursor, since)]
        ended = max([notes.ended, *(one.seq for one in messages)])
        cursor = ended if self.model is None else notes.cursor
        changes: list[StoredChange] = []
        with self._memory.repository.transaction():
            for message in new:
                stored = self._stored_from(notes, [message])
                for one in statements.find_statements(_own(message)):
                    known = same_as(one.text, of_wording(stored, one.text), quotes=False)
                    changes.append(self._remember(one, session_id, message, known))
            now = self._memory.clock.now()
            place = SessionNotes(session_id, cursor, now, ended, self.provider)
            self._memory.sessions.save(place)
        return Extraction(tuple(changes))

    async def after_turn(
        self, session_id: str, messages: Sequence[Message], *, pause: Pause | None = None
    ) -> Extraction | None:
        """Extract with the model when it is `due`; None when it is not.

        At a pause the model is asked only when there is enough to read, or when it looks worth
        reading by the rules.

        `messages` are the session's, oldest first; only the user's own words may have the role
        "person" (no piped data, no expanded files). Model failures are part of the result.
        """
        notes = self._memory.sessions.load(session_id)
        reason = due(notes, messages, pause=pause)
        new = [one for one in messages if one.seq > notes.cursor]
        if self.model is None or reason is None:
            return None
        if reason not in ("remember", "full") and not (
            sum(one.role != "tool" for one in new) >= ENOUGH
            or any(statements.worth_reading(_own(one)) for one in new if one.role == "person")
        ):
            if reason == "start":  # a session that ended; one that paused may go on
                self._memory.sessions.save(notes._replace(cursor=_last(notes, new)))
            return None
        result = Extraction()
        while new and result.failure is None:
            batch = first_batch(new)
            result = result.followed_by(await self._with_model(self.model, notes, messages, batch))
            new = new[len(batch) :]
            if reason == "full" and _tokens(new) < BATCH_TOKENS:
                break
            notes = self._memory.sessions.load(session_id)
        return result

    def _remember(
        self, said: Statement, session_id: str, message: Message, known: Fact | None
    ) -> StoredChange:
        candidate = Candidate(
            text=said.text,
            category=said.category,
            project=self._memory.project,
            created=message.time or None,
            origin=Origin(session_id, message.seq, said.text),
        )
        try:
            return self._memory.remember(candidate, same_as=known)
        except UsageError as error:
            return StoredChange("rejected", None, error.text)

    async def _with_model(
        self, model: Model, notes: SessionNotes, messages: Sequence[Message], new: Sequence[Message]
    ) -> Extraction:
        user_messages = [one for one in new if one.role == "person"]
        stored = self._stored_from(notes, user_messages)
        known = self._known_facts(notes, messages, new, stored)
        request = self._request(messages, new, known)
        reading, spent, unusable = await _read(model, request)
        before, notes = notes, self._memory.sessions.load(notes.session_id)
        if notes.cursor != before.cursor or notes.ended < before.ended:
            return spent  # read elsewhere meanwhile, or deleted
        if reading is None:
            # What a model could not be asked about is read later; what it cannot read is skipped.
            cursor = _last(notes, new) if unusable else notes.cursor
            self._memory.sessions.save(notes._replace(cursor=cursor))
            return spent
        facts, entities, intents = reading
        checked = [
            statements.check(raw, user_messages, notes.session_id, self._memory.project)
            for raw in facts
        ]
        proposals = [one for one in checked if isinstance(one, Proposal)]
        with self._memory.repository.transaction():
            most = max(MOST_SUPERSESSIONS, len(user_messages))
            changes = self._store(proposals, known, stored, most)
            names = [Mention("name", one) for one in entities]
            names += [Mention("request", one) for one in intents]
            self._memory.sessions.mention(notes.session_id, names, self._memory.clock.now())
            self._memory.sessions.save(notes._replace(cursor=_last(notes, new)))
        rejected = [one for one in checked if isinstance(one, Rejection)]
        return spent._replace(changes=tuple(changes), rejected=tuple(rejected))

    def _stored_from(self, notes: SessionNotes, messages: Sequence[Message]) -> list[Fact]:
        """Return the facts stored from `messages` before this extraction."""
        facts = self._memory.repository.facts("active", "pending")
        own = map(_own, messages)
        return [fact for said in own for fact in from_message(facts, notes.session_id, said)]

    def _store(
        self,
        proposals: Sequence[Proposal],
        known: Mapping[int, Fact],
        stored: Sequence[Fact],
        most: int,
    ) -> list[StoredChange]:
        """Store what the model proposes; it replaces at most so many facts."""
        changes: list[StoredChange] = []
        superseded = 0
        for proposal in proposals:
            target = known.get(proposal.known) if proposal.known is not None else None
            target = self._memory.repository.get(target.id) if target else None
            candidate = proposal.candidate
            if target is not None and target.status != "active":
                target = None
            if target is not None and not _may_touch(target, proposal):
                target = None
            same = same_as(candidate.text, stored, quotes=True)
            if target and same and target.id != same.id and proposal.relation == "update":
                if superseded < most:  # by what the rules stored already
                    self._memory.updater.retire(target, same)
                    superseded += 1
                target = None
            same = same if target is None else None
            relation = "same" if same else proposal.relation if target else None
            try:
                change = self._memory.updater.remember(
                    candidate,
                    known=target or same,
                    relation=relation,
                    who="extraction",
                    may_supersede=superseded < most,
                )
            except UsageError as error:
                change = StoredChange("rejected", None, error.text)
            superseded += change.kind == "superseded"
            changes.append(change)
        return changes

    def _known_facts(
        self,
        notes: SessionNotes,
        messages: Sequence[Message],
        new: Sequence[Message],
        stored: Sequence[Fact],
    ) -> dict[int, Fact]:
        """Return facts that the new words may repeat or correct, under small numbers.

        What was `stored` from these words is left out: it may be the correction.

        A correction seldom names what it corrects: the facts that this session learned or cited
        last come first.
        """
        active = self._memory.repository.facts("active")
        learned = [one.id for one in active if one.origin.session_id == notes.session_id]
        answers = [one.text for one in messages[-CONTEXT_MESSAGES:] if one.role == "model"]
        recent = [*learned, *(number for text in answers for number in cited_facts(text))]
        told = dict.fromkeys(recent[-KNOWN_FACTS // 2 :])
        near = [
            [hit.id for hit in self._memory.search(_own(one), 5)]
            for one in new
            if one.role == "person"
        ]
        # In turn, so that each message has its nearest facts.
        for rank in zip_longest(*near):
            told.update(dict.fromkeys(one for one in rank if one is not None))
        most = min(max(KNOWN_FACTS, 3 * len(near)), MOST_KNOWN_FACTS)
        for one in stored:
            told.pop(one.id, None)
        facts = [self._memory.repository.get(one) for one in list(told)[:most]]
        return dict(enumerate((fact for fact in facts if fact is not None), start=1))

    def _request(
        self, messages: Sequence[Message], new: Sequence[Message], known: Mapping[int, Fact]
    ) -> ModelRequest:
        from langchain_core.messages import HumanMessage, SystemMessage

        today = datetime.fromtimestamp(self._memory.clock.now(), UTC).date().isoformat()
        instructions = prompts.text("extract_facts.read", today=today)
        first = new[0].seq if new else 0
        earlier = [one for one in messages if one.seq < first][-CONTEXT_MESSAGES:]
        facts = [f"{number}. {fact.text}" for number, fact in known.items()] or ["(none)"]
        lines = [_shown(one, "") for one in earlier if one.role in ("person", "model")]
        lines += [_shown(one, "NEW ") for one in new if one.role in ("person", "model")]
        material = prompts.text(
            "extract_facts.material", known="\n".join(facts), conversation="\n".join(lines)
        )
        content: list[BaseMessage] = [SystemMessage(instructions), HumanMessage(material)]
        return ModelRequest(tuple(content), purpose="extract_facts", schema=statements.SCHEMA)


def _may_touch(target: Fact, proposal: Proposal) -> bool:
    """Return whether the model's relation to a known fact is believed.

    Models retire facts that have nothing to do with the new one: see `update`. A fact of another
    scope may be confirmed, never replaced.
    """
    from kogniterm.memory.update import shares_a_subject, takes_the_place

    candidate = proposal.candidate
    if proposal.relation == "same":
        return shares_a_subject(candidate.text, target.text)
    if target.project != candidate.project:
        return False
    if candidate.slot and "_".join(raw_words(candidate.slot)) == target.slot:
        return True
    return takes_the_place(candidate.text, target.text, candidate.origin.quote)


async def _read(
    model: Model, request: ModelRequest
) -> tuple[statements.Reading | None, Extraction, bool]:
    """Ask, and once more with the problem when the reply is unusable.

    Return the reading, None where there is none, the cost, and whether both replies were unusable.
    """
    from langchain_core.messages import HumanMessage

    spent = Extraction(model=model.info.name)
    for _ in range(_ATTEMPTS):
        text = ""
        try:
            async for event in model.stream(request):
                if isinstance(event, Reply):
                    text = str(event.message.text)
                    spent = spent._replace(usage=spent.usage + event.usage)
        except ModelError as error:
            return None, spent._replace(failure=error.text), False
        try:
            return statements.read_reply(text), spent._replace(failure=None), False
        except UnusableValueError as error:
            values = {"detail": error.text}
            failure = Phrase("the model's response could not be read: {detail}", values)
            spent = spent._replace(failure=failure)
            hint = HumanMessage(prompts.text("extract_facts.repair", problem=error))
            request = request._replace(messages=(*request.messages, hint))
    return None, spent, True


def _own(message: Message) -> str:
    return statements.own_words(message.text)


def _shown(message: Message, mark: str) -> str:
    who = "USER" if message.role == "person" else "ASSISTANT"
    text = " ".join(statements.reveal(message.text, "…").split())
    if len(text) > LONGEST_MESSAGE:
        text = text[:LONGEST_MESSAGE] + "…"
    return f"{mark}{who}: {text}"


def _last(notes: SessionNotes, new: Sequence[Message]) -> int:
    return max([notes.cursor, *(one.seq for one in new)])
