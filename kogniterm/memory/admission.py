"""What must never become a memory, nor come out of one: secrets, and what is too personal."""

from __future__ import annotations

import functools

from kogniterm.text.redact import find_secrets, holds_mark
from kogniterm.text.sensitive_topics import personal_kind
from kogniterm.types import Phrase


def why_not_kept(*texts: str) -> Phrase | None:
    """Why a statement made of `texts` must not be remembered; None when it may be.

    The mark of a redacted secret counts as one: the rest of the statement says nothing without.
    """
    if any(holds_mark(text) or find_secrets(text) for text in texts):
        return Phrase("it holds a secret, and memory keeps none")
    if any(map(personal_kind, texts)):
        return Phrase(
            "it is about somebody's health, faith or politics, and memory keeps nothing of the kind"
        )
    return None


@functools.lru_cache(maxsize=4096)
def may_be_recalled(text: str) -> bool:
    """Whether a stored fact may be shown to a model; an older version may have stored it."""
    return not find_secrets(text) and personal_kind(text) is None
