"""Writing facts: what becomes of a new statement beside what is already known.

Similarity cannot tell a correction from a repetition (contradictions look more alike than
restatements), so the relation comes from a model, or, without one, from equal texts and equal
slots alone. What follows from a relation is decided here, in `judge`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from kogniterm.errors import UsageError
from kogniterm.memory import admission, fact_records
from kogniterm.memory.extraction.replacement import takes_the_place
from kogniterm.memory.fact_records import Category, Change, Fact, Origin, Source
from kogniterm.memory.forgetting.tombstones import Tombstones
from kogniterm.memory.repository import FactRepository
from kogniterm.protocols import Clock
from kogniterm.text.language import language_of, raw_words
from kogniterm.types import Phrase

Relation = Literal["same", "update", "detail", "other"]
Action = Literal["confirm", "add", "supersede", "pend"]

_COMMANDS = re.compile(
    r"\b(?:run|execute|always use|sudo|rm|install|deploy|push|commit|skip|disable|approve|confirm|"
    r"ejecuta\w*|instala\w*|despliega\w*|aprueba\w*|confirma\w*)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A statement that may become a fact. `project` "" means: holds everywhere.

    `corrects` when the user said it as a correction; `replaces` is the id of the fact that it
    corrects, where that is known.
    """

    text: str
    category: Category = "fact"
    slot: str | None = None
    confidence: float = 1.0
    source: Source = "explicit"
    keywords: str = ""
    project: str = ""
    created: float | None = None
    pinned: bool = False
    origin: Origin = field(default_factory=Origin)
    corrects: bool = False
    replaces: int | None = None


def judge(relation: Relation, new: Candidate, old: Fact, now: float) -> Action:
    """What a new statement does to the known fact it stands in `relation` to."""
    if relation == "same":
        return "confirm"
    if relation in ("detail", "other"):
        return "add"
    if new.source == "explicit":
        return "supersede"
    if old.source == "explicit" or old.pinned:
        return "pend"
    return "supersede" if new.confidence >= fact_records.effective_confidence(old, now) else "pend"


def starts_pending(candidate: Candidate) -> bool:
    """Whether a person has to confirm it first: inferred, and it would steer what is done."""
    if candidate.source != "inferred":
        return False
    return candidate.category == "constraint" or _COMMANDS.search(candidate.text) is not None


class Updater:
    """The one writer of facts of a repository: redacts, decides, stores."""

    def __init__(
        self,
        repository: FactRepository,
        tombstones: Tombstones,
        clock: Clock,
        redact: Callable[[str], str],
    ) -> None:
        self._repository = repository
        self._tombstones = tombstones
        self._clock = clock
        self._redact = redact

    def remember(
        self,
        candidate: Candidate,
        *,
        known: Fact | None = None,
        relation: Relation | None = None,
        who: str = "person",
        may_supersede: bool = True,
    ) -> Change:
        """Store `candidate`, one transaction; `relation` is to `known` where a model has said so.

        Without `may_supersede`, what would replace a fact waits for the person instead.

        Raises `UsageError` for a text that is empty or too long.
        """
        candidate = self._cleaned(candidate)
        if candidate.source == "explicit":
            self._tombstones.lift(candidate.text)
        elif self._tombstones.holds(candidate.text) or self._has_forgotten_quote(candidate):
            return Change("rejected", None, Phrase("it was forgotten on request"))
        with self._repository.transaction():
            if known is None or relation is None:
                known, relation = self._relate(candidate)
            if relation == "update" and candidate.corrects:
                # A correction in the user's own words counts like what it corrects.
                candidate = replace(candidate, source="explicit")
            now = self._clock.now()
            action = judge(relation, candidate, known, now) if known else "add"
            if action == "supersede" and not may_supersede:
                action = "pend"
            return self._apply(action, candidate, known, now, who)

    def _has_forgotten_quote(self, candidate: Candidate) -> bool:
        return bool(candidate.origin.quote) and self._tombstones.holds(candidate.origin.quote)

    def _cleaned(self, candidate: Candidate) -> Candidate:
        text = " ".join(self._redact(candidate.text).split())
        origin = replace(candidate.origin, quote=self._redact(candidate.origin.quote))
        keywords = " ".join(self._redact(candidate.keywords).split())
        slot = "_".join(raw_words(candidate.slot)) if candidate.slot else None
        cleaned = replace(candidate, text=text, origin=origin, keywords=keywords, slot=slot or None)
        try:
            _new_fact(cleaned, 0.0)
        except ValueError as error:
            raise UsageError("This cannot be remembered: {reason}.", reason=str(error)) from error
        return cleaned

    def _relate(self, candidate: Candidate) -> tuple[Fact | None, Relation]:
        """Without a model: equal text is the same, an equal slot is an update.

        So is a correction that can take the place of one fact, and of no other.
        """
        same = self._repository.same_text(candidate.text, candidate.project)
        if same is not None:
            return same, "same"
        if candidate.slot:
            taken = self._repository.in_slot(candidate.slot, candidate.project)
            if taken is not None:
                return taken, "update"
        named = self._repository.get(candidate.replaces) if candidate.replaces else None
        if named is not None and named.status == "active":
            return named, "update"
        if candidate.corrects:
            stale = [
                fact
                for fact in self._repository.facts("active")
                if fact.project == candidate.project
                and takes_the_place(candidate.text, fact.text, candidate.origin.quote)
            ]
            if len(stale) == 1:
                return stale[0], "update"
        return None, "other"

    def _apply(
        self, action: Action, candidate: Candidate, known: Fact | None, now: float, who: str
    ) -> Change:
        if action == "confirm" and known is not None:
            return self._confirmed(candidate, known, now, who)
        fact = _new_fact(candidate, now)
        if action == "pend" or starts_pending(candidate):
            stored = self._repository.insert(replace(fact, status="pending"), now=now, who=who)
            return Change("pending", stored, Phrase("it waits for your word"), known)
        if action == "supersede" and known is not None:
            return self._superseded(fact, known, now, who)
        taken = self._repository.in_slot(fact.slot, fact.project) if fact.slot else None
        if taken is not None:
            # A detail beside the fact that holds the slot: both stay, the slot stays with the old.
            fact = replace(fact, slot=None)
        stored = self._repository.insert(fact, now=now, who=who)
        return Change("added", stored, Phrase("it is new"))

    def _confirmed(self, candidate: Candidate, known: Fact, now: float, who: str) -> Change:
        explicit = candidate.source == "explicit"
        changes: dict[str, object] = {
            "last_confirmed": max(now, known.last_confirmed),
            "confidence": max(known.confidence, candidate.confidence),
        }
        if explicit:
            changes["source"] = "explicit"
            free = not known.slot or self._repository.in_slot(known.slot, known.project) is None
            if known.status == "pending" and free:
                changes["status"] = "active"
        if candidate.pinned:
            changes["pinned"] = True
        confirmed = self._repository.change(known, changes, now=now, who=who, operation="confirm")
        return Change("confirmed", confirmed, Phrase("it was known already"))

    def _superseded(self, fact: Fact, known: Fact, now: float, who: str) -> Change:
        repository = self._repository
        self._retire(known, None, now, who)
        stored = repository.insert(replace(fact, slot=fact.slot or known.slot), now=now, who=who)
        old = repository.change(
            known, {"superseded_by": stored.id}, now=now, who=who, operation="link"
        )
        reason = Phrase("it takes the place of [{old}]", {"old": old.label})
        return Change("superseded", stored, reason, old)

    def _retire(self, fact: Fact, by: Fact | None, now: float, who: str) -> None:
        changes: dict[str, object] = {"status": "superseded", "valid_to": now}
        if by is not None:
            changes["superseded_by"] = by.id
        self._repository.change(fact, changes, now=now, who=who, operation="supersede")

    # --- what a user does to a fact ---

    def edit(self, fact: Fact, text: str, *, who: str = "person") -> Fact:
        """Replace the words of `fact`; the old words are kept as superseded, for undo.

        Raises `UsageError` for words that must not be remembered.
        """
        unfit = admission.why_not_kept(text)
        if unfit is not None:
            raise UsageError("This cannot be remembered: {reason}.", reason=unfit)
        candidate = self._cleaned(
            Candidate(
                text=text,
                category=fact.category,
                slot=fact.slot,
                keywords="",
                project=fact.project,
                pinned=fact.pinned,
                origin=fact.origin,
            )
        )
        with self._repository.transaction():
            change = self._superseded(
                _new_fact(candidate, self._clock.now()), fact, self._clock.now(), who
            )
        return change.fact or fact

    def confirm(self, fact: Fact, *, who: str = "person") -> Fact:
        """Say that `fact` still holds; what was pending becomes active."""
        now = self._clock.now()
        with self._repository.transaction():
            if fact.status == "pending" and fact.slot:
                taken = self._repository.in_slot(fact.slot, fact.project)
                if taken is not None:
                    self._retire(taken, fact, now, who)
            return self._repository.change(
                fact,
                {
                    "last_confirmed": now,
                    "relevance_count": fact.relevance_count + 1,
                    "status": "active" if fact.status == "pending" else fact.status,
                },
                now=now,
                who=who,
                operation="confirm",
            )

    def pin(self, fact: Fact, pinned: bool, *, who: str = "person") -> Fact:
        """Pin or unpin: a pinned fact never fades and goes into every prompt."""
        operation = "pin" if pinned else "unpin"
        return self._repository.change(
            fact, {"pinned": pinned}, now=self._clock.now(), who=who, operation=operation
        )

    def undo(self, fact: Fact, *, who: str = "person") -> Fact:
        """Restore a superseded fact; given its successor, the fact that it had superseded.

        The successor becomes superseded in turn, so that undo can itself be undone. Raises
        `UsageError` when there is nothing to restore.
        """
        repository = self._repository
        if fact.status != "superseded":
            earlier = [one for one in repository.predecessors(fact.id) if one.id != fact.id]
            if not earlier:
                raise UsageError("{label} has not replaced anything.", label=fact.label)
            fact = max(earlier, key=lambda one: (one.valid_to or 0.0, one.id))
        now = self._clock.now()
        with repository.transaction():
            successor = repository.get(fact.superseded_by) if fact.superseded_by else None
            holder = repository.in_slot(fact.slot, fact.project) if fact.slot else None
            for one in {two.id: two for two in (successor, holder) if two}.values():
                if one.status == "active":
                    self._retire(one, fact, now, who)
            return repository.change(
                fact,
                {
                    "status": "active",
                    "valid_to": None,
                    "superseded_by": None,
                    "last_confirmed": now,
                },
                now=now,
                who=who,
                operation="undo",
            )


def _new_fact(candidate: Candidate, now: float) -> Fact:
    created = candidate.created if candidate.created is not None else now
    return Fact(
        id=0,
        text=candidate.text,
        category=candidate.category,
        project=candidate.project,
        slot=candidate.slot,
        keywords=candidate.keywords,
        language=language_of(candidate.text),
        confidence=candidate.confidence,
        source=candidate.source,
        created=created,
        last_confirmed=created,
        pinned=candidate.pinned,
        valid_from=created,
        origin=candidate.origin,
    )
