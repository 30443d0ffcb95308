"""Memory as the model's tools use it: it may look things up, and act on the person's words only.

A tool call is the model's wish, and a model can be talked into wishes by a file. So what it asks
to remember or forget has to rest on a quote of what the person typed in this session.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kogniterm.errors import ToolError, UsageError
from kogniterm.memory import candidates, words
from kogniterm.memory.candidates import Rejection
from kogniterm.memory.recall import because

if TYPE_CHECKING:
    from kogniterm.memory.contexts import SessionContext

_FORGET = re.compile(
    r"\b(?:forget|delete|remove|erase|olvid\w*|borr\w*|elimin\w*)\b", re.IGNORECASE
)


class ToolMemory:
    """What the memory tools of one session call. Texts are English, for the model."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session

    def recall(self, question: str, limit: int) -> str:
        """Facts that answer `question`, one a line with id and provenance."""
        hits = self._session.for_modules().facts(question, limit)
        lines = []
        for hit in hits:
            fact = self._session.memory.repository.get(hit.id)
            if fact is not None:
                text = " ".join(fact.text.split()).replace("<", "‹").replace(">", "›")
                lines.append(f'[{fact.label}] {fact.category}: "{text}" ({because(fact)})')
        return "\n".join(lines) or "Nothing is remembered about this."

    def remember(self, text: str, quote: str, category: str, everywhere: bool) -> str:
        """Remember `text`, which must rest on the person's own words `quote`."""
        if self._session.mode != "full":
            raise ToolError("Memory is switched off in this session; nothing was stored.")
        raw = {
            "text": text,
            "quote": quote,
            "category": category,
            "confidence": 0.9,
            "scope": "everywhere" if everywhere else "project",
        }
        project = self._session.memory.project
        checked = candidates.check(raw, self._session.said, self._session.session_id, project)
        if isinstance(checked, Rejection):
            raise ToolError("Not stored: {reason}.", reason=str(checked.reason))
        try:
            change = self._session.memory.remember(checked.candidate, who="model")
        except UsageError as error:
            raise ToolError("Not stored: {reason}", reason=str(error)) from error
        if change.fact is None:
            raise ToolError("Not stored: {reason}.", reason=str(change.reason))
        return f"[{change.fact.label}] {change.kind}: {change.reason}."

    def asked_to_forget(self, quote: str) -> None:
        """Raise `ToolError` unless the user's own words `quote` ask to forget something."""
        asked = f" {' '.join(words.raw_words(quote))} "
        spoken = any(
            asked in f" {' '.join(words.raw_words(candidates.own_words(one)))} "
            for one in self._session.said
        )
        if not asked.strip() or not spoken or not _FORGET.search(quote):
            raise ToolError(
                "Only the person may ask to forget, and the quote has to be their own words; they "
                "can type /forget."
            )
