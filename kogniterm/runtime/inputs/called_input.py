"""Names that a line of the user begins with: a sub-agent, a command, a skill, a prompt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kogniterm.errors import ToolError, UsageError
from kogniterm.text.spelling import closest_word

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession
    from kogniterm.tools.mcp.server_values import ServerPrompt
    from kogniterm.types import UserInput


def is_slash_command(line: str) -> bool:
    """Return whether a line is a command: /help is one, a path like /etc/hosts is an input."""
    return line.startswith("/") and "\n" not in line and "/" not in line.split()[0][1:]


def split_line(line: str) -> tuple[str, str]:
    """Return ("model", "local") for "/model local"."""
    name, _space, rest = line.strip().removeprefix("/").partition(" ")
    return name.lower(), rest.strip()


def server_prompts(session: LiveSession) -> Iterator[tuple[str, str, ServerPrompt]]:
    """Yield the prompts of trusted servers: how a line calls each, its server, and itself."""
    for server in session.extensions.servers.servers.values():
        for prompt in server.record.listing.prompts if server.usable else ():
            yield f"{server.config.name}:{prompt.name}".lower(), server.config.name, prompt


async def fill_prompt(session: LiveSession, given: UserInput) -> UserInput:
    """Return the input that a server makes of a line that calls its prompt; any other as it is.

    Raises `UsageError`.
    """
    if not is_slash_command(given.text):
        return given
    from kogniterm.runtime.extensions.servers.mcp_servers import prompt_arguments

    name, argument = split_line(given.text)
    for called, server, prompt in server_prompts(session):
        if called == name:
            arguments = prompt_arguments(prompt, argument)
            try:
                text = await session.extensions.servers.prompt(server, prompt.name, arguments)
            except ToolError as error:
                raise UsageError("{why}", why=error) from error
            return replace(given, text=text, line=given.text.strip())
    return given


def resolve_input(
    session: LiveSession, given: UserInput, own_commands: Callable[[], Collection[str]]
) -> UserInput:
    """Return the input for the sub-agent that the line begins with, of a custom command or a skill.

    `own_commands` returns the names of the front's own slash commands. Raises `UsageError` for
    what is almost the name of a custom command or a skill.
    """
    if given.text.startswith("@"):
        from kogniterm.runtime.inputs.agent_turn import address_agent

        return address_agent(given, session.extensions.port.agents())
    if not is_slash_command(given.text) or given.line:
        return given
    from kogniterm.runtime.inputs.custom_commands import command_input

    built_in = own_commands()
    made, names = command_input(session, given.text, built_in)
    if made is not None:
        files = dict.fromkeys((*made.attachments, *given.attachments))
        return replace(made, data=given.data, source=given.source, attachments=tuple(files))
    name, _argument = split_line(given.text)
    near = None if name in built_in else closest_word(name, names)
    if near:
        raise UsageError("Unknown command /{name}. Did you mean /{near}?", name=name, near=near)
    return given
