"""The points of a session at which hooks run: what they get there, and what their answers do.

They get the fields of Claude Code, in the names of the shared tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kogniterm import prompts
from kogniterm.errors import RefusedError, ToolError
from kogniterm.protocols import EventSink, Tool
from kogniterm.runtime.extensions.hooks.hook_files import HookEvent
from kogniterm.runtime.extensions.hooks.hook_service import (
    HookFindings,
    HookRunner,
    NoHooks,
    Occasion,
    Quote,
)
from kogniterm.runtime.extensions.tool_names import shared_name
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
AGENT = shared_name("delegate")
"""The name by which hooks know the start of a sub-agent."""
BEGINS = "[hooks:]"
"""The line above what an observation says of hooks."""

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


class AfterTool(NamedTuple):
    """The words of hooks after a tool: a note for the model, and why the turn is to end.

    `cancelled` is whether the turn was stopped while they ran.
    """

    note: str = ""
    stop: Phrase | None = None
    cancelled: bool = False

    def conclude(self) -> None:
        """End the turn, if that is wanted, once the outcome is recorded."""
        if self.cancelled:
            raise asyncio.CancelledError
        if self.stop is not None:
            raise stop_error(self.stop)


def stop_error(why: Phrase) -> RefusedError:
    """Return the error that ends a turn because a hook wants that."""
    return RefusedError(why.template, **dict(why.values))


class Hooks:
    """The hooks of a session, where they run; `tool_of` finds the tools whose input they change."""

    def __init__(
        self,
        runner: HookRunner | None = None,
        tool_of: Callable[[str], Tool | None] = lambda name: None,
        shown: Callable[[ActionRequest], ActionRequest] = lambda request: request,
    ) -> None:
        self.runner = runner or NoHooks()
        self.tool_of = tool_of
        self.shown = shown
        """Returns a request as it may be shown and kept."""
        self._beside: dict[str, list[str]] = {}
        """Notes for the model that come with the result of a request."""
        self._context: list[str] = []
        self._continued: dict[str, int] = {}
        self._begun = False
        self._beginning = asyncio.Lock()
        self._notices: set[asyncio.Task[HookFindings]] = set()

    def concerns(self, tool: str) -> bool:
        """Return whether a hook runs before or after calls of this tool."""
        name = shared_name(tool)
        return self.runner.concerns("PreToolUse", name) or self.follows(name)

    def follows(self, subject: str) -> bool:
        """Return whether a hook runs after a tool, by its shared name."""
        return self.runner.concerns("PostToolUse", subject)

    # --- tools ----------------------------------------------------------------------------------

    async def before_tool(
        self, request: ActionRequest, sink: EventSink
    ) -> tuple[ActionRequest, HookFindings]:
        """Return the request as hooks changed it, and what they said. Raises `RefusedError`."""
        said = await self._of_tool("PreToolUse", request, sink)
        if said.stop is not None:
            raise stop_error(said.stop)
        self._quote(request, "PreToolUse", said.quotes)
        if not said.updated:
            return request, said
        values: dict[str, object] = {"name": said.updated_by}
        try:
            changed = with_input(request, said.updated, self.tool_of)
        except ToolError as error:
            wrong = Phrase("The hook {name} gave this call input it cannot have: {why}",
                           {**values, "why": error.text})  # fmt: skip
            return request, HookFindings("deny", said.updated_by, (wrong,))
        if changed == request:
            return request, said
        line = self.shown(changed).command
        told = f"[the hook {said.updated_by} changed this call to: {line}]"
        self._beside.setdefault(request.id, []).append(told)
        values["action"] = line
        sink(events.Notice(Phrase("The hook {name} changed an action to: {action}", values)))
        again = await self._of_tool("PreToolUse", changed, sink)
        if again.stop is not None:
            raise stop_error(again.stop)
        return changed, _stricter(said, again)

    async def after_tool(
        self, request: ActionRequest, response: Mapping[str, Any], sink: EventSink
    ) -> AfterTool:
        """Run the hooks after a tool and return what the model and the turn learn of it."""
        cancelled, stop = False, None
        try:
            said = await self._of_tool("PostToolUse", request, sink, tool_response=response)
        except asyncio.CancelledError:
            cancelled = True
        else:
            stop = said.stop
            if said.choice == "deny":
                quotes = tuple(Quote(said.name, str(reason)) for reason in said.reasons)
                self._quote(request, "PostToolUse", quotes)
            self._quote(request, "PostToolUse", said.quotes)
        return AfterTool(self.told(request), stop, cancelled)

    def told(self, request: ActionRequest) -> str:
        """Return, once, what the model is told with the result of a request."""
        told = self._beside.pop(request.id, [])
        return "\n".join([BEGINS, *told]) if told else ""

    async def _of_tool(
        self, event: HookEvent, request: ActionRequest, sink: EventSink, **more: object
    ) -> HookFindings:
        subject = subject_of(request)
        if not self.runner.concerns(event, subject):
            return HookFindings()
        fields = {
            "tool_name": subject,
            "tool_input": tool_input(request),
            "tool_use_id": request.call_id,
            **agent_fields(request),
            **more,
        }
        occasion = Occasion(event, subject, fields, request.id)
        return await self.runner.run(occasion, sink)

    def _quote(self, request: ActionRequest, event: HookEvent, quotes: tuple[Quote, ...]) -> None:
        for quote in quotes:
            self._beside.setdefault(request.id, []).append(quote_hook(event, quote))

    async def agent_begins(
        self, call_id: str, arguments: Mapping[str, Any], sink: EventSink
    ) -> str | None:
        """Return why hooks do not let a sub-agent begin, or None.

        It begins inside the graph, where no user is asked and no input is changed: a hook that
        wants either refuses. Raises `RefusedError`.
        """
        task = str(arguments.get("task", ""))
        fields = {
            "tool_name": AGENT,
            "tool_input": {
                "description": task.partition("\n")[0],
                "prompt": task,
                "subagent_type": arguments.get("agent", "general-purpose"),
            },
            "tool_use_id": call_id,
        }
        said = await self._at("PreToolUse", sink, fields, subject=AGENT)
        if said.stop is not None:
            raise stop_error(said.stop)
        if said.choice not in ("deny", "ask") and not said.updated:
            return None
        name = said.name or said.updated_by
        values: dict[str, object] = {"name": name}
        sink(events.Notice(Phrase("The hook {name} did not let a sub-agent begin.", values)))
        why = "; ".join(map(str, said.reasons)) or "it wants another task, which cannot be given"
        return prompts.text("hooks.no_agent", hook=name, why=why)

    # --- the input and the end of a turn --------------------------------------------------------

    async def input_given(self, user_input: UserInput, sink: EventSink) -> Phrase | None:
        """Return why hooks refuse an input, or None; what they add to it is kept for the turn."""
        self._continued.clear()
        fields = {"prompt": user_input.text}
        said = await self._at("UserPromptSubmit", sink, fields)
        if said.stop is not None:
            return said.stop
        if said.choice == "deny":
            return said.reasons[0]
        self._add("UserPromptSubmit", said.quotes)
        return None

    def take_context(self) -> str:
        """Return, once, what hooks add to the next input."""
        added, self._context = "\n\n".join(self._context), []
        return added

    async def goes_on(self, agent: str, answer: str, sink: EventSink) -> str | None:
        """Return what an agent is told that must not end yet; None where it may."""
        event: HookEvent = "SubagentStop" if agent else "Stop"
        count = self._continued.get(agent, 0)
        if not self.runner.concerns(event) or count >= MOST_CONTINUED:
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

    async def begin(self, sink: EventSink, *, resumed: bool) -> None:
        """Run the hooks at the start of a session, once; a turn waits for them.

        The model gets their words with its input.
        """
        source = "resume" if resumed else "startup"
        async with self._beginning:
            if self._begun:
                return
            self._begun = True
            said = await self._at("SessionStart", sink, {"source": source}, subject=source)
            self._add("SessionStart", said.quotes)

    async def end(self, reason: str, sink: EventSink) -> None:
        """Run the hooks at the end of a session that has begun."""
        if not self._begun:
            return
        for task in tuple(self._notices):
            task.cancel()
        await asyncio.gather(*self._notices, return_exceptions=True)
        await self._at("SessionEnd", sink, {"reason": reason}, subject=reason)

    async def compacting(self, trigger: str, sink: EventSink) -> Phrase | None:
        """Run the hooks before a compaction; return why they do not want it, or None."""
        fields = {"trigger": trigger, "custom_instructions": ""}
        said = await self._at("PreCompact", sink, fields, subject=trigger)
        if said.stop is not None:
            return said.stop
        return said.reasons[0] if said.choice == "deny" else None

    def notify(self, request: ActionRequest, sink: EventSink) -> None:
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

    async def _at(
        self,
        event: HookEvent,
        sink: EventSink,
        fields: Mapping[str, Any],
        *,
        subject: str = "",
    ) -> HookFindings:
        if not self.runner.concerns(event, subject):
            return HookFindings()
        return await self.runner.run(Occasion(event, subject, fields), sink)

    def _add(self, event: HookEvent, quotes: tuple[Quote, ...]) -> None:
        self._context += [quote_hook(event, quote) for quote in quotes]


def _stricter(first: HookFindings, second: HookFindings) -> HookFindings:
    """Return the stricter findings of two rounds; an approval has to stand in the second, too."""
    order = ("deny", "ask", "allow", "")
    if order.index(first.choice) <= 1 and order.index(first.choice) <= order.index(second.choice):
        return first
    return replace(second, updated={})


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
