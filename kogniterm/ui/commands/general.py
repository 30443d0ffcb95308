"""Commands of the prompt: help, keys, model, mode, theme, language, output, jobs, new and quit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypeVar, get_args

from kogniterm.errors import UsageError
from kogniterm.types import ApprovalMode, Phrase
from kogniterm.ui.commands.columns import Explained, first_word
from kogniterm.ui.commands.registry import ReplContext
from kogniterm.ui.locale import LANGUAGES, _, translate
from kogniterm.ui.prompt.key_table import Where
from kogniterm.ui.prompt.key_table import table as key_table
from kogniterm.ui.screen_preferences import KEYS, THEMES

_Word = TypeVar("_Word", bound=str)

ARGUMENTS_SHOWN = 24
JOB_ACTIONS = ("stop", "keep", "output")
MODES: Sequence[ApprovalMode] = get_args(ApprovalMode)


def show_help(context: ReplContext, argument: str) -> None:
    """/help [NAME]."""
    from rich.text import Text

    if argument:
        command = context.registry.find(argument.removeprefix("/"))
        line = Text(f"/{command.name} {command.arguments}".rstrip(), "command")
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
    context.write(Text(" " + _("/keys shows the keys."), "muted"))


def help_choices(context: ReplContext) -> Iterable[str]:
    """Return the names of the commands."""
    return [command.name for command in context.registry.commands]


def _shortened(arguments: str) -> str:
    """What /help has room for beside the sentences; /help NAME shows the rest."""
    if len(arguments) <= ARGUMENTS_SHOWN:
        return arguments
    head = arguments[:ARGUMENTS_SHOWN].rpartition("|")[0]
    return f"{head}|…]" if head.startswith("[") else f"{arguments[: ARGUMENTS_SHOWN - 1]}…"


def show_keys(context: ReplContext, argument: str) -> None:
    """/keys [emacs|vi]."""
    from rich.text import Text

    if argument:
        context.prefer(keys=_one_of(argument, KEYS))
        context.say(Phrase("Keys: {keys}.", {"keys": argument}))
        return
    places: tuple[tuple[Where, str], ...] = (
        ("prompt", _("At the prompt")),
        ("question", _("At a question of approval")),
        ("plan", _("At a plan")),
        ("answer", _("At a question of the model's")),
    )
    for where, title in places:
        rows = [(shown, translate(what)) for shown, what in key_table(where)]
        context.write(Text(title, "heading"))
        context.write(Explained(rows, "key"))


def model(context: ReplContext, argument: str) -> None:
    """/model [NAME]."""
    if argument:
        context.session.use_model(argument)
        context.say(Phrase("Model: {name}.", {"name": context.session.model.name}))
        return
    context.say(Phrase("Model: {name}.", {"name": context.session.model.name}))
    from rich.text import Text

    for name in model_choices(context):
        context.write(Text(f"  {name}", "muted"))


def mode(context: ReplContext, argument: str) -> None:
    """/mode [manual|auto]."""
    if argument:
        context.session.use_mode(_one_of(argument, MODES))
    if context.session.modes.approval == "auto":
        context.say(Phrase("Approval mode: auto. What policy does not deny runs without asking."))
    else:
        context.say(Phrase("Approval mode: manual. Every command that policy does not allow asks."))


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


def _theme_text(chosen: str, used: str) -> Phrase:
    """The theme that was chosen, and what has become of it."""
    if used == "plain" and chosen != "plain":
        return Phrase("Theme: {name}; without colour it looks like plain.", {"name": chosen})
    if chosen != "auto":
        return Phrase("Theme: {name}.", {"name": chosen})
    if used == "light":
        return Phrase("Theme: auto; the background is light.")
    if used == "dark":
        return Phrase("Theme: auto; the background is dark.")
    return Phrase("Theme: auto; the terminal does not tell its background.")


def lang(context: ReplContext, argument: str) -> None:
    """/lang [en|es]."""
    if argument:
        context.prefer(language=_one_of(argument, LANGUAGES))
    context.say(Phrase("Language: English."))


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
        from rich.text import Text

        from kogniterm.text.visible import clean

        context.write(Text(clean(chosen.text)))


async def jobs(context: ReplContext, argument: str) -> None:
    """/jobs [stop|keep|output ID]."""
    word, name = first_word(argument)
    if not word:
        _list_jobs(context)
        return
    if word not in JOB_ACTIONS or not name:
        raise UsageError("/jobs can: stop ID, keep ID, output ID.")
    executor = context.session.executor
    if word == "stop":
        job = await asyncio.to_thread(executor.stop_job, name)
        context.say(Phrase("Stopped: {id}  {command}", {"id": job.id, "command": job.command}))
    elif word == "keep":
        executor.keep_job(name)
        context.say(Phrase("{id} goes on when KogniTerm ends.", {"id": name}))
    else:
        await _show_job(context, name)


def _list_jobs(context: ReplContext) -> None:
    running = context.session.executor.jobs()
    if not running:
        context.say(Phrase("No command is running in the background."))
    for job in running:
        state = Phrase("running") if job.state == "running" else Phrase("ended")
        values = {"id": job.id, "state": state, "command": job.command}
        context.say(Phrase("{id}  {state}  {command}", values))


async def _show_job(context: ReplContext, name: str) -> None:
    path = next((job.output_path for job in context.session.executor.jobs() if job.id == name), "")
    if path:
        await context.show_file(path)
        return
    raise UsageError("There is no job {job}.", job=name)


def job_choices(context: ReplContext) -> Iterable[str]:
    """Return what can be done with each job."""
    found = context.session.executor.jobs()
    return [f"{word} {job.id}" for word in JOB_ACTIONS for job in found]


def model_choices(context: ReplContext) -> Iterable[str]:
    """Return the models that can be used now."""
    return context.model_names() if context.model_names is not None else ()


def output_choices(context: ReplContext) -> Iterable[str]:
    """Return the numbers of the commands whose output can be read."""
    return [str(item.number) for item in reversed(context.finished)]


def _one_of(value: str, allowed: Sequence[_Word]) -> _Word:
    for word in allowed:
        if word == value:
            return word
    raise UsageError("{value} is none of: {allowed}.", value=value, allowed=", ".join(allowed))
