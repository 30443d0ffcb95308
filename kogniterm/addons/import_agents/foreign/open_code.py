"""opencode: `~/.config/opencode` with opencode.json or .jsonc, commands, agents, AGENTS.md, skills.

Sources: opencode.ai/docs (v1: servers directly below `mcp`, `enabled`, `environment`, the command
as a list; `command` and `agent` with their texts) and opencode.ai/v2/docs (servers below
`mcp.servers`, `disabled`, `cwd`; `commands` and `agents`); `{env:NAME}` stands for a variable and
`{file:PATH}` for a file; of the agents, those with `mode: primary` are no sub-agents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kogniterm.addons.import_agents.foreign.found import Found, Place
from kogniterm.addons.import_agents.foreign.found_parts import (
    Findings,
    mapping,
    markdown,
    scalar,
    seconds,
    show_name,
    strings,
)
from kogniterm.runtime.extensions.front_matter import MarkdownDocument, read_document
from kogniterm.runtime.extensions.tool_names import own_tools, shared_name
from kogniterm.types import Phrase

_VARIABLE = re.compile(r"\{env:(\w+)\}")
_TOOLS = {
    key: tuple(shared_name(tool) for name in names for tool in own_tools(name))
    for key, names in {
        "bash": ("bash",), "shell": ("bash",), "read": ("read",), "write": ("write",),
        "edit": ("edit", "write"), "grep": ("grep",), "glob": ("glob",), "list": ("list",),
        "webfetch": ("webfetch",), "websearch": ("websearch",),
    }.items()
}  # fmt: skip
"""Names of tools and permissions, and of the tools that sub-agents get for them."""


def opencode(place: Place) -> Found:
    """Return what opencode has set up."""
    parts = Findings(place)
    if place.project is not None:
        folder = place.project / ".opencode"
        files = [place.project / "opencode.json", place.project / "opencode.jsonc"]
    else:
        folder = place.folder_at("XDG_CONFIG_HOME", ".config") / "opencode"
        files = []
    files += [folder / "opencode.json", folder / "opencode.jsonc", folder / "config.json"]
    for file in files:
        settings = parts.files.settings(file)
        _settings(parts, settings)
        if settings.get("permission") or settings.get("permissions"):
            parts.permissions_in(parts.files.show_path(file))
    for name in ("commands", "command"):
        for title, text in parts.files.texts(folder / name, ".md"):
            parts.command(title, text)
    for name in ("agents", "agent"):
        for title, text in parts.files.texts(folder / name, ".md"):
            _agent(parts, title, read_document(text))
    for name in ("skills", "skill"):
        parts.skills(folder / name)
    if place.project is not None:
        return parts.build()
    parts.instructions(folder / "AGENTS.md")
    parts.key_file((place.folder_at("XDG_DATA_HOME", ".local/share") / "opencode") / "auth.json")
    return parts.build()


def _settings(parts: Findings, settings: Mapping[str, Any]) -> None:
    section = mapping(settings.get("mcp"))
    newer = mapping(section.get("servers"))
    # A server of the former format may be called `servers`; that entry has a type.
    older = section if "type" in newer else {k: v for k, v in section.items() if k != "servers"}
    servers = older if "type" in newer else {**older, **newer}
    for name, entry in parts.servers(
        {k: v for k, v in servers.items() if isinstance(v, Mapping) and _is_server(v)}
    ):
        _server(parts, name, entry)
    for key in ("commands", "command"):
        for name, entry in mapping(settings.get(key)).items():
            fields = mapping(entry)
            template = fields.get("template")
            if isinstance(template, str):
                described = {"description": fields.get("description")}
                parts.command(name, markdown(described, template))
    for key in ("agents", "agent"):
        for name, entry in mapping(settings.get(key)).items():
            fields = mapping(entry)
            prompt = fields.get("prompt") or fields.get("system")
            if isinstance(prompt, str):
                _agent(parts, name, MarkdownDocument(fields, prompt))
    if plugins := strings(settings.get("plugin") or settings.get("plugins")):
        parts.leave_out(Phrase("Plugins: {names}.", {"names": show_name(", ".join(plugins))}))
    if more := strings(settings.get("instructions")):
        parts.leave_out(
            Phrase("Further instruction files: {names}.", {"names": show_name(", ".join(more))})
        )
    model = settings.get("model")
    if isinstance(model, str):
        parts.model = model


def _is_server(entry: Mapping[str, Any]) -> bool:
    return any(key in entry for key in ("type", "command", "url"))


def _server(parts: Findings, name: str, entry: Mapping[str, Any]) -> None:
    if "{file:" in str(entry):
        parts.leave_out(
            Phrase(
                "MCP server {name}: it takes a value from a file ({what}).",
                {"name": show_name(name), "what": "{file:…}"},
            )
        )
        return
    made = dict(_with_variables(entry))
    command = made.get("command")
    if isinstance(command, list):
        words = strings(command)
        made |= {"command": words[0] if words else None, "args": words[1:]}
    made["env"] = mapping(made.pop("environment", None)) or mapping(made.get("env"))
    made["type"] = "http" if "url" in made else "stdio"
    oauth = mapping(made.pop("oauth", None))
    sign_in = {key: oauth[key] for key in ("clientId", "clientSecret") if oauth.get(key)}
    if words := scalar(oauth.get("scope") or "").split():
        sign_in["scopes"] = words
    made["oauth"] = sign_in
    timeout = made.get("timeout")
    # In the newer format there are several, of which the one of a call counts here.
    made["timeout"] = seconds(mapping(timeout).get("execution", timeout))
    parts.server(name, made)


def _with_variables(value: Any) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(r"${\1}", value)
    if isinstance(value, Mapping):
        return {key: _with_variables(one) for key, one in value.items()}
    return [_with_variables(one) for one in value] if isinstance(value, list) else value


def _agent(parts: Findings, name: str, document: MarkdownDocument) -> None:
    """Add an agent that others may call, with the tools that it may use.

    A tool that it may not use, or only after a question, is not among them; an agent that has no
    limits of its own gets no list.
    """
    title = name.rpartition("/")[2]
    if document.text("mode") == "primary":
        parts.leave_out(Phrase("Agent {name}: it is no sub-agent.", {"name": show_name(title)}))
        return
    if document.fields.get("disable") is True or document.fields.get("disabled") is True:
        parts.leave_out(
            Phrase("Agent {name}: it is switched off there.", {"name": show_name(title)})
        )
        return
    fields: dict[str, object] = {"name": title, "description": document.text("description")}
    limits = [document.fields.get(key) for key in ("tools", "permission", "permissions")]
    if not all(one in (None, "allow") or isinstance(one, Mapping) for one in limits):
        parts.leave_out(
            Phrase("Agent {name}: its limits have no counterpart.", {"name": show_name(title)})
        )
        return
    rights = {key: right for one in limits for key, right in mapping(one).items()}
    refused = {key for key, right in rights.items() if right not in (True, "allow", "ask")}
    if refused:
        usual = set() if "*" in refused else {one for names in _TOOLS.values() for one in names}
        given = {one for key in set(rights) - refused for one in _TOOLS.get(key, ())}
        without = {one for key in refused for one in _TOOLS.get(key, ())}
        fields["tools"] = ", ".join(sorted((usual | given) - without)) or "Read"
        if unknown := sorted(refused - set(_TOOLS) - {"*"}):
            parts.leave_out(
                Phrase(
                    "Agent {name}: its limits for {tools} are not taken over.",
                    {"name": show_name(title), "tools": show_name(", ".join(unknown))},
                )
            )
    parts.agent(title, markdown(fields, document.body))
