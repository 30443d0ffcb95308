"""The catalogue of skills: their names and descriptions, in a small share of the model's window.

Where they do not fit, the longest descriptions are cut first, all to one length; then only names
are given; then only some of them, with the number of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kogniterm import prompts
from kogniterm.agent.compaction import text_tokens
from kogniterm.runtime.extensions.skills.skill_file import Skill
from kogniterm.text.shorten import one_line

WINDOW_SHARE = 0.02
SHORTEST = 24
"""Characters below which a description says nothing."""


class Catalogue(NamedTuple):
    """The text for the model; `cut` are the skills whose descriptions are shorter than they are.

    `unnamed` are those that the model is not told of.
    """

    text: str = ""
    cut: frozenset[str] = frozenset()
    unnamed: frozenset[str] = frozenset()


def catalogue(skills: Sequence[Skill], window: int) -> Catalogue:
    """Return the catalogue for a model with a `window` in tokens."""
    if not skills:
        return Catalogue()
    room = int(window * WINDOW_SHARE)
    longest = max(len(one.description) for one in skills)
    length = _largest(skills, SHORTEST, longest, room)
    if length is not None:
        cut = frozenset(one.name for one in skills if len(one.description) > length)
        return Catalogue(_described(skills, length), cut)
    everyone = frozenset(one.name for one in skills)
    for count in range(len(skills), -1, -1):
        lines = [f"- {one.name}" for one in skills[:count]]
        if others := len(skills) - count:
            lines.append(f"- [{others} more; /skills lists them for the user]")
        text = prompts.text("skills.catalogue", skills="\n".join(lines))
        if text_tokens(text) <= room:
            return Catalogue(text, everyone, frozenset(one.name for one in skills[count:]))
    return Catalogue("", everyone, everyone)


def _largest(skills: Sequence[Skill], low: int, high: int, room: int) -> int | None:
    """Return the most characters that each description may have; None where too few fit."""
    if text_tokens(_described(skills, high)) <= room:
        return high
    if text_tokens(_described(skills, low)) > room:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        fits = text_tokens(_described(skills, middle)) <= room
        low, high = (middle, high) if fits else (low, middle)
    return low


def _described(skills: Sequence[Skill], length: int) -> str:
    lines = (f"- {one.name}: {one_line(one.description, length)}" for one in skills)
    return prompts.text("skills.catalogue", skills="\n".join(lines))
