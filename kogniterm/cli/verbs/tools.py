"""`kogniterm tools`: every tool that a session here would have, or one of them."""

from __future__ import annotations

from kogniterm.cli.options import JSON, CallOptions, Example, Subparsers, add_verb
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import UsageError
from kogniterm.runtime.operations.action import Argument, Report
from kogniterm.ui.locale import mark


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
    from kogniterm.runtime.operations import tool_actions

    if action == "show" and name is None:
        raise UsageError("Specify a tool: kogniterm tools show NAME")
    if action not in (None, "show") and name is not None:
        raise UsageError("kogniterm tools takes: show NAME.")
    name = name or action
    listed = tool_actions.tools_of_folder(call.load_settings(), paths_in_use(), call.folder())
    if name is None:
        return tool_actions.list_tools(listed)
    return tool_actions.show_tool(listed, name)
