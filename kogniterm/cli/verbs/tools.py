"""`kogniterm tools`: every tool that a session here would have, or one of them."""

from __future__ import annotations

import shutil

from kogniterm.cli.options import JSON, Example, Subparsers, add_verb
from kogniterm.cli.run_options import CallOptions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import UsageError
from kogniterm.runtime.operations.action import Argument, Report
from kogniterm.ui.locale import mark, translate


def add_parser(subparsers: Subparsers) -> None:
    """Add `tools` with its arguments."""
    add_verb(
        subparsers,
        "tools",
        [
            Argument("action", "show, to explain one tool", "show", nargs="?"),
            Argument("name", "Name of a tool", "NAME", nargs="?"),
            Argument("--cwd", "Folder of the session", "FOLDER", short="-C"),
            JSON,
        ],
        description=mark(
            "List every tool that a session in this folder would have: its effect, its source, and "
            "what switches it off."
        ),
        examples=(
            Example("kogniterm tools"),
            Example("kogniterm tools show web_fetch"),
            Example("kogniterm tools --json"),
        ),
    )


def run(call: CallOptions, action: str | None, name: str | None) -> Report:
    """List the tools, or show one."""
    from kogniterm.runtime.operations.tool_list import tools_of_folder
    from kogniterm.ui.commands.tools import entry_lines, list_lines

    if action == "show" and name is None:
        raise UsageError("Specify a tool: kogniterm tools show NAME")
    if action not in (None, "show") and name is not None:
        raise UsageError("kogniterm tools takes: show NAME.")
    name = name or action
    listed = tools_of_folder(call.load_settings(), paths_in_use(), call.folder())
    width = shutil.get_terminal_size().columns
    if name is None:
        lines, data = list_lines(listed, width), [entry.json for entry in listed.entries]
        notes = [translate(notice) for notice in listed.notices]
        return Report(data, ["".join(text for text, _style in line) for line in lines], notes=notes)
    entry = listed.find(name)
    lines = entry_lines(entry, width)
    return Report(entry.full_json, ["".join(text for text, _style in line) for line in lines])
