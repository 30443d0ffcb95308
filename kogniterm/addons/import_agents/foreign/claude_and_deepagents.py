"""Claude Code and Deep Agents Code: the shapes that KogniTerm shares.

Claude Code (code.claude.com/docs: settings, mcp, hooks, skills, sub-agents, memory): `~/.claude`
holds settings.json, skills, commands, agents, rules and CLAUDE.md; `~/.claude.json` holds the MCP
servers (times in milliseconds), those of single folders below `projects`. `CLAUDE_CONFIG_DIR`
moves both.

Deep Agents Code (docs.langchain.com/oss/python/deepagents/code: configuration, hooks, memory and
skills): `~/.deepagents` holds .mcp.json and hooks.json, and for each agent a folder with AGENTS.md,
skills and sub-agents. `DEEPAGENTS_HOME` moves it. Its former hooks, a list with `events`, get
another input than KogniTerm gives.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kogniterm.addons.import_agents.foreign.found import Found, Place
from kogniterm.addons.import_agents.foreign.found_parts import (
    Findings,
    mapping,
    markdown,
    seconds,
    sequence,
    show_name,
    strings,
)
from kogniterm.paths import resolve
from kogniterm.runtime.extensions.front_matter import read_document
from kogniterm.text.visible import render_words
from kogniterm.types import Phrase

_DECISIONS: tuple[Literal["deny", "ask", "allow"], ...] = ("deny", "ask", "allow")


def claude(place: Place) -> Found:
    """Return what Claude Code has set up."""
    parts = Findings(place)
    folder = place.folder_at("CLAUDE_CONFIG_DIR", ".claude")
    beside = folder if place.environ.get("CLAUDE_CONFIG_DIR", "") else place.home
    if place.project is not None:
        # What is the user's alone in this folder stands in their own file.
        state = Findings(Place(place.home, place.environ))
        projects = mapping(state.files.settings(beside / ".claude.json").get("projects"))
        parts.files.read += state.files.read
        parts.files.problems += state.files.problems
        for name in dict.fromkeys((str(place.project), os.path.realpath(place.project))):
            _servers(parts, mapping(projects.get(name)).get("mcpServers"))
        return parts.build()
    settings = parts.files.settings(folder / "settings.json")
    saved = parts.files.settings(beside / ".claude.json")
    projects = mapping(saved.get("projects"))
    _servers(parts, saved.get("mcpServers"))
    _servers(parts, settings.get("mcpServers"))
    for name, project in projects.items():
        if names := mapping(mapping(project).get("mcpServers")):
            parts.leave_out(
                Phrase(
                    "MCP servers of the folder {folder}: {names}. Run kogniterm import claude "
                    "--project there.",
                    {"folder": show_name(name), "names": show_name(", ".join(names))},
                )
            )
    if settings.get("disableAllHooks") is True:
        parts.leave_out(Phrase("Hooks: they are switched off there."))
    else:
        parts.hooks(settings.get("hooks"))
    permissions = mapping(settings.get("permissions"))
    for decision in _DECISIONS:
        for words in strings(permissions.get(decision)):
            parts.rule(decision, words)
    _plugins(parts, folder, mapping(settings.get("enabledPlugins")))
    parts.skills(folder / "skills")
    for name, text in parts.files.texts(folder / "commands", ".md"):
        parts.command(name, text)
    for name, text in parts.files.texts(folder / "agents", ".md"):
        parts.agent(read_document(text).text("name") or name, text)
    parts.instructions(folder / "CLAUDE.md")
    for name, text in parts.files.texts(folder / "rules", ".md"):
        file = folder / "rules" / f"{name}.md"
        if read_document(text).fields.get("paths"):
            told = {"file": parts.files.show_path(file)}
            parts.leave_out(Phrase("{file}: it is for some files only.", told))
        else:
            parts.instructions(file, text)
    parts.keys_of(mapping(settings.get("env")))
    parts.key_variables("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    parts.key_file(folder / ".credentials.json")
    parts.model = _word(settings.get("model"))
    return parts.build()


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _plugins(parts: Findings, folder: Path, enabled: Mapping[str, Any]) -> None:
    """Note the plugins, each with the command that copies it from where it is installed."""
    if not enabled:
        return
    found = parts.files.settings(folder / "plugins" / "installed_plugins.json")
    installed = mapping(found.get("plugins"))
    own = resolve({"HOME": str(parts.place.home), **parts.place.environ}).extensions.plugins
    for key in enabled:
        entries = [mapping(one).get("installPath") for one in sequence(installed.get(key))]
        path = next((one for one in entries if isinstance(one, str)), "")
        if not path or path != render_words(path):
            parts.leave_out(Phrase("Plugins: {names}.", {"names": show_name(key)}))
            continue
        new = shlex.quote(str(own / key.partition("@")[0]))
        command = f"mkdir -p {shlex.quote(str(own))} && cp -r {shlex.quote(path)} {new}"
        values = {"name": show_name(key), "command": command}
        parts.leave_out(
            Phrase("Plugin {name}: to have it here, run {command}, then trust it.", values)
        )


def _servers(parts: Findings, section: object) -> None:
    for name, entry in parts.servers(section):
        limit = seconds(entry.get("timeout"))
        parts.server(name, {**entry, "timeout": limit} if limit is not None else entry)


def deepagents(place: Place) -> Found:
    """Return what Deep Agents Code has set up."""
    parts = Findings(place)
    if place.project is not None:
        folder = place.project / ".deepagents"
    else:
        folder = place.folder_at("DEEPAGENTS_HOME", ".deepagents")
    for name, entry in parts.servers(parts.files.settings(folder / ".mcp.json").get("mcpServers")):
        kind = entry.get("type") or entry.get("transport")
        parts.server(name, {**entry, "type": kind} if kind else entry)
    hooks = parts.files.settings(folder / "hooks.json").get("hooks")
    if sequence(hooks):
        parts.leave_out(Phrase("Hooks in their former format: their input differs."))
    parts.hooks(hooks)
    if place.project is not None:
        _agent(parts, folder)
        return parts.build()
    for name in parts.files.folders(folder):
        parts.instructions(folder / name / "AGENTS.md")
        _agent(parts, folder / name)
    parts.skills(place.home / ".agents" / "skills")
    parts.env_file(folder / ".env")
    parts.key_file(folder / ".state" / "auth.json")
    settings = mapping(parts.files.settings(folder / "config.toml").get("models"))
    parts.model = _word(settings.get("default"))
    return parts.build()


def _agent(parts: Findings, folder: Path) -> None:
    """Add what belongs to one agent: its skills, and its sub-agents in a folder each."""
    parts.skills(folder / "skills")
    for name in parts.files.folders(folder / "agents"):
        text = parts.files.text(folder / "agents" / name / "AGENTS.md")
        if text is not None:
            document = read_document(text)
            fields = {"name": document.text("name") or name, **document.fields}
            parts.agent(document.text("name") or name, markdown(fields, document.body))
