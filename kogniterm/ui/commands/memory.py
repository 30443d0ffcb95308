"""/memory, /preferences, /forget, /why and /incognito: what is remembered, and its changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.runtime.operations.memory_actions import (
    ACTIONS,
    MemoryAccess,
    list_preferences,
    remove_preference,
    report_forgetting,
    set_preference,
)
from kogniterm.types import Phrase
from kogniterm.ui.commands.command_helpers import (
    Explained,
    first_word,
    read_action,
    table,
    write_report,
)
from kogniterm.ui.display import follow_preferences
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.memory import Memory
    from kogniterm.runtime.services.memory_service import MemoryService


MOST = 40


async def use_memory(repl: Repl, argument: str) -> None:
    """Run /memory [ACTION] [ID|TEXT]."""
    service = _service(repl)
    writable = service.context.mode == "full"
    access = MemoryAccess(service.context.memory, service.project, writable=writable)
    action, arguments = read_action("memory", ACTIONS, argument or "list")
    report = await asyncio.to_thread(action.run, access, **arguments)
    hint = _HINTS.get(action.name)
    if action.name == "list":
        report = report._replace(rows=report.rows[-MOST:])
    write_report(repl, report)
    if report.rows and hint is not None:
        repl.display.say(hint)


_HINTS = {
    "list": Phrase("/memory show ID shows where a memory comes from."),
    "lessons": Phrase("/memory show ID shows where a lesson comes from."),
}


async def forget(repl: Repl, argument: str) -> None:
    """Run /forget ID|TEXT|--here|--all."""
    words = argument.strip()
    if not words:
        raise UsageError("Specify what to forget: an ID such as m7, text, --here or --all.")
    everything, here = words == "--all", words == "--here"

    async def agrees(question: Phrase, lines: Sequence[Phrase]) -> bool:
        from kogniterm.runtime.services.forget_service import FORGET, KEEP

        yes, no = Option("yes", translate(FORGET), "yes"), Option("no", translate(KEEP), "no")
        return await repl.choose(translate(question), [*map(translate, lines)], [yes, no]) == "yes"

    named = "" if everything or here else words
    receipt = await repl.session.forgetting.command(agrees, named, everything=everything, here=here)
    if receipt is None:
        repl.display.say(Phrase("Nothing was forgotten."))
        return
    write_report(repl, report_forgetting(receipt), level="warning")
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


def forget_choices(repl: Repl) -> Iterable[str]:
    """Return the ids of the facts and lessons."""
    memory = memory_of(repl)
    facts = [one.label for one in memory.facts("active", "pending")]
    return [*facts, *(one.label for one in memory.learnings.all())]


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
        write_report(repl, remove_preference(memory, rest, here=here))
    else:
        # "/preferences language es" is what one types without having read the help.
        name, value = first_word(rest) if action == "set" else (action, rest)
        _require_value(name, value, here=here)
        writable = _service(repl).context.mode == "full"
        write_report(repl, set_preference(memory, name, value, here=here, writable=writable))
    follow_preferences(repl.session, repl.display)


def _list_preferences(repl: Repl, memory: Memory) -> None:
    from rich.text import Text

    from kogniterm.memory.preferences import KNOWN

    report = list_preferences(memory)
    if report.rows:
        repl.display.write(Text(_("Your preferences"), "heading"))
        write_report(repl, report)
    held = {name for name, *_rest in report.rows}
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


def _require_value(name: str, value: str, *, here: bool) -> None:
    """Raise `UsageError` that names the values where none was given."""
    from kogniterm.memory.preferences import KNOWN, OWN, known_name

    if not value:
        name = known_name(name, own=here)
        kind = KNOWN.get(name, OWN)
        values = kind.values
        raise UsageError(
            "Specify a value: /preferences set {name} {values}",
            name=name,
            values="|".join(values) if kind.choices else values[0],
        )


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
