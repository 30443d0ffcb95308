"""/memory, /preferences, /forget, /why and /incognito: what is remembered, and its changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Phrase
from kogniterm.ui.commands.registry import Explained, first_word, local_time, table
from kogniterm.ui.display import follow_preferences
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.memory import Fact, Memory
    from kogniterm.memory.fact_records import Lesson, Preference
    from kogniterm.memory.project.project_profile import ProjectProfile
    from kogniterm.runtime.services.memory_service import MemoryService
    from kogniterm.runtime.use_cases.stored_data import FactChange


MOST = 40


async def show_memory(repl: Repl, argument: str) -> None:
    """Run /memory [ACTION] [ID|TEXT]."""
    word, rest = first_word(argument)
    action = ACTIONS.get(word or "list")
    if action is None:
        raise UsageError(
            "/memory takes: {names}. To delete something, use /forget.", names=", ".join(ACTIONS)
        )
    done = action(repl, memory_of(repl), rest)
    if done is not None:
        await done


async def forget(repl: Repl, argument: str) -> None:
    """Run /forget ID|TEXT|--all."""
    words = argument.strip()
    if not words:
        raise UsageError("Specify what to forget: an ID such as m7, text, or --all.")

    async def agrees(question: Phrase, lines: Sequence[Phrase]) -> bool:
        from kogniterm.runtime.services.forget_service import FORGET, KEEP

        yes, no = Option("yes", translate(FORGET), "yes"), Option("no", translate(KEEP), "no")
        return await repl.choose(translate(question), [*map(translate, lines)], [yes, no]) == "yes"

    receipt = await repl.session.forgetting.command(words, agrees)
    if receipt is None:
        repl.display.say(Phrase("Nothing was forgotten."))
        return
    from kogniterm.runtime.services.forget_service import told

    for text, level in told(receipt):
        repl.display.say(text, level)
    own = Phrase("the input history of this prompt, until you quit")
    repl.display.say(Phrase("Cannot be removed: {place}", {"place": own}))


def why(repl: Repl, argument: str) -> None:
    """Run /why."""
    used = _service(repl).context.why()
    if not used:
        repl.display.say(Phrase("The last answer used no memories."))
        return
    repl.display.say(Phrase("Memories shown to the model with your last input:"))
    rows = [(one.label, one.text, translate(one.why)) for one, _fact in used]
    repl.display.write(table(rows, ("accent", "", "muted")))


def incognito(repl: Repl, argument: str) -> None:
    """Run /incognito."""
    _service(repl).context.mode = "off"
    repl.display.say(
        Phrase(
            "Memory is off for the rest of this session. The session itself "
            "is still saved; kogniterm sessions delete {id} deletes it.",
            {"id": repl.session.id},
        )
    )


# --- /memory's actions ------------------------------------------------------------------------


def _list(repl: Repl, memory: Memory, rest: str) -> None:
    from kogniterm.runtime.use_cases.stored_data import listed_facts

    facts, now = listed_facts(memory), memory.clock.now()
    if not facts:
        repl.display.say(Phrase("Nothing is remembered here yet."))
        return
    rows = [
        (one.label, f"{one.category}, {state(one, now)}", one.text, ", ".join(certainty(one, now)))
        for one in facts[-MOST:]
    ]
    repl.display.write(table(rows, ("accent", "muted", "", "muted")))
    repl.display.say(Phrase("/memory show ID shows where a memory comes from."))


def _search(repl: Repl, memory: Memory, rest: str) -> None:
    hits = memory.search(_needed(rest, "search TEXT"), 10)
    if not hits:
        repl.display.say(Phrase("No matching memories."))
        return
    rows = [(one.label, f"{one.score:.2f}", one.text) for one in hits]
    repl.display.write(table(rows, ("accent", "muted", "")))


def _lessons(repl: Repl, memory: Memory, rest: str) -> None:
    lessons = memory.learnings.all()
    if not lessons:
        repl.display.say(Phrase("No lessons were learned here yet."))
        return
    rows = [(one.label, translate(one.told), one.evidence) for one in lessons[-MOST:]]
    repl.display.write(table(rows, ("accent", "", "muted")))
    repl.display.say(Phrase("/memory show ID shows where a lesson comes from."))


def _show(repl: Repl, memory: Memory, rest: str) -> None:
    from kogniterm.runtime.use_cases.stored_data import find_memory

    found = find_memory(memory, _needed(rest, "show ID"))
    rows = all_about(memory, found)
    repl.display.write(table([(found.label, ""), *rows], ("accent", "")))


def _add(repl: Repl, memory: Memory, rest: str) -> None:
    from kogniterm.memory.update import Candidate
    from kogniterm.runtime.use_cases.stored_data import add_fact

    check_writable(repl)
    fact, change = add_fact(
        memory, Candidate(text=_needed(rest, "add TEXT"), project=memory.project)
    )
    values = {"id": fact.label, "text": fact.text, "how": change.reason}
    repl.display.say(Phrase("{id}: {text} ({how})", values))


def _edit(repl: Repl, memory: Memory, rest: str) -> None:
    name, text = first_word(rest)
    check_writable(repl)
    from kogniterm.runtime.use_cases.stored_data import edit_memory

    found = edit_memory(memory, name, _needed(text, "edit ID TEXT"))
    repl.display.say(Phrase("{id}: {text}", {"id": found.label, "text": said(found)}))


def _change(change: FactChange, repl: Repl, memory: Memory, name: str) -> None:
    from kogniterm.runtime.use_cases.stored_data import change_fact

    fact = change_fact(memory, _needed(name, f"{change} ID"), change)
    repl.display.say(Phrase("{id}: {text}", {"id": fact.label, "text": fact.text}))


async def _project(repl: Repl, memory: Memory, rest: str) -> None:
    """Show the profile of the project, after a scan for `rescan`."""
    from kogniterm.memory.project.project_profile import ProjectProfile

    scanner = _service(repl).project
    if rest == "rescan":
        check_writable(repl)
        if not scanner.trusted():
            raise UsageError(
                "{folder} is not trusted; trust it with /trust.", folder=scanner.folder
            )
        await asyncio.to_thread(scanner.scan_now)
    elif rest:
        raise UsageError("Incomplete command. Use: {usage}", usage="/memory project [rescan]")
    await asyncio.to_thread(scanner.settled)
    profile = memory.projects.load() or ProjectProfile()
    _write_project(repl, profile)
    if not scanner.trusted():
        repl.display.say(
            Phrase(
                "{folder} is not trusted, so nothing was read there; trust it with /trust.",
                {"folder": scanner.folder},
            )
        )
    elif not profile.folder:
        repl.display.say(Phrase("The folder has not been scanned yet: /memory project rescan"))


def _write_project(repl: Repl, profile: ProjectProfile) -> None:
    from rich.table import Table
    from rich.text import Text

    from kogniterm.text.shorten import one_line

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, value in project_rows(profile):
        grid.add_row(Text(f" {name}", "accent"), Text(one_line(value, LONGEST_ROW)))
    repl.display.write(Text(project_title(profile), "heading"))
    if grid.row_count:
        repl.display.write(grid)


LONGEST_ROW = 400
"""Characters shown of a row of the project's profile."""


def project_title(profile: ProjectProfile) -> str:
    """Return a line about the scan of the project."""
    if not profile.folder:
        return _("Project")
    found = plural("{count} file", "{count} files", profile.files)
    title = _("Project, scanned on {when} ({files})")
    if profile.truncated:
        title = _("Project, scanned in part on {when} ({files})")
    return title.format(when=local_time(profile.scanned), files=found)


def project_rows(profile: ProjectProfile) -> list[tuple[str, str]]:
    """Return the rows of the profile that have a value, with their names."""
    from kogniterm.memory.project.project_profile import TITLES

    return [(name, value) for name in TITLES if (value := profile.line(name))]


def memory_choices(repl: Repl) -> Iterable[str]:
    """Return the actions of /memory."""
    return [*ACTIONS, "project rescan"]


ACTIONS: Mapping[str, Callable[[Repl, Memory, str], Awaitable[None] | None]] = {
    "list": _list,
    "lessons": _lessons,
    "search": _search,
    "show": _show,
    "add": _add,
    "edit": _edit,
    "pin": partial(_change, "pin"),
    "unpin": partial(_change, "unpin"),
    "confirm": partial(_change, "confirm"),
    "undo": partial(_change, "undo"),
    "project": _project,
}


# --- pieces -----------------------------------------------------------------------------------


def _service(repl: Repl) -> MemoryService:
    service = repl.session.memory
    if service is None:
        raise UsageError(
            "Memory is off in this session. To use it, start KogniTerm with --memory full."
        )
    return service


def memory_of(repl: Repl) -> Memory:
    """Return the memory of the session. Raises `UsageError` while it is off."""
    return _service(repl).context.memory


def check_writable(repl: Repl) -> None:
    """Raise `UsageError` where the session may not write to memory."""
    if _service(repl).context.mode != "full":
        raise UsageError(
            "Memories cannot be added or edited in this session; start one with --memory full."
        )


def _needed(words: str, use: str) -> str:
    """Return `words`. Raises `UsageError` naming the correct `use` when there are none."""
    if not words:
        raise UsageError("Incomplete command. Use: {usage}", usage=f"/memory {use}")
    return words


def forget_choices(repl: Repl) -> Iterable[str]:
    """Return the ids of the facts and lessons."""
    memory = memory_of(repl)
    facts = [one.label for one in memory.facts("active", "pending")]
    return [*facts, *(one.label for one in memory.learnings.all())]


def state(fact: Fact, now: float) -> str:
    """Return whether a fact is pending, replaced, pinned or expired, or where it comes from."""
    from kogniterm.memory.fact_records import is_dormant

    if fact.status != "active":
        return {"pending": _("pending"), "superseded": _("replaced")}[fact.status]
    if fact.pinned:
        return _("pinned")
    if is_dormant(fact, now):
        return _("expired")
    return sources()[fact.source]


def sources() -> Mapping[str, str]:
    """Return the words for where a memory comes from."""
    return {"explicit": _("explicit"), "inferred": _("inferred"), "imported": _("imported")}


def certainty(fact: Fact, now: float) -> tuple[str, str]:
    """Return the confidence that is left, and the days since the fact was confirmed."""
    from kogniterm.memory.fact_records import DAY, effective_confidence

    days = int(max(0.0, now - fact.last_confirmed) // DAY)
    return f"{effective_confidence(fact, now):.0%}", _("{days} d").format(days=days)


def said(found: Fact | Lesson) -> str:
    """Return the text of a fact, or what a lesson says."""
    from kogniterm.memory import Fact

    return found.text if isinstance(found, Fact) else translate(found.told)


def all_about(memory: Memory, found: Fact | Lesson) -> list[tuple[str, str]]:
    """Return everything about a fact or lesson as (name, value) rows."""
    from kogniterm.memory import Fact

    if isinstance(found, Fact):
        earlier = memory.repository.predecessors(found.id)
        return details(found, earlier, memory.clock.now())
    rows = [
        (_("lesson"), translate(found.told)),
        (_("task"), found.task),
        (_("failed"), found.failed if found.wording else ""),
        (_("worked"), found.shape if found.wording and found.failed else ""),
        (_("exit code"), "" if found.exit_code is None else str(found.exit_code)),
        (_("error"), found.note),
        (_("learned"), local_time(found.created)),
        (_("session"), found.session_id),
        (_("seen"), plural("{count} time", "{count} times", found.times)),
    ]
    return [row for row in rows if row[1]]


def details(fact: Fact, earlier: Sequence[Fact], now: float) -> list[tuple[str, str]]:
    """Return everything about one fact as (name, value) rows; `earlier` are those it replaced."""
    from kogniterm.memory.recall import because

    rows = [
        (_("text"), fact.text),
        (_("category"), fact.category + (f" ({fact.slot})" if fact.slot else "")),
        (_("state"), state(fact, now)),
        (_("scope"), fact.project or _("everywhere")),
        (_("reason"), translate(because(fact))),
        (_("session"), fact.origin.session_id),
        (_("confirmed"), local_time(fact.last_confirmed)),
        (_("confidence"), certainty(fact, now)[0]),
        (_("used"), plural("{count} time", "{count} times", fact.relevance_count)),
        (_("replaced by"), f"m{fact.superseded_by}" if fact.superseded_by else ""),
        *((_("replaces"), f"{one.label}  {one.text}") for one in earlier),
    ]
    return [row for row in rows if row[1]]


# --- /preferences ------------------------------------------------------------------------------

HERE = "--project"
"""Marks a preference of this project alone."""


def preferences(repl: Repl, argument: str) -> None:
    """Run /preferences [set NAME VALUE|remove NAME] [--project]."""
    words = argument.split()
    here = HERE in words
    action, rest = first_word(" ".join(word for word in words if word != HERE))
    memory = memory_of(repl)
    if not action:
        _list_preferences(repl, memory)
    elif action == "remove":
        _remove_preference(repl, memory, rest, here=here)
    else:
        # "/preferences language es" is what one types without having read the help.
        name, value = first_word(rest) if action == "set" else (action, rest)
        _set_preference(repl, memory, name, value, here=here)


def _list_preferences(repl: Repl, memory: Memory) -> None:
    from rich.table import Table
    from rich.text import Text

    from kogniterm.memory.preferences import KNOWN, value_text

    held = memory.preferences.all()
    if held:
        repl.display.write(Text(_("Your preferences"), "heading"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        for _column in range(3):
            grid.add_column()
        for name in sorted(held, key=[*KNOWN, *held].index):
            one = held[name]
            where, whence = place(one)
            value = Text(value_text(one.value), "good")
            grid.add_row(Text(f" {name}", "accent"), value, where, Text(whence, "muted"))
        repl.display.write(grid)
    rows = [(name, _meaning(name)) for name in KNOWN if name not in held]
    if rows:
        repl.display.write(Text(_("Not set"), "heading"))
        repl.display.write(Explained(rows, "command"))
    repl.display.say(
        Phrase("To change one: /preferences set NAME VALUE, or say “answer briefly from now on”.")
    )


def _meaning(name: str) -> str:
    """Return what a preference means, and its values."""
    from kogniterm.memory.preferences import KNOWN

    kind = KNOWN[name]
    if not kind.choices:
        example = _("for example {value}").format(value=kind.example)
        return f"{translate(kind.help)}: {example}"
    values = kind.values
    listed = " ".join(values[:MOST_VALUES]) + (" …" if len(values) > MOST_VALUES else "")
    return f"{translate(kind.help)}: {listed}"


MOST_VALUES = 6
"""Values that the list names; completion has all of them."""


def place(one: Preference) -> tuple[str, str]:
    """Return where a preference holds, and where it comes from."""
    where = _("this project") if one.project else _("everywhere")
    return where, f"{sources()[one.source]}, {local_time(one.updated)[:10]}"


def _set_preference(repl: Repl, memory: Memory, name: str, value: str, *, here: bool) -> None:
    from kogniterm.memory.preferences import KNOWN, known_name, value_text

    name = known_name(name)
    if not value:
        values = KNOWN[name].values
        raise UsageError(
            "Specify a value: /preferences set {name} {values}",
            name=name,
            values="|".join(values) if KNOWN[name].choices else values[0],
        )
    check_writable(repl)
    one = memory.preferences.set(name, value, scope="project" if here else "everywhere")
    follow_preferences(repl.session, repl.display)
    values_: Mapping[str, object] = {"name": name, "value": value_text(one.value)}
    repl.display.say(Phrase("Preference set: {name} = {value}", values_))
    over = memory.preferences.all()[name]
    if over.project and not one.project:
        told = {"value": value_text(over.value), "undo": f"/preferences remove {name} {HERE}"}
        repl.display.say(
            Phrase("In this project, {value} still applies. To change that: {undo}", told)
        )


def _remove_preference(repl: Repl, memory: Memory, name: str, *, here: bool) -> None:
    from kogniterm.memory.preferences import value_text
    from kogniterm.runtime.use_cases.stored_data import remove_preference

    name = remove_preference(memory, name, here=here)
    follow_preferences(repl.session, repl.display)
    left = memory.preferences.all().get(name)
    values: dict[str, object] = {"name": name}
    if left is None:
        repl.display.say(Phrase("Preference removed: {name}", values))
        return
    values["value"] = value_text(left.value)
    repl.display.say(Phrase("Preference removed: {name}. Everywhere, {value} applies.", values))


def preference_choices(repl: Repl) -> Iterable[str]:
    """Return what completes /preferences: first the names, then their values."""
    from kogniterm.memory.preferences import KNOWN

    held = dict.fromkeys(one.key for one in memory_of(repl).preferences.stored())
    names = [f"set {name} " for name in KNOWN]
    values = [
        f"set {name} {value}"
        for name, kind in KNOWN.items()
        for value in (kind.values if kind.choices else ())
    ]
    return ["set ", "remove ", *names, *values, *(f"remove {name}" for name in held)]
