"""Learn facts from the user's messages: one model call, after the answer, checked line by line.

The cursor moves in the same transaction as the facts from the messages before it, so a crash
neither loses nor doubles anything. A model that cannot be reached leaves the cursor where it is;
after two unusable replies the messages are skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal

from kogniterm import prompts
from kogniterm.errors import ModelError, UnusableValueError, UsageError
from kogniterm.memory.extraction import statements
from kogniterm.memory.extraction.statements import Proposal, Rejection, Statement
from kogniterm.memory.fact_records import Change, Fact, Message, Origin
from kogniterm.memory.recall import cited
from kogniterm.memory.short_term import SessionNotes
from kogniterm.memory.update import Candidate, shares_a_subject, takes_the_place, with_value
from kogniterm.memory.user_memory import Memory
from kogniterm.protocols import Model
from kogniterm.text.language import raw_words, stems_of
from kogniterm.types import ModelRequest, Phrase, Reply

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


EVERY = 4
"""New messages (of the user or the model) after which facts are extracted."""

Reason = Literal["count", "end", "remember", "expiry"]

CONTEXT_MESSAGES = 10
KNOWN_FACTS = 12
MOST_SUPERSESSIONS = 2
LONGEST_MESSAGE = 2000
_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Extraction:
    """The result of one extraction. `failure` says why nothing could be read."""

    changes: tuple[Change, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    failure: Phrase | None = None


def due(
    notes: SessionNotes, messages: Sequence[Message], now: float, *, ending: bool = False
) -> Reason | None:
    """Return why facts should be extracted now, or None.

    The cursor decides: four new messages since it, whatever the length of the session.
    """
    new = [one for one in messages if one.seq > notes.cursor and one.role in ("person", "model")]
    if not any(one.role == "person" for one in new):
        return None
    if any(
        one.role == "person" and statements.memory_request(statements.own_words(one)) for one in new
    ):
        return "remember"
    if len(new) >= EVERY:
        return "count"
    if ending:
        return "end"
    return "expiry" if notes.is_expired(now) else None


class Extractor:
    """Extracts facts for one memory; without a model, by the rules of `statements` alone."""

    def __init__(self, memory: Memory, model: Model | None) -> None:
        self._memory = memory
        self._model = model

    async def after_turn(
        self, session_id: str, messages: Sequence[Message], *, ending: bool = False
    ) -> Extraction | None:
        """Extract when it is `due`; None when it is not.

        At the end of a session and after an idle hour a model is asked only when the rest looks
        worth reading by the rules.

        `messages` are the session's, oldest first; only the user's own words may have the role
        "person" (no piped data, no expanded files). Model failures are part of the result.
        """
        notes = self._memory.sessions.load(session_id)
        now = self._memory.clock.now()
        if not notes.last_used:
            # A new session has not been idle since the epoch.
            notes = replace(notes, last_used=now)
        reason = due(notes, messages, now, ending=ending)
        notes = replace(notes.fresh(now), last_used=now)
        new = [one for one in messages if one.seq > notes.cursor]
        if self._model is None:
            return self._without_model(notes, messages, new)
        if reason is None or (reason in ("end", "expiry") and not _worth_reading(new)):
            # Messages before an idle hour are finished; a session that ended may go on.
            read = _last(notes, new) if reason == "expiry" else notes.cursor
            self._memory.sessions.save(replace(notes, cursor=read))
            return None
        return await self._with_model(self._model, notes, messages, new)

    def _without_model(
        self, notes: SessionNotes, messages: Sequence[Message], new: Sequence[Message]
    ) -> Extraction | None:
        """Store what the rules find; that costs nothing, so it is done after every turn."""
        user_messages = [one for one in new if one.role == "person"]
        if not user_messages:
            self._memory.sessions.save(notes)
            return None
        changes: list[Change] = []
        with self._memory.repository.transaction():
            for message in user_messages:
                own = statements.own_words(message)
                said = [*statements.memory_requests(own), *statements.rules(own)]
                stored = self._stored_from(notes, [message])
                for one in said:
                    same = of_wording(stored, one.text)
                    known = same_as(one.text, same, quotes=False)
                    changes.append(self._remember(one, notes.session_id, message, known))
                if not said:
                    changes += self._correct_value(notes, messages, message)
            self._memory.sessions.save(replace(notes, cursor=_last(notes, new)))
        return Extraction(tuple(changes))

    def _store_missed(
        self, notes: SessionNotes, messages: Sequence[Message], user_messages: Sequence[Message]
    ) -> list[Change]:
        """Store what the user asked to remember and the model left out."""
        changes: list[Change] = []
        for message in user_messages:
            stored = self._stored_from(notes, [message])
            requests = statements.memory_requests(statements.own_words(message))
            for one in requests:
                if not same_as(one.text, of_wording(stored, one.text), quotes=True):
                    changes.append(self._remember(one, notes.session_id, message, None))
            if not stored and not requests:
                changes += self._correct_value(notes, messages, message)
        return changes

    def _correct_value(
        self, notes: SessionNotes, messages: Sequence[Message], message: Message
    ) -> list[Change]:
        """Correct a fact of the message before, when `message` only names another value for it."""
        stated_before = self._stated_before(notes, messages, message)
        for one in statements.corrections(statements.own_words(message)):
            changed = [(old, with_value(old.text, one.text)) for old in stated_before]
            found = [(old, text) for old, text in changed if text is not None]
            if len(found) == 1:
                old, text = found[0]
                candidate = Candidate(
                    text=text,
                    category=old.category,
                    project=old.project,
                    created=message.time or None,
                    origin=Origin(notes.session_id, message.seq, one.sentence),
                    corrects=True,
                    replaces=old.id,
                )
                return [self._memory.remember(candidate)]
        return []

    def _stated_before(
        self, notes: SessionNotes, messages: Sequence[Message], message: Message
    ) -> list[Fact]:
        """Return active facts that rest on the user's message before `message`."""
        before = [one for one in messages if one.role == "person" and one.seq < message.seq]
        if not before:
            return []
        active = self._memory.repository.facts("active")
        return from_message(active, notes.session_id, before[-1].text)

    def _remember(
        self, said: Statement, session_id: str, message: Message, known: Fact | None
    ) -> Change:
        candidate = Candidate(
            text=said.text,
            category=statements.guess_category(said.text),
            project=self._memory.project,
            created=message.time or None,
            origin=Origin(session_id, message.seq, said.text),
            corrects=said.corrects,
        )
        try:
            return self._memory.remember(candidate, same_as=known)
        except UsageError as error:
            return Change("rejected", None, error.text)

    async def _with_model(
        self, model: Model, notes: SessionNotes, messages: Sequence[Message], new: Sequence[Message]
    ) -> Extraction:
        known = self._known_facts(notes, messages, new)
        request = self._request(messages, new, known)
        try:
            reading = await _read(model, request)
        except ModelError as error:
            self._memory.sessions.save(notes)
            return Extraction(failure=error.text)
        except UnusableValueError as error:
            self._memory.sessions.save(replace(notes, cursor=_last(notes, new)))
            failure = Phrase(
                "the model's response could not be read: {detail}", {"detail": error.text}
            )
            return Extraction(failure=failure)
        user_messages = [one for one in new if one.role == "person"]
        checked = [
            statements.check(raw, user_messages, notes.session_id, self._memory.project)
            for raw in reading.facts
        ]
        proposals = [one for one in checked if isinstance(one, Proposal)]
        stored = self._stored_from(notes, user_messages)
        with self._memory.repository.transaction():
            stated_before = {
                one.seq: {fact.id for fact in self._stated_before(notes, messages, one)}
                for one in user_messages
            }
            changes = self._store(proposals, known, stored, stated_before)
            changes += self._store_missed(notes, messages, user_messages)
            named = notes.with_names(reading.entities, reading.intents)
            self._memory.sessions.save(replace(named, cursor=_last(notes, new)))
        rejected = [one for one in checked if isinstance(one, Rejection)]
        return Extraction(tuple(changes), tuple(rejected))

    def _stored_from(self, notes: SessionNotes, messages: Sequence[Message]) -> list[Fact]:
        """Return the facts stored from `messages` before this extraction."""
        facts = self._memory.repository.facts("active", "pending")
        own = [statements.own_words(one) for one in messages]
        return [fact for said in own for fact in from_message(facts, notes.session_id, said)]

    def _store(
        self,
        proposals: Sequence[Proposal],
        known: Mapping[int, Fact],
        stored: Sequence[Fact],
        stated_before: Mapping[int, Collection[int]],
    ) -> list[Change]:
        changes: list[Change] = []
        superseded = 0
        for proposal in proposals:
            target = known.get(proposal.known) if proposal.known is not None else None
            target = self._memory.repository.get(target.id) if target else None
            candidate = proposal.candidate
            if target is not None and target.status != "active":
                target = None
            recent = stated_before.get(candidate.origin.seq or 0, ())
            if target is not None and not _may_touch(target, proposal, recent):
                target = None
            same = same_as(candidate.text, stored, quotes=True) if target is None else None
            relation = "same" if same else proposal.relation if target else None
            try:
                change = self._memory.updater.remember(
                    candidate,
                    known=target or same,
                    relation=relation,
                    who="extraction",
                    may_supersede=superseded < MOST_SUPERSESSIONS,
                )
            except UsageError as error:
                change = Change("rejected", None, error.text)
            superseded += change.kind == "superseded"
            changes.append(change)
        return changes

    def _known_facts(
        self, notes: SessionNotes, messages: Sequence[Message], new: Sequence[Message]
    ) -> dict[int, Fact]:
        """Return facts that the new words may repeat or correct, under small numbers.

        A correction seldom names what it corrects: for one, the facts told or cited just before
        come first.
        """
        found: dict[int, None] = {}
        for message in new:
            if message.role != "person":
                continue
            own = statements.own_words(message)
            if statements.corrections(own):
                before = self._stated_before(notes, messages, message)
                found.update(dict.fromkeys(fact.id for fact in before))
                found.update(dict.fromkeys(self._named_before(messages, message)))
            found.update(dict.fromkeys(one.id for one in self._memory.search(own, 5)))
        facts = [self._memory.repository.get(one) for one in list(found)[:KNOWN_FACTS]]
        return dict(enumerate((fact for fact in facts if fact is not None), start=1))

    def _named_before(self, messages: Sequence[Message], message: Message) -> list[int]:
        """Return facts that the two messages before cite or mention."""
        before = [one for one in messages if one.seq < message.seq and one.role != "tool"][-2:]
        named: list[int] = []
        for one in reversed(before):
            named += cited(one.text)
            own = statements.own_words(one)[:LONGEST_MESSAGE]
            named += [hit.id for hit in self._memory.search(own, 3)]
        return named

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


def _may_touch(target: Fact, proposal: Proposal, stated_before: Collection[int]) -> bool:
    """Return whether the model's relation to a known fact is believed.

    Models retire facts that have nothing to do with the new one: see `update`. A correction of what
    the user told just before is believed; and a fact of another scope may be confirmed, never
    replaced.
    """
    candidate = proposal.candidate
    if proposal.relation == "same":
        return shares_a_subject(candidate.text, target.text)
    if target.project != candidate.project:
        return False
    if candidate.slot and "_".join(raw_words(candidate.slot)) == target.slot:
        return True
    if candidate.corrects and target.id in stated_before:
        return True
    return takes_the_place(candidate.text, target.text, candidate.origin.quote)


def _worth_reading(new: Sequence[Message]) -> bool:
    return any(
        statements.worth_reading(statements.own_words(one)) for one in new if one.role == "person"
    )


async def _read(model: Model, request: ModelRequest) -> statements.Reading:
    """Ask, and once more with the problem when the reply is unusable. Raises `ValueError`."""
    from langchain_core.messages import HumanMessage

    for attempt in range(_ATTEMPTS):
        text = ""
        async for event in model.stream(request):
            if isinstance(event, Reply):
                text = str(event.message.text)
        try:
            return statements.read_reply(text)
        except UnusableValueError as error:
            if attempt == _ATTEMPTS - 1:
                raise
            hint = HumanMessage(prompts.text("extract_facts.repair", problem=error))
            request = replace(request, messages=(*request.messages, hint))
    raise UnusableValueError("it was empty")


def _shown(message: Message, mark: str) -> str:
    who = "USER" if message.role == "person" else "ASSISTANT"
    text = " ".join(message.text.split())
    if len(text) > LONGEST_MESSAGE:
        text = text[:LONGEST_MESSAGE] + "…"
    return f"{mark}{who}: {text}"


def _last(notes: SessionNotes, new: Sequence[Message]) -> int:
    return max([notes.cursor, *(one.seq for one in new)])
