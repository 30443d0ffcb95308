"""/hooks: the hooks there are, by event, and what each answered last.

Also the words of `kogniterm hooks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase
from kogniterm.ui.commands.command_helpers import first_word, table
from kogniterm.ui.locale import _, translate
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.runtime.extensions.hooks.hook_files import Hook
    from kogniterm.runtime.extensions.hooks.hook_runs import HookAnswer
    from kogniterm.runtime.extensions.hooks.hook_service import PastRun

COMMAND_WIDTH = 28


def hooks(repl: Repl, argument: str) -> None:
    """Run /hooks [off EVENT|all]."""
    word, name = first_word(argument)
    service = repl.session.extensions.hook_service
    if word == "off":
        if not name:
            raise UsageError("Specify which of your hooks to switch off: an event, or all.")
        events = ", ".join(service.switch_off(name))
        values: dict[str, object] = {"events": events}
        repl.display.say(Phrase("Your hooks of {events} are off for this session.", values))
        return
    if word:
        raise UsageError("/hooks takes: off EVENT, or off all.")
    _list(repl)


def _list(repl: Repl) -> None:
    from rich.text import Text

    from kogniterm.runtime.extensions.hooks.hook_service import past_runs

    service = repl.session.extensions.hook_service
    if not service.enabled:
        repl.display.say(Phrase("Hooks are switched off in this session."))
        return
    ran = past_runs(repl.session.journal.records())
    found = (*service.own.hooks, *service.project.hooks)
    for event, of_event in by_event(found):
        rows = []
        for hook in of_event:
            off = hook.own and hook.event in service.off
            last = _("off") if off else last_result(hook, ran)
            rows.append((*hook_cells(hook), last))
        repl.display.write(Text(event, "accent"))
        repl.display.write(table(rows, ("muted", "", "muted", "muted")))
    if not found:
        file = repl.session.archive.paths.extensions.hooks
        repl.display.say(
            Phrase("No hooks. Yours are in {file}; see docs/hooks.md.", {"file": file})
        )


def no_hooks(file: Path) -> Phrase:
    """Return that there are none, and where they would be."""
    return Phrase("No hooks. Yours are in {file}; see docs/hooks.md.", {"file": file})


def choices(repl: Repl) -> Sequence[str]:
    """Return the words that may follow."""
    service = repl.session.extensions.hook_service
    events = dict.fromkeys(one.event for one in service.own.hooks if one.event not in service.off)
    return [f"off {event}" for event in (*events, "all")] if events else []


def by_event(found: Iterable[Hook]) -> Iterator[tuple[str, list[Hook]]]:
    """Yield each event that has hooks, in the usual order, with them."""
    from kogniterm.runtime.extensions.hooks.hook_files import EVENTS

    known = list(found)
    for event in EVENTS:
        of_event = [hook for hook in known if hook.event == event]
        if of_event:
            yield event, of_event


def hook_cells(hook: Hook) -> tuple[str, str, str]:
    """Return a hook's matcher, command and file, as columns."""
    outside = "" if hook.sandboxed else f" ({_('no sandbox')})"
    return (
        f"  {hook.matcher or '*'}",
        one_line(hook.command, COMMAND_WIDTH),
        f"{hook.source}{outside}",
    )


def last_result(hook: Hook, ran: Iterable[PastRun]) -> str:
    """Return what a hook answered last, and how long it took; "" where it has not run."""
    last = None
    for one in ran:
        if (one.event, one.command, one.source) == (hook.event, hook.command, hook.source):
            last = one
    return f"{result_word(last.result)}, {last.seconds:.2f} s" if last is not None else ""


def result_word(result: str) -> str:
    """Return a hook's answer in the user's language."""
    return {
        "done": _("done"),
        "allow": _("allowed"),
        "ask": _("asked"),
        "deny": _("refused"),
        "failed": _("failed"),
        "stop": _("stopped the turn"),
    }.get(result, result)


def answer_lines(answer: HookAnswer) -> Iterator[str]:
    """Yield what a hook answered, line by line."""
    yield f"{result_word(answer.result)}, {answer.seconds:.2f} s: {answer.hook.name}"
    if answer.failure is not None:
        yield f"  {translate(answer.failure)}"
    parts = (answer.reason, answer.stop or "", answer.message, answer.context)
    for text in parts:
        for line in text.splitlines():
            yield f"  {line}"
    for name, value in answer.updated.items():
        yield f"  {name} = {one_line(str(value))}"
