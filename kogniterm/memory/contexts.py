"""The interfaces of memory for a session, for its tools, and for modules that only read.

`SessionContext` has everything, bound to one user and one project; the turn uses it at its begin
and its end. `ToolMemory` is called by the memory tools. `ModuleContext` is read-only, for the tools
and for what follows preferences: plain values, and no access to another user or project. All three
obey the mode of the session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from kogniterm.errors import ToolError, UsageError
from kogniterm.memory import fact_records, preference_statements, recall, statements
from kogniterm.memory.extract import LONGEST_WAIT, Extraction, Extractor, Pause
from kogniterm.memory.fact_records import Fact, Message, Mode, Preference, Recall
from kogniterm.memory.learnings import Learnings
from kogniterm.memory.recall import provenance
from kogniterm.memory.short_term import Mention, SessionNotes
from kogniterm.memory.statements import Rejection
from kogniterm.memory.user_memory import Memory
from kogniterm.protocols import Model
from kogniterm.text.language import raw_words
from kogniterm.text.matching import Matcher
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.memory.repeated_requests import RepeatedRequests

log = logging.getLogger(__name__)
_STORED = {
    "added": "[{label}] stored.",
    "confirmed": "[{label}] was already known.",
    "superseded": "[{label}] stored; it replaces [{old}].",
    "pending": "[{label}] stored; it is used once the user types /memory confirm {label}, "
    "or kogniterm memory confirm {label} in a shell.",
}
"""The result of remembering a fact, for the model."""


class ToolMemory:
    """The functions of one session's memory tools. Texts are English, for the model."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session

    def recall(self, question: str, limit: int) -> str:
        """Return facts that answer `question`, one a line with id and provenance."""
        hits = self._session.for_modules().facts(question, limit)
        lines = []
        for hit in hits:
            fact = self._session.memory.repository.get(hit.id)
            if fact is not None:
                text = " ".join(fact.text.split()).replace("<", "‹").replace(">", "›")
                lines.append(f'[{fact.label}] {fact.category}: "{text}" ({provenance(fact)})')
        return "\n".join(lines) or "Nothing is remembered about this."

    def remember(self, text: str, quote: str, category: str, everywhere: bool) -> str:
        """Remember `text`, which must rest on the user's own words `quote`."""
        if self._session.mode != "full":
            raise ToolError("Memory is off or read-only in this session; nothing was stored.")
        raw = {
            "text": text,
            "quote": quote,
            "category": category,
            "confidence": 0.9,
            "scope": "everywhere" if everywhere else "project",
        }
        project = self._session.memory.project
        checked = statements.check(raw, self._session.said, self._session.session_id, project)
        if isinstance(checked, Rejection):
            raise ToolError("Not stored: {reason}.", reason=str(checked.reason))
        try:
            change = self._session.memory.remember(checked.candidate, who="model")
        except UsageError as error:
            inner = error.text.values.get("reason", str(error).rstrip("."))
            raise ToolError("Not stored: {reason}.", reason=str(inner)) from error
        if change.fact is None:
            raise ToolError("Not stored: {reason}.", reason=str(change.reason))
        old = change.replaced.label if change.replaced is not None else ""
        return _STORED[change.kind].format(label=change.fact.label, old=old)

    def asked_to_forget(self, quote: str) -> None:
        """Raise `ToolError` unless the user's own words `quote` ask to forget something."""
        own = [statements.own_words(one.text) for one in self._session.said]
        spoken = raw_words(quote) and any(statements.holds_words(one, quote) for one in own)
        if not spoken or not statements.frame("forget").search(quote):
            raise ToolError(
                "Only the user can ask to forget; quote their own words, or tell them to type "
                "/forget."
            )


class ModuleContext:
    """Read access to memory for the program and its tools. Getters return values, not stores."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session

    def preferences(self) -> Mapping[str, object]:
        """Return the user's typed preferences as they hold in this project."""
        if self._session.mode == "off":
            return MappingProxyType({})
        held = self._session.memory.preferences.all()
        return MappingProxyType({key: one.value for key, one in held.items()})

    def facts(self, question: str, limit: int = 5) -> tuple[Recall, ...]:
        """Return facts that answer `question`, best first."""
        if self._session.mode == "off":
            return ()
        hits = self._session.memory.search(question, limit)
        return tuple(hit for hit in hits if fact_records.may_be_recalled(hit.text))


class SessionContext:
    """The memory of one session, in the mode that the user chose.

    `full` reads and writes; `session` reads, and writes nothing that outlives the session;
    `off` does neither. `/incognito` is `off` for one session, set when the context is made.
    """

    def __init__(
        self, memory: Memory, session_id: str, *, mode: Mode = "full", model: Model | None = None
    ) -> None:
        self.memory = memory
        self.session_id = session_id
        self.mode: Mode = mode
        self._extractor = Extractor(memory, model)
        self._last = recall.MemoryContext()
        self._shown: dict[str, str] = {}
        self.said: list[Message] = []
        """The user's input since this context was made: memory tools may rest on it alone."""

    def read_with(self, model: Model | None) -> None:
        """Let this model find facts in the conversation from now on; None for the rules alone."""
        self._extractor.model = model

    def prefer(self, said: str) -> list[tuple[Preference, Preference | None]]:
        """Set the preferences that the user's own words state; each with the one it replaces.

        What is set already in its scope is left out.
        """
        if self.mode != "full":
            return []
        held = self.memory.preferences
        changed = []
        for one in preference_statements.preferences_in(said):
            project = self.memory.project if one.scope == "project" else ""
            known = [old for old in held.stored() if (old.key, old.project) == (one.name, project)]
            if not known or known[0].value != one.value:
                new = held.set(one.name, one.value, scope=one.scope)
                changed.append((new, known[0] if known else None))
        return changed

    def preload(self) -> None:
        """Load what the first turn recalls with. Called on a thread."""
        if self.mode != "off":
            recall.preload(self.memory)

    def begin_turn(self, question: str, folder: str | None = "") -> recall.MemoryContext:
        """Recall facts for a turn that starts with `question`, where the text of others is hidden.

        `folder` is the workspace; None where it is not trusted.
        """
        self.said.append(Message(0, "person", question, self.memory.clock.now()))
        if self.mode == "off":
            self._last = recall.MemoryContext()
        else:
            self.memory.sessions.expire(self.memory.clock.now())
            self._last = recall.recall(
                self.memory,
                statements.reveal(question),
                self._shown,
                self.session_id,
                folder=folder,
            )
            self._shown.update(self._last.lines)
            for one in self._last.used:
                score = "-" if one.score is None else f"{one.score:.2f}"
                log.debug("recalled %s: %s, score=%s", one.label, one.why, score)
        return self._last

    def why_not_kept(self, said: str) -> Phrase | None:
        """Return why what `said` states to be remembered is refused, or None."""
        if self.mode != "full" or not statements.find_statements(statements.own_words(said)):
            return None
        return fact_records.why_not_kept(statements.reveal(said))

    def resumed(self, history: Iterable[str]) -> None:
        """Read from the texts of a resumed session's history which facts they show already."""
        self._shown = recall.shown_in(history)

    def history_was_shortened(self) -> None:
        """Show facts again when they matter: the model may not see the old ones any more."""
        self._shown.clear()

    def end_turn(self, answer: str, messages: Sequence[Message], since: int) -> Extraction | None:
        """Store by rule what the user stated in the turn after record `since`, and what it cited.

        No model is asked. None where memory is not written.
        """
        if self.mode != "full":
            return None
        self.memory.sessions.expire(self.memory.clock.now())
        recall.count_citations(self.memory, answer, self._last)
        read = [_without_preferences(one) for one in messages]
        return self._extractor.keep_stated(self.session_id, read, since)

    async def read(
        self, session_id: str, messages: Sequence[Message], *, pause: Pause | None = None
    ) -> Extraction | None:
        """Learn from finished turns with the model; None when nothing was due."""
        if self.mode != "full":
            return None
        read = [_without_preferences(one) for one in messages]
        return await self._extractor.after_turn(session_id, read, pause=pause)

    def unread(self) -> list[SessionNotes]:
        """Return the project's sessions with turns that this provider may read, newest first.

        What has waited for too long is passed over.
        """
        if self.mode != "full" or self._extractor.model is None:
            return []
        found = [one for one in self.memory.sessions.all() if one.ended > one.cursor]
        oldest = self.memory.clock.now() - LONGEST_WAIT
        for one in found:
            if one.last_used < oldest:
                self.pass_over(one, one.ended)
        provider = self._extractor.provider
        fresh = [one for one in found if one.last_used >= oldest and one.provider == provider]
        return sorted(fresh, key=lambda one: -one.last_used)

    def pass_over(self, notes: SessionNotes, seq: int) -> None:
        """Leave the messages of a session up to `seq` unread for good."""
        log.info("session %s was not read for facts up to record %d", notes.session_id, seq)
        self.memory.sessions.save(notes._replace(cursor=seq))

    def named(self, mentions: Iterable[Mention]) -> None:
        """Keep for an hour what was named in this session; nothing unless memory is written."""
        sessions, now = self.memory.sessions, self.memory.clock.now()
        if self.mode == "full":
            sessions.expire(now)
            sessions.mention(self.session_id, mentions, now)

    @property
    def learnings(self) -> Learnings | None:
        """The lessons; None when nothing may be written."""
        return self.memory.learnings if self.mode == "full" else None

    @property
    def requests(self) -> RepeatedRequests | None:
        """The counted requests; None when nothing may be written."""
        from kogniterm.memory.repeated_requests import RepeatedRequests

        memory = self.memory
        return RepeatedRequests(memory.sql, memory.project) if self.mode == "full" else None

    def why(self) -> list[tuple[recall.Used, Fact | None]]:
        """Return the memories of the last turn, each with its fact (None: a lesson, or gone)."""
        get = self.memory.repository.get
        return [
            (used, get(int(used.label[1:])) if used.label[0] == "m" else None)
            for used in self._last.used
        ]

    def forgot(self, terms: Sequence[str]) -> None:
        """Drop input of this session that holds one of the terms, and lines that were shown."""
        matcher = Matcher(terms)
        self.said = [one for one in self.said if not matcher.holds(one.text)]
        self._last = recall.MemoryContext()
        self._shown = {key: line for key, line in self._shown.items() if not matcher.holds(line)}

    @property
    def cursor(self) -> int:
        """The number of the last message that was read for facts."""
        return self.memory.sessions.load(self.session_id).cursor if self.mode == "full" else 0

    def for_tools(self) -> ToolMemory:
        """Return the functions of the memory tools."""
        return ToolMemory(self)

    def for_modules(self) -> ModuleContext:
        """Return the read-only interface."""
        return ModuleContext(self)


def _without_preferences(message: Message) -> Message:
    """Return a message without the sentences that set a preference: no fact repeats them."""
    if message.role != "person":
        return message
    return message._replace(text=preference_statements.without_preferences(message.text))
