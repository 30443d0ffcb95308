"""What a substitution prints, as far as its text tells: a number, a plain name, its own words."""

from __future__ import annotations

import re

from kogniterm.approval.shelltree import Node, Pipeline, Simple
from kogniterm.approval.wordparts import Literal, Part

_GLOB = re.compile(r"[*?]|\[[^\]]")
_COUNTERS = frozenset({"date", "wc", "nproc"})
_NAMERS = frozenset({"pwd", "whoami", "hostname", "id", "uname"})
_PROGRAM_COUNTS = re.compile(
    r"awk '\s*END\s*\{\s*print NR;?\s*\}'|sed -n '?\$='?|git rev-list (?:-\S+ )*--count "
)
_GREP_COUNTS = re.compile(r"grep (?:-[a-zA-Z]* )*-(?:-count|[a-zA-Z]*c[a-zA-Z]*)(?: \S+){1,2}\Z")
_STAT_NUMBER = re.compile(r"(?:-L )?(?:-c ?|--format=)['\"]?%[sbhiugaXYZW]['\"]? ")
_PLAIN_ARGUMENT = re.compile(r"['\"]?[-+][%\w:.+-]*['\"]?\Z")


def prints_number(node: Node) -> bool:
    """Whether what a substitution prints is a number or date the machine itself chose."""
    if isinstance(node, Pipeline):
        node = node.parts[-1]
    if not isinstance(node, Simple) or not node.words:
        return False
    first, *rest = node.words
    text = " ".join(word.raw for word in node.words)
    if first.raw == "stat":
        return bool(_STAT_NUMBER.match(text.removeprefix("stat ")))
    if _PROGRAM_COUNTS.match(text):
        return True
    if _GREP_COUNTS.match(text):
        return not any(part for word in rest for part in word.parts if _several(part))
    return first.raw in _COUNTERS and all(_PLAIN_ARGUMENT.match(w.raw) for w in rest)


def _several(part: Part) -> bool:
    """Whether `part` of a word could make several words of it."""
    if isinstance(part, Literal):
        return not part.quoted and bool(_GLOB.search(part.text) or "{" in part.text)
    return not part.quoted


def prints_plainly(node: Node) -> bool:
    """Whether it prints a number, a date, or a name the machine itself chose."""
    if isinstance(node, Simple) and node.words and node.words[0].raw in _NAMERS:
        return all(_PLAIN_ARGUMENT.match(word.raw) for word in node.words[1:])
    return prints_number(node)


def spoken_of(node: Node) -> list[str]:
    """The plain words a substitution is written with: what it prints is often one of them."""
    if not isinstance(node, Simple):
        return []
    given = (one.target or one.body for one in node.redirects)
    return [word.raw.strip("'\"") for word in (*node.words[1:], *given) if word is not None]
