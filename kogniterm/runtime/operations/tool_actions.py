"""Tools: what `kogniterm tools` and /tools both do, and how both show it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.errors import UsageError
from kogniterm.runtime.operations.action import Action, Argument, Report, Shown
from kogniterm.types import ApprovalMode, EffectClass, Phrase, PlanMode, ToolSpec

if TYPE_CHECKING:
    from kogniterm.approval import RuleSet
    from kogniterm.approval.policy.rules import Rule
    from kogniterm.paths import Paths
    from kogniterm.runtime.extensions.tool_service import ToolSet
    from kogniterm.runtime.session import LiveSession
    from kogniterm.settings import Settings

PLAN_REFUSES = frozenset({"edit", "network", "external"})
"""Effects that plan mode refuses."""


class ToolEntry(NamedTuple):
    """A tool as users see it.

    `effect` is what it declares, or the strongest of its calls; `package` is empty for a built-in
    one. `off` tells why it is switched off, None: it is on; `note` what else there is to know.
    """

    spec: ToolSpec
    effect: EffectClass
    package: str = ""
    off: Phrase | None = None
    note: Phrase | None = None
    rules: tuple[Rule, ...] = ()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def json(self) -> dict[str, Any]:
        """Return the entry for programs."""
        return {
            "name": self.name,
            "effect": self.effect,
            "source": "package" if self.package else "built_in",
            "package": self.package or None,
            "state": "off" if self.off is not None else "on",
            "reason": str(self.off) if self.off is not None else None,
            "note": str(self.note) if self.note is not None else None,
        }

    @property
    def full_json(self) -> dict[str, Any]:
        """Return the entry with its description, arguments and rules."""
        from kogniterm.runtime.extensions.tool_names import shared_name

        rules = [
            {"from": rule.origin, "decision": rule.decision, "reason": rule.reason or None}
            for rule in self.rules
        ]
        described = {
            "description": self.spec.description,
            "arguments": dict(self.spec.parameters),
            "hook_name": shared_name(self.name),
        }
        return {**self.json, **described, "rules": rules}


class Listed(NamedTuple):
    """The tools, and what went wrong with others."""

    entries: tuple[ToolEntry, ...]
    notices: tuple[Phrase, ...] = ()

    def find(self, name: str) -> ToolEntry:
        """Return the tool called `name`. Raises `UsageError` with the name that was meant."""
        from kogniterm.runtime.extensions.tool_names import meant_tool

        for entry in self.entries:
            if entry.name == name:
                return entry
        near = meant_tool(name, [entry.name for entry in self.entries])
        if near is not None:
            raise UsageError("There is no tool {name}; did you mean {near}?", name=name, near=near)
        raise UsageError("There is no tool {name}; `kogniterm tools` lists the tools.", name=name)


def tools_of_session(session: LiveSession) -> Listed:
    """Return the tools of an open session, in its present modes."""
    service, modes = session.extensions.tools, session.modes
    listed = _list_tools(service.known, session.policy.in_force, modes.approval, modes.plan_mode)
    if not modes.model.info.one_command:
        return listed
    why = Phrase("model {model}", {"model": modes.model.info.name})
    graph = {spec.name for spec in service.known.specs[-3:]}
    entries = tuple(
        entry._replace(off=entry.off or why) if entry.name in graph else entry
        for entry in listed.entries
    )
    return Listed(entries)


def tools_of_folder(settings: Settings, paths: Paths, folder: str) -> Listed:
    """Return the tools that a new session in `folder` would have."""
    from kogniterm import prompts
    from kogniterm.runtime.extensions.servers.mcp_servers import Surroundings, open_servers
    from kogniterm.runtime.extensions.tool_service import gather_tools
    from kogniterm.runtime.services.policy_service import project_rules_of, rules_of
    from kogniterm.runtime.trust.trust_store import policy_texts, trusted_files
    from kogniterm.settings import environment

    files, notices = trusted_files(paths, Path(folder))
    rules = rules_of(paths.policy_file) + project_rules_of(policy_texts(files))
    prompts.use(prompts.own_files(paths.prompts))
    place = Surroundings(folder, environment(), None, lambda: "", files)  # none is started
    known = gather_tools(settings, rules, folder, servers=open_servers(paths, place))
    listed = _list_tools(known, rules, settings.approval_mode, settings.plan)
    return Listed(listed.entries, (*known.notices, *notices))


def _list_tools(known: ToolSet, rules: RuleSet, mode: ApprovalMode, plans: PlanMode) -> Listed:
    return Listed(tuple(_entry(spec, known, rules, mode, plans) for spec in known.specs))


def _entry(
    spec: ToolSpec, known: ToolSet, rules: RuleSet, mode: ApprovalMode, plans: PlanMode
) -> ToolEntry:
    from kogniterm.agent.plan.plan_tools import PLAN_TOOLS
    from kogniterm.runtime.extensions.tool_service import by_rule

    plugin = known.plugins.get(spec.name)
    effect = plugin.effect if plugin is not None else spec.may or spec.effect
    package = plugin.source if plugin is not None else ""
    off, note = known.off.get(spec.name), known.notes.get(spec.name)
    denying = rules.denying(spec.name)
    if off is None and denying is not None:
        off = by_rule(denying)
    if off is None and plans == "never" and spec.name in PLAN_TOOLS:
        off = Phrase("setting {name}", {"name": "plan = never"})
    if mode == "plan" and off is None:
        if spec.effect in PLAN_REFUSES:
            off = Phrase("plan mode")
        elif spec.effect in ("command", "hosts"):
            note = Phrase("plan mode: commands that only read")
    return ToolEntry(spec, effect, package, off, note, rules.about(spec.name))


def list_tools(listed: Listed) -> Report:
    """List the tools with their effect, their source and what switches them off."""
    off = sum(entry.off is not None for entry in listed.entries)
    counts = {"on": len(listed.entries) - off, "off": off}
    return Report(
        [entry.json for entry in listed.entries],
        [Phrase("Tools: {on} on, {off} off", counts)],
        [
            (entry.name, _EFFECTS[entry.effect], _source(entry), _state(entry))
            for entry in listed.entries
        ],
        listed.notices,
    )


def show_tool(listed: Listed, name: str) -> Report:
    """Show a tool with its arguments and what decides about it. Raises `UsageError`."""
    entry = listed.find(name)
    arguments: list[tuple[Shown, Shown]] = _arguments(entry.spec)
    if arguments:
        arguments.insert(0, (Phrase("Arguments"), Phrase("* required")))
    rows: list[tuple[Shown, Shown]] = [
        (Phrase("Source"), _source(entry)),
        (Phrase("Effect"), _EFFECTS[entry.effect]),
        (Phrase("State"), _state(entry)),
        *((Phrase("Rule"), _rule_text(rule)) for rule in entry.rules),
        (Phrase("Otherwise") if entry.rules else Phrase("Approval"), _otherwise(entry)),
    ]
    lines = [entry.name, *entry.spec.description.splitlines()]
    return Report(entry.full_json, lines, [*rows, *arguments])


ACTIONS = (
    Action("list", "List the tools of the model and their state", list_tools),
    Action("show", "Explain one tool", show_tool, (Argument("name", "Name of a tool", "NAME"),)),
)

_EFFECTS: Mapping[EffectClass, Phrase] = {
    "none": Phrase("no effect"),
    "read": Phrase("reads files"),
    "edit": Phrase("edits files"),
    "network": Phrase("uses the network"),
    "command": Phrase("runs commands"),
    "hosts": Phrase("runs commands on hosts"),
    "person": Phrase("asks you"),
    "keystrokes": Phrase("controls jobs"),
    "external": Phrase("unknown effect"),
}


def _source(entry: ToolEntry) -> Phrase:
    if not entry.package:
        return Phrase("built in")
    return Phrase("package {name}", {"name": entry.package})


def _state(entry: ToolEntry) -> Phrase:
    if entry.off is not None:
        return Phrase("off ({why})", {"why": entry.off})
    return Phrase("on") if entry.note is None else Phrase("on ({why})", {"why": entry.note})


_DECISIONS = {"allow": Phrase("allow"), "ask": Phrase("ask"), "deny": Phrase("deny")}


def _rule_text(rule: Rule) -> Phrase:
    """Return a rule about a tool: its decision, what narrows it, its reason and its place."""
    narrowed = [
        *(f"program {name}" for name in rule.programs),
        *([f"arguments {rule.arguments.pattern}"] if rule.arguments is not None else []),
        *([f"path {rule.path}"] if rule.path is not None else []),
        *([f"mode {rule.mode}"] if rule.mode is not None else []),
    ]
    about = f" ({', '.join(narrowed)})" if narrowed else ""
    reason = f": {rule.reason}" if rule.reason else ""
    values = {"decision": _DECISIONS[rule.decision], "more": f"{about}{reason} · {rule.origin}"}
    return Phrase("{decision}{more}", values)


_BY_EFFECT = {
    "command": Phrase("Every command is checked; your rules, the mode or you decide."),
    "hosts": Phrase("Every command is checked like a local one; you decide on its hosts."),
    "edit": Phrase(
        "Asks; in accept-edits and auto mode, edits of workspace files run without a question."
    ),
    "network": Phrase("Asks, unless a rule of yours allows the tool."),
    "person": Phrase("Never asks for approval: it puts a question to you."),
    "keystrokes": Phrase("Reads without a question; asks before it types, stops or keeps a job."),
    "read": Phrase("Reads without a question; asks before it reads a file that may hold secrets."),
    "none": Phrase("Runs without a question: it changes nothing outside the session."),
}
_FOREIGN = Phrase("Asks, whatever effect it declares, unless a rule of yours allows the tool.")


def _otherwise(entry: ToolEntry) -> Phrase:
    """Return what decides where no rule does."""
    if entry.package:
        return _FOREIGN
    if entry.name == "delegate":
        return Phrase("Runs without a question; each action of the sub-agent is decided by itself.")
    return _BY_EFFECT[entry.effect]


def _arguments(spec: ToolSpec) -> list[tuple[Shown, Shown]]:
    """Return each argument with its type and description; a star follows a required name."""
    properties: Mapping[str, Mapping[str, Any]] = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", ())
    return [
        (f"{name}*" if name in required else name,
         "  ".join(filter(None, (_type(one), str(one.get("description", ""))))))
        for name, one in properties.items()
    ]  # fmt: skip


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return "|".join(_type(one) for one in schema["anyOf"])
    kind = str(schema.get("type", "object"))
    return f"{kind} of {_type(schema['items'])}" if "items" in schema else kind
