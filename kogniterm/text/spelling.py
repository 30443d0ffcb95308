"""The known word that somebody meant who wrote another one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest_word(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that `word` is with the fewest mistakes; None if none is close.

    A beginning of a word counts as close. difflib alone prefers `mode` to `model` where two letters
    of `model` were swapped, and takes words that share only some letters. `cutoff` is its ratio.
    """
    mistakes = max(3, len(word) // 3)
    close = [
        name
        for name in get_close_matches(word, list(known), n=5, cutoff=cutoff)
        if name.startswith(word) or _distance(word, name) <= mistakes
    ]
    # Of two at the same distance, the one with the same letters.
    return min(
        close, key=lambda one: (_distance(word, one), sorted(one) != sorted(word)), default=None
    )


def _distance(one: str, other: str) -> int:
    """Return how many letters to add, drop, replace or swap with the next make `one` the other."""
    rows = [list(range(len(other) + 1))]
    for n, letter in enumerate(one, 1):
        row = [n]
        for m, wanted in enumerate(other, 1):
            best = min(rows[-1][m] + 1, row[-1] + 1, rows[-1][m - 1] + (letter != wanted))
            if n > 1 and m > 1 and one[n - 2 : n] == wanted + other[m - 2]:
                best = min(best, rows[-2][m - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]
