"""The input of hooks: the fields of Claude Code, in the names of the shared tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kogniterm.errors import ToolError
from kogniterm.protocols import Tool
from kogniterm.runtime.extensions.tool_names import shared_name
from kogniterm.types import EXECUTE_COMMAND, ActionRequest, ApprovalMode, CommandResult

_PATH = {"path": "file_path"}
_FIELDS: Mapping[str, Mapping[str, str]] = {
    "read_file": {**_PATH, "start": "offset", "lines": "limit"},
    "write_file": _PATH,
    "edit_file": {**_PATH, "old": "old_string", "new": "new_string", "every": "replace_all"},
    "search_text": {"ignore_case": "-i"},
    "find_files": {"glob": "pattern"},
    "web_fetch": {"purpose": "prompt"},
}
"""The names of arguments in the shared tools, where they are not ours."""
_MODES: Mapping[ApprovalMode, str] = {
    "manual": "default", "accept-edits": "acceptEdits", "auto": "auto", "plan": "plan",
}  # fmt: skip


def mode_name(mode: ApprovalMode) -> str:
    """Return an approval mode by the name that hooks know."""
    return _MODES[mode]


def subject_of(request: ActionRequest) -> str:
    """Return the tool's name that matchers are compared with; any command is one of Bash."""
    return shared_name(EXECUTE_COMMAND if request.effect == "command" else request.tool)


def tool_input(request: ActionRequest) -> dict[str, Any]:
    """Return the input of a request's tool, as hooks know it."""
    if request.effect == "command":
        return {"command": request.command, "description": request.purpose}
    names = _FIELDS.get(request.tool, {})
    return {names.get(name, name): value for name, value in request.arguments.items()}


def with_input(
    request: ActionRequest, updated: Mapping[str, Any], tool_of: Callable[[str], Tool | None]
) -> ActionRequest:
    """Return the request with the input that a hook gave it. Raises `ToolError` for a wrong one.

    What the hook leaves out stays.
    """
    if request.effect == "command":
        command = updated.get("command", request.command)
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            raise ToolError("command is not a shell command")
        arguments = request.arguments
        if "command" in arguments:
            arguments = {**arguments, "command": command}
        return replace(request, command=command, arguments=arguments)
    tool = tool_of(request.tool)
    if tool is None:
        # Running it as it was would ignore what the hook wants.
        raise ToolError("the input of {name} cannot be changed", name=request.tool)
    names = {theirs: ours for ours, theirs in _FIELDS.get(request.tool, {}).items()}
    given = {names.get(name, name): value for name, value in updated.items()}
    checked = tool.check({**request.arguments, **given})
    if dict(checked) == dict(request.arguments):
        return request
    effect = tool.effect_of(checked)
    line, purpose = tool.describe(checked)
    return replace(
        request,
        command=line,
        purpose=purpose,
        arguments=dict(checked),
        effect="read" if effect == "none" else effect,
        detail=tool.detail(checked),
        hosts=tool.hosts(checked),
    )


def command_response(result: CommandResult) -> dict[str, Any]:
    """Return the end of a command as a hook gets it; both streams are one on a terminal."""
    return {
        "stdout": result.text,
        "stderr": "",
        "interrupted": result.ended != "exited",
        "exit_code": result.exit_code,
    }


def tool_response(request: ActionRequest, text: str) -> dict[str, Any]:
    """Return the result of another tool as a hook gets it."""
    path = request.arguments.get("path")
    if request.effect == "edit" and path:
        return {"filePath": path, "success": True}
    if request.tool == "read_file":
        return {"type": "text", "file": {"filePath": path, "content": text}}
    return {"content": text}


def agent_fields(request: ActionRequest) -> dict[str, str]:
    """Return what tells a sub-agent's action from one of the main agent."""
    if not request.agent:
        return {}
    return {"agent_id": request.agent, "agent_task": request.agent_task}
