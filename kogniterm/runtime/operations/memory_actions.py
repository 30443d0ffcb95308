"""Memory: what `kogniterm memory` and /memory both do, and how both show it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError
from kogniterm.runtime.operations.action import (
    Action,
    Argument,
    Report,
    Shown,
    iso,
    limit,
    local_time,
)
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.memory import Fact, Memory
    from kogniterm.memory.fact_records import Category, Lesson, Source
    from kogniterm.memory.forgetter import Receipt
    from kogniterm.memory.project import ProjectProfile, ProjectScanner

FactChange = Literal["pin", "confirm", "undo"]
CATEGORIES = (
    "preference", "requirement", "constraint", "feedback", "project", "learning", "fact",
)  # fmt: skip


class MemoryAccess(NamedTuple):
    """The memory that an action works on, and the scanner of its project."""

    memory: Memory
    scanner: ProjectScanner
    writable: bool


def require_writable(writable: bool) -> None:
    """Raise `UsageError` where memory may not be written."""
    if not writable:
        raise UsageError("Memories cannot be added or edited here; use --memory full.")


def list_facts(access: MemoryAccess, everything: bool = False) -> Report:
    """List the facts in use; with `everything`, those that faded or were replaced too."""
    from kogniterm.memory.fact_records import is_dormant

    memory, now = access.memory, access.memory.clock.now()
    kinds = ("active", "pending", "superseded") if everything else ("active", "pending")
    facts = [one for one in memory.facts(*kinds) if everything or not is_dormant(one, now)]
    return Report(
        [fact_as_json(one, now) for one in facts],
        rows=fact_rows(facts, now),
        notes=[] if facts else [Phrase("Nothing is remembered here yet.")],
    )


def search_facts(access: MemoryAccess, words: list[str], limit: int) -> Report:
    """List the facts that fit the words best."""
    memory, now = access.memory, access.memory.clock.now()
    hits = memory.search(" ".join(words), limit)
    return Report(
        [{**fact_as_json(memory.get(one.id), now), "score": one.score} for one in hits],
        rows=[(one.label, f"{one.score:.2f}", one.text) for one in hits],
        notes=[] if hits else [Phrase("No matching memories.")],
        status=EXIT_DONE if hits else EXIT_NOT_DONE,
    )


def list_lessons(access: MemoryAccess) -> Report:
    """List the lessons of commands and plans."""
    lessons = access.memory.learnings.all()
    return Report(
        [lesson_as_json(one) for one in lessons],
        rows=[(one.label, one.told, one.evidence) for one in lessons],
        notes=[] if lessons else [Phrase("No lessons were learned here yet.")],
    )


def show_memory(access: MemoryAccess, name: str) -> Report:
    """Show everything about a fact or a lesson."""
    from kogniterm.memory.fact_records import Lesson

    memory, now = access.memory, access.memory.clock.now()
    found = find_memory(memory, name)
    if isinstance(found, Lesson):
        return Report(lesson_as_json(found), [found.label], lesson_details(found))
    earlier = memory.repository.predecessors(found.id)
    data = {**fact_as_json(found, now), "replaced": [fact_as_json(one, now) for one in earlier]}
    rows = fact_details(found, now)
    rows += [(Phrase("replaces"), f"{one.label}  {one.text}") for one in earlier]
    return Report(data, [found.label], rows)


def add_fact(
    access: MemoryAccess, words: list[str], category: Category, slot: str | None, everywhere: bool
) -> Report:
    """Remember a fact. Raises `UsageError`."""
    from kogniterm.memory.fact_records import Candidate

    require_writable(access.writable)
    memory = access.memory
    project = "" if everywhere else memory.project
    change = memory.remember(Candidate(" ".join(words), category, slot, project=project))
    if change.fact is None:
        raise UsageError("This cannot be remembered: {reason}.", reason=change.reason)
    values = {"id": change.fact.label, "text": change.fact.text, "how": change.reason}
    data = {"change": change.kind, "fact": fact_as_json(change.fact, memory.clock.now())}
    return Report(data, [Phrase("{id}: {text} ({how})", values)])


def edit_memory(access: MemoryAccess, name: str, words: list[str]) -> Report:
    """Give a fact another text, or a lesson the user's wording. Raises `UsageError`."""
    from kogniterm.memory.fact_records import Lesson

    require_writable(access.writable)
    memory = access.memory
    found, text = find_memory(memory, name), " ".join(words)
    if isinstance(found, Lesson):
        edited = memory.learnings.edit(found, text)
        told = Phrase("{id}: {text}", {"id": edited.label, "text": edited.told})
        return Report(lesson_as_json(edited), [told])
    _require_current(found)
    return _report_change(memory, memory.updater.edit(found, text))


def change_fact(change: FactChange, access: MemoryAccess, name: str, off: bool = False) -> Report:
    """Change how a fact is kept. Raises `UsageError`."""
    require_writable(access.writable)
    memory = access.memory
    fact, updater = memory.get(name), memory.updater
    if change == "undo":
        return _report_change(memory, updater.undo(fact))
    _require_current(fact)
    if change == "confirm":
        return _report_change(memory, updater.confirm(fact))
    return _report_change(memory, updater.pin(fact, not off))


def _require_current(fact: Fact) -> None:
    """Raise `UsageError` for a replaced fact: beside its successor, a change would mislead."""
    if fact.status == "superseded":
        raise UsageError(
            "{id} was replaced by another fact. To restore it: kogniterm memory undo {id}",
            id=fact.label,
        )


def _report_change(memory: Memory, fact: Fact) -> Report:
    told = Phrase("{id}: {text}", {"id": fact.label, "text": fact.text})
    return Report(fact_as_json(fact, memory.clock.now()), [told])


def list_preferences(memory: Memory) -> Report:
    """List the preferences that are set, with where each holds and comes from."""
    from kogniterm.memory.preferences import KNOWN, value_text

    held = memory.preferences.stored()
    data = [
        {
            "name": one.key,
            "value": one.value,
            "project": one.project or None,
            "source": one.source,
            "updated": iso(one.updated),
        }
        for one in held
    ]
    rows = [
        (
            one.key,
            value_text(one.value),
            Phrase("this project") if one.project else Phrase("everywhere"),
            SOURCES[one.source],
            local_time(one.updated)[:10],
        )
        for one in held
    ]
    names = Phrase("Preferences: {names}", {"names": ", ".join(KNOWN)})
    return Report(data, rows=rows, notes=[] if held else [Phrase("No preferences are set."), names])


def set_preference(memory: Memory, name: str, value: str, *, here: bool, writable: bool) -> Report:
    """Set a preference, in this project alone or everywhere. Raises `UsageError`."""
    from kogniterm.memory.preferences import value_text

    require_writable(writable)
    one = memory.preferences.set(name, value, scope="project" if here else "everywhere")
    values = {"name": one.key, "value": value_text(one.value)}
    told = [Phrase("Preference set: {name} = {value}", values)]
    over = memory.preferences.all()[one.key]
    if over.project and not one.project:
        told.append(
            Phrase(
                "In this project, {value} still applies. To change that: "
                "/preferences remove {name} --project, or in a shell: "
                "kogniterm memory prefer {name} --remove --here",
                {"name": one.key, "value": value_text(over.value)},
            )
        )
    return Report(list_preferences(memory).data, told)


def remove_preference(memory: Memory, text: str, *, here: bool) -> Report:
    """Remove the preference that `text` names, in this project or wherever it holds here.

    One that an older version stored can be removed, too. Raises `UsageError`.
    """
    from kogniterm.memory.preferences import known_name, value_text

    held = {one.key for one in memory.preferences.stored()}
    written = "_".join(text.lower().split())
    name = next((one for one in (text, written) if one in held), None) or known_name(text)
    if not memory.preferences.remove(name, project=memory.project if here else None):
        raise UsageError("{name} is not set.", name=name)
    told = Phrase("Preference removed: {name}", {"name": name})
    if left := memory.preferences.all().get(name):
        values = {"name": name, "value": value_text(left.value)}
        told = Phrase("Preference removed: {name}. Everywhere, {value} applies.", values)
    return Report(list_preferences(memory).data, [told])


def report_forgetting(receipt: Receipt) -> Report:
    """Show what was deleted; the status is 1 if the words were still found somewhere."""
    from kogniterm.memory.forgetter import OWN
    from kogniterm.runtime.services.forget_service import describe_receipt

    data = {
        "facts": [f"m{one}" for one in receipt.facts],
        "removed": [{"place": str(part.place), "records": part.removed} for part in receipt.parts],
        "proved": receipt.proved,
        "scanned": {
            "files": receipt.scanned_files,
            "bytes": receipt.scanned_bytes,
            "columns": receipt.scanned_columns,
        },
        "found": [*map(str, receipt.found), *receipt.found_columns],
        "untouched": [{"file": str(one.path), "line": one.line} for one in receipt.untouched],
        "unreachable": [str(text) for text in receipt.unreachable],
    }
    count = len(receipt.facts)
    lines = [Phrase("Facts forgotten: {count}", {"count": count})]
    if not count and any(part.place in OWN and part.removed for part in receipt.parts):
        lines = []
    told = list(describe_receipt(receipt))
    return Report(
        data,
        [*lines, *(text for text, level in told if level != "warning")],
        notes=[text for text, level in told if level == "warning"],
        status=EXIT_DONE if receipt.proved else EXIT_NOT_DONE,
    )


def show_project(access: MemoryAccess, scan: str | None) -> Report:
    """Show the profile of the project, after a scan for `rescan`. Raises `UsageError`."""
    from kogniterm.memory.project import TITLES, ProjectProfile

    scanner, place = access.scanner, {"folder": access.scanner.folder}
    if scan is not None:
        require_writable(access.writable)
        if not scanner.trusted():
            raise UsageError("{folder} is not trusted; trust it with: kogniterm trust", **place)
        scanner.scan_now()
    scanner.settled()
    profile = access.memory.projects.load() or ProjectProfile()
    rows = [(name, value) for name in TITLES if (value := profile.line(name))]
    data = {
        "scanned": iso(profile.scanned) if profile.folder else None,
        "folder": profile.folder or None,
        "values": {name: list(profile.values(name)) for name, _value in rows},
    }
    notes = []
    if not scanner.trusted():
        notes.append(
            Phrase(
                "{folder} is not trusted, so nothing was read there; trust it with: "
                "kogniterm trust",
                place,
            )
        )
    elif not profile.folder:
        notes.append(Phrase("The folder has not been scanned yet: kogniterm memory project rescan"))
    return Report(data, [_project_title(profile)] if profile.folder else [], rows, notes)


def _project_title(profile: ProjectProfile) -> Phrase:
    values = {"when": local_time(profile.scanned), "count": profile.files}
    if profile.truncated:
        return Phrase("Project, scanned in part on {when}; files: {count}", values)
    return Phrase("Project, scanned on {when}; files: {count}", values)


_WORDS = Argument("words", "Words, or an ID", "WORD", nargs="+")
_NAME = Argument("name", "ID of a fact (m7) or lesson (l3)", "ID")
ACTIONS = (
    Action("list", "List what is remembered for this project", list_facts, (
        Argument("--all", "Include replaced and expired memories", field="everything"),),
        ("kogniterm memory list", "kogniterm memory list --all")),
    Action("search", "Search memories by words or meaning", search_facts, (_WORDS, limit(10)),
           ("kogniterm memory search deploy",)),
    Action("show", "Show a memory, its source and its confidence", show_memory, (_NAME,),
           ("kogniterm memory show m7", "kogniterm memory show l3")),
    Action("lessons", "List how commands and plans ended, and what worked instead", list_lessons,
           (), ("kogniterm memory lessons",)),
    Action("add", "Add a memory", add_fact, (
        Argument("words", "Text to remember", "TEXT", nargs="+"),
        Argument("--category", "Category: preference, requirement, constraint, feedback, project, "
                 "learning or fact", "CATEGORY", choices=CATEGORIES, default="fact"),
        Argument("--slot", "Replace the memory that has this slot name", "NAME"),
        Argument("--everywhere", "Remember it for all projects, not only this one")),
        ('kogniterm memory add "deploy on Tuesdays only"',
         'kogniterm memory add --slot editor "I use vim" --everywhere')),
    Action("edit", "Change the text of a memory; undo restores the old one", edit_memory, (
        _NAME, Argument("words", "New text", "TEXT", nargs="+")),
        ('kogniterm memory edit m7 "deploy on Thursdays only"',
         'kogniterm memory edit l3 "run the unit tests with tox"')),
    Action("confirm", "Confirm a memory; a pending one becomes active",
           partial(change_fact, "confirm"), (_NAME,), ("kogniterm memory confirm m7",)),
    Action("pin", "Keep a memory from expiring and use it in every task",
           partial(change_fact, "pin"), (_NAME, Argument("--off", "Remove the pin")),
           ("kogniterm memory pin m7", "kogniterm memory pin m7 --off")),
    Action("undo", "Restore a memory that was replaced", partial(change_fact, "undo"), (_NAME,),
           ("kogniterm memory undo m7",)),
    Action("project", "Show what is known about the project", show_project, (
        Argument("scan", "rescan, to scan the folder first", "rescan", nargs="?",
                 choices=("rescan",)),),
        ("kogniterm memory project", "kogniterm memory project rescan")),
)  # fmt: skip
"""The actions that the verb and the slash command share."""


# --- facts and lessons -----------------------------------------------------------------------


def find_memory(memory: Memory, name: str) -> Fact | Lesson:
    """Return the fact (m7) or lesson (l3) called `name`. Raises `UsageError` if there is none."""
    if name.strip("[] ").lower().startswith("l"):
        return memory.learnings.get(name)
    return memory.get(name)


def fact_rows(facts: list[Fact], now: float) -> list[tuple[Shown, ...]]:
    """Return a row for each fact: ID, category, state, confidence, age, text."""
    return [
        (one.label, one.category, state_of(one, now), *certainty(one, now), one.text)
        for one in facts
    ]


def state_of(fact: Fact, now: float) -> Phrase:
    """Return whether a fact is pending, replaced, pinned or expired, or where it comes from."""
    from kogniterm.memory.fact_records import is_dormant

    if fact.status != "active":
        return {"pending": Phrase("pending"), "superseded": Phrase("replaced")}[fact.status]
    if fact.pinned:
        return Phrase("pinned")
    return Phrase("expired") if is_dormant(fact, now) else SOURCES[fact.source]


SOURCES: Mapping[Source, Phrase] = {
    "explicit": Phrase("explicit"),
    "inferred": Phrase("inferred"),
    "imported": Phrase("imported"),
}
"""The words for where a memory comes from."""


def certainty(fact: Fact, now: float) -> tuple[Shown, Shown]:
    """Return the confidence that is left, and the days since the fact was confirmed."""
    from kogniterm.memory.fact_records import DAY, effective_confidence

    days = int(max(0.0, now - fact.last_confirmed) // DAY)
    return f"{effective_confidence(fact, now):.0%}", Phrase("{days} d", {"days": days})


def lesson_details(lesson: Lesson) -> list[tuple[Shown, Shown]]:
    """Return everything about a lesson as (name, value) rows."""
    rows: list[tuple[Shown, Shown]] = [
        (Phrase("lesson"), lesson.told),
        (Phrase("task"), lesson.task),
        (Phrase("failed"), lesson.failed if lesson.wording else ""),
        (Phrase("worked"), lesson.shape if lesson.wording and lesson.failed else ""),
        (Phrase("exit code"), "" if lesson.exit_code is None else str(lesson.exit_code)),
        (Phrase("error"), lesson.note),
        (Phrase("learned"), local_time(lesson.created)),
        (Phrase("session"), lesson.session_id),
        (Phrase("times seen"), str(lesson.times)),
    ]
    return [row for row in rows if row[1]]


def fact_details(fact: Fact, now: float) -> list[tuple[Shown, Shown]]:
    """Return everything about a fact as (name, value) rows."""
    from kogniterm.memory.recall import because

    rows: list[tuple[Shown, Shown]] = [
        (Phrase("text"), fact.text),
        (Phrase("category"), fact.category + (f" ({fact.slot})" if fact.slot else "")),
        (Phrase("state"), state_of(fact, now)),
        (Phrase("scope"), fact.project or Phrase("everywhere")),
        (Phrase("reason"), because(fact)),
        (Phrase("session"), fact.origin.session_id),
        (Phrase("confirmed"), local_time(fact.last_confirmed)),
        (Phrase("confidence"), certainty(fact, now)[0]),
        (Phrase("times used"), str(fact.relevance_count)),
        (Phrase("replaced by"), f"m{fact.superseded_by}" if fact.superseded_by else ""),
    ]
    return [row for row in rows if row[1]]


def fact_as_json(fact: Fact, now: float) -> dict[str, object]:
    """Return a fact as JSON; times in ISO 8601, UTC; `effective` is the decayed confidence."""
    from kogniterm.memory.fact_records import effective_confidence, is_dormant
    from kogniterm.memory.recall import because

    return {
        "id": fact.label,
        "text": fact.text,
        "category": fact.category,
        "slot": fact.slot,
        "project": fact.project or None,
        "status": "faded" if fact.status == "active" and is_dormant(fact, now) else fact.status,
        "source": fact.source,
        "pinned": fact.pinned,
        "confidence": fact.confidence,
        "effective": round(effective_confidence(fact, now), 4),
        "relevance": fact.relevance_count,
        "created": iso(fact.created),
        "confirmed": iso(fact.last_confirmed),
        "valid_to": iso(fact.valid_to),
        "superseded_by": f"m{fact.superseded_by}" if fact.superseded_by else None,
        "session": fact.origin.session_id or None,
        "because": str(because(fact)),
    }


def lesson_as_json(lesson: Lesson) -> dict[str, object]:
    """Return a lesson as JSON; the time in ISO 8601, UTC."""
    return {
        "id": lesson.label,
        "text": str(lesson.told),
        "task": lesson.task,
        "worked": lesson.shape if lesson.ok else None,
        "failed": (lesson.failed or None) if lesson.ok else lesson.shape,
        "fix": lesson.fix or None,
        "exit_code": lesson.exit_code,
        "error": lesson.note or None,
        "learned": iso(lesson.created),
        "times": lesson.times,
        "session": lesson.session_id or None,
    }
