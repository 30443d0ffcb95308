"""Statements that may become facts: found by rules in the user's words, or proposed by a model.

The rules find requests to remember and standing rules: sentences that begin with an opening of
`frames.toml`, in the user's own words (`own_words`). They rather miss a statement than learn a
false one. Everything else is for a model to propose.

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
from typing import Any, NamedTuple

from kogniterm.errors import UnusableValueError
from kogniterm.memory import fact_records
from kogniterm.memory.fact_records import Candidate, Category, Message, Origin, Relation, Source
from kogniterm.text.language import answering, raw_words, stems_of
from kogniterm.types import Phrase

LONGEST_READ = 20_000
"""Characters of a message that are read: the middle of a longer one is mostly pasted data."""
LONGEST_RULE = 240
LONGEST_MESSAGE = 1_000
"""Characters: a longer message holds pasted text more often than rules for later."""
_LONGEST_ABBREVIATION = 8

_MORE = re.compile(r"[.!?;]\s+\S|\n\s*\S")
"""A further sentence: the text asks for more than to forget."""
FACT_LABEL = re.compile(r"\s*\[?m(\d{1,18})\]?\s*", re.IGNORECASE)
LESSON_LABEL = re.compile(r"\s*\[?(l\d{1,18})\]?\s*", re.IGNORECASE)

_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(?P<what>\S.*)")
_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|\s*;\s*(?=\S)")
_SENTENCE_END = re.compile(rf"\n|{_END.pattern}")

_QUOTES = '"“”„‟«»‹›‘‚‛「」『』〝＂`'
_QUOTE = rf"(?:[{_QUOTES}]|(?<!\w)['’])"
_MARK = re.compile(
    rf"""
    (?P<harmless> \w+://\S+ | \w::(?=\w) | \d:(?=\d) | [./]\w+:(?=\d) | \b[a-z]:(?=\\) )
    | (?P<quotation> (?<!\w) {_QUOTE} (?: [^\n'’{_QUOTES}] | (?<=\w)['’](?=\w) )+
        [{_QUOTES}'’] (?!\w) )
    | (?P<colon> [:：﹕︰∶꞉] ) (?! \s*[\U00100000-\U0010ffff] )
    | {_QUOTE} | ~~~ | ^[ \t]*[>＞|]
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
"""A mark of the text of others, or one that only looks like it. A colon before pasted text, which
is hidden, is none: that text has a known end."""
_VALUE_WORDS = 3
"""Words of the longest quotation that is a name or a value, and no text of somebody else."""
_CLAUSE = 300
"""Characters before a colon in which the clause that it ends begins."""
_HIDDEN_PLANE = 0x100000
_HIDDEN = re.compile("[\U00100000-\U0010ffff]+")


@cache
def _frames() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("frames.toml").read_text("utf-8"))


@cache
def frame(name: str) -> re.Pattern[str]:
    """Return the pattern `name` of `frames.toml`."""
    pattern = _frames()["patterns"][name]
    return re.compile(re.sub(r"@(\w+)@", _named_words, pattern), re.IGNORECASE)


def _named_words(name: re.Match[str]) -> str:
    """Return the words or the pattern that `name` in a pattern refers to."""
    words = _frames()["words"].get(name[1])
    return frame(name[1]).pattern if words is None else f"(?:{'|'.join(words.splitlines())})"


def forget_request(text: str) -> tuple[str, bool] | None:
    """Return what `text` asks to forget ("forget that we …", "olvida lo de …", "forget m7").

    With True if it asks for everything about it: then the words are meant even when no memory holds
    them. None if it asks for more or names nothing, and for what may be a task ("forget the cache",
    "… and rebuild"): the model has a tool to forget.
    """
    found = frame("forget_request").fullmatch(text)
    if found is None or _MORE.search(found["what"]) or frame("goes_on").search(found["what"]):
        return None
    what = found["what"].strip()
    named = FACT_LABEL.fullmatch(what) or LESSON_LABEL.fullmatch(what)
    return (what, bool(found["all"] or found["known"])) if named or stems_of(what) else None


class Statement(NamedTuple):
    """A statement in the user's words, which is all or part of `sentence`."""

    text: str
    sentence: str
    category: Category = "fact"


def find_statements(text: str) -> list[Statement]:
    """Return the statements that the user's own `text` asks to remember, then standing rules."""
    found: list[Statement] = []
    listing = False
    lines = _read_lines(text.strip())
    for line in lines:
        bullet = _BULLET.match(line)
        if listing and bullet is not None and not line.endswith(":"):
            found.append(_statement(bullet["what"], bullet["what"]))
            continue
        listing = listing and not line.strip()
        for sentence in _sentences(line):
            request = frame("remember").match(sentence)
            what = request["what"].strip() if request else ""
            listing = request is not None and not what
            # "Remember when …?" is a question; a colon stands for text that is left out.
            if what and not what.endswith(("?", ":")):
                found.append(_statement(what, sentence))
    # What follows on further lines is mostly pasted, so that it states no rule.
    first = _sentences(lines[0]) if lines and len(text) <= LONGEST_MESSAGE else ()
    rules = [one for one in first if _is_rule(one) and not frame("remember").match(one)]
    leads = ((one, frame("lead").match(one)) for one in rules)
    return found + [
        _statement(one[lead.end() if lead else 0 :].strip().rstrip(" .!"), one)
        for one, lead in leads
    ]


def worth_reading(text: str) -> bool:
    """Return whether `text` speaks of the user, not in a question: it may hold something for later.

    This decides whether a model is asked, which costs money.
    """
    sentences = (one for line in _read_lines(text) for one in _sentences(line))
    return any(frame("of_user").search(one) for one in sentences if not one.endswith("?"))


def _statement(text: str, sentence: str) -> Statement:
    return Statement(reveal(text), reveal(sentence), "constraint" if _is_rule(text) else "fact")


def _is_rule(sentence: str) -> bool:
    """Return whether a sentence is a standing rule: it begins so, and is no question."""
    rule = frame("rule").match(sentence)
    return (
        rule is not None
        and len(sentence) <= LONGEST_RULE
        and not sentence.rstrip().endswith(("?", ":"))
        and not frame("at_hand").search(sentence, rule.end())
    )


def holds_words(text: str, quote: str) -> bool:
    """Return whether `text` holds the words of `quote`, whatever their case and punctuation."""
    return f" {' '.join(raw_words(quote))} " in f" {' '.join(raw_words(text))} "


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
    return [" ".join(line.split()) for end in ends for line in end.split("\n")]


def _parts(sentence: str) -> Iterator[str]:
    yield from (part for one in frame("another").split(sentence) if (part := one.strip()))


# --- what a model proposes --------------------------------------------------------------------

LEAST_CONFIDENCE = 0.6
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
                    "category": {"type": "string", "enum": list(fact_records.CATEGORIES)},
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


class Proposal(NamedTuple):
    """A checked candidate, and the number in the request of the known fact it relates to."""

    candidate: Candidate
    relation: Relation | None
    known: int | None


class Rejection(NamedTuple):
    """A statement that was rejected, and why; without its text where that is a secret."""

    text: str
    reason: Phrase


Reading = tuple[list[dict[str, Any]], tuple[str, ...], tuple[str, ...]]
"""The facts, entities and intents of a model's reply."""


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
    return (
        [one for one in facts if isinstance(one, dict)][:MOST_PER_EXTRACTION],
        _names(found.get("entities")),
        _names(found.get("intents")),
    )


def own_words(text: str) -> str:
    """Return the user's `text` without the text of others in it, as far as it is sure to be theirs.

    A quotation that ends on its line is hidden, unless it is short: then it is a value. Every other
    mark of the text of others (a quotation mark, a code fence, a quoted line, a colon) ends the
    user's words, because nothing tells where such a text ends. A colon stands for what is left out.
    A sentence that asks to remember something counts to its end.
    """
    text = "\n".join(text.splitlines())
    own, goes_on = list(text), None
    for mark in _MARK.finditer(text):
        start, end = mark.span()
        if mark["quotation"] and (
            len(raw_words(mark[0])) > _VALUE_WORDS or _END.search(f"{mark[0]} ")
        ):
            own[start:end] = hide(mark[0], [(0, end - start)])
        if mark["quotation"] or mark["harmless"] or goes_on is not None:
            continue
        clause = _last_sentence(
            "".join(own[max(0, start - _CLAUSE) : start]), whole=start <= _CLAUSE
        )
        if mark["colon"] and clause and frame("opens").fullmatch(clause):
            continue
        if frame("remember").match(clause) is None:
            return f"{''.join(own[:start])}:"
        goes_on = end
    text = "".join(own)
    if goes_on is None:
        return text
    ends = [pattern.search(text, goes_on) for pattern in (_SENTENCE_END, frame("another"))]
    return text[: min((one.start() for one in ends if one), default=len(text))]


def _last_sentence(text: str, *, whole: bool) -> str:
    """Return the sentence that `text` ends in; no beginning of one where it begins before."""
    line = text.rpartition("\n")
    last = line[2] if whole or line[1] else f"x{text}"
    return "".join([*_sentences(" ".join(last.split()))][-1:])


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


def is_order(text: str) -> bool:
    """Return whether `text` is an instruction, or states something to remember."""
    return frame("order").search(text) is not None or bool(find_statements(text))


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
    # They have to share a content word, or a synonym or translation of one.
    said = set(stems_of(quote))
    if not any(term in said or answering(term) & said for term in stems_of(text)):
        return Rejection(text, Phrase("the quote does not support the text"))
    stated = raw.get("confidence")
    plain = isinstance(stated, int | float) and not isinstance(stated, bool)
    confidence = float(stated or 0.0) if plain else 0.0
    if confidence < LEAST_CONFIDENCE:
        return Rejection(text, Phrase("its confidence is too low"))
    own = _is_stated(quote, message)
    if frame("order").search(text) and not own:
        return Rejection(text, Phrase("the text is an instruction, not a statement"))
    if raw.get("transient") is True or frame("passing").search(text):
        return Rejection(text, Phrase("the text is relevant only for the moment"))
    category = str(raw.get("category", ""))
    relation = str(raw.get("relation", ""))
    source: Source = "explicit" if own else "inferred"
    known = raw.get("known")
    return Proposal(
        Candidate(
            text=text,
            category=category if category in fact_records.CATEGORIES else "fact",
            slot=str(raw["slot"])[:60] if raw.get("slot") else None,
            confidence=min(1.0, confidence),
            source=source,
            keywords=" ".join(_names(raw.get("keywords"))),
            project="" if raw.get("scope") == "everywhere" else project,
            created=message.time or None,
            origin=Origin(session_id, message.seq or None, quote),
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
        if one.role == "person"
        and (holds_words(own_words(one.text), quote) or _is_stated(quote, one))
    )
    return next(own, None)


def _is_stated(quote: str, message: Message) -> bool:
    """Return whether a request or a rule in the user's own words holds `quote`."""
    return any(holds_words(one.sentence, quote) for one in find_statements(own_words(message.text)))


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    named = (" ".join(str(one).split())[:60] for one in value if isinstance(one, str))
    return tuple(one for one in named if fact_records.why_not_kept(one) is None)[:8]
