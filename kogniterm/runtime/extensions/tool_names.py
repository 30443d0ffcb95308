"""The names of tools that terminal agents share, in hooks, skills, custom commands and sub-agents.

The names are those of Claude Code's tools, which codex and others use too, and those of gemini-cli.
A tool of an MCP server is `mcp__SERVER__TOOL` there and here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from kogniterm.text.spelling import closest_word

SHARED_NAMES = {
    "execute_command": "Bash",
    "read_file": "Read",
    "edit_file": "Edit",
    "write_file": "Write",
    "find_files": "Glob",
    "search_text": "Grep",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "delegate": "Task",
    "make_plan": "TodoWrite",
    "ask_user": "AskUserQuestion",
    "use_skill": "Skill",
}
"""KogniTerm's tools, and what Claude Code calls them."""

_OTHER_NAMES = {
    "MultiEdit": ("edit_file",),
    "NotebookEdit": ("edit_file",),
    "LS": ("find_files",),
    "BashOutput": ("read_file",),
    "KillShell": ("jobs",),
    "Agent": ("delegate",),
    # gemini-cli
    "run_shell_command": ("execute_command",),
    "read_many_files": ("read_file",),
    "list_directory": ("find_files",),
    "glob": ("find_files",),
    "search_file_content": ("search_text",),
    "grep_search": ("search_text",),
    "replace": ("edit_file",),
    "google_web_search": ("web_search",),
    "save_memory": ("remember",),
    # codex and opencode
    "shell": ("execute_command",),
    "apply_patch": ("edit_file", "write_file"),
    "bash": ("execute_command",),
    "read": ("read_file",),
    "edit": ("edit_file",),
    "write": ("write_file",),
    "grep": ("search_text",),
    "list": ("find_files",),
    "webfetch": ("web_fetch",),
    "websearch": ("web_search",),
    "task": ("delegate",),
    "todowrite": ("make_plan",),
    "skill": ("use_skill",),
}
_OWN = {shared: (own,) for own, shared in SHARED_NAMES.items()} | _OTHER_NAMES
_PATTERN = re.compile(r"\s*([A-Za-z_][\w-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)


class ToolPattern(NamedTuple):
    """A permission or restriction such as `Bash(git diff:*)`: KogniTerm's tools, and for what.

    `argument` is "" for every call.
    """

    name: str
    tools: tuple[str, ...]
    argument: str = ""


def shared_name(tool: str) -> str:
    """Return the name by which hooks of other agents know a tool of KogniTerm."""
    return SHARED_NAMES.get(tool, tool)


def own_tools(name: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """Return KogniTerm's tools behind a name of any agent; none for an unknown one.

    `known` are further tools that have their own name here, as those of MCP servers.
    """
    if name in SHARED_NAMES or name in known or name.startswith("mcp__"):
        return (name,)
    return _OWN.get(name, ())


def parse_pattern(text: str) -> ToolPattern | None:
    """Return a pattern such as `Bash(git diff:*)` or `Read`; None where it is none."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    return ToolPattern(found[1], own_tools(found[1]), (found[2] or "").strip())


def meant_tool(name: str, known: Collection[str]) -> str | None:
    """Return the tool of `known` that was meant by a name or pattern of any agent, or None."""
    pattern = parse_pattern(name)
    shared = next((one for one in pattern.tools if one in known), None) if pattern else None
    return shared or closest_word(name, sorted(known))
