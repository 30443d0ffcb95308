"""Whether a new statement can take the place of a known fact: told by their words. Pure.

Models retire facts that have nothing to do with the new one, and facts that share a word are
mostly about different things ("deploys on Tuesdays", "deploys with Ansible"). What answers the
same question begins with the same subject, is built alike, and differs in the value: that is
what is asked for here. Where it cannot be told, both facts stay, for a lost fact costs more than
a stale one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from kogniterm.text.language import answering, language_of, listed, plain, stem, stopwords

ALIKE = 0.5
"""Share of the words of both statements that stand in both, in the same order."""

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
_COPULAS = frozenset(("is", "are", "was", "were", "be", "es", "son", "esta", "estan", "era"))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word as it stands, and by its stem."""

    plain: str
    stem: str


def takes_the_place(new: str, old: str, quote: str = "") -> bool:
    """Whether `new` answers the question that `old` answers, so that only one of them holds.

    `quote` is what the user said: where it names what `old` says and `new` does not, they have
    said themselves what goes.
    """
    before, after = _said(old), _said(new)
    if not before or not after:
        return False
    if _names_what_ends(before, after, quote):
        return True
    shared = [one for block in _blocks(before, after) for one in before[block[0] : block[1]]]
    dropped = stopwords("en") | stopwords("es") | _listed("vague")
    telling = {one.stem for one in shared if one.plain not in dropped}
    if len(before) > 1 and before[1].plain in _listed("relating"):
        telling.discard(before[0].stem)
    if not telling or any(one.plain in _listed("manifold") for one in before):
        return False
    if not _same_word(before[0], after[0]):
        return False
    return 2 * len(shared) >= ALIKE * (len(before) + len(after)) and _fits(before, after)


def shares_a_subject(one: str, two: str) -> bool:
    """Whether two statements have a telling word in common, or words that answer for each other."""
    first, second = _content_words(one), _content_words(two)
    return any(term in second or answering(term) & second for term in first)


def with_value(old: str, said: str) -> str | None:
    """Return `old` with the value that the short correction `said` names, such as a weekday.

    None unless each of them names exactly one value of one kind, and `said` says nothing else.
    """
    if len(plain(old)) != len(old) or len(plain(said)) != len(said):
        return None
    for pattern in _KINDS.values():
        whole = re.compile(rf"(?<![\w.,:])(?:{pattern.pattern})(?![\w:])")
        held, named = (list(whole.finditer(plain(text))) for text in (old, said))
        if len(held) == 1 and len(named) == 1:
            value = said[named[0].start() : named[0].end()]
            if _content_words(said) - _content_words(value) - _content_words(old):
                return None
            changed = old[: held[0].start()] + value + old[held[0].end() :]
            return changed if plain(changed) != plain(old) else None
        if held and named:
            return None
    return None


def _listed(*rows: str) -> frozenset[str]:
    return listed("replacing", *rows)


def _said(text: str) -> list[_Word]:
    """The words of `text` that say something, with those that join them."""
    spoken = language_of(text)
    found = _WORD.findall(plain(text))
    return [_Word(word, stem(word, spoken)) for word in found if word not in _listed("fillers")]


def _content_words(text: str) -> set[str]:
    dropped = _listed("fillers", "vague") | stopwords(language_of(text))
    return {one.stem for one in _said(text) if one.plain not in dropped}


def _names_what_ends(before: Sequence[_Word], after: Sequence[_Word], quote: str) -> bool:
    dropped = stopwords("en") | stopwords("es") | _listed("vague", "manifold")
    said = {one.stem for one in _said(quote)}
    kept = {one.stem for one in after}
    gone = {one.stem for one in before if one.plain not in dropped} - kept
    common = {one.stem for one in before if one.plain not in stopwords("en")} & kept
    return bool(gone & said) and bool(common) and _denies(quote)


def _denies(quote: str) -> bool:
    return bool(
        re.search(
            r"\b(?:not|no longer|anymore|any more|instead of|rather than|stopped|used to|from|"
            r"ya no|en vez de|en lugar de|no|dejado|dejo|antes)\b|n't\b",
            plain(quote),
        )
    )


def _blocks(before: Sequence[_Word], after: Sequence[_Word]) -> list[tuple[int, int]]:
    """The runs of words in `before` that stand in `after` too, in order."""
    stems = [one.stem for one in before], [one.stem for one in after]
    found = SequenceMatcher(None, *stems, autojunk=False).get_matching_blocks()
    return [(block.a, block.a + block.size) for block in found if block.size]


def _same_word(one: _Word, two: _Word) -> bool:
    """Alike but for their endings; "hermana" and "hermano" are two."""
    ends = {one.plain[-1:], two.plain[-1:]}
    siblings = one.plain[:-1] == two.plain[:-1] and ends == {"a", "o"}
    return one.stem == two.stem and not siblings


def _fits(before: Sequence[_Word], after: Sequence[_Word]) -> bool:
    """Whether what differs could be two values of one thing."""
    stems = [one.stem for one in before], [one.stem for one in after]
    steps = SequenceMatcher(None, *stems, autojunk=False).get_opcodes()
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


def _kind(value: Sequence[_Word]) -> str:
    for one in value:
        for kind, pattern in _KINDS.items():
            if pattern.fullmatch(one.plain):
                return kind
    return ""
