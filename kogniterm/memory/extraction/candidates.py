"""What a model proposes to remember, and the checks it has to pass. Pure.

The quote check is the wall against junk, loops and planted instructions: a statement counts
only when it rests on the person's own new words. Tool output, files, the model's own text and
recalled memory are never a source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kogniterm.memory import admission
from kogniterm.memory.extraction import statements
from kogniterm.memory.fact_records import CATEGORIES, Category, Message, Origin, Source
from kogniterm.memory.update import Candidate, Relation
from kogniterm.text.language import answering, plain, raw_words, stems_of
from kogniterm.types import Phrase

CONFIDENCE_FLOOR = 0.6
LONGEST = 400
RELATIONS: tuple[Relation, ...] = ("same", "update", "detail", "other")
MOST_PER_EXTRACTION = 12

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "maxItems": MOST_PER_EXTRACTION,
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "category": {"type": "string", "enum": list(CATEGORIES)},
                    "slot": {"type": ["string", "null"]},
                    "confidence": {"type": "number"},
                    "quote": {"type": "string"},
                    "keywords": {"type": "array", "items": {"type": "string"}},
                    "scope": {"type": "string", "enum": ["project", "everywhere"]},
                    "transient": {"type": "boolean"},
                    "relation": {"type": "string", "enum": list(RELATIONS)},
                    "known": {"type": ["integer", "null"]},
                },
                "required": ["text", "category", "confidence", "quote"],
            },
        },
        "entities": {"type": "array", "items": {"type": "string"}},
        "intents": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["facts"],
}

_ORDER = re.compile(
    r"^\W*(?:please\s+)?(?:ignore|disregard|forget|run|execute|always|never|you (?:must|should|are|"
    r"will)|do not|don't|make sure|act as|from now on|system\s*:|install|delete|approve|disable|"
    r"ignora|olvida|ejecuta|siempre|nunca|debes|tienes que|a partir de ahora|instala|borra|"
    r"aprueba|desactiva|act[uú]a como|aseg[uú]rate|no (?:pidas|preguntes|ejecutes))\b",
    re.IGNORECASE,
)
_PASSING = re.compile(
    r"\b(?:right now|at the moment|just now|for now|today|tonight|"
    r"this (?:minute|morning|afternoon)|ahora mismo|en este momento|por ahora|de momento|hoy|"
    r"esta (?:mañana|tarde|noche))\b",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTED_LINE = re.compile(r"^\s*>.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A checked candidate, and the known fact (by its number in the request) it relates to."""

    candidate: Candidate
    relation: Relation | None
    known: int | None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A statement that was not taken, and why; without its text where that is a secret."""

    text: str
    reason: Phrase


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model's reply holds."""

    facts: tuple[Mapping[str, Any], ...]
    entities: tuple[str, ...]
    intents: tuple[str, ...]


def read_reply(text: str) -> Reading:
    """The reply's JSON object, also inside a code fence or prose. Raises `ValueError`."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise ValueError("the reply holds no JSON object")
    found = json.loads(text[start : end + 1])
    facts = found.get("facts") if isinstance(found, dict) else None
    if not isinstance(facts, list):
        raise ValueError("the reply has no list called facts")
    return Reading(
        tuple(one for one in facts if isinstance(one, dict))[:MOST_PER_EXTRACTION],
        _names(found.get("entities")),
        _names(found.get("intents")),
    )


def own_words(message: Message) -> str:
    """What the person wrote themselves: without code fences and quoted lines."""
    return _QUOTED_LINE.sub("", _FENCE.sub("", message.text))


def memory_request(text: str) -> str | None:
    """What "remember that …" asks to remember first, or None when `text` does not ask for it."""
    found = statements.memory_requests(text)
    return found[0].text if found else None


def is_order(text: str) -> bool:
    """Whether `text` tells somebody to do something, or asks to be remembered."""
    return _ORDER.search(text) is not None or memory_request(text) is not None


def guess_category(text: str) -> Category:
    """Guess a category by the words of a statement, for when there is no model to ask."""
    lowered = plain(text)
    if re.search(r"\b(?:never|must not|do not|don't|forbidden|nunca|prohibido|jamas)\b", lowered):
        return "constraint"
    if re.search(r"\b(?:always|must|has to|have to|need|siempre|debe|tiene que)\b", lowered):
        return "requirement"
    if re.search(r"\b(?:prefer|like|love|hate|favou?rite|prefiero|gusta|odio)\w*", lowered):
        return "preference"
    return "fact"


def check(
    raw: Mapping[str, Any], persons: Sequence[Message], session_id: str, project: str
) -> Proposal | Rejection:
    """A proposal when `raw` rests on what the person said in `persons`, else why not."""
    text = " ".join(str(raw.get("text", "")).split())
    quote = " ".join(str(raw.get("quote", "")).split())
    if not text or len(text) > LONGEST:
        return Rejection(text[:LONGEST], Phrase("it is empty or too long"))
    unfit = admission.why_not_kept(text, quote)
    if unfit is not None:
        return Rejection("", unfit)
    message = _source(quote, persons)
    if message is None:
        return Rejection(text, Phrase("its quote does not stand in the person's own words"))
    if not _rests_on(text, quote):
        return Rejection(text, Phrase("its quote says something else"))
    confidence = _number(raw.get("confidence"))
    if confidence < CONFIDENCE_FLOOR:
        return Rejection(text, Phrase("it is a guess"))
    explicit = memory_request(own_words(message)) is not None
    if _ORDER.search(text) and not explicit:
        return Rejection(text, Phrase("it is an instruction, not a statement"))
    if raw.get("transient") is True or _PASSING.search(text):
        return Rejection(text, Phrase("it will not matter later"))
    category = str(raw.get("category", ""))
    relation = str(raw.get("relation", ""))
    source: Source = "explicit" if explicit else "inferred"
    known = raw.get("known")
    return Proposal(
        Candidate(
            text=text,
            category=category if category in CATEGORIES else "fact",
            slot=str(raw["slot"])[:60] if raw.get("slot") else None,
            confidence=min(1.0, confidence),
            source=source,
            keywords=" ".join(_names(raw.get("keywords"))),
            project="" if raw.get("scope") == "everywhere" else project,
            created=message.time or None,
            origin=Origin(session_id, message.seq or None, quote),
            corrects=statements.corrects(own_words(message), quote),
        ),
        relation if relation in RELATIONS else None,
        known if isinstance(known, int) and not isinstance(known, bool) else None,
    )


def _source(quote: str, persons: Sequence[Message]) -> Message | None:
    """The person's message that holds `quote`, whatever its case, spacing and punctuation."""
    wanted = raw_words(quote)
    if len(wanted) < 2:
        return None
    sought = f" {' '.join(wanted)} "
    for message in persons:
        if message.role == "person" and sought in f" {' '.join(raw_words(own_words(message)))} ":
            return message
    return None


def _rests_on(text: str, quote: str) -> bool:
    """Whether text and quote share a telling word, or one that answers for it."""
    said = set(stems_of(quote))
    return any(term in said or answering(term) & said for term in stems_of(text))


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    named = (" ".join(str(one).split())[:60] for one in value if isinstance(one, str))
    return tuple(one for one in named if admission.why_not_kept(one) is None)[:8]


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
