"""The tools of a session: which there are, where each is from, and which are switched off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kogniterm import prompts
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP, MAKE_PLAN
from kogniterm.agent.replies import END_TURN
from kogniterm.agent.subagent import DELEGATE
from kogniterm.approval import RuleSet
from kogniterm.approval.policy.rules import Rule
from kogniterm.errors import SettingsError, ToolError
from kogniterm.host.programs import find_user_program
from kogniterm.installed import parts
from kogniterm.protocols import Tool
from kogniterm.runtime.extensions.extension_port import ExtensionPort
from kogniterm.runtime.extensions.servers.mcp_servers import McpServers
from kogniterm.runtime.extensions.tool_names import meant_tool
from kogniterm.runtime.services.policy_service import PolicyService
from kogniterm.runtime.turn_ports import SessionModes
from kogniterm.settings import Settings
from kogniterm.tools.mcp.server_tools import as_plugin, target_of
from kogniterm.tools.plugins import Plugin, load_plugins, program_tools
from kogniterm.tools.tool_registry import listed_tools
from kogniterm.types import (
    CALL_TOOL,
    FIND_TOOLS,
    USE_SKILL,
    ActionRequest,
    Phrase,
    ToolSpec,
)

GRAPH_TOOLS = (DELEGATE, MAKE_PLAN, COMPLETE_STEP, END_TURN)
"""The tools that the graph itself answers."""
MEMORY_TOOLS = ("recall", "remember", "forget")
SERVER_TOOLS = (FIND_TOOLS, CALL_TOOL)
"""The tools that find and call those of MCP servers."""


@dataclass(frozen=True, slots=True)
class ToolSet:
    """Every tool there is.

    `off` tells why some are not offered, `notes` what others lack; `notices` what went wrong.
    """

    tools: Mapping[str, Tool]
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    off: Mapping[str, Phrase] = field(default_factory=dict)
    notes: Mapping[str, Phrase] = field(default_factory=dict)
    notices: tuple[Phrase, ...] = ()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools as the model sees them, those of the graph last."""
        return (
            *(tool.spec for tool in self.tools.values()),
            *map(prompts.describe_tool, GRAPH_TOOLS),
        )

    def with_session(self, built_in: Mapping[str, Tool]) -> ToolSet:
        """Return the set with tools that can run, where the session has them."""
        return replace(
            self, tools={name: built_in.get(name, one) for name, one in self.tools.items()}
        )


def gather_tools(
    settings: Settings,
    rules: RuleSet,
    workspace: str,
    functions: Iterable[Callable[..., Any]] = (),
    servers: McpServers | None = None,
) -> ToolSet:
    """Return the built-in tools and those of the configured packages, with what is switched off.

    `functions` are tools of the program that runs the agent. The tools of `servers` are offered
    directly while they are few, and can be found and called in any case. The built-in tools are
    only listed; see `ToolSet.with_session`. Raises `SettingsError` for a name in `tools_off` that
    no tool has, and `UsageError` for a function that cannot be a tool.
    """
    built_in = listed_tools()
    own = {*built_in, *(spec.name for spec in GRAPH_TOOLS)}
    loaded = load_plugins(settings.tool_packages, own)
    plugins = {plugin.tool.spec.name: plugin for plugin in loaded.plugins}
    for plugin in program_tools(functions, {*own, *plugins}):
        plugins[plugin.tool.spec.name] = plugin
    if servers is not None:
        found, taken = servers.tools(), {*own, *plugins}
        if len(found) <= settings.mcp_direct_tools:
            plugins |= {one.name: as_plugin(one) for one in found if one.name not in taken}
    known = {*own, *plugins}
    # A package that cannot be loaded may have the tool.
    unknown = () if loaded.problems else (one for one in settings.tools_off if one not in known)
    for name in unknown:
        raise _no_tool(settings, name, known)
    tools = {**built_in, **{name: plugin.tool for name, plugin in plugins.items()}}
    off = {name: why for name in known if (why := _off(name, settings, plugins, rules, workspace))}
    for one in parts("EXTENSIONS"):
        off |= one.switched_off(settings)
    if servers is None or not servers.any_enabled:
        off |= dict.fromkeys(SERVER_TOOLS, Phrase("no MCP server is configured"))
    told = servers.notices() if servers is not None else ()
    notices = (*loaded.problems, *_unknown_in_rules(rules, known, servers, loaded.problems), *told)
    return ToolSet(tools, plugins, off, _notes(settings), notices)


def _notes(settings: Settings) -> dict[str, Phrase]:
    """Return what tools lack that work all the same."""
    notes = {}
    if settings.brave_api_key is None:
        notes["web_search"] = Phrase(
            "without brave_api_key: the search of the model's provider, else DuckDuckGo"
        )
    if settings.github_token is None:
        notes["github"] = Phrase("without github_token: 60 requests an hour")
    notes[USE_SKILL] = Phrase("offered if there is a skill (/skills)")
    return notes


def _off(
    name: str, settings: Settings, plugins: Mapping[str, Plugin], rules: RuleSet, workspace: str
) -> Phrase | None:
    """Return why a tool is not offered, or None."""
    rule = rules.denying(name)
    if rule is not None:
        return by_rule(rule)
    if name in settings.tools_off:
        return Phrase("setting {name}", {"name": "tools_off"})
    if name in MEMORY_TOOLS and settings.memory == "off":
        return Phrase("setting {name}", {"name": "memory = off"})
    programs = plugins[name].programs if name in plugins else ()
    missing = [one for one in programs if find_user_program(one, workspace) is None]
    if missing:
        return Phrase("{program} is not installed", {"program": ", ".join(missing)})
    return None


def by_rule(rule: Rule) -> Phrase:
    """Return that a rule switches a tool off, with its reason where it has one."""
    if not rule.reason:
        return Phrase("rule {origin}", {"origin": rule.origin})
    return Phrase("rule {origin}: {reason}", {"origin": rule.origin, "reason": rule.reason})


def _no_tool(settings: Settings, name: str, known: set[str]) -> SettingsError:
    near = meant_tool(name, known)
    values = {"where": settings.origin("tools_off").shown, "name": name, "near": near}
    if near:
        return SettingsError(
            "There is no tool {name} (tools_off, {where}); did you mean {near}?", **values
        )
    return SettingsError(
        "There is no tool {name} (tools_off, {where}); `kogniterm tools` lists the tools.",
        **values,
    )


def _unknown_in_rules(
    rules: RuleSet, known: set[str], servers: McpServers | None, problems: Sequence[Phrase]
) -> list[Phrase]:
    """Return a notice about each rule for a tool that there is not.

    A tool may be of a package with `problems`, or of a server whose tools are not known yet.
    """
    found = []
    known = known | ({tool.name for tool in servers.tools()} if servers is not None else set())
    unlisted = servers.unlisted_prefixes() if servers is not None else ("mcp__",)
    for rule in rules.rules:
        if any(map(rule.names_tool, known)) or rule.tool.startswith(unlisted):
            continue
        values = {"origin": rule.origin, "name": rule.tool}
        if near := meant_tool(rule.tool, known):
            values["near"] = near
            found.append(Phrase("{origin}: there is no tool {name}; did you mean {near}?", values))
        elif not problems:
            found.append(Phrase("{origin}: there is no tool {name}, so it has no effect.", values))
    return found


@dataclass(frozen=True, slots=True)
class ToolService:
    """The tools of an open session, under the rules in force."""

    known: ToolSet
    policy: PolicyService
    modes: SessionModes
    cwd: Callable[[], str]
    extensions: ExtensionPort

    def __post_init__(self) -> None:
        self.policy.plugin_of, self.policy.tool_of = self._plugin, self.find
        self.policy.acting_for = self.extensions.acting_for

    def _plugin(self, name: str) -> Plugin | None:
        """Return the tool of another package or of an MCP server called `name`."""
        return self.known.plugins.get(name) or self.extensions.tools().get(name)

    def find(self, name: str) -> Tool | None:
        """Return the tool called `name`, also one of an MCP server that is not offered directly."""
        if name in self.known.tools:
            return self.known.tools[name]
        found = self.extensions.tools().get(name)
        return found.tool if found is not None else None

    def runnable(self, name: str) -> Tool:
        """Return the tool that an approved request names. Raises `ToolError`."""
        found = self.find(name)
        if found is None:
            raise ToolError("There is no tool {name} any more.", name=name)
        return found

    def redirect(
        self, name: str, arguments: Mapping[str, Any]
    ) -> tuple[Tool, Mapping[str, Any]] | None:
        if name != CALL_TOOL:
            return None
        found = {name: one.tool for name, one in self.extensions.tools().items()}
        wanted = str(arguments.get("tool", ""))
        if wanted not in found and (why := self.refusal(wanted)) is not None:
            raise ToolError("The tool {name} is switched off: {why}", name=wanted, why=why)
        return target_of(arguments, self.known.tools[CALL_TOOL], found)

    @property
    def offered(self) -> Mapping[str, Tool]:
        """Return the tools that the model gets, besides those of the graph."""
        unneeded = (name for one in self.extensions.extensions for name in one.unneeded())
        hidden = {*self.off, *unneeded}
        return {name: tool for name, tool in self.known.tools.items() if name not in hidden}

    @property
    def off(self) -> Mapping[str, Phrase]:
        return self.known.off

    def refusal(self, name: str) -> Phrase | None:
        if name in self.known.off:
            return self.known.off[name]
        rule = self.policy.in_force.denying(name)
        if rule is not None:
            return by_rule(rule)
        reasons = (one.why_without(name) for one in self.extensions.extensions)
        return next((why for why in reasons if why is not None), None)

    def holds_back(self, name: str, arguments: Mapping[str, object]) -> bool:
        if self.extensions.holds_back(name):
            return True
        if not self.policy.in_force.about(name):
            return False
        request = ActionRequest("", "", name, name, arguments=arguments, effect="read")
        return self.policy.restricts(request, self.cwd(), self.modes.approval)
