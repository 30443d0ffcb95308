"""The slash commands that custom commands become."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kogniterm.runtime.use_cases.project_files import (
    CustomCommand,
    commands_of_folder,
    commands_of_texts,
)
from kogniterm.types import Phrase, UserInput
from kogniterm.ui.commands.registry import Command, ReplContext

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession


def session_commands(session: LiveSession) -> tuple[tuple[Command, ...], tuple[Phrase, ...]]:
    """Return the user's and the trusted project's commands, and what to tell about others.

    The first of a name wins; the names of the built-in commands are taken.
    """
    from kogniterm.ui.commands.command_table import COMMANDS

    archive = session.archive
    mine = commands_of_folder(archive.paths.config / "commands")
    found: Iterable[CustomCommand] = (*mine, *commands_of_texts(archive.project_commands()))
    taken = {name for one in COMMANDS for name in (one.name, *one.aliases)}
    made: list[Command] = []
    refused = []
    for one in found:
        if one.name in taken:
            values = {"name": one.name}
            refused.append(
                Phrase("An own command cannot be called /{name}: the name is taken.", values)
            )
            continue
        taken.add(one.name)
        made.append(slash_command(one))
    return tuple(made), tuple(refused)


def slash_command(custom: CustomCommand) -> Command:
    """Return the slash command that sends a custom command's text to the model."""

    def run(context: ReplContext, argument: str) -> None:
        from kogniterm.ui.prompt.sent_line import mentions

        text = custom.expanded(argument)
        context.ask_model(UserInput(text, attachments=mentions(text)))

    help_ = Phrase("{words}", {"words": custom.description})
    return Command(custom.name, help_, run, custom.arguments)
