"""gemini-cli: `~/.gemini` with settings.json, commands in TOML, GEMINI.md, skills and agents.

Sources, in github.com/google-gemini/gemini-cli: docs/tools/mcp-server.md (`httpUrl` is streamable
HTTP, `url` is SSE unless `type` says otherwise, `timeout` in milliseconds, `$NAME` and `${NAME}`),
docs/hooks/reference.md (events, `timeout` in milliseconds, matchers are regular expressions over
names of tools), docs/cli/custom-commands.md (TOML files, which KogniTerm reads as they are).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kogniterm.addons.import_agents.foreign.found import Found, Place
from kogniterm.addons.import_agents.foreign.found_parts import (
    Findings,
    mapping,
    markdown,
    seconds,
    sequence,
    show_name,
    strings,
    with_braces,
)
from kogniterm.errors import SettingsError
from kogniterm.runtime.extensions.front_matter import read_document
from kogniterm.runtime.extensions.tool_names import own_tools, shared_name
from kogniterm.settings.user_files import toml_values
from kogniterm.types import Phrase

_EVENTS = {
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
    "BeforeAgent": "UserPromptSubmit",
    "AfterAgent": "Stop",
    "PreCompress": "PreCompact",
    "SessionStart": "SessionStart",
    "SessionEnd": "SessionEnd",
    "Notification": "Notification",
}
_OF_TOOLS = frozenset({"BeforeTool", "AfterTool"})
_SIGN_IN = ("clientId", "clientSecret", "scopes")
_SETTINGS_OF_HOOKS = frozenset({"enabled", "disabled", "notifications"})
"""Keys that stood among the events before there was `hooksConfig`."""


def gemini(place: Place) -> Found:
    """Return what gemini-cli has set up."""
    parts = Findings(place)
    root = place.project
    if root is None:
        home = place.environ.get("GEMINI_CLI_HOME", "")
        root = Path(home) if home.startswith("/") else place.home
    folder = root / ".gemini"
    settings = parts.files.settings(folder / "settings.json")
    _servers(parts, settings)
    _hooks(parts, settings)
    parts.skills(folder / "skills")
    for name, text in parts.files.texts(folder / "agents", ".md"):
        document = read_document(text)
        # By their shared names where they have one; without the others it would have all tools.
        tools = [
            shared_name(tool)
            for one in document.words("tools")
            for tool in own_tools(one) or (one,)
        ]
        title = document.text("name") or name
        fields: dict[str, object] = {"name": title, "description": document.text("description")}
        if tools and tools != ["*"]:
            fields["tools"] = ", ".join(tools)
        parts.agent(title, markdown(fields, document.body))
    if place.project is not None:
        return parts.build()
    for name, text in parts.files.texts(folder / "commands", ".toml"):
        _command(parts, name, text)
    names = mapping(settings.get("context")).get("fileName", "GEMINI.md")
    for one in [names] if isinstance(names, str) else strings(names):
        if "/" not in one:
            parts.instructions(folder / one)
    if any(mapping(settings.get("tools")).get(key) for key in ("allowed", "core", "exclude")):
        parts.permissions_in(parts.files.show_path(folder / "settings.json"))
    if any(parts.files.texts(folder / "policies", ".toml", 1)):
        parts.permissions_in(parts.files.show_path(folder / "policies"))
    if extensions := parts.files.folders(folder / "extensions"):
        parts.leave_out(Phrase("Extensions: {names}.", {"names": show_name(", ".join(extensions))}))
    parts.env_file(folder / ".env")
    parts.key_variables("GEMINI_API_KEY", "GOOGLE_API_KEY")
    parts.key_file(folder / "oauth_creds.json")
    model = settings.get("model")
    chosen = mapping(model).get("name") or model
    parts.model = chosen if isinstance(chosen, str) else ""
    return parts.build()


def _servers(parts: Findings, settings: Mapping[str, Any]) -> None:
    limits = mapping(settings.get("mcp"))
    allowed, excluded = strings(limits.get("allowed")), strings(limits.get("excluded"))
    for name, entry in parts.servers(settings.get("mcpServers")):
        made = dict(with_braces(entry))
        if made.pop("authProviderType", None) not in (None, "dynamic_discovery"):
            parts.leave_out(
                Phrase(
                    "MCP server {name}: it needs a login of Google, which KogniTerm does not have.",
                    {"name": show_name(name)},
                )
            )
            continue
        if made.pop("trust", False):
            parts.leave_out(
                Phrase(
                    "MCP server {name}: its calls ran without a question there; KogniTerm asks.",
                    {"name": show_name(name)},
                )
            )
        http = made.pop("httpUrl", None)
        if http is not None:
            made |= {"url": http, "type": "http"}
        elif "url" in made:
            made.setdefault("type", "sse")
        made["timeout"] = seconds(made.get("timeout"))
        oauth = mapping(made.get("oauth"))
        made["oauth"] = {key: oauth[key] for key in _SIGN_IN if oauth.get(key)}
        if name in excluded or (allowed and name not in allowed):
            made["enabled"] = False
        parts.server(name, made)


def _hooks(parts: Findings, settings: Mapping[str, Any]) -> None:
    section = mapping(settings.get("hooks"))
    config = {**section, **mapping(settings.get("hooksConfig"))}
    if config.get("enabled") is False:
        if set(section) - _SETTINGS_OF_HOOKS:
            parts.leave_out(Phrase("Hooks: they are switched off there."))
        return
    disabled = strings(config.get("disabled"))
    for event, groups in section.items():
        if event in _SETTINGS_OF_HOOKS:
            continue
        for group in map(mapping, sequence(groups)):
            matcher = group.get("matcher")
            words = _matcher(event, matcher if isinstance(matcher, str) else "")
            for entry in map(mapping, sequence(group.get("hooks"))):
                if entry.get("name") in disabled or entry.get("command") in disabled:
                    parts.leave_out(
                        Phrase("A hook for {event}: it is switched off there.", {"event": event})
                    )
                elif words is None:
                    parts.leave_out(
                        Phrase(
                            "A hook for {event}: {matcher} has no exact counterpart.",
                            {"event": show_name(event), "matcher": show_name(str(matcher))},
                        )
                    )
                else:
                    parts.hook(_EVENTS.get(event, event), words, _entry(entry))


def _matcher(event: str, matcher: str) -> str | None:
    """Return a matcher with the shared names of tools; None where it has no exact counterpart."""
    if matcher in ("", "*", ".*") or event not in _OF_TOOLS:
        return "" if matcher in ("*", ".*") else matcher
    names = matcher.strip("^$()").split("|")
    if not all(re.fullmatch(r"\w+", name) and own_tools(name) for name in names):
        return None
    return "|".join(dict.fromkeys(shared_name(tool) for one in names for tool in own_tools(one)))


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a hook's command, with its time in seconds and its folder by the shared name."""
    made: dict[str, Any] = {"type": entry.get("type", "command")}
    command = entry.get("command")
    if isinstance(command, str):
        made["command"] = re.sub(
            r"\$(?:GEMINI_PROJECT_DIR\b|\{GEMINI_PROJECT_DIR\})", "$CLAUDE_PROJECT_DIR", command
        )
    if (limit := seconds(entry.get("timeout"))) is not None:
        made["timeout"] = limit
    return made


def _command(parts: Findings, name: str, text: str) -> None:
    try:
        fields = toml_values(name, text).data
    except SettingsError:
        parts.leave_out(Phrase("Command {name}: its file is malformed.", {"name": show_name(name)}))
        return
    if isinstance(fields.get("prompt"), str):
        parts.command(name, text, ".toml")
    else:
        parts.leave_out(Phrase("Command {name}: it has no prompt.", {"name": show_name(name)}))
