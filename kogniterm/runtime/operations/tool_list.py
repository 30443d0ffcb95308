"""Every tool for the user: what it does, where it is from, its state, and the rules about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm import prompts
from kogniterm.agent.plan.plan_tools import PLAN_TOOLS
from kogniterm.approval import RuleSet
from kogniterm.approval.policy.rules import Rule
from kogniterm.errors import UsageError
from kogniterm.runtime.extensions.servers.open_servers import Surroundings, open_servers
from kogniterm.runtime.extensions.tool_names import meant_tool, shared_name
from kogniterm.runtime.extensions.tool_service import ToolSet, by_rule, gather_tools
from kogniterm.runtime.services.policy_service import project_rules_of, rules_of
from kogniterm.runtime.trust.trust_store import TrustStore, policy_texts, trusted_files
from kogniterm.settings import Settings, environment
from kogniterm.types import ApprovalMode, EffectClass, Phrase, PlanMode, ToolSpec

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.runtime.session import LiveSession

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
    listed = _listed(service.known, session.policy.in_force, modes.approval, modes.plan_mode)
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
    files, notices = trusted_files(TrustStore(paths.trust_file), Path(folder))
    rules = rules_of(paths.policy_file) + project_rules_of(policy_texts(files))
    prompts.use(prompts.own_files(paths.prompts))
    place = Surroundings(folder, environment(), None, lambda: "", files)  # none is started
    known = gather_tools(settings, rules, folder, servers=open_servers(paths, place))
    listed = _listed(known, rules, settings.approval_mode, settings.plan)
    return Listed(listed.entries, (*known.notices, *notices))


def _listed(known: ToolSet, rules: RuleSet, mode: ApprovalMode, plans: PlanMode) -> Listed:
    return Listed(tuple(_entry(spec, known, rules, mode, plans) for spec in known.specs))


def _entry(
    spec: ToolSpec, known: ToolSet, rules: RuleSet, mode: ApprovalMode, plans: PlanMode
) -> ToolEntry:
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


def arguments_of(spec: ToolSpec) -> list[tuple[str, str, str]]:
    """Return (name, type, description) of each argument; a star follows a required name."""
    properties: Mapping[str, Mapping[str, Any]] = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", ())
    return [
        (f"{name}*" if name in required else name, _type(one), str(one.get("description", "")))
        for name, one in properties.items()
    ]


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return "|".join(_type(one) for one in schema["anyOf"])
    kind = str(schema.get("type", "object"))
    return f"{kind} of {_type(schema['items'])}" if "items" in schema else kind
