"""What the model's tool stored from a message, so that the extraction does not store it again.

"Remember that I use fish" reaches memory twice: at once through the tool, in the model's words,
and after the turn through the extraction, in the person's. Equal words do not tell that these
are one fact; that they rest on the same message, and share what they say, does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from kogniterm.memory import words
from kogniterm.memory.records import Fact

COVERED = 0.6
"""Share of a text's telling words that must have been stored for it to be nothing new."""

OVERLAP = 0.6
"""Share of the shorter of two wordings that must be one run of words in the other."""


def from_message(facts: Iterable[Fact], session_id: str, said: str) -> list[Fact]:
    """The facts of this session whose quote stands in the message `said`."""
    spoken = f" {' '.join(words.raw_words(said))} "
    found = []
    for fact in facts:
        quote = " ".join(words.raw_words(fact.origin.quote))
        if fact.origin.session_id == session_id and quote and f" {quote} " in spoken:
            found.append(fact)
    return found


def of_wording(facts: Sequence[Fact], said: str) -> list[Fact]:
    """The facts whose quote and the words `said` overlap: what rests on other words is not it."""
    spoken = words.raw_words(said)
    return [fact for fact in facts if _overlap(words.raw_words(fact.origin.quote), spoken)]


def same_as(text: str, stored: Sequence[Fact], *, quotes: bool) -> Fact | None:
    """The stored fact that says `text` best, when together they leave nothing of it unsaid.

    `quotes` lets the words they rest on count too: for a text that somebody put in other words.
    """
    sought = set(words.terms(text))
    known = {fact.id: _terms(fact, quotes) for fact in stored}
    covered = sought & set().union(*known.values())
    if not sought or len(covered) < COVERED * len(sought):
        return None
    return max(stored, key=lambda fact: len(known[fact.id] & sought))


def _terms(fact: Fact, quotes: bool) -> set[str]:
    return set(words.terms(f"{fact.text} {fact.origin.quote}" if quotes else fact.text))


def _overlap(one: Sequence[str], two: Sequence[str]) -> bool:
    if not one or not two:
        return False
    run = SequenceMatcher(None, one, two, autojunk=False).find_longest_match()
    return run.size >= OVERLAP * min(len(one), len(two))
