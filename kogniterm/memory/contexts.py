"""Who gets to see what of memory.

`SessionContext` is the session's own: everything, bound to one user and one project.
`ExecutionContext` is what one turn works with. `ModuleContext` is the read-only facade for
prompts and tools: four getters, plain values, and no way to another user or project.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from kogniterm.matching import Matcher
from kogniterm.memory import candidates, recall, sensitive
from kogniterm.memory.extract import Extraction, Extractor
from kogniterm.memory.for_tools import ToolMemory
from kogniterm.memory.memory import Memory
from kogniterm.memory.profiles import ProjectProfile
from kogniterm.memory.records import Fact, Lesson, Message, Mode, Recall
from kogniterm.memory.shortterm import SessionNotes, window
from kogniterm.protocols import Model
from kogniterm.types import Text


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What a turn knows: the window of messages, the session's names, and what was recalled."""

    session_id: str
    window: tuple[Message, ...] = ()
    notes: SessionNotes = field(default_factory=lambda: SessionNotes(""))
    recalled: recall.MemoryContext = field(default_factory=recall.MemoryContext)


@dataclass(frozen=True, slots=True)
class ModuleContext:
    """What a prompt or a tool may ask of memory. Getters return values, never stores."""

    _session: SessionContext

    def short_term(self) -> Mapping[str, object]:
        """Entities, intents and variables of the session; empty after an idle hour."""
        notes = self._session.notes()
        return MappingProxyType(
            {
                "entities": notes.entities,
                "intents": notes.intents,
                "variables": MappingProxyType(dict(notes.variables)),
            }
        )

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
        return tuple(hit for hit in hits if sensitive.may_be_recalled(hit.text))


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
        self._volatile = SessionNotes(session_id, last_used=memory.clock.now())
        self._last = recall.MemoryContext()
        self._shown: dict[str, str] = {}
        self.said: list[Message] = []
        """What the person typed since this context was made: what memory tools may rest on."""

    def begin_turn(self, question: str, messages: Sequence[Message] = ()) -> ExecutionContext:
        """Recall for a turn that starts with `question`, the person's own words."""
        self.said.append(Message(0, "person", question, self.memory.clock.now()))
        if self.mode == "off":
            self._last = recall.MemoryContext()
        else:
            self._last = recall.recall(self.memory, question, self._shown)
            self._shown.update(self._last.lines)
        return ExecutionContext(self.session_id, tuple(window(messages)), self.notes(), self._last)

    def why_not_kept(self, said: str) -> Text | None:
        """Why what `said` asks to remember will not be; None when it may be, or asks nothing."""
        message = Message(0, "person", said)
        if self.mode != "full" or candidates.explicit_wish(candidates.own_words(message)) is None:
            return None
        return sensitive.why_not_kept(said)

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

    def record_outcome(
        self,
        task: str,
        command: str,
        *,
        ok: bool,
        exit_code: int | None = None,
        seconds: float = 0.0,
        note: str = "",
    ) -> None:
        """Keep how a command ended, good or bad, unless nothing may be written."""
        if self.mode == "full":
            self.memory.learnings.record(
                task,
                command,
                ok=ok,
                exit_code=exit_code,
                seconds=seconds,
                note=note,
                session_id=self.session_id,
            )

    def record_plan(self, task: str, steps: str, *, ok: bool, note: str = "") -> None:
        """Keep how a plan ended, good or bad, unless nothing may be written."""
        if self.mode == "full":
            self.memory.learnings.record_plan(
                task, steps, ok=ok, note=note, session_id=self.session_id
            )

    def last_recalled(self) -> recall.MemoryContext:
        """What of memory went into the last turn: what `/why` shows."""
        return self._last

    def why(self) -> list[tuple[recall.Used, Fact | None]]:
        """What went into the last turn, each with its fact as it is now (None: gone, a lesson)."""
        pairs: list[tuple[recall.Used, Fact | None]] = []
        for used in self._last.used:
            number = used.label[1:]
            fact = self.memory.repository.get(int(number)) if used.label[0] == "m" else None
            pairs.append((used, fact))
        return pairs

    def lessons(self, task: str) -> list[Lesson]:
        """Lessons from tasks like `task`."""
        return [] if self.mode == "off" else self.memory.learnings.similar(task)

    def forgot(self, terms: Sequence[str]) -> None:
        """Drop what was said in this session that holds one of the terms, and what was shown."""
        matcher = Matcher(terms)
        self.said = [one for one in self.said if not matcher.holds(one.text)]
        self._last = recall.MemoryContext()
        self._shown = {key: line for key, line in self._shown.items() if not matcher.holds(line)}

    def set_variable(self, name: str, value: str) -> None:
        """Keep a session variable until the session has been idle for an hour."""
        notes = self.notes()
        value = self.memory.redact(value)
        self._keep(
            replace(
                notes,
                variables={**notes.variables, name: value},
                last_used=self.memory.clock.now(),
            )
        )

    def notes(self) -> SessionNotes:
        """The short term as it is now: emptied after an idle hour."""
        stored = (
            self.memory.sessions.load(self.session_id) if self.mode == "full" else self._volatile
        )
        return stored.fresh(self.memory.clock.now())

    def for_tools(self) -> ToolMemory:
        """What the memory tools call."""
        return ToolMemory(self)

    def for_modules(self) -> ModuleContext:
        """The read-only facade."""
        return ModuleContext(self)

    def _keep(self, notes: SessionNotes) -> None:
        if self.mode == "full":
            self.memory.sessions.save(notes)
        else:
            self._volatile = notes
