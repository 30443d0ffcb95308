"""Commands of the prompt: help, keys, mode, theme, language, output, jobs, new and quit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.runtime.questions.approval_facts import MODE_HELP
from kogniterm.types import APPROVAL_MODES, MODE_NAMES, Phrase, approval_mode
from kogniterm.ui.commands import command_details, help_topics
from kogniterm.ui.commands.command_helpers import Explained, first_word, one_of
from kogniterm.ui.locale import LANGUAGES, _, language, translate
from kogniterm.ui.repl import Repl, mode_line
from kogniterm.ui.screen.screen_preferences import KEYS, THEMES, THOUGHTS
from kogniterm.ui.words.key_table import Where
from kogniterm.ui.words.key_table import table as key_table

if TYPE_CHECKING:
    from rich.text import Text

ARGUMENTS_SHOWN = 24
READS = ("allow-reads", "ask-reads")
JOB_ACTIONS = ("stop", "keep", "output")


def show_help(repl: Repl, argument: str) -> None:
    """Run /help [NAME]: explain a command, a topic, or what is both."""
    from rich.text import Text

    from kogniterm.ui.screen.paint import Readable

    if argument:
        name = argument.removeprefix("/")
        topic = help_topics.find(name)
        if topic is None or repl.registry.knows(name):
            command = repl.registry.find(name)
            line = Text(f"/{command.name} {command.arguments}".rstrip(), "command")
            line.append(f"  {translate(command.help)}", "muted")
            repl.display.write(line)
            if command.source:
                repl.display.write(Text(_("From {file}").format(file=command.source), "muted"))
            _show_detail(repl, command.name)
        if topic is not None:
            _show_topic(repl, topic)
        return
    for title, commands, detail in command_details.group_commands(repl.registry.commands):
        rows = [
            (
                f"/{command.name} {_shorten_arguments(command.arguments)}".rstrip(),
                translate(command.help),
            )
            for command in commands
        ]
        repl.display.write(Text(translate(title), "heading"))
        repl.display.write(Explained(rows, "command"))
        if detail is not None:
            repl.display.write(_example(detail))
    rows = [
        ("!" + _("COMMAND"), _("run a command yourself; the model sees it")),
        ("@" + _("FILE"), _("attach the text of a file (Tab completes its name)")),
        ("@jobs", _("attach the output of background jobs; @job:ID for one job")),
    ]
    repl.display.write(Text(_("On the line"), "heading"))
    repl.display.write(Explained(rows, "command"))
    topics = ", ".join(topic.name for topic in help_topics.TOPICS)
    told = _("/keys shows the keys. /help TOPIC explains a topic: {topics}.").format(topics=topics)
    repl.display.write(Readable(Text(told, "muted")))


def _show_detail(repl: Repl, name: str) -> None:
    """Write what to know about a command, and an example."""
    from rich.text import Text

    detail = command_details.DETAILS.get(name)
    if detail is None:
        return
    if detail.note is not None:
        repl.display.write(Text(translate(detail.note), "muted"))
    repl.display.write(_example(detail))


def _example(detail: command_details.Detail) -> Text:
    from rich.text import Text

    words = _("Example: {command}").format(command=detail.example)
    return Text(f"{words}  ({translate(detail.does)})", "muted")


def _show_topic(repl: Repl, topic: help_topics.Topic) -> None:
    from rich.text import Text

    from kogniterm.ui.screen.paint import Readable

    repl.display.write(Text(translate(topic.title), "heading"))
    for block in topic.blocks:
        repl.display.write(Explained(block, "command"))
    for line in topic.sample:
        repl.display.write(Text(line, "muted"))
    for line in topic.sentences:
        repl.display.write(Readable(Text(line, "muted")))


def help_choices(repl: Repl) -> Iterable[str]:
    """Return the names of the commands and topics."""
    names = [command.name for command in repl.registry.commands]
    return [*names, *(topic.name for topic in help_topics.TOPICS if topic.name not in names)]


def _shorten_arguments(arguments: str) -> str:
    """Return the part of the arguments that /help has room for; /help NAME shows the rest."""
    if len(arguments) <= ARGUMENTS_SHOWN:
        return arguments
    head = arguments[:ARGUMENTS_SHOWN].rpartition("|")[0]
    return f"{head}|…]" if head.startswith("[") else f"{arguments[: ARGUMENTS_SHOWN - 1]}…"


def show_keys(repl: Repl, argument: str) -> None:
    """Run /keys [emacs|vi]."""
    from rich.text import Text

    if argument:
        repl.prefer(keys=one_of(argument, KEYS))
        repl.display.say(Phrase("Keys: {keys}.", {"keys": argument}))
        return
    places: tuple[tuple[Where, str], ...] = (
        ("prompt", _("At the prompt")),
        ("question", _("At an approval")),
        ("plan", _("At a plan")),
        ("answer", _("At a question from the model")),
    )
    for where, title in places:
        rows = [(shown, translate(what)) for shown, what in key_table(where, language())]
        repl.display.write(Text(title, "heading"))
        repl.display.write(Explained(rows, "key"))


def mode(repl: Repl, argument: str) -> None:
    """Run /mode [ask|accept-edits|auto|plan|allow-reads|ask-reads]."""
    from kogniterm.ui.asking_approver import allow_reads

    session = repl.session
    if argument in READS:
        allow_reads(session, repl.display, allowed=argument == READS[0])
        repl.use_mode(session.modes.approval)
    elif argument:
        name = argument if argument in APPROVAL_MODES else one_of(argument, (*MODE_NAMES, *READS))
        repl.use_mode(approval_mode(name))
    repl.display.say(mode_line(session))
    if session.modes.approval == "auto" and not session.policy.auto_works:
        repl.display.say(
            Phrase(
                "No sandbox works here, so commands that need one ask. Run `kogniterm doctor` to "
                "see how to fix it."
            ),
            "warning",
        )
    if not argument:
        rows = [(name, translate(MODE_HELP[each])) for name, each in MODE_NAMES.items()]
        rows.append((READS[0], _("runs read-only commands without asking, as --allow-reads")))
        rows.append((READS[1], _("asks about read-only commands too")))
        repl.display.write(Explained(rows, "command"))


async def new(repl: Repl, argument: str) -> None:
    """Run /new."""
    await repl.reopen(None)


def steer(repl: Repl, argument: str) -> None:
    """Run /steer TEXT."""
    if not argument.strip():
        raise UsageError("Specify a message for the running turn: /steer TEXT.")
    repl.steer(argument.strip())


def leave(repl: Repl, argument: str) -> None:
    """Run /quit."""
    repl.leave()


def theme(repl: Repl, argument: str) -> None:
    """Run /theme [NAME]."""
    if argument:
        repl.prefer(theme=one_of(argument, THEMES))
    repl.display.say(_theme_text(repl.display.preferences.theme, repl.display.painter.theme.name))


def _theme_text(chosen: str, used: str) -> Phrase:
    """Return a sentence about the chosen theme and the one in use."""
    if used == "plain" and chosen != "plain":
        return Phrase("Theme: {name}; colours are off, so it looks like plain.", {"name": chosen})
    if chosen != "auto":
        return Phrase("Theme: {name}.", {"name": chosen})
    if used == "light":
        return Phrase("Theme: auto; the background is light.")
    if used == "dark":
        return Phrase("Theme: auto; the background is dark.")
    return Phrase("Theme: auto; the terminal does not report its background colour.")


def thoughts(repl: Repl, argument: str) -> None:
    """Run /thoughts [folded|shown|off]."""
    if argument:
        name = one_of(argument, THOUGHTS)
        repl.prefer(thoughts=name)
        repl.display.say(
            {
                "folded": Phrase("Thoughts are folded into a line."),
                "shown": Phrase("Thoughts are shown in full."),
                "off": Phrase("Thoughts are not shown. New sessions do not request them."),
            }[name]
        )
    elif not repl.display.show_thoughts():
        repl.display.say(Phrase("The model has not shown any thoughts in this session."))


def lang(repl: Repl, argument: str) -> None:
    """Run /lang [en|es]."""
    if argument:
        repl.prefer(language=one_of(argument, LANGUAGES))
    repl.display.say(Phrase("Language: English."))


async def output(repl: Repl, argument: str) -> None:
    """Run /output [N]."""
    finished = repl.display.finished
    if not finished:
        raise UsageError("No command output to show yet.")
    number = len(finished)
    if argument:
        if not argument.isdigit() or not 1 <= int(argument) <= len(finished):
            raise UsageError("Specify a number from 1 to {last}.", last=len(finished))
        number = int(argument)
    chosen = finished[number - 1]
    if not chosen.bytes:
        raise UsageError("That command has no output.")
    if chosen.output_path:
        await repl.front.show_file(chosen.output_path)
    else:
        from rich.text import Text

        from kogniterm.text.visible import clean

        repl.display.write(Text(clean(chosen.text)))


async def jobs(repl: Repl, argument: str) -> None:
    """Run /jobs [stop|keep|output ID]."""
    word, name = first_word(argument)
    if not word:
        _list_jobs(repl)
        return
    if word not in JOB_ACTIONS or not name:
        raise UsageError("/jobs takes: stop ID, keep ID or output ID.")
    name = f"j{name}" if name.isdecimal() else name
    executor = repl.session.executor
    if word == "stop":
        job = await asyncio.to_thread(executor.stop_job, name)
        command = repl.session.journal.redact_command(job.command)
        repl.display.say(Phrase("Stopped: {id}  {command}", {"id": job.id, "command": command}))
    elif word == "keep":
        executor.keep_job(name)
        repl.display.say(Phrase("{id} will keep running after KogniTerm exits.", {"id": name}))
    else:
        await _show_job(repl, name)


def _list_jobs(repl: Repl) -> None:
    running = repl.session.executor.jobs()
    if not running:
        repl.display.say(Phrase("No background jobs."))
    for job in running:
        state = Phrase("running")
        if job.state == "ended" and job.exit_code is None:
            state = Phrase("ended, exit status unknown")
        elif job.state == "ended":
            state = Phrase("ended, exit {code}", {"code": job.exit_code})
        command = repl.session.journal.redact_command(job.command)
        values = {"id": job.id, "state": state, "command": command}
        repl.display.say(Phrase("{id}  {state}  {command}", values))


async def _show_job(repl: Repl, name: str) -> None:
    path = next((job.output_path for job in repl.session.executor.jobs() if job.id == name), "")
    if path:
        await repl.front.show_file(path)
        return
    raise UsageError("Job {job} not found.", job=name)


def job_choices(repl: Repl) -> Iterable[str]:
    """Return what can be done with each job."""
    found = repl.session.executor.jobs()
    return [f"{word} {job.id}" for word in JOB_ACTIONS for job in found]


def output_choices(repl: Repl) -> Iterable[str]:
    """Return the numbers of the commands whose output can be read."""
    return [str(item.number) for item in reversed(repl.display.finished)]
