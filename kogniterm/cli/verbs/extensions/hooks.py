"""`kogniterm hooks`: list the hooks of a folder, and try them with a sample input."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kogniterm.cli.options import JSON, Subparsers, add_actions
from kogniterm.cli.run_options import CallOptions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.settings.user_files import json_values
from kogniterm.ui.locale import _, mark, translate

if TYPE_CHECKING:
    from kogniterm.runtime.extensions.hooks.hook_files import Hook
    from kogniterm.runtime.extensions.hooks.hook_runs import HookAnswer


def add_parser(subparsers: Subparsers) -> None:
    """Add `hooks list` and `test`."""
    add_actions(subparsers, "hooks", ACTIONS, JSON)


def _list(call: CallOptions) -> Report:
    from kogniterm.runtime.extensions.hooks.hook_trials import hooks_of_folder
    from kogniterm.ui.commands.extensions.hooks import by_event, hook_cells, no_hooks

    found = hooks_of_folder(call.load_settings(), paths_in_use(), call.folder())
    rows = [
        (event, *(cell.strip() for cell in hook_cells(hook)))
        for event, of_event in by_event(found.hooks)
        for hook in of_event
    ]
    notes = [translate(notice) for notice in found.notices]
    if not rows:
        notes.append(translate(no_hooks(paths_in_use().extensions.hooks)))
    return Report([_json(hook) for hook in found.hooks], rows=rows, notes=notes)


def _json(hook: Hook) -> dict[str, object]:
    return {
        "event": hook.event,
        "matcher": hook.matcher,
        "command": hook.command,
        "timeout": hook.timeout,
        "source": hook.source,
        "own": hook.own,
        "sandbox": hook.sandboxed,
    }


def _test(call: CallOptions, event: str, tool: str | None, input: str | None) -> Report:
    from kogniterm.runtime.extensions.hooks.hook_trials import try_hooks
    from kogniterm.settings import environment
    from kogniterm.ui.commands.extensions.hooks import answer_lines

    trial = try_hooks(
        call.load_settings(), paths_in_use(), environment(), call.folder(),
        event, tool or "", _given(input),
    )  # fmt: skip
    answers = asyncio.run(trial)
    failed = any(answer.failure is not None for answer in answers)
    lines = [line for answer in answers for line in answer_lines(answer)]
    if not answers:
        lines = [_("No hook runs at this event for this tool.")]
    status = EXIT_NOT_DONE if failed else EXIT_DONE
    return Report([_answer_json(answer) for answer in answers], lines, status=status)


def _given(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    found: dict[str, Any] = json_values("--input", text).data
    return found


def _answer_json(answer: HookAnswer) -> dict[str, object]:
    return {
        "hook": _json(answer.hook),
        "result": answer.result,
        "seconds": round(answer.seconds, 3),
        "exit_code": answer.exit_code,
        "reason": answer.reason,
        "failure": str(answer.failure) if answer.failure is not None else None,
        "context": answer.context,
        "message": answer.message,
        "updated_input": dict(answer.updated),
    }


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
