"""Slash commands: those of KogniTerm, of the user, of skills and of servers, found by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.errors import UsageError
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate

if TYPE_CHECKING:
    from kogniterm.runtime.inputs.custom_commands import CustomCommand
    from kogniterm.runtime.session import LiveSession


Handler = Callable[[Any, str], Awaitable[None] | None]
"""Runs a command: it gets the REPL, whose module uses this one, and the words after the name."""
Choices = Callable[[Any], Iterable[str]]
"""Finds what completes a command's arguments; it gets the REPL."""


class Command(NamedTuple):
    """A slash command. `arguments` is how they are written in help.

    `choices` completes them: words, or a function that finds them in the session.

    `while_running` False keeps the command from being used in the middle of a turn;
    `needs_session` True lets it wait until the session is open. `source` is the file of a custom
    command.
    """

    name: str
    help: Phrase
    run: Handler
    arguments: str = ""
    choices: Choices | Sequence[str] = ()
    while_running: bool = True
    needs_session: bool = True
    aliases: tuple[str, ...] = ()
    source: str = ""

    def completions(self, repl: Any) -> Iterable[str]:
        """Return what completes its arguments now."""
        return self.choices(repl) if callable(self.choices) else self.choices


class Registry:
    """The commands by name, in the order in which help shows them."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = tuple(commands)
        self._by_name = {
            name: command for command in commands for name in (command.name, *command.aliases)
        }
        if len(self._by_name) != sum(1 + len(command.aliases) for command in commands):
            raise ValueError("two slash commands have the same name")

    def knows(self, name: str) -> bool:
        """Return whether `name` is a command's, in full."""
        return name in self._by_name

    def has(self, name: str) -> bool:
        """Tell whether `name` is a command, or the beginning of one."""
        return any(known.startswith(name) for known in self._by_name)

    def find(self, name: str) -> Command:
        """Return the command called `name`, or the only one that begins so. Raises `UsageError`."""
        from kogniterm.text.spelling import closest_word

        if name in self._by_name:
            return self._by_name[name]
        close = sorted({c.name for n, c in self._by_name.items() if name and n.startswith(name)})
        if len(close) == 1:
            return self._by_name[close[0]]
        if close:
            raise UsageError(
                "/{name} is ambiguous; it matches {names}.",
                name=name,
                names=", ".join(f"/{other}" for other in close),
            )
        near = closest_word(name, self._by_name)
        if near:
            raise UsageError("Unknown command /{name}. Did you mean /{near}?", name=name, near=near)
        raise UsageError("Unknown command /{name}; /help lists the commands.", name=name)


def custom_commands(
    session: LiveSession, built_in: Sequence[Command]
) -> tuple[tuple[Command, ...], tuple[Phrase, ...]]:
    """Return the user's and the trusted project's commands, and what to tell about others."""
    from kogniterm.runtime.inputs.custom_commands import custom_commands_of

    found, refused = custom_commands_of(session, names_of(built_in))
    taken = {*names_of(built_in), *(name for one in found for name in (one.name, one.alias))}
    skills = (skill_command(*one) for one in session.extensions.skills.commands(taken))
    of_servers = (one for one in prompt_commands(session) if one.name not in taken)
    return (*map(slash_command, found), *skills, *of_servers), refused


def names_of(commands: Iterable[Command]) -> frozenset[str]:
    """Return the names and aliases of `commands`."""
    return frozenset(name for one in commands for name in (one.name, *one.aliases))


def skill_command(name: str, described: str) -> Command:
    async def run(repl: Any, argument: str) -> None:
        from kogniterm.runtime.inputs.custom_commands import skill_input

        given = skill_input(repl.session, name, argument, repl.attachments)
        await _offer_permissions(repl, name)
        repl.ask_model(given)

    return Command(name, Phrase("{words}", {"words": described}), run, "[WORDS]")


async def _offer_permissions(repl: Any, name: str) -> None:
    """Offer the permissions that a skill names, for this session, when the user runs it."""
    from kogniterm.runtime.extensions.allowed_tools import question
    from kogniterm.ui.questions.question import Option

    service = repl.session.extensions.skills
    named = service.to_offer(name)
    if not named:
        return
    title, *lines = map(translate, question(name, named))
    yes, no = _("allow them for this session"), _("ask me as usual")
    answer = await repl.choose(title, lines, [Option("yes", yes, "yes"), Option("no", no, "no")])
    service.answer_offer(name, named if answer == "yes" else ())


def prompt_commands(session: LiveSession) -> list[Command]:
    """Return the prompts of trusted servers as slash commands, SERVER:PROMPT."""
    from kogniterm.runtime.inputs.called_input import server_prompts
    from kogniterm.text.shorten import one_line

    found = []
    for name, server, prompt in server_prompts(session):
        names = " ".join(
            argument.upper() if required else f"[{argument.upper()}]"
            for argument, required in prompt.arguments
        )
        help_ = Phrase("{words}", {"words": one_line(prompt.description or prompt.name, 100)})
        run = partial(_send_prompt, f"/{server}:{prompt.name}")
        found.append(Command(name, help_, run, names, source=server))
    return found


async def _send_prompt(called: str, repl: Any, argument: str) -> None:
    """Send a prompt of a server, with the words of the line as its arguments."""
    from kogniterm.runtime.inputs.called_input import fill_prompt
    from kogniterm.types import UserInput

    given = UserInput(f"{called} {argument}".rstrip())
    repl.ask_model(await fill_prompt(repl.session, given))


def slash_command(custom: CustomCommand) -> Command:
    """Return the slash command that sends a custom command's text to the model."""

    def run(repl: Any, argument: str) -> None:
        repl.ask_model(custom.make_input(argument, repl.session.folder, repl.attachments))

    aliases = (custom.alias,) if custom.alias else ()
    return Command(
        custom.name, custom.help, run, custom.arguments, aliases=aliases, source=custom.source
    )
