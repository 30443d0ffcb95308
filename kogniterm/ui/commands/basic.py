"""The commands every session has: help, model, mode, plan, new, quit, and the screen's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, get_args

from kogniterm.errors import UsageError
from kogniterm.types import ApprovalMode, Text
from kogniterm.ui.commands.budget import BUDGET
from kogniterm.ui.commands.changes import CHANGES
from kogniterm.ui.commands.copies import COPIES
from kogniterm.ui.commands.jobs import JOBS
from kogniterm.ui.commands.memory import MEMORY
from kogniterm.ui.commands.plan import PLAN
from kogniterm.ui.commands.policy import POLICY
from kogniterm.ui.commands.project import PROJECT
from kogniterm.ui.commands.registry import Command, Registry
from kogniterm.ui.commands.sessions import SESSIONS
from kogniterm.ui.context import ReplContext
from kogniterm.ui.keys import Where
from kogniterm.ui.keys import table as key_table
from kogniterm.ui.locale import LANGUAGES, _, translate
from kogniterm.ui.preferences import KEYS, THEMES

_Word = TypeVar("_Word", bound=str)

ARGUMENTS_SHOWN = 24
MODES: Sequence[ApprovalMode] = get_args(ApprovalMode)


def show_help(context: ReplContext, argument: str) -> None:
    """/help [NAME]."""
    from rich.text import Text as RichText

    from kogniterm.ui.explained import Explained

    if argument:
        command = context.registry.find(argument.removeprefix("/"))
        line = RichText(f"/{command.name} {command.arguments}".rstrip(), "command")
        line.append(f"  {translate(command.help)}", "muted")
        context.write(line)
        return
    rows = [
        (f"/{command.name} {_shortened(command.arguments)}".rstrip(), translate(command.help))
        for command in context.registry.commands
    ]
    rows += [
        ("!" + _("COMMAND"), _("run a command of your own; the model sees it")),
        ("@" + _("FILE"), _("name a file, with completion; the model gets its text")),
        ("@jobs", _("give the model what the background jobs printed; @job:ID only one's")),
    ]
    context.write(Explained(rows, "command"))
    context.write(RichText(" " + _("/keys shows the keys."), "muted"))


def _shortened(arguments: str) -> str:
    """What /help has room for beside the sentences; /help NAME shows the rest."""
    if len(arguments) <= ARGUMENTS_SHOWN:
        return arguments
    head = arguments[:ARGUMENTS_SHOWN].rpartition("|")[0]
    return f"{head}|…]" if head.startswith("[") else f"{arguments[: ARGUMENTS_SHOWN - 1]}…"


def show_keys(context: ReplContext, argument: str) -> None:
    """/keys [emacs|vi]."""
    from rich.text import Text as RichText

    from kogniterm.ui.explained import Explained

    if argument:
        context.prefer(keys=_one_of(argument, KEYS))
        context.say(Text("Keys: {keys}.", {"keys": argument}))
        return
    places: tuple[tuple[Where, str], ...] = (
        ("prompt", _("At the prompt")),
        ("question", _("At a question of approval")),
        ("plan", _("At a plan")),
        ("answer", _("At a question of the model's")),
    )
    for where, title in places:
        rows = [(shown, translate(what)) for shown, what in key_table(where)]
        context.write(RichText(title, "heading"))
        context.write(Explained(rows, "key"))


def model(context: ReplContext, argument: str) -> None:
    """/model [NAME]."""
    if argument:
        context.session.use_model(argument)
        context.say(Text("Model: {name}.", {"name": context.session.model.name}))
        return
    context.say(Text("Model: {name}.", {"name": context.session.model.name}))
    from rich.text import Text as RichText

    for name in _models(context):
        context.write(RichText(f"  {name}", "muted"))


def mode(context: ReplContext, argument: str) -> None:
    """/mode [manual|auto]."""
    if argument:
        context.session.use_mode(_one_of(argument, MODES))
    if context.session.mode == "auto":
        context.say(Text("Approval mode: auto. What policy does not deny runs without asking."))
    else:
        context.say(Text("Approval mode: manual. Every command that policy does not allow asks."))


async def new(context: ReplContext, argument: str) -> None:
    """/new."""
    await context.reopen(None)


def steer(context: ReplContext, argument: str) -> None:
    """/steer TEXT."""
    if not argument.strip():
        raise UsageError("Say what the running turn should know: /steer TEXT.")
    context.steer(argument.strip())


def leave(context: ReplContext, argument: str) -> None:
    """/quit."""
    context.quit()


def theme(context: ReplContext, argument: str) -> None:
    """/theme [NAME]."""
    if argument:
        context.prefer(theme=_one_of(argument, THEMES))
    context.say(_theme_text(context.preferences.theme, context.painter.theme.name))


def _theme_text(chosen: str, used: str) -> Text:
    """The theme that was chosen, and what has become of it."""
    if used == "plain" and chosen != "plain":
        return Text("Theme: {name}; without colour it looks like plain.", {"name": chosen})
    if chosen != "auto":
        return Text("Theme: {name}.", {"name": chosen})
    if used == "light":
        return Text("Theme: auto; the background is light.")
    if used == "dark":
        return Text("Theme: auto; the background is dark.")
    return Text("Theme: auto; the terminal does not tell its background.")


def lang(context: ReplContext, argument: str) -> None:
    """/lang [en|es]."""
    if argument:
        context.prefer(language=_one_of(argument, LANGUAGES))
    context.say(Text("Language: English."))


async def output(context: ReplContext, argument: str) -> None:
    """/output [N]."""
    finished = context.finished
    if not finished:
        raise UsageError("No command has ended on this screen yet.")
    number = len(finished)
    if argument:
        if not argument.isdigit() or not 1 <= int(argument) <= len(finished):
            raise UsageError("Give a number from 1 to {last}.", last=len(finished))
        number = int(argument)
    chosen = finished[number - 1]
    if not chosen.bytes:
        raise UsageError("That command printed nothing.")
    if chosen.output_path:
        await context.show_file(chosen.output_path)
    else:
        from rich.text import Text as RichText

        from kogniterm.ui.clean import clean

        context.write(RichText(clean(chosen.text)))


def _models(context: ReplContext) -> Iterable[str]:
    return context.model_names() if context.model_names is not None else ()


def _numbers(context: ReplContext) -> Iterable[str]:
    return [str(item.number) for item in reversed(context.finished)]


def _one_of(value: str, allowed: Sequence[_Word]) -> _Word:
    for word in allowed:
        if word == value:
            return word
    raise UsageError("{value} is none of: {allowed}.", value=value, allowed=", ".join(allowed))


BASIC = (
    Command("help", Text("list the commands, or explain one"), show_help, "[NAME]", aliases=("?",),
            choices=lambda context: [command.name for command in context.registry.commands]),
    Command("model", Text("show or change the model"), model, "[NAME]", choices=_models),
    Command("mode", Text("ask before commands (manual) or not (auto)"), mode, "[manual|auto]",
            choices=lambda context: MODES),
    PLAN,
    Command("new", Text("start a new session"), new, while_running=False, aliases=("clear",)),
    Command("steer", Text("say something to the running turn"), steer, "TEXT"),
    Command("output", Text("open a command's whole output in the pager"), output, "[N]",
            choices=_numbers),
    Command("theme", Text("show or change the colours"), theme, "[auto|dark|light|plain]",
            needs_session=False,
            choices=lambda context: THEMES),
    Command("keys", Text("show the keys, or switch between emacs and vi"), show_keys, "[emacs|vi]",
            needs_session=False,
            choices=lambda context: KEYS),
    Command("lang", Text("show or change the language"), lang, "[en|es]",
            needs_session=False,
            choices=lambda context: LANGUAGES),
    Command("quit", Text("leave"), leave, aliases=("exit",), needs_session=False),
)  # fmt: skip


PRODUCT = (*JOBS, *CHANGES, *MEMORY, *POLICY, *BUDGET, *SESSIONS, *COPIES, *PROJECT)
"""What stands behind a session: its jobs, changes, memory, permissions, budget and copies."""


def basic_registry(extra: Sequence[Command] = ()) -> Registry:
    """Every command, with `extra` before the last one; an extra one replaces its namesake."""
    names = {command.name for command in extra}
    kept = [command for command in (*BASIC[:-1], *PRODUCT) if command.name not in names]
    return Registry([*kept, *extra, BASIC[-1]])
