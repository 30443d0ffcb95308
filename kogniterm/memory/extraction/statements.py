"""Statements that may become facts: found by rules in the user's words, or proposed by a model.

The rules find requests to remember, preferences and corrections, where no model reads, and to
decide whether a model should. They rather miss a statement than learn a false one: only the frames
of `frames.toml` count, at the beginning of a sentence, in the user's own words (`own_words`), and
neither questions nor what concerns the task at hand ("this file", "for now") are learned.

`check` is the wall against junk, loops and planted instructions in a model's proposals: a statement
counts only when it rests on the user's own new words. Tool output, files, the model's own text and
recalled memory are never a source.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kogniterm.errors import UnusableValueError
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.memory import fact_records
from kogniterm.memory.fact_records import CATEGORIES, Category, Message, Origin, Source
from kogniterm.memory.update import Candidate, Relation
from kogniterm.text.language import answering, plain, raw_words, stems_of
from kogniterm.types import Phrase

LONGEST_READ = 20_000
"""Characters of a message that are read: the middle of a longer one is mostly pasted data."""
LONGEST_RULE = 240
LONGEST_MESSAGE = 1_000
"""Characters: a longer message holds pasted text more often than rules for later."""
_LONGEST_ABBREVIATION = 8

_INTRODUCES = re.compile(r"(?<!:)[:：](?=\s|$|[\"“«‘A-ZÁÉÍÓÚÑ¿¡\U00100000-\U0010ffff])")
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(?P<what>\S.*)")
_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|\s*;\s*(?=\S)")
_SENTENCE_END = re.compile(rf"\n|{_END.pattern}")
_QUOTED = re.compile(
    r"“[^“”]*”|«[^«»]*»|„[^„“]*“|‘[^‘’]*’|\"[^\"]*\"|`[^`]*`|(?<!\w)'[^']{3,}'(?!\w)"
)
_VALUE_WORDS = 3
"""Words of the longest quotation that is a name or a value, and no text of somebody else."""
_CLAUSE = 300
"""Characters before a colon in which the clause that it ends begins."""
_HIDDEN_PLANE = 0x100000
_HIDDEN = re.compile("[\U00100000-\U0010ffff]+")
_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTED_LINE = re.compile(r"^\s*>.*$", re.MULTILINE)


@cache
def _frames() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("frames.toml").read_text("utf-8"))


@cache
def frame(name: str) -> re.Pattern[str]:
    """Return the pattern `name` of `frames.toml`."""
    return _compiled(_frames()["patterns"][name])


@cache
def _rule_frames() -> list[re.Pattern[str]]:
    return [_compiled(pattern) for pattern in _frames()["patterns"]["rules"]]


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"@(\w+)@", _named_words, pattern), re.IGNORECASE)


def _named_words(name: re.Match[str]) -> str:
    """Return the words or the pattern that `name` in a pattern refers to."""
    words: str | None = _frames()["words"].get(name[1])
    return frame(name[1]).pattern if words is None else f"(?:{'|'.join(words.splitlines())})"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in the user's words; `corrects` is true when it corrects an earlier one."""

    text: str
    sentence: str
    corrects: bool = False


def memory_requests(text: str) -> list[Statement]:
    """Return everything that `text` asks to remember ("remember that …"), in order."""
    found: list[Statement] = []
    listing = asked = False
    for line in _read_lines(text):
        bullet = _BULLET.match(line)
        if listing and bullet is not None:
            found.append(_statement(bullet["what"].strip(), bullet["what"].strip()))
            continue
        listing = listing and not line.strip()
        for sentence in _sentences(line):
            request = (
                frame("remember").match(sentence)
                or (asked and frame("further").match(sentence))
                or None
            )
            what = request["what"].strip() if request else ""
            listing = request is not None and not what
            # "Remember when …?" is a question.
            asked = bool(what) and not what.endswith("?") and not frame("errand").search(sentence)
            if asked:
                found.append(_statement(what, sentence))
    return found


def rules(text: str) -> list[Statement]:
    """Return preferences and rules that `text` states without asking to remember them.

    "I prefer …", "never touch …", "always use …", "from now on …", and the same in Spanish.
    """
    lines = _read_lines(text.strip())
    if not lines or len(text) > LONGEST_MESSAGE:
        return []
    # What follows on further lines is mostly pasted.
    stated = ((_rule(sentence), sentence) for sentence in _sentences(lines[0]))
    return [
        _statement(rule, sentence)
        for rule, sentence in stated
        if rule is not None and not frame("remember").match(sentence)
    ]


def corrections(text: str) -> list[Statement]:
    """Return the sentences of `text` that begin as a correction ("Actually it's Thursdays").

    The text of each is what follows the words that mark the correction.
    """
    return [
        Statement(sentence[opening.end() :].strip(" ,.:;!"), sentence, corrects=True)
        for line in _read_lines(text)
        for sentence in _sentences(line)
        if (opening := frame("corrects").match(sentence)) and not _is_question(sentence)
    ]


def corrects(text: str, quote: str) -> bool:
    """Return whether the sentence of `text` that holds `quote` says that something is different."""
    sentences = [one for line in _read_lines(text) for one in _sentences(line)]
    holding = [one for one in sentences if holds_words(one, quote)]
    return any(is_correction(one) for one in holding or [quote])


def is_correction(sentence: str) -> bool:
    """Return whether the user's `sentence` says that something was, or has become, different."""
    return (
        frame("corrects").match(sentence) is not None
        or frame("changed").search(sentence) is not None
    )


def worth_reading(text: str) -> bool:
    """Return whether `text` may hold something for later: about the user, or a rule.

    Questions, requests and thanks do not. This decides whether a model is asked, which costs money.
    """
    return any(
        not _is_question(sentence)
        and (
            frame("corrects").match(sentence)
            or (
                not frame("request").match(sentence)
                and (frame("about_user").search(sentence) or frame("states").match(sentence))
            )
            or frame("remember").match(sentence)
        )
        for line in _read_lines(text)
        for sentence in _sentences(line)
        if len(raw_words(sentence)) > 2
    )


def _statement(text: str, sentence: str) -> Statement:
    return Statement(reveal(text), reveal(sentence), is_correction(sentence))


def _rule(sentence: str) -> str | None:
    """Return the rule that `sentence` states, without its introduction; None if it states none."""
    lead = frame("lead").match(sentence)
    stated = sentence[lead.end() :].strip() if lead else sentence
    if _is_question(stated) or len(stated) > LONGEST_RULE or stated.endswith(":"):
        return None
    for form in _rule_frames():
        match = form.fullmatch(stated)
        if match is None:
            continue
        if not frame("points").match(match["object"]) and not frame("at_hand").search(
            match["object"]
        ):
            return stated.rstrip(" .!")
    return None


def holds_words(text: str, quote: str) -> bool:
    """Return whether `text` holds the words of `quote`, whatever their case and punctuation."""
    return f" {' '.join(raw_words(quote))} " in f" {' '.join(raw_words(text))} "


def _is_question(sentence: str) -> bool:
    return (
        sentence.rstrip().endswith("?")
        or "¿" in sentence
        or bool(frame("question").match(sentence))
    )


def _sentences(line: str) -> Iterator[str]:
    """Yield the sentences of a line; a further request to remember is a sentence of its own."""
    start = 0
    for end in _END.finditer(line):
        if frame("abbreviated").search(
            line[max(start, end.start() - _LONGEST_ABBREVIATION) : end.start()]
        ):
            continue
        yield from _parts(line[start : end.start()])
        start = end.end()
    yield from _parts(line[start:])


def _read_lines(text: str) -> list[str]:
    """Return the lines of `text`, single-spaced; of a long one, of its beginning and its end."""
    half = LONGEST_READ // 2
    ends = [text] if len(text) <= LONGEST_READ else [text[:half], text[-half:]]
    return [" ".join(line.split()) for end in ends for line in end.splitlines()]


def _parts(sentence: str) -> Iterator[str]:
    yield from (part for one in frame("another").split(sentence) if (part := one.strip()))


# --- what a model proposes --------------------------------------------------------------------

CONFIDENCE_FLOOR = 0.6
OUTRIGHT = 0.6
"""Share of the content words of a statement that the user's own sentence must hold."""
LONGEST = 400
RELATIONS: tuple[Relation, ...] = ("same", "update", "detail", "other")
MOST_PER_EXTRACTION = 20

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


@dataclass(frozen=True, slots=True)
class Proposal:
    """A checked candidate, and the number in the request of the known fact it relates to."""

    candidate: Candidate
    relation: Relation | None
    known: int | None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A statement that was rejected, and why; without its text where that is a secret."""

    text: str
    reason: Phrase


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a model's reply."""

    facts: tuple[Mapping[str, Any], ...]
    entities: tuple[str, ...]
    intents: tuple[str, ...]


def read_reply(text: str) -> Reading:
    """Read the reply's JSON object, also inside a code fence or prose.

    Raises `UnusableValueError`.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise UnusableValueError("it has no JSON object")
    try:
        found = json.loads(text[start : end + 1])
    except ValueError as error:
        raise UnusableValueError("not valid JSON: {why}", why=str(error)) from error
    facts = found.get("facts") if isinstance(found, dict) else None
    if not isinstance(facts, list):
        raise UnusableValueError("it has no list called facts")
    return Reading(
        tuple(one for one in facts if isinstance(one, dict))[:MOST_PER_EXTRACTION],
        _names(found.get("entities")),
        _names(found.get("intents")),
    )


def own_words(message: Message) -> str:
    """Return the message with the text of others hidden, so that only the user's words are read.

    Hidden are code fences, quoted lines, quotations, and what follows a colon, except that of a
    request to remember something. What the sentence of a request holds is `reveal`ed with it.
    """
    text = message.text
    for pattern in (_FENCE, _QUOTED_LINE, _QUOTED):
        text = pattern.sub(_hide_quotation, text)
    for colon in _INTRODUCES.finditer(text):
        end = colon.end()
        before = text[max(text.rfind("\n", 0, end) + 1, end - _CLAUSE) : colon.start()]
        clause = "".join([*_sentences(" ".join(before.split()))][-1:])
        after = text[end : end + _CLAUSE].lstrip()[:1]
        request = frame("remember").match(clause)
        goes_on = len(clause.split()) > _VALUE_WORDS and not frame("introduces").search(clause)
        if (request and request["what"]) or (goes_on and after.islower()):
            # "Do not push: we deploy on Fridays." The sentence may be the user's own to its end.
            following = _SENTENCE_END.search(text, end)
            end = following.end() if following else len(text)
        elif request or frame("turns_to_agent").fullmatch(clause) or _HIDDEN.match(after):
            continue
        return hide(text, [(end, len(text))])
    return text


def hide(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return `text` with these stretches in characters that are no words and end no sentence."""
    for start, end in spans:
        hidden = (chr(_HIDDEN_PLANE + ord(c)) if ord(c) < 0xFFFE else c for c in text[start:end])
        text = text[:start] + "".join(hidden) + text[end:]
    return text


def reveal(text: str, mark: str = "") -> str:
    """Return `text` with its hidden stretches in clear, or each replaced by `mark`."""
    return _HIDDEN.sub(
        lambda run: mark or "".join(chr(ord(c) - _HIDDEN_PLANE) for c in run[0]), text
    )


def _hide_quotation(found: re.Match[str]) -> str:
    text = found[0]
    value = text[0] not in ">~ " and "```" not in text and len(text.split()) <= _VALUE_WORDS
    return text if value and not _END.search(f"{text} ") else hide(text, [(0, len(text))])


def memory_request(text: str) -> str | None:
    """Return what "remember that …" asks to remember first, or None if `text` does not ask."""
    found = memory_requests(text)
    return found[0].text if found else None


def is_order(text: str) -> bool:
    """Return whether `text` is an instruction, or asks to remember something."""
    return frame("order").search(text) is not None or memory_request(text) is not None


def guess_category(text: str) -> Category:
    """Guess a category by the words of a statement, where there is no model to ask."""
    lowered = plain(text)
    if re.search(r"\b(?:never|must not|do not|don't|forbidden|nunca|prohibido|jamas)\b", lowered):
        return "constraint"
    if re.search(r"\b(?:always|must|has to|have to|need|siempre|debe|tiene que)\b", lowered):
        return "requirement"
    if re.search(r"\b(?:prefer|like|love|hate|favou?rite|prefiero|gusta|odio)\w*", lowered):
        return "preference"
    return "fact"


def check(
    raw: Mapping[str, Any], user_messages: Sequence[Message], session_id: str, project: str
) -> Proposal | Rejection:
    """Return a proposal if `raw` is supported by `user_messages`, or a rejection."""
    text = " ".join(str(raw.get("text", "")).split())
    quote = " ".join(str(raw.get("quote", "")).split())
    if not text or len(text) > LONGEST:
        return Rejection(text[:LONGEST], Phrase("the text is empty or too long"))
    unfit = fact_records.why_not_kept(text, quote)
    if unfit is not None:
        return Rejection("", unfit)
    message = _source(quote, user_messages)
    if message is None:
        return Rejection(text, Phrase("its quote is not in the user's own words"))
    if not _rests_on(text, quote):
        return Rejection(text, Phrase("the quote does not support the text"))
    confidence = _number(raw.get("confidence"))
    if confidence < CONFIDENCE_FLOOR:
        return Rejection(text, Phrase("its confidence is too low"))
    asked = _is_asked(quote, message)
    if frame("order").search(text) and not asked:
        return Rejection(text, Phrase("the text is an instruction, not a statement"))
    if raw.get("transient") is True or frame("passing").search(text):
        return Rejection(text, Phrase("the text is relevant only for the moment"))
    category = str(raw.get("category", ""))
    relation = str(raw.get("relation", ""))
    stated = asked or _is_stated(text, quote, own_words(message))
    source: Source = "explicit" if stated else "inferred"
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
            corrects=corrects(own_words(message), quote),
        ),
        relation if relation in RELATIONS else None,
        known if isinstance(known, int) and not isinstance(known, bool) else None,
    )


def _source(quote: str, user_messages: Sequence[Message]) -> Message | None:
    if len(raw_words(quote)) < 2:
        return None
    own = (
        one
        for one in user_messages
        if one.role == "person" and (holds_words(own_words(one), quote) or _is_asked(quote, one))
    )
    return next(own, None)


def _is_asked(quote: str, message: Message) -> bool:
    """Return whether a request to remember something in the user's own words holds `quote`."""
    requests = memory_requests(own_words(message))
    return any(holds_words(one.sentence, quote) for one in requests)


def _rests_on(text: str, quote: str) -> bool:
    """Return whether text and quote share a content word, or a synonym or translation of one."""
    said = set(stems_of(quote))
    return any(term in said or answering(term) & said for term in stems_of(text))


def _is_stated(text: str, quote: str, own: str) -> bool:
    """Return whether the user states `text` outright ("I always use tabs"), in one sentence.

    The sentence begins with the user or what is theirs, and is no question, request or guess.
    Nearly all that `text` says must be in the quotation: what a model adds is inferred.
    """
    sentences = (one for line in _read_lines(own) for one in _sentences(line))
    sentence = next((one for one in sentences if holds_words(one, quote)), None)
    if sentence is None or _is_question(sentence) or frame("hedged").search(sentence):
        return False
    if not frame("outright").match(sentence) or frame("request").match(sentence):
        return False
    told, said = set(stems_of(text)), set(stems_of(quote))
    held = [stem for stem in told if stem in said or answering(stem) & said]
    return len(held) >= OUTRIGHT * len(told)


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    named = (" ".join(str(one).split())[:60] for one in value if isinstance(one, str))
    return tuple(one for one in named if fact_records.why_not_kept(one) is None)[:8]


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
