"""The points of a session at which hooks run: what they get there, and what their answers do.

They get the fields of Claude Code, in the names of the shared tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from kogniterm import prompts
from kogniterm.agent.subagent import DELEGATE
from kogniterm.errors import ToolError
from kogniterm.protocols import EventSink, Tool
from kogniterm.runtime.extensions.extension_port import (
    ActionFindings,
    ActionNotes,
    Extension,
    Moment,
    Right,
)
from kogniterm.runtime.extensions.hooks.hook_files import HookEvent
from kogniterm.runtime.extensions.hooks.hook_service import (
    HookFindings,
    HookRunner,
    Occasion,
    Quote,
)
from kogniterm.runtime.extensions.tool_names import shared_name
from kogniterm.runtime.turn_ports import Attached, TurnIO
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    ApprovalMode,
    CommandResult,
    Phrase,
    UserInput,
    events,
)

MOST_CONTINUED = 5
"""Times that hooks can keep an agent from ending in one turn."""
QUOTE = '<hook event="{event}" name="{name}">\n{text}\n</hook>'

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


class Hooks(Extension):
    """The hooks of a session, where they run; `tool_of` finds the tools whose input they change."""

    name = "hooks"
    moments: ClassVar[Mapping[Moment, Right]] = {
        "opened": "add", "before_input": "block",
        "before_action": "block", "after_action": "block", "closed": "watch",
    }  # fmt: skip

    def __init__(
        self,
        runner: HookRunner,
        shown: Callable[[ActionRequest], ActionRequest] = lambda request: request,
        notices: tuple[Phrase, ...] = (),
    ) -> None:
        self.runner = runner
        self.tool_of: Callable[[str], Tool | None] = lambda name: None
        self.shown = shown
        """Returns a request as it may be shown and kept."""
        self.notices = notices
        self._continued: dict[str, int] = {}
        self._begun = False
        self._notices: set[asyncio.Task[HookFindings]] = set()

    def concerns(self, moment: Moment, tool: str) -> bool:
        event: HookEvent = "PreToolUse" if moment == "before_action" else "PostToolUse"
        return self.runner.concerns(event, shared_name(tool))

    # --- actions --------------------------------------------------------------------------------

    async def before_action(
        self, request: ActionRequest, sink: EventSink, *, changing: bool
    ) -> ActionFindings:
        said = await self._of_tool("PreToolUse", request, sink)
        ActionNotes(stop=said.stop).conclude()
        notes = _quote_lines("PreToolUse", said.quotes)
        found = ActionFindings(request, said.choice, said.name, said.reasons)
        if said.updated and changing:
            values: dict[str, object] = {"name": said.updated_by}
            try:
                changed = with_input(request, said.updated, self.tool_of)
            except ToolError as error:
                wrong = Phrase("The hook {name} gave this call input it cannot have: {why}",
                               {**values, "why": error.text})  # fmt: skip
                found = ActionFindings(request, "deny", said.updated_by, (wrong,))
            else:
                found = found._replace(request=changed)
            if found.request != request:
                line = self.shown(found.request).command
                notes.append(f"[the hook {said.updated_by} changed this call to: {line}]")
                told = Phrase("The hook {name} changed an action to: {action}",
                              {**values, "action": line})  # fmt: skip
                sink(events.Notice(told))
        return found._replace(note="\n".join(notes))

    async def after_action(
        self, request: ActionRequest, end: CommandResult | str, sink: EventSink
    ) -> ActionNotes:
        response = tool_response(request, end) if isinstance(end, str) else command_response(end)
        said = await self._of_tool("PostToolUse", request, sink, tool_response=response)
        refused = said.reasons if said.choice == "deny" else ()
        quotes = (*(Quote(said.name, str(reason)) for reason in refused), *said.quotes)
        return ActionNotes("\n".join(_quote_lines("PostToolUse", quotes)), said.stop)

    async def _of_tool(
        self, event: HookEvent, request: ActionRequest, sink: EventSink, **more: object
    ) -> HookFindings:
        fields = {
            "tool_input": tool_input(request),
            "tool_use_id": request.call_id,
            **agent_fields(request),
            **more,
        }
        subject = subject_of(request)
        return await self._at(event, sink, {"tool_name": subject, **fields}, subject, request.id)

    def asking(self, request: ActionRequest, sink: EventSink) -> None:
        """Run, beside the question that is asked now, the hooks that tell the user of it."""
        kind = "permission_prompt"
        if not self.runner.concerns("Notification", kind):
            return
        message = f"KogniTerm needs your permission to use {subject_of(request)}"
        fields = {"message": message, "notification_type": kind, **agent_fields(request)}
        occasion = Occasion("Notification", kind, fields)
        task = asyncio.ensure_future(self.runner.run(occasion, sink))
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    async def before_compaction(self, trigger: str, sink: EventSink) -> Phrase | None:
        fields = {"trigger": trigger, "custom_instructions": ""}
        said = await self._at("PreCompact", sink, fields, trigger)
        if said.stop is not None:
            return said.stop
        return said.reasons[0] if said.choice == "deny" else None

    # --- the input and the end of a turn --------------------------------------------------------

    async def before_input(self, given: UserInput, io: TurnIO) -> Attached | Phrase:
        self._continued.clear()
        said = await self._at("UserPromptSubmit", io.sink, {"prompt": given.text})
        if said.stop is not None:
            return said.stop
        if said.choice == "deny":
            return said.reasons[0]
        return Attached("\n\n".join(_quote_lines("UserPromptSubmit", said.quotes)))

    async def before_end(self, agent: str, answer: str, sink: EventSink) -> str | None:
        event: HookEvent = "SubagentStop" if agent else "Stop"
        count = self._continued.get(agent, 0)
        if count >= MOST_CONTINUED:
            return None
        fields: dict[str, Any] = {
            "stop_hook_active": count > 0,
            "last_assistant_message": answer,
        }
        if agent:
            fields["agent_id"] = agent
        said = await self._at(event, sink, fields)
        if said.stop is not None or said.choice != "deny":
            return None
        self._continued[agent] = count + 1
        why = "\n".join(quote_hook(event, Quote(said.name, str(one))) for one in said.reasons)
        words = "; ".join(str(one.values.get("words", "")) for one in said.reasons)
        values: dict[str, object] = {"name": said.name, "words": words}
        sink(events.Notice(Phrase("The hook {name} keeps the model at work: {words}", values)))
        return prompts.text("hooks.go_on", why=why)

    # --- the session ----------------------------------------------------------------------------

    async def opened(self, sink: EventSink, *, resumed: bool) -> str:
        self._begun, source = True, "resume" if resumed else "startup"
        said = await self._at("SessionStart", sink, {"source": source}, source)
        return "\n\n".join(_quote_lines("SessionStart", said.quotes))

    async def closed(self, reason: str) -> tuple[()]:
        begun, self._begun = self._begun, False
        if begun:
            for task in tuple(self._notices):
                task.cancel()
            await asyncio.gather(*self._notices, return_exceptions=True)
            await self._at("SessionEnd", lambda event: None, {"reason": reason}, reason)
        return ()

    async def _at(
        self,
        event: HookEvent,
        sink: EventSink,
        fields: Mapping[str, Any],
        subject: str = "",
        request_id: str = "",
    ) -> HookFindings:
        if not self.runner.concerns(event, subject):
            return HookFindings()
        return await self.runner.run(Occasion(event, subject, fields, request_id), sink)


def _quote_lines(event: HookEvent, quotes: Iterable[Quote]) -> list[str]:
    return [quote_hook(event, quote) for quote in quotes]


def quote_hook(event: HookEvent, quote: Quote) -> str:
    """Return a hook's words as data for the model; nothing in them ends the quotation."""
    name = quote.name.replace("<", "‹").replace('"', "'")
    text = quote.text.replace("</hook", "‹/hook")
    return QUOTE.format(event=event, name=name, text=text)


# --- the input of hooks ---------------------------------------------------------------------------


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
    if request.tool == DELEGATE.name:
        task = str(request.arguments.get("task", ""))
        agent = request.arguments.get("agent", "general-purpose")
        about = task.partition("\n")[0]
        return {"description": about, "prompt": task, "subagent_type": agent}
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
