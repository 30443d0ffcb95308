"""/mcp, /skills, /agents and /hooks: what extends a session, and what the user decides about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.text.visible import clean
from kogniterm.types import Phrase
from kogniterm.ui.commands.command_helpers import first_word, one_of, write_report
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from rich.text import Text

    from kogniterm.runtime.extensions.servers.mcp_servers import McpServers, Server
    from kogniterm.runtime.extensions.session_agents import AgentFile
    from kogniterm.runtime.extensions.skills.skill_sources import FoundSkill
    from kogniterm.runtime.operations.action import Shown

MCP_ACTIONS = ("show", "trust", "retry", "off", "on")


async def mcp(repl: Repl, argument: str) -> None:
    """Run /mcp [show|trust|retry|off|on NAME]."""
    word, name = first_word(argument)
    servers = repl.session.extensions.servers
    if not word:
        _list_servers(repl, servers)
        return
    action = one_of(word, MCP_ACTIONS)
    if not name:
        raise UsageError("Specify a server: /mcp {action} NAME", action=action)
    from kogniterm.runtime.operations.mcp.mcp_actions import await_listing, show_server

    server = servers.find(name)
    if action == "show":
        write_report(repl, show_server(server))
    elif action == "trust":
        await _trust_server(repl, servers, server)
    elif action == "retry":
        if not server.usable:
            raise UsageError("Trust the server first: /mcp trust {name}", name=server.config.name)
        listing = await await_listing(servers.restart(server))
        values = {"name": server.config.name, "count": len(listing.tools)}
        repl.display.say(Phrase("MCP server {name} runs; it has {count} tools.", values))
    else:
        await servers.stop(server)
        server.off = action == "off"
        on = Phrase("MCP server {name} is on in this session.", {"name": name})
        off = Phrase("MCP server {name} is off in this session.", {"name": name})
        repl.display.say(off if server.off else on)


def mcp_choices(repl: Repl) -> Iterable[str]:
    """Return what completes /mcp."""
    for name in repl.session.extensions.servers.servers:
        yield from (f"{action} {name}" for action in MCP_ACTIONS)


def _list_servers(repl: Repl, servers: McpServers) -> None:
    from kogniterm.runtime.operations.mcp.mcp_actions import list_servers

    file = repl.session.archive.paths.extensions.mcp_servers
    write_report(repl, list_servers(servers, file))
    waiting = [n for n, one in servers.servers.items() if one.state in ("new", "changed")]
    failed = [n for n, one in servers.servers.items() if one.state == "failed"]
    if waiting:
        repl.display.say(Phrase("To use one: /mcp trust {name}", {"name": waiting[0]}))
    if failed:
        repl.display.say(Phrase("To start one again: /mcp retry {name}", {"name": failed[0]}))


async def _trust_server(repl: Repl, servers: McpServers, server: Server) -> None:
    from kogniterm.runtime.operations.mcp.mcp_actions import trust_server

    async def agree(title: Phrase, lines: Sequence[Shown], yes: Phrase) -> bool:
        shown = [one if isinstance(one, str) else translate(one) for one in lines]
        options = [Option("yes", translate(yes), "yes"), Option("no", _("no"), "no")]
        return await repl.choose(translate(title), shown, options) == "yes"

    before = server.record
    report = await trust_server(servers, server, agree)
    if report is None:
        repl.display.say(Phrase("Nothing changed."))
        return
    if server.record is not before:
        repl.session.context.instruct()
        repl.read_custom_commands()
    write_report(repl, report)


# --- skills ---------------------------------------------------------------------------------------

SKILL_ACTIONS = ("show", "trust", "off", "on")
MOST_CHANGED = 200
"""Lines shown of one file of a skill that is not accepted yet."""


async def skills(repl: Repl, argument: str) -> None:
    """Run /skills [show|trust|off|on NAME]."""
    word, name = first_word(argument)
    if not word:
        _list_skills(repl)
        return
    action = one_of(word, SKILL_ACTIONS)
    if not name:
        raise UsageError("Specify a skill: /skills {action} NAME", action=action)
    from kogniterm.runtime.extensions.skills.skill_sources import find_skill
    from kogniterm.runtime.operations.skill_actions import show_skill, switch_skill

    service = repl.session.extensions.skills
    one = find_skill(service.look(), name)
    if action == "show":
        repl.display.write(_lines(show_skill(service.sources, service.found, name).lines))
    elif action == "trust":
        await _trust_skill(repl, one)
    else:
        report = switch_skill(service.sources, service.found, name, on=action == "on")
        _offer_skills(repl)
        write_report(repl, report)


def skill_choices(repl: Repl) -> Iterable[str]:
    """Return what completes /skills."""
    for one in repl.session.extensions.skills.found:
        yield from (f"{action} {one.name}" for action in SKILL_ACTIONS)


def _list_skills(repl: Repl) -> None:
    from kogniterm.runtime.operations.skill_actions import list_skills

    service = repl.session.extensions.skills
    found = service.look()
    service.catalogue()
    cut = service.offered.cut
    write_report(repl, list_skills(service.sources, found, service.used, cut))
    unnamed = len(service.offered.unnamed)
    if cut:
        repl.display.say(
            Phrase(
                "Descriptions are shortened for the model, to fit {share} % of its context window.",
                {"share": 2},
            )
        )
    if unnamed:
        repl.display.say(
            Phrase(
                "{count} skills do not fit, so the model is not told of them; switch others off.",
                {"count": unnamed},
            )
        )
    waiting = [one for one in found if one.state in ("new", "changed")]
    if waiting:
        repl.display.say(Phrase("To accept one: /skills trust {name}", {"name": waiting[0].name}))
    if any(one.state == "untrusted" for one in found):
        repl.display.say(Phrase("To use the skills of this folder: /trust"))


async def _trust_skill(repl: Repl, one: FoundSkill) -> None:
    from kogniterm.runtime.operations.skill_actions import (
        accept_skill,
        changes_to_accept,
        describe_skill,
    )
    from kogniterm.ui.screen.diffs import diff

    service = repl.session.extensions.skills
    changes = list(changes_to_accept(service.sources, one))
    repl.display.write(_lines(describe_skill(one)))
    columns = repl.front.surface.size()[1]
    for change in changes:
        if isinstance(change, Phrase):
            repl.display.say(change)
        else:
            repl.display.write(diff(change, limit=MOST_CHANGED, columns=columns))
    answer = await repl.choose(
        _("Accept this skill as it is now?"),
        [
            _("The model reads its instructions; its commands need approval as usual."),
            _("If a file of it changes, you are asked again."),
        ],
        [Option("yes", _("accept it"), "yes"), Option("no", _("no"), "no")],
    )
    if answer != "yes":
        repl.display.say(Phrase("Nothing changed."))
        return
    write_report(repl, accept_skill(service.accept, one))
    _offer_skills(repl)


def _offer_skills(repl: Repl) -> None:
    """Offer the skills as they are now, to the model and as slash commands."""
    repl.session.context.instruct()
    repl.read_custom_commands()


def _lines(lines: Iterable[Shown]) -> Text:
    from rich.text import Text

    return Text("\n".join(one if isinstance(one, str) else translate(one) for one in lines))


# --- sub-agents -----------------------------------------------------------------------------------

MOST_INSTRUCTIONS = 40
"""Lines of instructions that are shown."""


def agents(repl: Repl, argument: str) -> None:
    """Run /agents [show NAME]."""
    word, rest = first_word(argument)
    name = (rest if word == "show" else argument).removeprefix("@").lower()
    files = repl.session.extensions.agents.files
    if name or word == "show":
        _show_agent(repl, files.get(name), name)
        return
    if not files:
        folder = repl.session.archive.paths.extensions.agents
        repl.display.say(
            Phrase(
                "There are no sub-agents. To add one, write a Markdown file in {folder}, or in "
                ".kogniterm/agents of a trusted project.",
                {"folder": folder},
            )
        )
        return
    for file in files.values():
        _write_agent(repl, file)
    example = next(iter(files))
    repl.display.say(
        Phrase("To call one: @{name} TASK. To see its instructions: /agents show {name}",
               {"name": example})
    )  # fmt: skip


def agent_choices(repl: Repl) -> Iterable[str]:
    """Return the sub-agents that can be shown."""
    return [f"show {name}" for name in repl.session.extensions.agents.files]


def _write_agent(repl: Repl, file: AgentFile) -> None:
    """Write a sub-agent with what it is given."""
    from rich.padding import Padding
    from rich.text import Text

    line = Text(f" @{file.name}", "accent")
    line.append(f"  {file.description}", "")
    repl.display.write(line)
    offered = repl.session.extensions.tools.offered
    tools = [name for name in file.tools if name in offered]
    facts = [
        (_("Tools"), ", ".join(tools) or _("none")),
        (_("Model"), file.model or _("the session's")),
        (_("From"), file.source),
    ]
    off = repl.session.extensions.agents.named[file.name].off
    if off is not None:
        facts.insert(0, (_("State"), _("off: {why}").format(why=translate(off))))
    for name, text in facts:
        repl.display.write(Padding(Text(f"{name}: {text}", "muted"), (0, 0, 0, 4)))


def _show_agent(repl: Repl, file: AgentFile | None, name: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    if file is None:
        raise UsageError("There is no sub-agent {name}; /agents lists them.", name=name or "–")
    _write_agent(repl, file)
    limits = [
        *([_("{count} tokens").format(count=file.tokens)] if file.tokens else []),
        *([_("{count} rounds").format(count=file.rounds)] if file.rounds else []),
    ]
    if limits:
        told = _("Limits: {limits}").format(limits=", ".join(limits))
        repl.display.write(Padding(Text(told, "muted"), (0, 0, 0, 4)))
    lines = clean(file.instructions).splitlines()
    for line in lines[:MOST_INSTRUCTIONS]:
        repl.display.write(Padding(Text(line), (0, 0, 0, 4)))
    if len(lines) > MOST_INSTRUCTIONS:
        left = len(lines) - MOST_INSTRUCTIONS
        repl.display.say(Phrase("{count} more lines are in the file.", {"count": left}))


# --- hooks ----------------------------------------------------------------------------------------


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
    if not service.enabled:
        repl.display.say(Phrase("Hooks are switched off in this session."))
        return
    from kogniterm.runtime.extensions.hooks.hook_service import past_runs
    from kogniterm.runtime.operations.hook_actions import list_hooks

    file = repl.session.archive.paths.extensions.hooks
    ran = past_runs(repl.session.journal.records())
    write_report(repl, list_hooks(service.own + service.project, file, service.off, ran))


def hook_choices(repl: Repl) -> Sequence[str]:
    """Return the words that may follow."""
    service = repl.session.extensions.hook_service
    events = dict.fromkeys(one.event for one in service.own.hooks if one.event not in service.off)
    return [f"off {event}" for event in (*events, "all")] if events else []
