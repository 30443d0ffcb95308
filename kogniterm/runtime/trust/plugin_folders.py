"""The parts of a plugin: a folder in the form of Claude Code's plugins, read by its manifest.

A plugin brings commands, sub-agents, skills, hooks and MCP servers. This says which file is which
part; each part is read by the reader of its kind, with the plugin's name before its own.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from kogniterm.errors import SettingsError, UnusableValueError
from kogniterm.settings.user_files import json_values
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase

MANIFEST = ".claude-plugin/plugin.json"
ROOT = "CLAUDE_PLUGIN_ROOT"
"""The variable by which a plugin's files name its folder."""
PROJECT = "CLAUDE_PROJECT_DIR"
"""The variable by which hooks and MCP servers name the folder of the session."""
PartKind = Literal["command", "agent", "skill", "hooks", "mcp"]
REVOKE = "revoke"
"""A word of /trust, which no plugin is named by."""
_NAME = re.compile(r"(?=.{1,41}\Z)[a-z0-9]+(?:[_-][a-z0-9]+)*")
_PLACES: Mapping[PartKind, tuple[str, str]] = {
    "command": ("commands", "commands"),
    "agent": ("agents", "agents"),
    "skill": ("skills", "skills"),
    "hooks": ("hooks", "hooks/hooks.json"),
    "mcp": ("mcpServers", ".mcp.json"),
}
"""The field of the manifest that names further places of a kind, and its usual place."""


class PluginFolder(NamedTuple):
    """A plugin that a file is a part of, with the digests of all its files.

    `shown` is its folder as it is listed; `own` is whether it is in the user's configuration, and
    not in a project.
    """

    name: str
    shown: str
    root: str
    own: bool
    digests: Mapping[str, str]

    def filled(self, text: str) -> str:
        """Return a text with the plugin's folder put in."""
        return text.replace(f"${{{ROOT}}}", self.root)


class PluginPart(NamedTuple):
    """A file that is a part of a plugin; `below` is its name in the place of its kind.

    Of a skill `place` is the folder that it is in. A part in the manifest has its own `text`.
    """

    file: str
    kind: PartKind
    below: str
    place: str = ""
    text: str = ""


def read_manifest(text: str) -> tuple[str, Mapping[str, Any]]:
    """Return a plugin's name and its manifest. Raises `UnusableValueError`."""
    try:
        data = json_values(MANIFEST, text).data
    except SettingsError as error:
        raise UnusableValueError("{path} is not a JSON object", path=MANIFEST) from error
    name = data.get("name")
    if not isinstance(name, str) or not _NAME.match(name):
        raise UnusableValueError(
            "its name {name} is not up to 41 of a-z, 0-9 and single - or _",
            name=one_line(str(name), 60),
        )
    if name == REVOKE:
        raise UnusableValueError("its name {name} is a word of /trust", name=name)
    return name, data


def parts_of(manifest: Mapping[str, Any], names: Collection[str]) -> Iterator[PluginPart | Phrase]:
    """Yield the parts among the files `names` of a plugin, and what its manifest names in vain."""
    for kind, (field, usual) in _PLACES.items():
        given, places = manifest.get(field), {usual: None}
        for number, one in enumerate(given if isinstance(given, list) else [given]):
            if isinstance(one, dict) and kind in ("hooks", "mcp"):
                # Each has its own name, and so its own digest and diff.
                name = f"{MANIFEST}#{field}[{number}]"
                yield PluginPart(name, kind, "", text=json.dumps(one, indent=2))
            elif isinstance(one, str):
                place = posixpath.normpath(one)
                if any(_below(place, name) is not None for name in names):
                    places[place] = None
                elif place != usual:
                    values = {"field": field, "path": one_line(one, 200)}
                    yield Phrase("{field} names {path}, which is not in its folder", values)
            elif one is not None:
                yield Phrase("{field} is not a path", {"field": field})
        for place in places:
            yield from _in_place(kind, place, names)


def _in_place(kind: PartKind, place: str, names: Collection[str]) -> Iterator[PluginPart]:
    if kind == "skill":
        tops = {posixpath.dirname(name) for name in names if posixpath.basename(name) == "SKILL.md"}
        for top in sorted(one for one in tops if place in (one, posixpath.dirname(one) or ".")):
            inside = ((name, _below(top or ".", name)) for name in names)
            yield from (PluginPart(name, kind, below, top) for name, below in inside if below)
        return
    for name in names:
        below = _below(place, name)
        if below is not None and name.endswith(".json" if kind in ("hooks", "mcp") else ".md"):
            yield PluginPart(name, kind, below)


def _below(place: str, name: str) -> str | None:
    """Return the name of a file from a folder, or of itself alone; None where it is elsewhere."""
    if place == name:
        return posixpath.basename(name)
    inside = "" if place == "." else f"{place}/"
    return name.removeprefix(inside) if name.startswith(inside) else None
