"""`kogniterm hooks`: list the hooks of a folder, and try them with a sample input."""

from __future__ import annotations

import asyncio

from kogniterm.cli.options import JSON, CallOptions, Subparsers, add_actions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.settings.user_files import json_values
from kogniterm.ui.locale import mark


def add_parser(subparsers: Subparsers) -> None:
    """Add `hooks list` and `test`."""
    add_actions(subparsers, "hooks", ACTIONS, JSON)


def _list(call: CallOptions) -> Report:
    from kogniterm.runtime.operations.hook_actions import hooks_of_folder, list_hooks

    paths = paths_in_use()
    found = hooks_of_folder(call.load_settings(), paths, call.folder())
    return list_hooks(found, paths.extensions.hooks)


def _test(call: CallOptions, event: str, tool: str | None, input: str | None) -> Report:
    from kogniterm.runtime.operations.hook_actions import try_hooks
    from kogniterm.settings import environment

    trial = try_hooks(
        call.load_settings(), paths_in_use(), environment(), call.folder(),
        event, tool or "", {} if input is None else json_values("--input", input).data,
    )  # fmt: skip
    return asyncio.run(trial)


_FOLDER = Argument("--cwd", "Folder of the session", "FOLDER", short="-C")
ACTIONS = (
    Action("list", mark("List your hooks and those of a trusted folder"), _list, (_FOLDER,),
           ("kogniterm hooks list",)),
    Action("test", mark("Run the hooks of an event with a sample input, and show their answers"),
           _test,
           (Argument("event", "Event, for example PreToolUse", "EVENT"),
            Argument("tool", "Tool of the sample, for example Bash or Edit", "TOOL", nargs="?"),
            Argument("--input", "Input of the tool, as a JSON object", "JSON"),
            _FOLDER),
           ("kogniterm hooks test PreToolUse Bash",)),
)  # fmt: skip
