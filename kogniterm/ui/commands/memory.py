"""/memory, /forget, /why and /incognito: what is remembered, open to the person it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Text
from kogniterm.ui.choice import Option
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.commands.shown import first_word, local_time, write_table
from kogniterm.ui.context import ReplContext
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from kogniterm.memory import Fact, Memory
    from kogniterm.memory.forget import Receipt
    from kogniterm.runtime.memory_desk import MemoryDesk

MOST = 40


def show_memory(context: ReplContext, argument: str) -> None:
    """/memory [ACTION] [WORDS]."""
    word, rest = first_word(argument)
    action = ACTIONS.get(word or "list")
    if action is None:
        raise UsageError(
            "/memory can: {names}. To remove something: /forget.", names=", ".join(ACTIONS)
        )
    action(context, _memory(context), rest)


async def forget(context: ReplContext, argument: str) -> None:
    """/forget ID|WORDS|--all."""
    words = argument.strip()
    if not words:
        raise UsageError("Say what to forget: an id such as m7, words, or --all.")

    async def agrees(question: Text, lines: Sequence[Text]) -> bool:
        from kogniterm.runtime.forget_desk import FORGET, KEEP

        yes, no = Option("yes", translate(FORGET), "yes"), Option("no", translate(KEEP), "no")
        return (
            await context.choose(translate(question), [*map(translate, lines)], [yes, no]) == "yes"
        )

    receipt = await context.session.forgetting.command(words, agrees)
    if receipt is None:
        context.say(Text("Nothing was forgotten."))
    else:
        _tell(context, receipt)


def why(context: ReplContext, argument: str) -> None:
    """/why."""
    used = _desk(context).context.why()
    if not used:
        context.say(Text("Nothing of memory went into the last answer."))
        return
    context.say(Text("Shown to the model with your last input:"))
    write_table(
        context,
        [(one.label, one.text, translate(one.why)) for one, _fact in used],
        ("accent", "", "muted"),
    )


def incognito(context: ReplContext, argument: str) -> None:
    """/incognito."""
    desk = _desk(context)
    desk.context.mode = "off"
    context.say(
        Text(
            "From here on memory neither reads nor learns in this session. The session itself is "
            "still saved; kogniterm sessions delete {id} removes it.",
            {"id": context.session.id},
        )
    )


# --- /memory's actions ------------------------------------------------------------------------


def _list(context: ReplContext, memory: Memory, rest: str) -> None:
    from kogniterm.memory.decay import is_dormant

    now = memory.clock.now()
    facts = [one for one in memory.facts("active", "pending") if not is_dormant(one, now)]
    if not facts:
        context.say(Text("Nothing is remembered here yet."))
        return
    write_table(
        context, [_row(one, now) for one in facts[-MOST:]], ("accent", "muted", "", "muted")
    )
    context.say(Text("/memory show ID tells where one comes from."))


def _search(context: ReplContext, memory: Memory, rest: str) -> None:
    hits = memory.search(_needed(rest), 10)
    if not hits:
        context.say(Text("Nothing remembered here answers that."))
        return
    rows = [(one.label, f"{one.score:.2f}", one.text, translate(one.why)) for one in hits]
    write_table(context, rows, ("accent", "muted", "", "muted"))


def _show(context: ReplContext, memory: Memory, rest: str) -> None:
    from kogniterm.memory.decay import effective_confidence
    from kogniterm.memory.recall import because

    fact = memory.get(_needed(rest))
    now = memory.clock.now()
    rows = [
        (_("text"), fact.text),
        (_("category"), fact.category),
        (_("state"), _state(fact)),
        (_("holds"), fact.project or _("everywhere")),
        (_("known"), translate(because(fact))),
        (_("session"), fact.origin.session_id),
        (_("confirmed"), local_time(fact.last_confirmed)),
        (_("confidence"), f"{effective_confidence(fact, now):.0%}"),
        (_("used"), plural("{count} time", "{count} times", fact.relevance_count)),
    ]
    rows += [(_("replaces"), one.text) for one in memory.repository.predecessors(fact.id)]
    write_table(context, [(fact.label, ""), *(row for row in rows if row[1])], ("accent", ""))


def _add(context: ReplContext, memory: Memory, rest: str) -> None:
    from kogniterm.memory.update import Candidate

    _writable(context)
    change = memory.remember(Candidate(text=_needed(rest), project=memory.project))
    if change.fact is None:
        raise UsageError("This cannot be remembered: {reason}.", reason=change.reason)
    values = {"id": change.fact.label, "text": change.fact.text, "how": change.reason}
    context.say(Text("{id}: {text} ({how})", values))


def _edit(context: ReplContext, memory: Memory, rest: str) -> None:
    name, text = first_word(rest)
    _writable(context)
    _tell_fact(context, memory.updater.edit(memory.get(_needed(name)), _needed(text)))


def _pin(context: ReplContext, memory: Memory, rest: str) -> None:
    _tell_fact(context, memory.updater.pin(memory.get(_needed(rest)), True))


def _unpin(context: ReplContext, memory: Memory, rest: str) -> None:
    _tell_fact(context, memory.updater.pin(memory.get(_needed(rest)), False))


def _confirm(context: ReplContext, memory: Memory, rest: str) -> None:
    _tell_fact(context, memory.updater.confirm(memory.get(_needed(rest))))


def _undo(context: ReplContext, memory: Memory, rest: str) -> None:
    _tell_fact(context, memory.updater.undo(memory.get(_needed(rest))))


ACTIONS: Mapping[str, Callable[[ReplContext, Memory, str], None]] = {
    "list": _list,
    "search": _search,
    "show": _show,
    "add": _add,
    "edit": _edit,
    "pin": _pin,
    "unpin": _unpin,
    "confirm": _confirm,
    "undo": _undo,
}


# --- pieces -----------------------------------------------------------------------------------


def _desk(context: ReplContext) -> MemoryDesk:
    desk = context.session.memory
    if desk is None:
        raise UsageError("Memory is off in this session; --memory full turns it on.")
    return desk


def _memory(context: ReplContext) -> Memory:
    return _desk(context).context.memory


def _writable(context: ReplContext) -> None:
    if _desk(context).context.mode != "full":
        raise UsageError("Nothing may be remembered in this session.")


def _needed(words: str) -> str:
    if not words:
        raise UsageError("Something is missing; /help memory shows how it is written.")
    return words


def _row(fact: Fact, now: float) -> tuple[str, str, str, str]:
    from kogniterm.memory.decay import DAY, effective_confidence

    age = _("{days} d").format(days=int(max(0.0, now - fact.last_confirmed) // DAY))
    sure = f"{effective_confidence(fact, now):.0%}"
    return (fact.label, f"{fact.category}, {_state(fact)}", fact.text, f"{sure}, {age}")


def _state(fact: Fact) -> str:
    words = {
        "pending": _("pending"),
        "superseded": _("superseded"),
        "explicit": _("explicit"),
        "inferred": _("inferred"),
        "imported": _("imported"),
    }
    if fact.status != "active":
        return words[fact.status]
    return _("pinned") if fact.pinned else words[fact.source]


def _tell_fact(context: ReplContext, fact: Fact) -> None:
    context.say(Text("{id}: {text}", {"id": fact.label, "text": fact.text}))


def _tell(context: ReplContext, receipt: Receipt) -> None:
    """The receipt: what went from where, the proof, and what is out of reach."""
    from kogniterm.runtime.forget_desk import told

    for text, level in told(receipt):
        context.say(text, level)
    own = Text("what the arrow keys bring back on this prompt, until you leave")
    context.say(Text("Out of reach from here: {place}", {"place": own}))


def _facts(context: ReplContext) -> Iterable[str]:
    return [fact.label for fact in _memory(context).facts("active", "pending")]


MEMORY = (
    Command(
        "memory",
        Text("list, search, show, add, edit, pin, confirm or undo what is remembered"),
        show_memory,
        "[ACTION] [WORDS]",
        choices=lambda context: ACTIONS,
    ),
    Command(
        "forget",
        Text("remove something for good from everything that is kept"),
        forget,
        "ID|WORDS|--all",
        choices=_facts,
        while_running=False,
    ),
    Command("why", Text("show what of memory went into the last answer"), why),
    Command("incognito", Text("neither recall nor learn for the rest of the session"), incognito),
)
