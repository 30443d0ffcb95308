"""Which characters a person cannot see, or could mistake for others.

Sources: Unicode's Default_Ignorable_Code_Point ranges, the general categories of `unicodedata`,
and, for look-alikes, letters of other scripts whose usual glyph is that of an ASCII character.
"""

from __future__ import annotations

import re
import unicodedata

_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U00016fe4"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK = "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u2800"
_CONTROL = "\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff"

SUSPECT = re.compile(f"[{_CONTROL}{_IGNORABLE}{_BLANK}]")
"""Fast test: a text without a match and without rarer categories holds nothing invisible."""

_EMOJI_JOINERS = frozenset("\u200d\ufe0e\ufe0f")

BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_invisible(char: str) -> bool:
    """Whether `char` shows nothing, moves the cursor, or is drawn as an unknown blank."""
    if char == "\n" or " " <= char <= "~":
        return False
    if SUSPECT.match(char):
        return True
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}


def hidden_characters(text: str) -> tuple[str, ...]:
    """The invisible characters of `text` that can deceive, each once, in order.

    Plain tabs and newlines are not among them, nor the joiners and variation selectors that
    belong to an emoji.
    """
    if text.isascii() and not SUSPECT.search(text):
        return ()
    found: dict[str, None] = {}
    previous = ""
    for char in text:
        joins_emoji = char in _EMOJI_JOINERS and previous > "\u2000"
        if char != "\t" and not joins_emoji and is_invisible(char):
            found[char] = None
        previous = char
    return tuple(found)


_LOOK_ALIKES = dict(
    zip(
        # Cyrillic, then Greek, then Armenian, Cherokee, Latin extensions and punctuation.
        "аеорсухіјѕԁһԛԝѡҽӏкптвмнгьзАВЕЗІЈКМНОРСТУХЅԌԚԜҮ"
        "αονρυκιτωγχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
        "օսցոհքɑɡıƖ"
        "‐‑‒–—―−﹣－∕⁄／⧸∖⧵＼；︔;︰：։ː‘’‛′ʹ＇“”″＂`｀∣ǀ｜＆﹠＞＜＄＊～∼．․。，‚（）",
        "aeopcyxijsdhqwwelknmBMHrb3ABE3IJKMHOPCTYXSGQWY"
        "aovpukitwyxABEZHIKMNOPTYX"
        "ousnhpagiI"
        "---------////\\\\\\;;;::::''''''\"\"\"\"``|||&&><$*~~...,,()",
        strict=True,
    )
)


def look_alike(char: str) -> str | None:
    """The ASCII character `char` could be taken for, or None."""
    if char < "\x80":
        return None
    known = _LOOK_ALIKES.get(char)
    if known is not None:
        return known
    folded = unicodedata.normalize("NFKC", char)
    return folded if len(folded) == 1 and " " < folded <= "~" else None


def is_right_to_left(char: str) -> bool:
    """Whether a terminal with bidirectional display may reorder the text round `char`."""
    return char > "\u058f" and unicodedata.bidirectional(char) in {"R", "AL"}
