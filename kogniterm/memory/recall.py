"""Select the memories that a turn sees, and format them for the model.

The user's typed preferences always count. Of the project's profile the model gets what its task
needs: a task about tests gets the command to test. A few facts are all shown. When there are more:
pinned ones, constraints, requirements and preferences first, then the best of a search, then
lessons from similar tasks, each within its budget. Everything but the fixed lines of preferences is
quoted as data with ids the answer can cite; nothing of it is an instruction, and nothing in a fact
can close the block.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from kogniterm import prompts
from kogniterm.memory import fact_records, preferences, short_term
from kogniterm.memory.fact_records import CITED, Category, Fact, Lesson, quoted
from kogniterm.memory.memory_database import APPLY, APPLY_ORDER
from kogniterm.memory.project import TITLES, ProjectProfile, project_data
from kogniterm.memory.repository import active_facts, facts_by_id
from kogniterm.memory.short_term import Mention
from kogniterm.memory.user_memory import Memory
from kogniterm.text.language import raw_words
from kogniterm.types import Phrase

FEW = 40
STANDING_TOKENS = 800
SEARCH_TOKENS = 600
LESSON_TOKENS = 250
PROJECT_TOKENS = 200
PREFERENCE_TOKENS = 400
RECENT_TOKENS = 200
RECENT_NAMES = 5
"""Names of each kind from the last hour that a new session is told."""
QUESTION_CHARACTERS = 4_000
"""A long input has its question at the beginning or the end; the middle is pasted data."""
SEARCHED = 20
SHORTEST_LINE = 10
"""Tokens of the shortest line of a fact."""
CHARACTERS_PER_TOKEN = 4
STANDING: tuple[Category, ...] = ("constraint", "requirement", "preference")
"""Categories that always apply, in the order of their priority."""

HEADING, FOLLOW = "memory.heading", "memory.preferences"
_BLOCK = re.compile(r"^<memory>\n(.*?)^</memory>$", re.MULTILINE | re.DOTALL)
_EARLIER_HEADING = re.compile(r"Notes from earlier sessions[.,] ")
"""Begins the heading that is shipped, and those of earlier versions."""
_SHOWN = re.compile(
    r"^(?:\[([lm]\d{1,18})\]|((?:project|preference|recent) [^:\n]+):).*$", re.MULTILINE
)
_LABEL = re.compile(r"m\d{1,18}")


class Used(NamedTuple):
    """A fact or lesson that the model was shown, and why: the content of `/why`."""

    label: str
    text: str
    why: Phrase
    confidence: float
    score: float | None = None


class MemoryContext(NamedTuple):
    """The block for the prompt ("" when there is nothing new) and its content.

    `used` are the memories that the model can see, `lines` those that this block adds, by label.
    """

    text: str = ""
    used: tuple[Used, ...] = ()
    lines: Mapping[str, str] = MappingProxyType({})

    @property
    def tokens(self) -> int:
        """A rough size of the block, in tokens."""
        return tokens(self.text)


class _MemoryBlock:
    """Collects lines within budgets; lines that were `shown` before are not repeated."""

    def __init__(self, shown: Mapping[str, str]) -> None:
        self.shown = shown
        self.used: dict[str, Used] = {}
        self.lines: dict[str, str] = {}

    def take(
        self, candidates: Iterable[tuple[str, Used]], budget: int, *, until_full: bool = False
    ) -> None:
        """Add lines; with `until_full`, no more candidates are read than there may be room for."""
        for line, used in candidates:
            if until_full and budget < SHORTEST_LINE:
                return
            if used.label in self.used:
                continue
            if self.shown.get(used.label) == line:
                self.used[used.label] = used
                continue
            if tokens(line) > budget:
                # A long line must not exclude shorter ones.
                continue
            budget -= tokens(line)
            self.used[used.label] = used
            self.lines[used.label] = line


ALWAYS = ("languages", "frameworks")
"""Rows of the project's profile for every task."""


def recall(
    memory: Memory,
    question: str,
    shown: Mapping[str, str] | None = None,
    session_id: str = "",
    *,
    folder: str | None = "",
) -> MemoryContext:
    """Return the memories for a turn of `session_id` that starts with `question`.

    `shown` are the lines of earlier blocks that the model still sees, by label: they are not
    repeated unless they changed. Names of the last hour are shown when they come from another
    session of the project, and a question that refers back ("that server") is searched with them.
    What a scan found of the project counts only for `folder`; None is one that is not trusted.
    """
    if len(question) > QUESTION_CHARACTERS:
        half = QUESTION_CHARACTERS // 2
        question = f"{question[:half]} {question[-half:]}"
    now = memory.clock.now()
    named = memory.sessions.recent(now)
    wanted = question
    if short_term.refers_back(question):
        wanted = " ".join([question, *(one.name for one in named if one.kind != "request")])
    block = _MemoryBlock(shown or {})
    before = _shown_facts(memory, block.shown, now)
    block.take(_withdrawn(block.shown, before), STANDING_TOKENS)
    block.take(_project(memory, question, block.shown, folder), PROJECT_TOKENS)
    block.take(_preferences(memory, block.shown), PREFERENCE_TOKENS)
    few = list(itertools.islice(_awake(memory, now), FEW + 1))
    if len(few) <= FEW:
        block.take(_standing(sorted(few, key=_rank), now), STANDING_TOKENS + SEARCH_TOKENS)
    else:
        block.take(_standing(_always(memory, now), now), STANDING_TOKENS, until_full=True)
        always = (one for one in before.values() if one.pinned or one.category in STANDING)
        block.take(_standing(sorted(always, key=_rank), now), 0)
        block.take(_search_memory(memory, wanted), SEARCH_TOKENS)
    # What this session said and learned, its history has.
    others = [one for one in named if one.session_id != session_id and one.name not in question]
    block.take(_recent(others, block.shown), RECENT_TOKENS)
    lessons = memory.learnings.similar(question)
    of_others = (one for one in lessons if not session_id or one.session_id != session_id)
    block.take(map(_lesson, of_others), LESSON_TOKENS)
    heading = [prompts.text(HEADING)]
    if any(label.startswith(_PREFERENCE) for label in block.lines):
        heading.append(prompts.text(FOLLOW))
    lines = ["<memory>", *heading, *block.lines.values(), "</memory>"] if block.lines else ()
    text = "\n".join(lines)
    return MemoryContext(text, tuple(block.used.values()), block.lines)


def preload(memory: Memory) -> None:
    """Load what the first recall needs, and nothing where there is nothing to search.

    Called on a thread while the user still types.
    """
    memory.learnings.similar("any task")
    facts = list(itertools.islice(_awake(memory, memory.clock.now()), FEW + 1))
    if facts:
        fact_records.may_be_recalled(facts[0].text)
    if len(facts) > FEW:
        memory.search(facts[0].text, 1, relevant=True)


def shown_in(texts: Iterable[str]) -> dict[str, str]:
    """Return the lines of the blocks in a history's `texts`, by label, the newest of each."""
    heading = prompts.text(HEADING)
    return {
        line[1] or line[2]: line[0]
        for text in texts
        for block in _BLOCK.finditer(text)
        if block[1].startswith(heading) or _EARLIER_HEADING.match(block[1])
        for line in _SHOWN.finditer(block[1])
    }


def cited_facts(answer: str) -> list[int]:
    """Return the ids of the facts that an answer cites, each once."""
    return list(dict.fromkeys(int(number) for number in CITED.findall(answer)))


def count_citations(memory: Memory, answer: str, context: MemoryContext) -> list[int]:
    """Confirm the use of facts that the model was shown and `answer` cites; returns their ids.

    Only this and a confirmation by the user raise a fact's relevance: being retrieved does not.
    """
    shown = {one.label for one in context.used}
    counted = []
    for number in cited_facts(answer):
        fact = memory.repository.get(number) if f"m{number}" in shown else None
        if fact is not None and fact.status == "active":
            count, now = fact.relevance_count + 1, memory.clock.now()
            memory.repository.change(fact, "cite", now=now, who="model", relevance_count=count)
            counted.append(number)
    return counted


def because(fact: Fact) -> Phrase:
    """Return where a fact comes from, for the user: "you said … on …"."""
    values = {"quote": fact.origin.quote, "day": _day(fact)}
    if fact.origin.quote:
        return Phrase("you said “{quote}” on {day}", values)
    if fact.source == "explicit":
        return Phrase("you asked to remember it on {day}", values)
    if fact.source == "imported":
        return Phrase("imported; it dates from {day}", values)
    return Phrase("inferred from a conversation on {day}", values)


def provenance(fact: Fact) -> str:
    """Return where a fact comes from, for the model."""
    if fact.origin.quote:
        return f"the user said “{fact.origin.quote}” on {_day(fact)}"
    if fact.source == "explicit":
        return f"the user asked to remember it on {_day(fact)}"
    return str(because(fact))


def _day(fact: Fact) -> str:
    return _date(fact.created)


def _date(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).date().isoformat()


def tokens(text: str) -> int:
    """Return the approximate number of tokens of `text`."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _awake(memory: Memory, now: float) -> Iterator[Fact]:
    """Yield the active facts that have not faded, the newest first."""
    # Even a fact that was certain when it was last confirmed has faded by then.
    limits = {
        category: now - half_life * fact_records.DAY * math.log2(1 / fact_records.DORMANT_BELOW)
        for category, half_life in fact_records.HALF_LIVES.items()
        if half_life is not None
    }
    fresh = " ".join(f"WHEN '{category}' THEN ?" for category in limits)
    for fact in active_facts(
        memory.repository,
        f"(pinned = 1 OR last_confirmed >= CASE category {fresh} ELSE -1e30 END)",
        "id DESC",
        tuple(limits.values()),
    ):
        if not fact_records.is_dormant(fact, now):
            yield fact


def _always(memory: Memory, now: float) -> Iterator[Fact]:
    """Yield the facts that always apply, in the order of `_rank`."""
    for fact in active_facts(memory.repository, APPLY, APPLY_ORDER):
        if not fact_records.is_dormant(fact, now):
            yield fact


def _shown_facts(memory: Memory, shown: Mapping[str, str], now: float) -> dict[str, Fact]:
    """Return the facts of earlier blocks that still hold, by label."""
    numbers = (int(label[1:]) for label in shown if _LABEL.fullmatch(label))
    facts = facts_by_id(memory.repository, numbers).values()
    return {
        one.label: one
        for one in facts
        if one.status == "active" and not fact_records.is_dormant(one, now)
    }


def _withdrawn(shown: Mapping[str, str], holding: Mapping[str, Fact]) -> Iterable[tuple[str, Used]]:
    """Yield facts that the model was shown and that were replaced, faded or forgotten since."""
    for label in shown:
        if _LABEL.fullmatch(label) and label not in holding:
            line = f"[{label}] no longer holds"
            yield line, Used(label, line, Phrase("it was shown earlier and has changed"), 0.0)


_PROJECT, _PREFERENCE = "project ", "preference "
_GONE = "no longer holds"


def _project(
    memory: Memory, question: str, shown: Mapping[str, str], folder: str | None
) -> Iterable[tuple[str, Used]]:
    """Yield the rows of the profile that `question` is about, and those that changed."""
    profile = memory.projects.load() or ProjectProfile()
    for name, title in TITLES.items():
        label = f"{_PROJECT}{title}"
        if label not in shown and not _needs_row(name, question):
            continue
        value = profile.line(name) if profile.folder == folder else ""
        why = Phrase("it was found in the project folder")
        line = f"{label}: {quoted(value) if value else _GONE}"
        if value or shown.get(label, line) != line:
            yield line, Used(label, value or _GONE, why, 1.0)


_RECENT: Mapping[str, str] = {
    "file": "recent files",
    "server": "recent servers",
    "name": "recent names",
    "request": "recent requests",
}


def _recent(named: Sequence[Mention], shown: Mapping[str, str]) -> Iterable[tuple[str, Used]]:
    """Yield a line for each kind of name from other sessions of the last hour, told once."""
    for kind, label in _RECENT.items():
        names = [one.name for one in named if one.kind == kind]
        names = list(dict.fromkeys(names))[:RECENT_NAMES]
        if not names:
            continue
        line = shown.get(label, f"{label}: {', '.join(map(quoted, names))}")
        why = Phrase("it was named here in another session within the last hour")
        yield line, Used(label, line.partition(": ")[2], why, 1.0)


def _needs_row(name: str, question: str) -> bool:
    """Return whether a task asked with `question` needs the row `name` of the profile."""
    topics = project_data()["topics"].get(name, "")
    return name in ALWAYS or not frozenset(raw_words(topics)).isdisjoint(raw_words(question))


def _preferences(memory: Memory, shown: Mapping[str, str]) -> Iterable[tuple[str, Used]]:
    held = memory.preferences.all()
    for key, one in held.items():
        line = preferences.preference_text(one)
        if line is None:
            continue
        why = Phrase("it was inferred")
        if one.source == "explicit":
            why = Phrase("it is a preference you set")
        yield f"{_PREFERENCE}{key}: {line}", Used(f"{_PREFERENCE}{key}", line, why, 1.0)
    for label, before in shown.items():
        key, gone = label.removeprefix(_PREFERENCE), f"{label}: {_GONE}"
        if key != label and key not in held and before != gone:
            why = Phrase("it was shown earlier and has changed")
            yield gone, Used(label, _GONE, why, 0.0)


def _search_memory(memory: Memory, question: str) -> Iterable[tuple[str, Used]]:
    now = memory.clock.now()
    hits = memory.search(question, SEARCHED, relevant=True)
    facts = facts_by_id(memory.repository, (hit.id for hit in hits))
    for hit in hits:
        fact = facts.get(hit.id)
        if fact is None or fact.status != "active" or fact_records.is_dormant(fact, now):
            continue
        if fact_records.may_be_recalled(fact.text):
            yield (
                _line(fact, now),
                Used(fact.label, fact.text, hit.why, hit.confidence, hit.score),
            )


def _rank(fact: Fact) -> tuple[bool, int, float, int]:
    """Order pinned facts first, then by category, then the newest."""
    category = STANDING.index(fact.category) if fact.category in STANDING else len(STANDING)
    return (not fact.pinned, category, -fact.last_confirmed, -fact.id)


def _standing(facts: Iterable[Fact], now: float) -> Iterable[tuple[str, Used]]:
    for fact in facts:
        if not fact_records.may_be_recalled(fact.text):
            continue
        if fact.pinned:
            why = Phrase("it is pinned")
        elif fact.category in STANDING:
            why = Phrase("it always applies ({category})", {"category": fact.category})
        else:
            why = Phrase("there are few facts, so all are shown")
        confidence = fact_records.effective_confidence(fact, now)
        yield _line(fact, now), Used(fact.label, fact.text, why, confidence)


def _line(fact: Fact, now: float) -> str:
    day = _date(fact.last_confirmed)
    sure = "" if fact_records.effective_confidence(fact, now) >= 0.5 else ", unsure"
    return f"[{fact.label}] {fact.category}: {quoted(fact.text)} ({fact.source}, {day}{sure})"


def _lesson(lesson: Lesson) -> tuple[str, Used]:
    where = f", session {lesson.session_id}" if lesson.session_id else ""
    evidence = [quoted(lesson.evidence)] if lesson.evidence else []
    evidence.append(f"{_date(lesson.created)}{where}")
    said = f"earlier {quoted(lesson.task)}: {quoted(str(lesson.told))}"
    line = f"[{lesson.label}] {said} ({', '.join(evidence)})"
    return line, Used(lesson.label, str(lesson.told), lesson_source(lesson), 1.0)


def lesson_source(lesson: Lesson) -> Phrase:
    """Return where a lesson comes from, for the user."""
    values = {"day": _date(lesson.created), "session": lesson.session_id or "-"}
    if lesson.evidence:
        values["evidence"] = lesson.evidence
        return Phrase("from a similar task ({day}, session {session}): {evidence}", values)
    return Phrase("from a similar task ({day}, session {session})", values)
