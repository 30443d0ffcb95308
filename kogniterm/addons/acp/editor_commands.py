"""The slash commands that an editor offers: a few of KogniTerm's own, custom commands, agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from kogniterm.addons.acp.config_options import MODE, MODE_IDS, MODEL, use_option
from kogniterm.addons.acp.editor_questions import EditorQuestions
from kogniterm.addons.acp.editor_servers import ask_trust
from kogniterm.addons.acp.session_updates import SessionUpdates, safe
from kogniterm.errors import UsageError
from kogniterm.runtime.inputs.called_input import server_prompts
from kogniterm.runtime.inputs.custom_commands import custom_commands_of
from kogniterm.runtime.operations.action import Report, Shown, usage
from kogniterm.runtime.operations.hook_actions import list_hooks
from kogniterm.runtime.operations.mcp.mcp_actions import list_servers
from kogniterm.runtime.operations.permission_actions import (
    ACTIONS,
    Permissions,
    list_permissions,
    revoke_permissions,
)
from kogniterm.runtime.questions.approval_facts import Say
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession

CONTINUE = "continue"


class CommandPorts(NamedTuple):
    """The objects that a command of KogniTerm's own works with."""

    session: LiveSession
    questions: EditorQuestions
    updates: SessionUpdates
    say: Say


class EditorCommand(NamedTuple):
    """A command of KogniTerm's own; `run` gets the words behind its name."""

    help: Phrase
    run: Callable[[CommandPorts, str], Awaitable[None]]
    hint: str = ""


async def _compact(ports: CommandPorts, argument: str) -> None:
    del argument
    told = await ports.session.context.compact_now(asked=True, sink=ports.updates)
    ports.updates.tell(ports.say(told))
    ports.updates.usage()


async def _mode(ports: CommandPorts, argument: str) -> None:
    if argument:
        use_option(ports.session, MODE, argument)
    words, mode = ports.say(Phrase("Approval mode")), MODE_IDS[ports.session.modes.approval]
    ports.updates.tell(f"{words}: {mode}")


async def _model(ports: CommandPorts, argument: str) -> None:
    if argument:
        use_option(ports.session, MODEL, argument)
    ports.updates.tell(f"{ports.say(Phrase('Model'))}: {ports.session.model.name}")


async def _mcp(ports: CommandPorts, argument: str) -> None:
    servers, (word, _space, name) = ports.session.extensions.servers, argument.partition(" ")
    if word == "trust" and name.strip():
        server = servers.find(name.strip())
        await ask_trust(ports.session, server, ports.questions, ports.say, ports.updates.tell)
    elif word:
        raise UsageError("/mcp takes: trust NAME.")
    else:
        _tell(ports, list_servers(servers, ports.session.archive.paths.extensions.mcp_servers))


async def _hooks(ports: CommandPorts, argument: str) -> None:
    service, (word, _space, name) = ports.session.extensions.hook_service, argument.partition(" ")
    if word == "off" and name.strip():
        service.switch_off(name.strip())
    elif word:
        raise UsageError("/hooks takes: off EVENT, or off all.")
    file = ports.session.archive.paths.extensions.hooks
    _tell(ports, list_hooks(service.own + service.project, file, service.off))


async def _undo(ports: CommandPorts, argument: str) -> None:
    from kogniterm.runtime.operations.rewind_session import tell_restored
    from kogniterm.storage.folders import seen_from

    del argument
    session = ports.session
    way = session.undo.latest()
    lines = [f"{one.change}: {one.path}" for one in way.changes]
    lines += [f"kept: {path}" for path in way.kept]
    title = ports.say(Phrase("Restore the files as they were before this action?"))
    if not await ports.questions.agree(
        title, "\n".join((way.images[0].what, "", *lines)), _RESTORE
    ):
        ports.updates.tell(ports.say(_UNCHANGED))
        return
    restored = session.undo.store.restore(way)
    if not restored:
        ports.updates.tell(ports.say(_UNCHANGED))
        return
    tell_restored(session, restored)
    paths = ", ".join(seen_from(session.folder, path) for path in restored)
    ports.updates.tell(ports.say(Phrase("Restored: {paths}", {"paths": paths})))


async def _permissions(ports: CommandPorts, argument: str) -> None:
    policy, (word, _space, name) = ports.session.policy, argument.partition(" ")
    held = Permissions(policy.leases, policy.revoke, {})
    if word == "revoke" and name.strip():
        _tell(ports, revoke_permissions(held, name.strip()))
    elif word in ("", "list"):
        _tell(ports, list_permissions(held))
    else:
        raise UsageError("/permissions takes: revoke ID, or revoke all.")


async def _trust(ports: CommandPorts, argument: str) -> None:
    from kogniterm.runtime.operations import trust_actions

    session, say = ports.session, ports.say
    folder, revokes = trust_actions.read_argument(session, argument)
    if revokes:
        _tell(ports, await trust_actions.revoke(session, folder))
        return
    found = trust_actions.compare(session.archive.paths, folder)
    if found.finding.trusted:
        ports.updates.tell(say(trust_actions.trusted_already(argument)))
        return
    lines = _lines(ports, Report([], found.texts, found.rows))
    if found.files:
        about = [*lines, *found.changes.values(), *map(say, trust_actions.ABOUT)]
        title, yes = say(trust_actions.QUESTION), Phrase("Trust these files")
        if not await ports.questions.agree(title, "\n".join(about), yes):
            ports.updates.tell(say(_UNCHANGED))
            return
        lines = _lines(ports, await trust_actions.trust(session, folder, found.files))
    ports.updates.tell("\n".join(lines))


def _tell(ports: CommandPorts, report: Report) -> None:
    ports.updates.tell("\n".join(_lines(ports, report)))


def _lines(ports: CommandPorts, report: Report) -> list[str]:
    """Return a report as lines; a row is an item of a list."""

    def text(shown: Shown) -> str:
        return shown if isinstance(shown, str) else ports.say(shown)

    rows = ["- " + "  ".join(map(text, row)) for row in report.rows]
    return [*rows, *map(text, report.lines), *map(text, report.notes)]


_RESTORE = Phrase("Restore the files")
_UNCHANGED = Phrase("Nothing changed.")

OWN: Mapping[str, EditorCommand] = {
    "compact": EditorCommand(
        Phrase("summarise the history to free space in the context window"), _compact
    ),
    "undo": EditorCommand(Phrase("restore the files changed by the last action"), _undo),
    "permissions": EditorCommand(
        Phrase("list or revoke permissions"), _permissions, usage(ACTIONS)
    ),
    "mode": EditorCommand(Phrase("show or change the approval mode"), _mode, "[MODE]"),
    "model": EditorCommand(Phrase("show or change the model"), _model, "[MODEL]"),
    "mcp": EditorCommand(Phrase("list the MCP servers, or trust one"), _mcp, "[trust NAME]"),
    "hooks": EditorCommand(
        Phrase("list the hooks, or switch yours off for this session"), _hooks, "[off EVENT]"
    ),
    "trust": EditorCommand(
        Phrase("show what this folder provides; trust it or revoke trust"),
        _trust,
        "[PLUGIN|revoke]",
    ),
}


def list_commands(session: LiveSession, say: Say) -> list[AvailableCommand]:
    """Return everything that a line beginning with a slash can call in a session."""
    return [
        AvailableCommand(
            name=name,
            description=safe(one_line(words)),
            input=AvailableCommandInput(UnstructuredCommandInput(hint=hint)) if hint else None,
        )
        for name, words, hint in _offer_commands(session, say)
    ]


def _offer_commands(session: LiveSession, say: Say) -> Iterator[tuple[str, str, str]]:
    for name, own in OWN.items():
        yield name, say(own.help), own.hint
    if session.state.open_turn or session.state.unknown:
        yield CONTINUE, say(Phrase("continue the turn that was interrupted")), ""
    names = {*OWN, CONTINUE}
    custom, _refused = custom_commands_of(session, names)
    for one in custom:
        yield one.name, say(one.help), one.arguments
    taken = {*names, *(word for one in custom for word in (one.name, one.alias))}
    for name, described in session.extensions.skills.commands(taken):
        yield name, described, "[WORDS]"
    for name, _server, prompt in server_prompts(session):
        hint = " ".join(argument.upper() for argument, _required in prompt.arguments)
        yield name, prompt.description or prompt.name, hint
    for name, agent in session.extensions.port.agents().items():
        if agent.off is None:
            task = say(Phrase("TASK"))
            yield f"@{name}", agent.description, task
