"""Write facts: decide what becomes of a new statement beside the facts that are known.

Similarity cannot tell a correction from a repetition (contradictions look more alike than
restatements), so the relation comes from a model, or, without one, from equal texts and equal
slots alone. `judge` decides what follows from a relation.

Models retire facts that have nothing to do with the new one, and facts that share a word are
mostly about different things ("deploys on Tuesdays", "deploys with Ansible"). `takes_the_place`
therefore asks that both statements begin with the same subject, are built alike, and differ in the
value. In doubt both facts stay, for a lost fact costs more than a stale one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.memory import fact_records
from kogniterm.memory.fact_records import Candidate, Fact, Relation, StoredChange
from kogniterm.memory.repository import FactRepository, Tombstones
from kogniterm.protocols import Clock
from kogniterm.text.language import (
    Words,
    answering,
    language_of,
    plain,
    raw_words,
    stem,
    stopwords,
    words_listed,
    words_of,
)
from kogniterm.types import Phrase

Action = Literal["confirm", "add", "supersede", "pend"]

_COMMANDS = re.compile(
    r"\b(?:run|execute|always use|sudo|rm|install|deploy|push|commit|skip|disable|approve|confirm|"
    r"ejecuta\w*|instala\w*|despliega\w*|aprueba\w*|confirma\w*)\b",
    re.IGNORECASE,
)


def judge(relation: Relation, new: Candidate, old: Fact, now: float) -> Action:
    """Return the effect of a new statement on the known fact it has this `relation` to."""
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
    """Return whether the user must confirm it first: inferred, and it could change what is run."""
    if candidate.source != "inferred":
        return False
    return candidate.category == "constraint" or _COMMANDS.search(candidate.text) is not None


class Updater:
    """The only writer of new facts: redacts, decides, stores."""

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
    ) -> StoredChange:
        """Store `candidate` in one transaction; `relation` is to `known`, where a model told it.

        Without `may_supersede`, a fact that would replace another one waits for the user instead.
        Raises `UsageError` for a text that is empty or too long.
        """
        now = self._clock.now()
        candidate, fact, words = self._clean_candidate(candidate, now)
        quote = candidate.origin.quote
        # What a model found in passing does not undo a request to forget.
        asked = candidate.source == "explicit" and who != "extraction"
        if not asked and any(self._tombstones.holds(one) for one in (candidate.text, quote) if one):
            return StoredChange("rejected", None, Phrase("it was forgotten on request"))
        with self._repository.transaction():
            if asked:
                self._tombstones.lift(words)
            if known is None or relation is None:
                relation = "same"  # by an equal text; by the slot it is an update
                known = self._repository.same_text(words, candidate.project)
                if known is None:
                    relation = "update"
                    known = self._repository.in_slot(candidate.slot, candidate.project)
            action = judge(relation, candidate, known, now) if known else "add"
            if action == "supersede" and not may_supersede:
                action = "pend"
            if action == "confirm" and known is not None:
                return self._confirm_fact(candidate, known, now, who)
            if known is not None and action in ("pend", "supersede"):
                # By their slot, what is confirmed later ends the fact that it replaces.
                fact = fact._replace(slot=fact.slot or known.slot)
            if action == "pend" or starts_pending(candidate):
                fact = fact._replace(status="pending")
                stored = self._repository.insert(fact, now=now, who=who, words=words)
                reason = Phrase(
                    "needs your confirmation: /memory confirm {id}, or in a shell kogniterm "
                    "memory confirm {id}",
                    {"id": stored.label},
                )
                return StoredChange("pending", stored, reason, known)
            if action == "supersede" and known is not None:
                return self._supersede_fact(fact, known, now, who)
            if self._repository.in_slot(fact.slot, fact.project) is not None:
                # A detail beside the fact that has the slot: both stay, the old one keeps it.
                fact = fact._replace(slot=None)
            stored = self._repository.insert(fact, now=now, who=who, words=words)
            return StoredChange("added", stored, Phrase("new"))

    def _clean_candidate(self, candidate: Candidate, now: float) -> tuple[Candidate, Fact, Words]:
        """Return the candidate as it may be stored, the fact that it makes, and its words."""
        text = " ".join(self._redact(candidate.text).split())
        origin = candidate.origin._replace(quote=self._redact(candidate.origin.quote))
        keywords = " ".join(self._redact(candidate.keywords).split())
        slot = "_".join(raw_words(candidate.slot)) if candidate.slot else None
        cleaned = candidate._replace(text=text, origin=origin, keywords=keywords, slot=slot or None)
        if not text or len(text) > fact_records.LONGEST_TEXT:
            most = {"most": fact_records.LONGEST_TEXT}
            reason = Phrase("a fact has 1 to {most} characters", most)
            raise UsageError("This cannot be remembered: {reason}.", reason=reason)
        words = words_of(text)
        created = now if candidate.created is None else candidate.created
        fact = Fact(
            0, text, cleaned.category, cleaned.project, cleaned.slot, keywords, words.language,
            cleaned.confidence, cleaned.source, "active", created, created, pinned=cleaned.pinned,
            valid_from=created, origin=origin,
        )  # fmt: skip
        try:
            return cleaned, fact.checked(), words
        except UnusableValueError as error:
            raise UsageError("This cannot be remembered: {reason}.", reason=error.text) from error

    def _confirm_fact(
        self, candidate: Candidate, known: Fact, now: float, who: str
    ) -> StoredChange:
        explicit = candidate.source == "explicit"
        changes: dict[str, object] = {
            "last_confirmed": max(now, known.last_confirmed),
            "confidence": max(known.confidence, candidate.confidence),
        }
        if explicit:
            changes["source"] = "explicit"
            free = self._repository.in_slot(known.slot, known.project) is None
            if known.status == "pending" and free:
                changes["status"] = "active"
        if candidate.pinned:
            changes["pinned"] = True
        if candidate.keywords and not known.keywords:  # a rule stored it, and a model read it later
            changes["keywords"] = candidate.keywords
        taken = known.slot or self._repository.in_slot(candidate.slot, known.project)
        if candidate.slot and not taken:
            changes["slot"] = candidate.slot
        confirmed = self._repository.change(known, "confirm", now=now, who=who, **changes)
        return StoredChange("confirmed", confirmed, Phrase("already known"))

    def _supersede_fact(self, fact: Fact, known: Fact, now: float, who: str) -> StoredChange:
        repository = self._repository
        self._retire(known, None, now, who)
        stored = repository.insert(fact, now=now, who=who)
        old = repository.change(known, "link", now=now, who=who, superseded_by=stored.id)
        reason = Phrase("replaces [{old}]", {"old": old.label})
        return StoredChange("superseded", stored, reason, old)

    def _retire(self, fact: Fact, by: Fact | None, now: float, who: str = "person") -> None:
        changes: dict[str, object] = {"status": "superseded", "valid_to": now}
        if by is not None:
            changes["superseded_by"] = by.id
        self._repository.change(fact, "supersede", now=now, who=who, **changes)

    # --- what a user does to a fact ---

    def edit(self, fact: Fact, text: str) -> Fact:
        """Replace the text of `fact`; the old text is kept as superseded, for undo.

        Raises `UsageError` for a text that must not be remembered.
        """
        unfit = fact_records.why_not_kept(text)
        if unfit is not None:
            raise UsageError("This cannot be remembered: {reason}.", reason=unfit)
        now = self._clock.now()
        _, edited, _ = self._clean_candidate(
            Candidate(
                text=text,
                category=fact.category,
                slot=fact.slot,
                project=fact.project,
                pinned=fact.pinned,
                origin=fact.origin,
            ),
            now,
        )
        with self._repository.transaction():
            change = self._supersede_fact(edited, fact, now, "person")
        return change.fact or fact

    def confirm(self, fact: Fact) -> Fact:
        """Confirm that `fact` holds; a pending fact becomes active."""
        now = self._clock.now()
        with self._repository.transaction():
            if fact.status == "pending":
                taken = self._repository.in_slot(fact.slot, fact.project)
                if taken is not None:
                    self._retire(taken, fact, now)
            return self._repository.change(
                fact,
                "confirm",
                now=now,
                last_confirmed=now,
                relevance_count=fact.relevance_count + 1,
                status="active" if fact.status == "pending" else fact.status,
            )

    def drop(self, fact: Fact) -> None:
        """Delete a pending fact that the user does not confirm; it is not learned again by itself.

        What the user said in the session stays there: `Forgetter` removes it from everywhere.
        """
        now = self._clock.now()
        with self._repository.transaction():
            self._tombstones.add([fact.text], now)
            self._repository.delete([fact.id], now=now, who="person")

    def retire(self, fact: Fact, by: Fact) -> None:
        """End a fact whose place one that is stored already takes, as an extraction found."""
        with self._repository.transaction():
            self._retire(fact, by, self._clock.now(), "extraction")

    def pin(self, fact: Fact, pinned: bool) -> Fact:
        """Pin or unpin: a pinned fact never fades and goes into every prompt."""
        operation = "pin" if pinned else "unpin"
        return self._repository.change(fact, operation, now=self._clock.now(), pinned=pinned)

    def undo(self, fact: Fact) -> Fact:
        """Restore a superseded fact, or, given its successor, the fact that this superseded.

        The successor becomes superseded in turn, so that undo can itself be undone. Raises
        `UsageError` when there is nothing to restore.
        """
        repository = self._repository
        if fact.status != "superseded":
            earlier = [one for one in repository.predecessors(fact.id) if one.id != fact.id]
            if not earlier:
                raise UsageError(
                    "{label} did not replace another fact; nothing can be restored.",
                    label=fact.label,
                )
            fact = max(earlier, key=lambda one: (one.valid_to or 0.0, one.id))
        now = self._clock.now()
        with repository.transaction():
            successor = repository.get(fact.superseded_by) if fact.superseded_by else None
            holder = repository.in_slot(fact.slot, fact.project)
            for one in {two.id: two for two in (successor, holder) if two}.values():
                if one.status == "active":
                    self._retire(one, fact, now)
            return repository.change(
                fact,
                "undo",
                now=now,
                status="active",
                valid_to=None,
                superseded_by=None,
                last_confirmed=now,
            )


# --- whether a statement takes the place of a fact --------------------------------------------

ALIKE = 0.5
"""Share of the words of both statements that are in both, in the same order."""

_KINDS = {
    "weekday": re.compile(
        r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|lunes|martes|miercoles|jueves|viernes|"
        r"sabados?|domingos?"
    ),
    "month": re.compile(
        r"january|february|march|april|may|june|july|august|september|october|november|december|"
        r"enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|"
        r"diciembre"
    ),
    "time": re.compile(r"\d{1,2}:\d{2}(?: ?[ap]m)?|\d{1,2} ?[ap]m"),
    "number": re.compile(r"\d+(?:[.,]\d+)*"),
}
_WORD = re.compile(r"\d{1,2}:\d{2}|\d+(?:[.,]\d+)*|[^\W_]+")
_PARTICIPLE = re.compile(
    r".{2,}(?:ed|ado|ada|ido|ida|ados|adas|idos|idas)|built|kept|made|sent|held|run"
)
_DENIES = re.compile(
    r"\b(?:not|no longer|anymore|any more|instead of|rather than|stopped|used to|from|"
    r"ya no|en vez de|en lugar de|no|dejado|dejo|antes)\b|n't\b"
)
_COPULAS = frozenset(("is", "are", "was", "were", "be", "es", "son", "esta", "estan", "era"))


_Step = tuple[str, int, int, int, int]
"""A step of `difflib`: its name, and the places in both statements."""


class _ComparedWord(NamedTuple):
    """A word as it is written, normalised, and its stem."""

    plain: str
    stem: str


def takes_the_place(new: str, old: str, quote: str = "") -> bool:
    """Return whether `new` answers the question that `old` answers, so that only one of them holds.

    `quote` is what the user said: where it denies what `old` says and `new` does not, the user
    named the fact that ends.
    """
    before, after = _said(old), _said(new)
    if not before or not after:
        return False
    if _names_what_ends(before, after, quote):
        return True
    stems = [one.stem for one in before], [one.stem for one in after]
    steps = SequenceMatcher(None, *stems, autojunk=False).get_opcodes()
    shared = [word for step in steps if step[0] == "equal" for word in before[step[1] : step[2]]]
    dropped = stopwords("en") | stopwords("es") | _words_in_rows("vague")
    telling = {one.stem for one in shared if one.plain not in dropped}
    if len(before) > 1 and before[1].plain in _words_in_rows("relating"):
        telling.discard(before[0].stem)
    if not telling or any(one.plain in _words_in_rows("manifold") for one in before):
        return False
    # Words are compared without endings; "hermana" and "hermano" are two.
    siblings = {before[0].plain[-1:], after[0].plain[-1:]} == {"a", "o"}
    siblings = siblings and before[0].plain[:-1] == after[0].plain[:-1]
    if siblings or before[0].stem != after[0].stem:
        return False
    return 2 * len(shared) >= ALIKE * (len(before) + len(after)) and _fits(before, after, steps)


def shares_a_subject(one: str, two: str) -> bool:
    """Return whether two statements share a content word, or a synonym or translation of one."""
    first, second = _content_words(one), _content_words(two)
    return any(term in second or answering(term) & second for term in first)


def _words_in_rows(*rows: str) -> frozenset[str]:
    return words_listed("replacing", *rows)


def _said(text: str) -> list[_ComparedWord]:
    spoken = language_of(text)
    found = _WORD.findall(plain(text))
    return [
        _ComparedWord(word, stem(word, spoken))
        for word in found
        if word not in _words_in_rows("fillers")
    ]


def _content_words(text: str) -> set[str]:
    dropped = _words_in_rows("fillers", "vague") | stopwords(language_of(text))
    return {one.stem for one in _said(text) if one.plain not in dropped}


def _names_what_ends(
    before: Sequence[_ComparedWord], after: Sequence[_ComparedWord], quote: str
) -> bool:
    dropped = stopwords("en") | stopwords("es") | _words_in_rows("vague", "manifold")
    said = {one.stem for one in _said(quote)}
    kept = {one.stem for one in after}
    gone = {one.stem for one in before if one.plain not in dropped} - kept
    common = {one.stem for one in before if one.plain not in stopwords("en")} & kept
    return bool(gone & said) and bool(common) and _DENIES.search(plain(quote)) is not None


def _fits(
    before: Sequence[_ComparedWord], after: Sequence[_ComparedWord], steps: Sequence[_Step]
) -> bool:
    """Return whether the words that differ could be two values of one thing."""
    if sum(step[0] == "replace" for step in steps) > 1:
        return False
    for tag, start, end, other, last in steps:
        if tag == "equal":
            continue
        gone, come = before[start:end], after[other:last]
        if gone and come and _kind(gone) != _kind(come):
            return False
        after_copula = start > 0 and before[start - 1].plain in _COPULAS
        if after_copula and any(_PARTICIPLE.fullmatch(one.plain) for one in (*gone[:1], *come[:1])):
            return False
    return True


def _kind(value: Sequence[_ComparedWord]) -> str:
    for one in value:
        for kind, pattern in _KINDS.items():
            if pattern.fullmatch(one.plain):
                return kind
    return ""
