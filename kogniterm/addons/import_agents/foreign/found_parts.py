"""Collect what one agent has set up, while its files are read.

The parts that several agents share are here: entries of MCP servers, Markdown files as custom
commands and sub-agents, hooks in the shape that most agents have, and names of keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kogniterm.addons.import_agents.foreign.found import ForeignHook, Found, Place, SkillFile
from kogniterm.addons.import_agents.foreign.source_files import SourceFiles
from kogniterm.agent.plan.plan_parse import OWN_AGENT_NAME
from kogniterm.errors import UnusableValueError, why
from kogniterm.runtime.extensions.front_matter import read_document
from kogniterm.runtime.extensions.hooks.hook_files import EVENTS, MAX_COMMAND
from kogniterm.runtime.extensions.skills.skill_sources import parse_skill
from kogniterm.runtime.trust.project_places import SKILL_FILE
from kogniterm.settings.user_files import yaml_text
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import render_words
from kogniterm.tools.mcp.server_config import parse_server
from kogniterm.types import Phrase

_SERVER_KEYS = (
    "type", "command", "args", "env", "cwd", "url", "headers", "oauth", "timeout",
    "startup_timeout", "enabled", "includeTools", "excludeTools",
)  # fmt: skip
_IGNORED_SERVER_KEYS = frozenset({"transport", "disabled", "description", "name", "tools"})
_KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET)[A-Z0-9_]*")
_INCLUDED = re.compile(r"(?m)(?:^|(?<=\s))@(~?[\w./-]+\.(?:md|txt))\b")
_ENV_LINE = re.compile(r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=")
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,40}(?:/[a-z0-9][a-z0-9_.-]{0,40}){0,4}")


class Findings:
    """The parts that were found so far; `found` returns them as one value."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.files = SourceFiles(place)
        self._servers: dict[str, Mapping[str, Any]] = {}
        self._hooks: list[ForeignHook] = []
        self._skills: dict[str, tuple[SkillFile, ...]] = {}
        self._commands: dict[str, tuple[str, str]] = {}
        self._agents: dict[str, str] = {}
        self._instructions: dict[str, str] = {}
        self._rules: dict[tuple[str, str], None] = {}
        self._keys: dict[str, None] = {}
        self._left_out: dict[str, Phrase] = {}
        self.model = ""

    def build(self) -> Found:
        """Return everything as one value."""
        return Found(
            tuple(self.files.read),
            self._servers,
            tuple(self._hooks),
            self._skills,
            dict(self._commands.values()),
            self._agents,
            self._instructions,
            tuple(self._rules),
            tuple(self._keys),
            one_line(self.model, 100),
            tuple(self._left_out.values()),
            tuple(self.files.problems),
        )

    def leave_out(self, told: Phrase) -> None:
        """Note that something has no counterpart; the same sentence once."""
        self._left_out.setdefault(str(told), told)

    def servers(self, section: object) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """Yield the entries of a section with MCP servers, by name; others get a sentence."""
        for name, entry in mapping(section).items():
            if isinstance(entry, Mapping):
                yield name, entry
            else:
                self.leave_out(
                    Phrase("MCP server {name}: its entry is malformed.", {"name": show_name(name)})
                )

    def server(self, name: str, entry: Mapping[str, Any]) -> None:
        """Add an MCP server whose entry has the shape of `mcpServers`."""
        kept = {key: entry[key] for key in _SERVER_KEYS if entry.get(key) not in (None, {}, [])}
        if entry.get("disabled") is True:
            kept["enabled"] = False
        if kept.get("enabled") is True:
            del kept["enabled"]
        for key in ("env", "headers"):
            if key in kept:
                values = mapping(kept[key])
                kept[key] = {str(one): scalar(value) for one, value in values.items()}
        if "args" in kept:
            kept["args"] = [scalar(one) for one in sequence(kept["args"])]
        unknown = sorted(set(map(str, entry)) - set(_SERVER_KEYS) - _IGNORED_SERVER_KEYS)
        if unknown:
            self.leave_out(
                Phrase(
                    "MCP server {name}: {keys} is not taken over.",
                    {"name": show_name(name), "keys": show_name(", ".join(unknown))},
                )
            )
        name = re.sub(r"[\s/:@]+", "-", name.strip()).strip("-")
        try:
            parse_server(name, kept)
        except UnusableValueError as error:
            self.leave_out(
                Phrase("MCP server {name}: {why}.", {"name": show_name(name), "why": error.text})
            )
            return
        if kept.get("type") == "sse":
            self.leave_out(
                Phrase(
                    "MCP server {name}: it is reached by SSE there, by streamable HTTP here.",
                    {"name": show_name(name)},
                )
            )
        self._servers.setdefault(name, kept)

    def hooks(self, section: object) -> None:
        """Add the hooks of a section: groups with a matcher by event, each with its commands."""
        for event, groups in mapping(section).items():
            for group in map(mapping, sequence(groups)):
                matcher = group.get("matcher")
                for entry in map(mapping, sequence(group.get("hooks"))):
                    self.hook(event, matcher if isinstance(matcher, str) else "", entry)

    def hook(self, event: str, matcher: str, entry: Mapping[str, Any]) -> None:
        """Add one command of a hook, unless it is of a kind that KogniTerm does not have."""
        fault = _hook_fault(event, matcher, entry)
        if fault is not None:
            self.leave_out(fault)
            return
        kept: dict[str, Any] = {"type": "command", "command": entry["command"]}
        if entry.get("timeout") is not None:
            kept["timeout"] = entry["timeout"]
        added = ForeignHook(event, "" if matcher == "*" else matcher, kept)
        if added not in self._hooks:
            self._hooks.append(added)

    def skills(self, *folders: Path) -> None:
        """Add the skills of folders; of the same name, that of the first one."""
        for folder in folders:
            for own_name, files in self.files.skills(folder):
                text = next(one.data for one in files if one.name == SKILL_FILE)
                # Other agents let the folder have another name.
                name = read_document(text.decode(errors="replace")).text("name") or own_name
                try:
                    parse_skill(name, text.decode())
                except (UnusableValueError, UnicodeDecodeError) as error:
                    fault = why(error) if isinstance(error, UnicodeDecodeError) else error.text
                    self.leave_out(
                        Phrase("Skill {name}: {why}.", {"name": show_name(own_name), "why": fault})
                    )
                else:
                    self._skills.setdefault(name, files)

    def command(self, name: str, text: str, ending: str = ".md") -> None:
        """Add a custom command; the folders in its name become part of it."""
        typed = name_of(name)
        if not _NAME.fullmatch(typed):
            self.leave_out(
                Phrase("Command {name}: its name cannot be typed.", {"name": show_name(name)})
            )
        elif not text.strip():
            self.leave_out(Phrase("Command {name}: it is empty.", {"name": show_name(name)}))
        else:
            self._commands.setdefault(typed, (typed + ending, text))

    def agent(self, name: str, text: str) -> None:
        """Add a sub-agent."""
        typed = name_of(name.rpartition("/")[2])
        if not OWN_AGENT_NAME.match(typed):
            self.leave_out(
                Phrase("Sub-agent {name}: its name cannot be typed.", {"name": show_name(name)})
            )
        else:
            self._agents.setdefault(f"{typed}.md", text)

    def instructions(self, path: Path, text: str | None = None) -> bool:
        """Add the instructions in a file, or its `text` where it was read already.

        Returns whether there are any.
        """
        text = text if text is not None else self.files.text(path)
        if text is None or not text.strip():
            return False
        self._instructions[self.files.show_path(path)] = text
        if names := dict.fromkeys(_INCLUDED.findall(text)):
            self.leave_out(
                Phrase(
                    "Files that {file} includes: {names}. To use them, copy them beside the "
                    "AGENTS.md that this is added to, or put their text into it.",
                    {"file": self.files.show_path(path), "names": show_name(", ".join(names))},
                )
            )
        return True

    def permissions_in(self, place: str) -> None:
        """Note that there are permissions, whose patterns have no counterpart."""
        self.leave_out(
            Phrase("Permissions in {place}: write rules in policy.toml.", {"place": place})
        )

    def rule(self, decision: str, words: str) -> None:
        """Add a permission, in the words of the other agent."""
        self._rules[decision, words] = None

    def keys_of(self, names: Iterable[str]) -> None:
        """Note the names of variables that hold keys."""
        for name in names:
            if _KEY_NAME.fullmatch(name):
                self._keys[name] = None

    def key_variables(self, *names: str) -> None:
        """Note those of these variables that are set."""
        self.keys_of(name for name in names if self.place.environ.get(name))

    def key_file(self, path: Path) -> None:
        """Note a file that holds keys; it is not opened."""
        if self.files.exists(path):
            self._keys[self.files.show_path(path)] = None

    def env_file(self, path: Path) -> None:
        """Note the names of the keys in a file of variables."""
        self.keys_of(_ENV_LINE.findall(self.files.text(path) or ""))


def _hook_fault(event: str, matcher: str, entry: Mapping[str, Any]) -> Phrase | None:
    """Return why a hook cannot be taken over: one mistake would make the whole file unusable."""
    values = {"event": show_name(event)}
    command, limit = entry.get("command"), entry.get("timeout")
    if event not in EVENTS:
        return Phrase("Hooks for {event}: KogniTerm has no such event.", values)
    if entry.get("type", "command") != "command" or not isinstance(command, str):
        return Phrase("A hook for {event}: it does not run a command.", values)
    try:
        re.compile("" if matcher == "*" else matcher)
    except (re.error, RecursionError, OverflowError):
        values |= {"matcher": show_name(matcher)}
        return Phrase("A hook for {event}: {matcher} has no exact counterpart.", values)
    if not command.strip() or "\0" in command or len(command) > MAX_COMMAND:
        return Phrase("A hook for {event}: its command cannot be run.", values)
    if limit is not None and (
        isinstance(limit, bool) or not isinstance(limit, int | float) or limit <= 0
    ):
        return Phrase("A hook for {event}: its timeout is no number of seconds.", values)
    return None


def mapping(value: object) -> Mapping[str, Any]:
    """Return a value of settings as a table; empty for anything else."""
    return {str(key): one for key, one in value.items()} if isinstance(value, Mapping) else {}


def sequence(value: object) -> Sequence[Any]:
    """Return a value of settings as a list; empty for anything else."""
    return value if isinstance(value, list | tuple) else ()


def scalar(value: object) -> str:
    """Return a value of settings as text: what is no text as JSON has it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def strings(value: object) -> list[str]:
    """Return the texts in a list of settings."""
    return [one for one in sequence(value) if isinstance(one, str)]


def show_name(name: str) -> str:
    """Return a foreign name as it stands in a sentence: on one row, nothing invisible."""
    return one_line(render_words(name), 80)


def name_of(name: str) -> str:
    """Return a name as it is typed: `git/Fix it` is `git/fix-it`."""
    return re.sub(r"[\s:]+", "-", name.strip().lower())


def seconds(milliseconds: object) -> int | None:
    """Return a time of settings, which are in milliseconds, in whole seconds; None without one."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return max(1, round(milliseconds / 1000))


def with_braces(value: Any) -> Any:
    """Return settings with `$NAME` written as `${NAME}`."""
    if isinstance(value, str):
        return _REFERENCE.sub(lambda found: f"${{{found[1] or found[2]}}}", value)
    if isinstance(value, Mapping):
        return {key: with_braces(one) for key, one in value.items()}
    return [with_braces(one) for one in value] if isinstance(value, list) else value


def markdown(fields: Mapping[str, object], body: str) -> str:
    """Return a Markdown file with these fields before its text; those without a value left out."""
    kept = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    if not kept:
        return body.strip() + "\n"
    return f"---\n{yaml_text(kept, width=1000)}---\n\n{body.strip()}\n"
