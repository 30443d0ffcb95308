"""Codex: `~/.codex` with config.toml, hooks.json, prompts, AGENTS.md and skills.

Sources: github.com/openai/codex, codex-rs/config/src/mcp_types.rs (the keys of a server; times in
seconds, `env_vars` are handed on, `env_http_headers` and `bearer_token_env_var` name variables),
docs/config.md, and developers.openai.com/codex (hooks in hooks.json or as `[[hooks.EVENT]]`, in
Claude Code's shape; skills in `~/.agents/skills`; prompts with `$1`, `$ARGUMENTS` and `$NAME`).
`CODEX_HOME` moves the folder.
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
    name_of,
    scalar,
    seconds,
    sequence,
    show_name,
    strings,
)
from kogniterm.errors import SettingsError
from kogniterm.settings.user_files import toml_values
from kogniterm.types import Phrase

_NAMED = re.compile(r"(?<!\$)\$(?!ARGUMENTS\b)([A-Z][A-Z0-9_]*)")
_UNUSED = frozenset({"required", "supports_parallel_tool_calls", "name", "scopes"})
"""Keys of a server that have no effect in KogniTerm, whose servers start at their first call."""


def codex(place: Place) -> Found:
    """Return what Codex has set up."""
    parts = Findings(place)
    if place.project is not None:
        folder = place.project / ".codex"
    else:
        folder = place.folder_at("CODEX_HOME", ".codex")
    settings = parts.files.settings(folder / "config.toml")
    for name, entry in parts.servers(settings.get("mcp_servers")):
        _server(parts, name, entry)
    parts.hooks(parts.files.settings(folder / "hooks.json").get("hooks"))
    inline = mapping(settings.get("hooks"))
    parts.hooks({event: groups for event, groups in inline.items() if event != "state"})
    parts.skills(folder / "skills")
    for name, text in parts.files.texts(folder / "agents", ".toml"):
        _agent(parts, name, text)
    if place.project is not None:
        return parts.build()
    parts.skills(place.home / ".agents" / "skills")
    for name, text in parts.files.texts(folder / "prompts", ".md", 1):
        if names := dict.fromkeys(_NAMED.findall(text)):
            parts.leave_out(
                Phrase(
                    "Command {name}: named arguments ({names}) are not filled in.",
                    {"name": show_name(name), "names": show_name(", ".join(names))},
                )
            )
        parts.command(name, text)
    if not parts.instructions(folder / "AGENTS.override.md"):
        parts.instructions(folder / "AGENTS.md")
    if any(parts.files.texts(folder / "rules", ".rules", 1)):
        parts.permissions_in(parts.files.show_path(folder / "rules"))
    parts.key_variables("OPENAI_API_KEY", "CODEX_API_KEY")
    for provider in mapping(settings.get("model_providers")).values():
        key = mapping(provider).get("env_key")
        parts.keys_of([key] if isinstance(key, str) else [])
    parts.key_file(folder / "auth.json")
    model = settings.get("model")
    parts.model = model if isinstance(model, str) else ""
    return parts.build()


def _server(parts: Findings, name: str, entry: Mapping[str, Any]) -> None:
    made = {key: value for key, value in entry.items() if key not in _UNUSED}
    scopes = strings(entry.get("scopes"))
    variables = [
        one if isinstance(one, str) else mapping(one).get("name")
        for one in sequence(made.pop("env_vars", None))
    ]
    # Those that are not set are no mistake there.
    handed = {one: f"${{{one}:-}}" for one in variables if isinstance(one, str)}
    made["env"] = {**handed, **mapping(made.get("env"))}
    headers = dict(mapping(made.pop("http_headers", None)))
    for header, variable in mapping(made.pop("env_http_headers", None)).items():
        headers[header] = f"${{{scalar(variable)}}}"
    if (token := made.pop("bearer_token_env_var", None)) is not None:
        headers["Authorization"] = f"Bearer ${{{scalar(token)}}}"
    elif (token := made.pop("bearer_token", None)) is not None:
        headers["Authorization"] = f"Bearer {scalar(token)}"
    made["headers"] = headers
    made["timeout"] = made.pop("tool_timeout_sec", None)
    made["startup_timeout"] = made.pop("startup_timeout_sec", None) or seconds(
        made.pop("startup_timeout_ms", None)
    )
    oauth = {"clientId": mapping(made.pop("oauth", None)).get("client_id"), "scopes": scopes}
    made["oauth"] = {key: value for key, value in oauth.items() if value}
    for theirs, ours in (("enabled_tools", "includeTools"), ("disabled_tools", "excludeTools")):
        if theirs in made:
            made[ours] = made.pop(theirs)
    if "url" in made:
        made["type"] = "http"
    parts.server(name, made)


def _agent(parts: Findings, name: str, text: str) -> None:
    try:
        fields = toml_values(name, text).data
    except SettingsError:
        parts.leave_out(
            Phrase("Sub-agent {name}: its file is malformed.", {"name": show_name(name)})
        )
        return
    body = fields.get("developer_instructions")
    if not isinstance(body, str):
        parts.leave_out(
            Phrase("Sub-agent {name}: it has no instructions.", {"name": show_name(name)})
        )
        return
    title = name_of(scalar(fields.get("name", name)))
    description = fields.get("description")
    told = description if isinstance(description, str) else ""
    # An agent that may only read there must not get more here.
    reads = fields.get("sandbox_mode") == "read-only"
    tools = "Read, Grep, Glob" if reads else ""
    parts.agent(title, markdown({"name": title, "description": told, "tools": tools}, body))
