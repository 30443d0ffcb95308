"""What somebody wants forgotten who says so in a sentence: "Forget that …", "olvida que …"."""

from __future__ import annotations

import re

from kogniterm.memory import words

_POLITE = (
    r"(?:please|por favor|(?:can|could|would|will) you(?: please)?"
    r"|i(?: would|'d)? (?:want|like) you to|puedes|podr[ií]as|quiero que|me gustar[ií]a que)"
)
_FORGET = r"(?:forget|olv[ií]da(?:te|lo|la)?|olvides|olvidar)"
_LINK = (
    r"(?:(?:everything |all )?(?:about|that|what i (?:said|told you)(?: about)?)|the fact that"
    r"|(?:todo )?(?:lo )?(?:de )?que(?: te)?(?: dije| cont[eé])?(?: de| sobre)?|lo de|todo sobre"
    r"|sobre|acerca de|de que)"
)
_WISH = re.compile(
    rf"\W*(?:{_POLITE},?\s+)?{_FORGET}\s+(?:{_LINK}\s+)?(?P<what>\S.*?)[\s.!?]*",
    re.IGNORECASE | re.DOTALL,
)
_MORE = re.compile(r"[.!?;]\s+\S|\n\s*\S")
"""Another sentence: the first one is not all that is wanted."""


def forget_wish(text: str) -> str | None:
    """What `text` asks to forget and asks for nothing else, or None: "forget it" names nothing."""
    found = _WISH.fullmatch(text)
    if found is None or _MORE.search(found["what"]):
        return None
    what = found["what"].strip()
    return what if re.fullmatch(r"\[?m\d{1,18}\]?", what) or words.terms(what) else None
