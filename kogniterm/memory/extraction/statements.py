"""What a user states outright, found by words alone: requests to remember, rules, corrections.

Used where no model reads, and to decide whether a model should. Everything here would rather
miss a statement than learn a false one: only the frames below count, at the beginning of a
sentence, in the user's own words (see `candidates.own_words`), and neither questions nor
what concerns the task at hand ("this file", "for now") is learnt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kogniterm.memory import fact_records
from kogniterm.memory.fact_records import CATEGORIES, Category, Message, Origin, Source
from kogniterm.memory.update import Candidate, Relation
from kogniterm.text.language import answering, plain, raw_words, stems_of
from kogniterm.types import Phrase

LONGEST_READ = 20_000
"""Characters of a message that are listened to: between its ends stand pasted data."""
LONGEST_RULE = 240
LONGEST_MESSAGE = 1_000
"""Characters: a longer message holds pasted text more often than rules for later."""
_LONGEST_ABBREVIATION = 8
_INTRODUCES = re.compile(r":(?:\s|$)")

_LEAD = (
    r"(?:(?:please|also|and|ok(?:ay)?|by the way|btw|oh|well|actually|no(?=\s*[,.!])|sorry|so|but|"
    r"hey|hi|por favor|tambi[eé]n|adem[aá]s|y|e|vale|por cierto|bueno|oye|hola|pero|perd[oó]n|"
    r"en realidad)\b[\s,:;.!-]*)*"
)
_ASKS = (
    r"(?:remember|recuerda|acu[eé]rdate|keep in mind|ten en cuenta|don'?t forget|no olvides|"
    r"no te olvides)"
)
_REMEMBER = re.compile(
    rf"{_LEAD}{_ASKS}\b(?P<that>(?:\s+(?:that|de|que|this|esto|the following|lo siguiente)\b)*)"
    r"[\s:,]*(?P<what>.*)",
    re.IGNORECASE,
)
_FURTHER = re.compile(
    r"(?:and|also|y|e|adem[aá]s)\s+(?:also\s+|tambi[eé]n\s+)?(?:that|que)\s+(?P<what>.+)",
    re.IGNORECASE,
)
_ERRAND = re.compile(
    r"(?:don'?t forget to|no (?:te )?olvides (?:de )?[^\W\d_]+[aei]r(?:l[aeo]s?|se)?)\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(?P<what>\S.*)")
_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|\s*;\s*(?=\S)")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|approx|mr|mrs|ms|dr|st|no|sr|sra|srta|p\.ej|ej|av|núm|[a-z]))\.$",
    re.IGNORECASE,
)
_ANOTHER = re.compile(
    rf"\s*,?\s+(?:and|y|e)\s+(?=(?:also\s+|please\s+|tambi[eé]n\s+)?{_ASKS}\s+(?:that|que)\b)"
    rf"|\s*,\s+(?=(?:please\s+|por favor\s+)?{_ASKS}\s+(?:that|que)\b)",
    re.IGNORECASE,
)

_DO = (
    r"(?:add|answer|ask|avoid|build|call|change|check|commit|compile|copy|create|delete|deploy|"
    r"do|edit|explain|fix|force[- ]push|format|give|ignore|import|include|install|keep|leave|"
    r"lint|log|make|merge|modify|move|name|open|overwrite|pin|prefer|print|publish|push|put|"
    r"read|rebase|release|remove|rename|reply|respond|restart|review|run|save|send|show|sign|"
    r"squash|start|stop|store|talk|test|touch|update|upgrade|upload|use|verify|work|wrap|write)"
)
_HAZ = (
    r"(?:a[ñn]ad|actualic|actualiz|abr|arranc|arranqu|borr|busc|cambi|comentr?|compil|compruebr?|"
    r"comprueb|conserv|contest|copi|cre|despleg|despliegu?|dej|ejecut|elimin|empuj|escrib|"
    r"escríb|evit|expli[cq]u?|firm|formate|guard|hag|haz|hac|hazl|incluy|inclu|instal|llam|"
    r"mantén|manten|mant[eé]ng|modific|modifiqu|mostr|muestr|mu[eé]v|oper|pid|pon|pong|"
    r"pregunt|prob|prueb|public|publiqu|reinici|renombr|respond|respónd|revis|sub|toc|toqu|"
    r"trabaj|us|utilic|utiliz|verifi[cq]u?)[a-záéíóúñ]{0,6}"
)
_RULES = (
    re.compile(r"(?:i|we|yo|nosotr[oa]s)?\s*(?:(?:really|strongly|much|generally|usually|always)"
               r"\s+)?(?:prefer|prefiero|preferimos)\s+(?P<object>.+)", re.IGNORECASE),
    re.compile(rf"(?:(?:i|we|you (?:should|must|can))\s+)?(?:never|always)(?:\s+ever)?\s+{_DO}\s+"
               r"(?P<object>.+)", re.IGNORECASE),
    re.compile(rf"(?:do not|don'?t)\s+ever\s+{_DO}\s+(?P<object>.+)", re.IGNORECASE),
    re.compile(rf"(?:siempre|nunca|jam[aá]s)\s+{_HAZ}\s+(?P<object>.+)", re.IGNORECASE),
    re.compile(rf"(?:no\s+)?{_HAZ}\s+(?:siempre(?! que)|nunca|jam[aá]s)\s+(?P<object>.+)",
               re.IGNORECASE),
    re.compile(r"(?:from now on(?:wards?)?|from today on|going forward|in (?:the )?future|"
               r"de ahora en adelante|a partir de ahora|desde ahora|de hoy en adelante|"
               r"en lo sucesivo|en adelante)\b[\s,:]*(?P<object>\S+\s+.+)", re.IGNORECASE),
)  # fmt: skip
_AT_HAND = re.compile(
    r"\b(?:for now|right now|at the moment|just now|today|tonight|this time|once|again|"
    r"here|there|you|your|yours|earlier|before that|"
    r"the (?:first|second|third|last|other|former|latter|next|previous)|"
    r"(?:in|for|during|until) (?:this|that) (?!project|repo|repository|codebase|workspace)|"
    r"this (?!project|repo|repository|codebase|workspace|machine|computer|company|team)|"
    r"these|those|(?:in|on|for|at|with|from|of|to) that|above|below|"
    r"por ahora|de momento|ahora mismo|hoy|esta vez|otra vez|aqu[ií]|ah[ií]|"
    r"(?:el|la|lo) (?:primer[oa]?|segund[oa]|tercer[oa]?|últim[oa]|otr[oa]|siguiente|anterior)|"
    r"est[eao]s? (?!proyecto|repositorio|equipo|máquina)|esto|es[eao]s?|tu|tus|"
    r"(?:dij|hic|mencion|propus|mostr|escrib|sugir|pus)(?:iste|aste)|antes(?! de))\b",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"(?:it|them|that|this|one|neither|either|both|none|ninguno|ambos|him|her|so|what|"
    r"to (?:do|see|wait|stop|continue|keep|skip|start|try|leave|not)|not to|option|"
    r"plan [a-z]\b|number|yes|no|"
    r"eso|esto|ese|esa|no\b|que no|sí|la [ab]\b|opci[oó]n|parar|esperar|seguir|dejarlo|verlo|"
    r"into|out of)\b|[a-z]\W*$|\d+\W*$",
    re.IGNORECASE,
)
"""What an object begins with that means something only where it was said."""

_CORRECTS = re.compile(
    r"no\s*[,.!]+|(?:nope|actually|in fact|sorry|wait|correction|scratch that|i meant|i mean|"
    r"rather|my mistake|i was wrong|that(?:'s| is| was) wrong|not\b.{1,40}\bbut|"
    r"en realidad|perd[oó]n|correcci[oó]n|corrijo|mejor dicho|quise decir|quer[ií]a decir|"
    r"digo|me equivoqu[eé]|eso (?:es|era) incorrecto|de hecho)\b",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    r"\b(?:no longer|not .{1,30} any ?more|instead of|has changed|changed (?:to|from)|"
    r"switched to|moved (?:to|from)|used to|ya no|ahora|now|en vez de|en lugar de|"
    r"ha cambiado|nos (?:hemos )?(?:cambi|mud)\w+|me (?:he )?(?:cambi|mud)\w+)\b",
    re.IGNORECASE,
)
_ABOUT_THEM = re.compile(
    rf"^{_LEAD}(?:my|our|mi|mis|nuestr[oa]s?|me|nos)\b|"
    r"\b(?:i|i'm|i've|we|we're|we've|yo|nosotr[oa]s|always|never|prefer|must|rule|usually|"
    r"from now on|siempre|nunca|jam[aá]s|prefiero|preferimos|debe[ns]?|norma|regla|soy|somos|"
    r"tengo|tenemos|uso|usamos|vivo|trabajo|trabajamos|odio|utilizo|utilizamos|solemos|suelo|"
    r"hacemos|desplegamos)\b",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"^(?:the|our|all|every|each|el|la|los|las|todos?|todas?|cada)\b.{3,}?"
    r"\b(?:is|are|has|have|uses?|runs?|lives?|needs?|goes|deploys?|es|son|est[aá]n?|tiene[n]?|"
    r"usan?|vive[n]?|necesitan?|van?|se)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^\W*(?:what|who|why|when|where|which|how|is|are|do|does|did|can|could|would|will|should|"
    r"qu[eé]|qui[eé]n|por qu[eé]|cu[aá]ndo|d[oó]nde|cu[aá]l|c[oó]mo|puedes|podr[ií]as)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"^\W*(?:(?:i|we)(?:'d like| would like| want| need)(?: you)? to|necesito|quiero que|"
    r"(?:please\s+|now\s+|then\s+)*(?:show|list|tell|give|find|fix|help|let|run|open|check|"
    r"explain|summari[sz]e|write|create|make|add|look|read|print|search|count|delete|remove|"
    r"mu[eé]stra\w*|lista|dime|dame|busca|arregla|ay[uú]da\w*|ejecuta|abre|explica|resume|"
    r"escribe|crea|haz|a[ñn]ade|mira|lee|cuenta|borra))\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"“[^”]*”|«[^»]*»|\"[^\"]*\"|`[^`]*`|(?<!\w)'[^']{3,}'(?!\w)")


@dataclass(frozen=True, slots=True)
class Statement:
    """What was said, in the user's words; `corrects` when it corrects what was said before."""

    text: str
    sentence: str
    corrects: bool = False


def memory_requests(text: str) -> list[Statement]:
    """Everything that `text` asks to remember ("remember that …"), in order."""
    found: list[Statement] = []
    listing = asked = False
    for line in _read_lines(text):
        bullet = _BULLET.match(line)
        if listing and bullet is not None:
            found.append(_statement(bullet["what"].strip(), bullet["what"].strip()))
            continue
        listing = listing and not line.strip()
        for sentence in _sentences(line):
            request = _REMEMBER.match(sentence) or (asked and _FURTHER.match(sentence)) or None
            what = request["what"].strip() if request else ""
            listing = request is not None and not what
            # "Remember when …?" asks; it does not tell.
            asked = bool(what) and not what.endswith("?") and not _ERRAND.search(sentence)
            if asked:
                found.append(_statement(what, sentence))
    return found


def rules(text: str) -> list[Statement]:
    """Preferences and standing rules that `text` states without asking to remember them.

    "I prefer …", "never touch …", "always use …", "from now on …", and the same in Spanish.
    """
    lines = _read_lines(text.strip())
    if not lines or len(text) > LONGEST_MESSAGE:
        return []
    found: list[Statement] = []
    # What follows on further lines, or after a colon, is mostly pasted.
    for sentence in _sentences(lines[0]):
        rule = None if _REMEMBER.match(sentence) else _rule(sentence)
        if rule is not None:
            found.append(_statement(rule, sentence))
        elif _INTRODUCES.search(sentence):
            break
    return found


def corrections(text: str) -> list[Statement]:
    """The sentences of `text` that begin as a correction ("Actually it's Thursdays").

    The text of each is what follows the words that say so.
    """
    return [
        Statement(sentence[opening.end() :].strip(" ,.:;!"), sentence, corrects=True)
        for line in _read_lines(text)
        for sentence in _sentences(line)
        if (opening := _CORRECTS.match(sentence)) and not _is_question(sentence)
    ]


def corrects(text: str, quote: str) -> bool:
    """Whether the sentence of `text` that holds `quote` says that something is different."""
    sought = raw_words(quote)
    sentences = [one for line in _read_lines(text) for one in _sentences(line)]
    holding = [one for one in sentences if _holds(raw_words(one), sought)]
    return any(is_correction(one) for one in holding or [quote])


def is_correction(sentence: str) -> bool:
    """Whether the user's words `sentence` say that something was, or has become, different."""
    return _CORRECTS.match(sentence) is not None or _CHANGED.search(sentence) is not None


def worth_reading(text: str) -> bool:
    """Whether `text` may hold something for later: it says something about the user or a rule.

    Questions, requests and thanks do not. Decides whether a model is asked, which costs money.
    """
    return any(
        not _is_question(sentence)
        and (
            _CORRECTS.match(sentence)
            or (
                not _REQUEST.match(sentence)
                and (_ABOUT_THEM.search(sentence) or _STATES.match(sentence))
            )
            or _REMEMBER.match(sentence)
        )
        for line in _read_lines(text)
        for sentence in _sentences(line)
        if len(raw_words(sentence)) > 2
    )


def _statement(text: str, sentence: str) -> Statement:
    return Statement(text, sentence, is_correction(sentence))


def _rule(sentence: str) -> str | None:
    """The rule that `sentence` states, without what leads up to it; None when it states none."""
    lead = re.match(_LEAD, sentence, re.IGNORECASE)
    stated = sentence[lead.end() :].strip() if lead else sentence
    if _is_question(stated) or len(stated) > LONGEST_RULE or stated.endswith(":"):
        return None
    if _QUOTED.sub("", stated).strip() == "":
        return None
    for form in _RULES:
        match = form.fullmatch(stated)
        if match is None:
            continue
        if not _POINTS.match(match["object"]) and not _AT_HAND.search(match["object"]):
            return stated.rstrip(" .!")
    return None


def _holds(said: Sequence[str], sought: Sequence[str]) -> bool:
    return f" {' '.join(sought)} " in f" {' '.join(said)} "


def _is_question(sentence: str) -> bool:
    return sentence.rstrip().endswith("?") or "¿" in sentence or bool(_QUESTION.match(sentence))


def _sentences(line: str) -> Iterator[str]:
    """The sentences of a line; what asks to remember one more thing is a sentence of its own."""
    start = 0
    for end in _END.finditer(line):
        if _ABBREVIATION.search(
            line[max(start, end.start() - _LONGEST_ABBREVIATION) : end.start()]
        ):
            continue
        yield from _parts(line[start : end.start()])
        start = end.end()
    yield from _parts(line[start:])


def _read_lines(text: str) -> list[str]:
    """The lines of `text`, single-spaced; of a long one, of its beginning and its end."""
    half = LONGEST_READ // 2
    ends = [text] if len(text) <= LONGEST_READ else [text[:half], text[-half:]]
    return [" ".join(line.split()) for end in ends for line in end.splitlines()]


def _parts(sentence: str) -> Iterator[str]:
    yield from (part for one in _ANOTHER.split(sentence) if (part := one.strip()))


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
    found = memory_requests(text)
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
    unfit = fact_records.why_not_kept(text, quote)
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
            corrects=corrects(own_words(message), quote),
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
    return tuple(one for one in named if fact_records.why_not_kept(one) is None)[:8]


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
