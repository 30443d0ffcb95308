"""/memory, /forget, /why and /incognito: see, change and forget what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Phrase
from kogniterm.ui.commands.columns import first_word, write_table
from kogniterm.ui.commands.registry import ReplContext
from kogniterm.ui.locale import translate
from kogniterm.ui.questions.choice import Option

if TYPE_CHECKING:
    from kogniterm.memory import Memory
    from kogniterm.memory.forgetting.purge import Receipt
    from kogniterm.runtime.services.memory_service import MemoryService
    from kogniterm.runtime.use_cases.stored_data import FactChange

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

    async def agrees(question: Phrase, lines: Sequence[Phrase]) -> bool:
        from kogniterm.runtime.services.forget_service import FORGET, KEEP

        yes, no = Option("yes", translate(FORGET), "yes"), Option("no", translate(KEEP), "no")
        return (
            await context.choose(translate(question), [*map(translate, lines)], [yes, no]) == "yes"
        )

    receipt = await context.session.forgetting.command(words, agrees)
    if receipt is None:
        context.say(Phrase("Nothing was forgotten."))
    else:
        _tell(context, receipt)


def why(context: ReplContext, argument: str) -> None:
    """/why."""
    used = _service(context).context.why()
    if not used:
        context.say(Phrase("Nothing of memory went into the last answer."))
        return
    context.say(Phrase("Shown to the model with your last input:"))
    write_table(
        context,
        [(one.label, one.text, translate(one.why)) for one, _fact in used],
        ("accent", "", "muted"),
    )


def incognito(context: ReplContext, argument: str) -> None:
    """/incognito."""
    _service(context).context.mode = "off"
    context.say(
        Phrase(
            "From here on memory neither reads nor learns in this session. The session itself is "
            "still saved; kogniterm sessions delete {id} removes it.",
            {"id": context.session.id},
        )
    )


# --- /memory's actions ------------------------------------------------------------------------


def _list(context: ReplContext, memory: Memory, rest: str) -> None:
    from kogniterm.runtime.use_cases.stored_data import listed_facts
    from kogniterm.ui.commands.fact_text import certainty, state

    facts, now = listed_facts(memory), memory.clock.now()
    if not facts:
        context.say(Phrase("Nothing is remembered here yet."))
        return
    rows = [
        (one.label, f"{one.category}, {state(one, now)}", one.text, ", ".join(certainty(one, now)))
        for one in facts[-MOST:]
    ]
    write_table(context, rows, ("accent", "muted", "", "muted"))
    context.say(Phrase("/memory show ID tells where one comes from."))


def _search(context: ReplContext, memory: Memory, rest: str) -> None:
    hits = memory.search(_needed(rest), 10)
    if not hits:
        context.say(Phrase("Nothing remembered here answers that."))
        return
    rows = [(one.label, f"{one.score:.2f}", one.text, translate(one.why)) for one in hits]
    write_table(context, rows, ("accent", "muted", "", "muted"))


def _show(context: ReplContext, memory: Memory, rest: str) -> None:
    from kogniterm.ui.commands.fact_text import details

    fact = memory.get(_needed(rest))
    rows = details(fact, memory.repository.predecessors(fact.id), memory.clock.now())
    write_table(context, [(fact.label, ""), *rows], ("accent", ""))


def _add(context: ReplContext, memory: Memory, rest: str) -> None:
    from kogniterm.memory.update import Candidate
    from kogniterm.runtime.use_cases.stored_data import add_fact

    _check_writable(context)
    fact, change = add_fact(memory, Candidate(text=_needed(rest), project=memory.project))
    values = {"id": fact.label, "text": fact.text, "how": change.reason}
    context.say(Phrase("{id}: {text} ({how})", values))


def _edit(context: ReplContext, memory: Memory, rest: str) -> None:
    name, text = first_word(rest)
    _check_writable(context)
    _change("edit", context, memory, name, _needed(text))


def _change(
    change: FactChange, context: ReplContext, memory: Memory, name: str, text: str = ""
) -> None:
    from kogniterm.runtime.use_cases.stored_data import change_fact

    fact = change_fact(memory, _needed(name), change, text)
    context.say(Phrase("{id}: {text}", {"id": fact.label, "text": fact.text}))


ACTIONS: Mapping[str, Callable[[ReplContext, Memory, str], None]] = {
    "list": _list,
    "search": _search,
    "show": _show,
    "add": _add,
    "edit": _edit,
    "pin": partial(_change, "pin"),
    "unpin": partial(_change, "unpin"),
    "confirm": partial(_change, "confirm"),
    "undo": partial(_change, "undo"),
}


# --- pieces -----------------------------------------------------------------------------------


def _service(context: ReplContext) -> MemoryService:
    service = context.session.memory
    if service is None:
        raise UsageError("Memory is off in this session; --memory full turns it on.")
    return service


def _memory(context: ReplContext) -> Memory:
    return _service(context).context.memory


def _check_writable(context: ReplContext) -> None:
    if _service(context).context.mode != "full":
        raise UsageError("Nothing may be remembered in this session.")


def _needed(words: str) -> str:
    if not words:
        raise UsageError("Something is missing; /help memory shows how it is written.")
    return words


def _tell(context: ReplContext, receipt: Receipt) -> None:
    """Write the receipt: what went from where, the proof, and what is out of reach."""
    from kogniterm.runtime.services.forget_service import told

    for text, level in told(receipt):
        context.say(text, level)
    own = Phrase("what the arrow keys bring back on this prompt, until you leave")
    context.say(Phrase("Out of reach from here: {place}", {"place": own}))


def forget_choices(context: ReplContext) -> Iterable[str]:
    """Return the ids of the facts."""
    return [fact.label for fact in _memory(context).facts("active", "pending")]
