"""Views on memory: of a session, of its tools, and of a module that only reads.

`SessionContext` is the session's own: everything, bound to one user and one project. `ToolMemory`
is what the memory tools call. `ModuleContext` is a read-only facade: three getters, plain values,
and no way to another user or project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kogniterm.errors import ToolError, UsageError
from kogniterm.memory import fact_records, recall
from kogniterm.memory.extraction import statements
from kogniterm.memory.extraction.extract import Extraction, Extractor
from kogniterm.memory.extraction.statements import Rejection
from kogniterm.memory.fact_records import Fact, Message, Mode, Recall
from kogniterm.memory.learnings import Learnings
from kogniterm.memory.project_profile import ProjectProfile
from kogniterm.memory.recall import because
from kogniterm.memory.user_memory import Memory
from kogniterm.protocols import Model
from kogniterm.text.language import raw_words
from kogniterm.text.matching import Matcher
from kogniterm.types import Phrase

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
        checked = statements.check(raw, self._session.said, self._session.session_id, project)
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
        asked = f" {' '.join(raw_words(quote))} "
        spoken = any(
            asked in f" {' '.join(raw_words(statements.own_words(one)))} "
            for one in self._session.said
        )
        if not asked.strip() or not spoken or not _FORGET.search(quote):
            raise ToolError(
                "Only the person may ask to forget, and the quote has to be their own words; they "
                "can type /forget."
            )


@dataclass(frozen=True, slots=True)
class ModuleContext:
    """What a prompt or a tool may ask of memory. Getters return values, never stores."""

    _session: SessionContext

    def preferences(self) -> Mapping[str, object]:
        """The person's typed preferences as they hold in this project."""
        if self._session.mode == "off":
            return MappingProxyType({})
        held = self._session.memory.preferences.all()
        return MappingProxyType({key: one.value for key, one in held.items()})

    def project(self) -> ProjectProfile | None:
        """What is known of the project folder, or None before its first scan."""
        return None if self._session.mode == "off" else self._session.memory.projects.load()

    def facts(self, question: str, limit: int = 5) -> tuple[Recall, ...]:
        """Facts that answer `question`, best first."""
        if self._session.mode == "off":
            return ()
        hits = self._session.memory.search(question, limit)
        return tuple(hit for hit in hits if fact_records.may_be_recalled(hit.text))


class SessionContext:
    """Memory as one session uses it, with the person's switch.

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
        """What the person typed since this context was made: what memory tools may rest on."""

    def begin_turn(self, question: str) -> recall.MemoryContext:
        """Recall for a turn that starts with `question`, the person's own words."""
        self.said.append(Message(0, "person", question, self.memory.clock.now()))
        if self.mode == "off":
            self._last = recall.MemoryContext()
        else:
            self._last = recall.recall(self.memory, question, self._shown)
            self._shown.update(self._last.lines)
        return self._last

    def why_not_kept(self, said: str) -> Phrase | None:
        """Why what `said` asks to remember will not be; None when it may be, or asks nothing."""
        message = Message(0, "person", said)
        if self.mode != "full" or statements.memory_request(statements.own_words(message)) is None:
            return None
        return fact_records.why_not_kept(said)

    def resumed(self, history: Iterable[str]) -> None:
        """Take over what the texts of a resumed session's history show of memory already."""
        self._shown = recall.shown_in(history)

    def history_was_shortened(self) -> None:
        """What was shown may be gone from the model's sight: show it again when it matters."""
        self._shown.clear()

    async def end_turn(
        self, answer: str, messages: Sequence[Message], *, ending: bool = False
    ) -> Extraction | None:
        """Learn from a finished turn, off the answer path; None when nothing was due."""
        if self.mode != "full":
            return None
        recall.count_citations(self.memory, answer, self._last)
        return await self._extractor.after_turn(self.session_id, messages, ending=ending)

    @property
    def learnings(self) -> Learnings | None:
        """Where lessons are kept; None when nothing may be written."""
        return self.memory.learnings if self.mode == "full" else None

    def why(self) -> list[tuple[recall.Used, Fact | None]]:
        """What went into the last turn, each with its fact as it is now (None: gone, a lesson)."""
        pairs: list[tuple[recall.Used, Fact | None]] = []
        for used in self._last.used:
            number = used.label[1:]
            fact = self.memory.repository.get(int(number)) if used.label[0] == "m" else None
            pairs.append((used, fact))
        return pairs

    def forgot(self, terms: Sequence[str]) -> None:
        """Drop what was said in this session that holds one of the terms, and what was shown."""
        matcher = Matcher(terms)
        self.said = [one for one in self.said if not matcher.holds(one.text)]
        self._last = recall.MemoryContext()
        self._shown = {key: line for key, line in self._shown.items() if not matcher.holds(line)}

    @property
    def cursor(self) -> int:
        """The number of the last message that was read for facts."""
        return self.memory.sessions.load(self.session_id).cursor if self.mode == "full" else 0

    def for_tools(self) -> ToolMemory:
        """What the memory tools call."""
        return ToolMemory(self)

    def for_modules(self) -> ModuleContext:
        """The read-only facade."""
        return ModuleContext(self)
