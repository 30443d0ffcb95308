"""The events of a session as updates for a client: the third sink beside screen and JSON."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    Cost,
    SessionInfoUpdate,
    ToolCallProgress,
    ToolCallStart,
    ToolCallStatus,
    ToolKind,
    UsageUpdate,
    UserMessageChunk,
)

from kogniterm.addons.acp.outbox import Outbox, TextStream
from kogniterm.addons.acp.update_parts import (
    Content,
    diffs,
    fence_text,
    first_line,
    join_paragraphs,
    locations,
    plan_entries,
    text_block,
    tool_kind,
)
from kogniterm.agent.subagent import DELEGATE
from kogniterm.runtime.questions.approval_facts import Say, effect_line
from kogniterm.runtime.replay.recorded_events import Item, Replied
from kogniterm.text.redact import redact
from kogniterm.text.sanitize import Sanitizer
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import (
    clean,
    code_block,
    render,
    render_request,
    without_marks,
    without_style,
)
from kogniterm.types import (
    ENDINGS,
    Answer,
    CommandResult,
    LeftRunning,
    Phrase,
    UserInput,
    events,
)

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession

OUTPUT_SECONDS = 0.15
"""Least time between two updates about the output of a running command."""
_TAIL = 6_000
"""Characters of its output that a running command shows; its end shows more."""


@dataclass(frozen=True, slots=True)
class FrontWords:
    """The sentences of the terminal's screens, in the user's language.

    `tool_title` takes a tool and its arguments as JSON.
    """

    say: Say
    tool_title: Callable[[str, str], str]
    end_reason: Callable[[Answer], str]
    left_running: Callable[[Sequence[LeftRunning]], Sequence[Phrase]]


def safe(text: str) -> str:
    """Return a text as it may be sent: without control characters and known secrets.

    Events of actions are redacted already, by rules that hide nothing of what runs.
    """
    return redact(clean(text))


class _Running:
    """A command at work: its output so far, of which the end is shown."""

    def __init__(self) -> None:
        self.sanitizer = Sanitizer()
        self.tail = ""
        self.waits = ""
        self.due: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        text = self.sanitizer.feed(data).decode("utf-8", "replace").replace("\r\n", "\n")
        self.tail = (self.tail + without_style(text))[-2 * _TAIL :]

    def shown(self) -> str:
        lines = (line.rpartition("\r")[2] for line in self.tail.split("\n"))
        return redact("\n".join(lines))[-_TAIL:]


class SessionUpdates(events.EventVisitor):
    """Turns the events of one session into updates."""

    def __init__(self, session: LiveSession, outbox: Outbox, words: FrontWords) -> None:
        self._session = session
        self._outbox = outbox
        self._words = words
        self._say = words.say
        self._text: TextStream | None = None
        self._thinks = False
        self._said_something = False
        self._message = ""
        self._streamed = ""
        self._known: set[str] = set()
        self._running: dict[str, _Running] = {}
        self._agents: dict[str, list[str]] = {}
        self._title = session.state.title

    # --- texts ----------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        """Send a message of KogniTerm's own, apart from the model's."""
        self._end_text()
        self._paragraph(text)

    def think(self, text: str) -> None:
        """Send a line that is shown with the model's thoughts."""
        self._outbox.put(self._chunk(safe(text) + "\n", uuid.uuid4().hex, thinks=True))

    def _paragraph(self, text: str) -> None:
        """Send a whole message; some clients join messages, so it stands apart by itself."""
        told = f"{self._apart()}{safe(text).strip()}"
        self._outbox.put(self._chunk(told, uuid.uuid4().hex, thinks=False))

    def _apart(self) -> str:
        """Return what goes before another message of a turn."""
        before, self._said_something = self._said_something, True
        return "\n\n" if before else ""

    def _stream(self, text: str, *, thinks: bool) -> None:
        if self._text is None or self._thinks != thinks:
            self._end_text()
            self._text, self._thinks = TextStream(safe), thinks
            self._message = uuid.uuid4().hex
            if not thinks:
                self._text.feed(self._apart())
        self._text.feed(text)
        self._put_text(self._text.take)

    def _end_text(self) -> None:
        if self._text is not None:
            self._put_text(self._text.rest, last=True)
            self._text = None

    def _put_text(self, take: Callable[[], str], *, last: bool = False) -> None:
        message, thinks = self._message, self._thinks

        def make() -> AgentMessageChunk | AgentThoughtChunk | None:
            text = take()
            return self._chunk(text, message, thinks=thinks) if text else None

        self._outbox.put_late("" if last else message, make)

    @staticmethod
    def _chunk(text: str, message: str, *, thinks: bool) -> AgentMessageChunk | AgentThoughtChunk:
        content = text_block(text)
        if thinks:
            return AgentThoughtChunk(
                session_update="agent_thought_chunk", content=content, message_id=message
            )
        return AgentMessageChunk(
            session_update="agent_message_chunk", content=content, message_id=message
        )

    def on_answer_delta(self, event: events.AnswerDelta) -> None:
        self._streamed += event.text
        self._stream(event.text, thinks=False)

    def on_thought_delta(self, event: events.ThoughtDelta) -> None:
        self._stream(event.text, thinks=True)

    def on_model_called(self, event: events.ModelCalled) -> None:
        self._streamed = ""

    def on_model_retried(self, event: events.ModelRetried) -> None:
        self._end_text()
        self.think(self._say(event.reason))

    def on_model_answered(self, event: events.ModelAnswered) -> None:
        self._end_text()
        self.usage()

    def on_plan_changed(self, event: events.PlanChanged) -> None:
        self._end_text()
        entries = plan_entries(event.plan, self._say)
        self._outbox.put(AgentPlanUpdate(session_update="plan", entries=entries))

    def on_notice(self, event: events.Notice) -> None:
        self.tell(self._say(event.text))

    def on_jobs_left(self, event: events.JobsLeft) -> None:
        self.tell("\n".join(map(self._say, self._words.left_running(event.programs))))

    # --- actions --------------------------------------------------------------------------------

    def on_action_proposed(self, event: events.ActionProposed) -> None:
        self._end_text()
        request, report = event.request, event.report
        title = first_line(render_request(request)) or request.tool
        kind = tool_kind(request.tool, request.effect)
        given = {
            "id": request.id,
            "command": clean(request.command),
            "folder": event.cwd,
            "risk": report.label,
            "effects": [clean(effect_line(effect, self._say)) for effect in report.effects],
        }
        if request.id in self._known:  # edited, or asked once more
            self._progress(request.id, "pending", None, title=title, raw_input=given)
            return
        self._start(
            request.id, title, kind, "pending",
            content=[*diffs(request)], locations=locations(request), raw_input=given,
        )  # fmt: skip

    def on_action_decided(self, event: events.ActionDecided) -> None:
        if event.decision.kind == "reject":
            given = event.decision.reason or event.decision.reasons
            why = event.decision.why if given else Phrase("not run: refused")
            self._progress(event.request.id, "failed", [fence_text(safe(self._say(why)))])

    def on_action_ended(self, event: events.ActionEnded) -> None:
        status: ToolCallStatus = "failed" if event.failed else "completed"
        content: list[Content] | None = _result(event.observation)
        if event.tool in ("edit_file", "write_file") and not event.failed:
            content = None  # the diff of an edit stays
        self._progress(event.request_id, status, content)

    def on_command_started(self, event: events.CommandStarted) -> None:
        key = event.request_id
        if key not in self._known:  # of the user, or of a turn before a crash
            title = first_line(render(event.command))
            self._start(key, title, "execute", "in_progress")
        self._running[key] = _Running()
        self._progress(key, "in_progress", [])

    def on_command_output(self, event: events.CommandOutput) -> None:
        if running := self._running.get(event.request_id):
            running.feed(event.data)
            self._show_soon(event.request_id, running)

    def on_command_waiting(self, event: events.CommandWaiting) -> None:
        if running := self._running.get(event.request_id):
            running.waits = event.waiting.evidence if event.waiting is not None else ""
            self._show_soon(event.request_id, running)

    def _show_soon(self, key: str, running: _Running) -> None:
        if running.due is None:
            loop = asyncio.get_running_loop()
            running.due = loop.call_later(OUTPUT_SECONDS, self._show_output, key)

    def _show_output(self, key: str) -> None:
        running = self._running.get(key)
        if running is None:
            return
        running.due = None

        def make() -> ToolCallProgress | None:
            if self._running.get(key) is not running:
                return None
            parts = [running.shown(), safe(running.waits)]
            text = "\n".join(part for part in parts if part)
            return _progress(key, "in_progress", [fence_text(text)])

        self._outbox.put_late(f"output {key}", make)

    def on_command_ended(self, event: events.CommandEnded) -> None:
        key, result = event.request_id, event.result
        running = self._running.pop(key, None)
        if running is not None and running.due is not None:
            running.due.cancel()
        fine = result.ended == "detached" or (result.ended == "exited" and result.exit_code == 0)
        how = self._how(result)
        raw = {
            "ended": result.ended,
            "exitCode": result.exit_code,
            "signal": result.signal,
            "seconds": round(result.duration, 3),
            "outputFile": result.output_path,
        }
        text = "\n".join(part for part in (safe(result.text).rstrip(), how) if part)
        self._progress(key, "completed" if fine else "failed", [fence_text(text)], raw_output=raw)

    def _how(self, result: CommandResult) -> str:
        """Return how a command ended; nothing where it is what everybody expects."""
        if result.exit_code == 0 and not result.pipe_told:
            return ""
        how = ENDINGS.get(result.ended, Phrase("ended by {signal}", {"signal": result.signal}))
        if result.exit_code is not None:
            how = Phrase("exit {code}", {"code": result.exit_code})
        return f"[{'; '.join(map(self._say, (how, *result.pipe_told)))}]"

    def on_agent_started(self, event: events.AgentStarted) -> None:
        self._end_text()
        task = " ".join(event.task.split())
        title = safe(one_line(f"@{event.name}: {task}" if event.name else task))
        key = f"agent-{uuid.uuid4().hex}"
        self._agents.setdefault(task, []).append(key)
        self._start(key, title, "think", "in_progress")

    def on_tool_ran(self, event: events.ToolRan) -> None:
        self._end_text()
        status: ToolCallStatus = "failed" if event.failed else "completed"
        if event.name == DELEGATE.name:
            begun = self._agents.get(_task_in(event.arguments))
            if begun:
                self._progress(begun.pop(0), status, _result(event.observation))
                return
        if event.malformed:
            return  # the model hears what is wrong with its call, and makes another
        title = safe(self._words.tool_title(event.name, event.arguments))
        key, kind = f"tool-{uuid.uuid4().hex}", tool_kind(event.name)
        self._start(key, title, kind, status, content=_result(event.observation))

    def _start(
        self,
        key: str,
        title: str,
        kind: ToolKind,
        status: ToolCallStatus,
        **more: Any,
    ) -> None:
        self._known.add(key)
        self._outbox.put(
            ToolCallStart(
                session_update="tool_call", tool_call_id=key, title=title, kind=kind,
                status=status, **more,
            )
        )  # fmt: skip

    def _progress(
        self, key: str, status: ToolCallStatus, content: list[Content] | None, **more: Any
    ) -> None:
        if key in self._known:
            self._outbox.put(_progress(key, status, content, **more))

    # --- the session ----------------------------------------------------------------------------

    def usage(self) -> None:
        """Send how full the model's window is, and what the session has cost."""
        session = self._session
        dollars = session.services.budget.total(session.state.usage, session.state.others_usage)
        cost = Cost(amount=round(dollars, 6), currency="USD") if dollars is not None else None
        self._outbox.put(
            UsageUpdate(
                session_update="usage_update",
                used=session.context.used_tokens,
                size=session.model.context_window,
                cost=cost,
            )
        )

    def title(self) -> None:
        """Send the title of the session when it has changed."""
        if self._session.state.title != self._title:
            self._title = self._session.state.title
            title = safe(one_line(self._title))
            self._outbox.put(SessionInfoUpdate(session_update="session_info_update", title=title))

    def on_turn_started(self, event: events.TurnStarted) -> None:
        self._said_something = False

    def on_turn_ended(self, event: events.TurnEnded) -> None:
        self._end_text()
        answer = event.answer
        text = answer.text.strip()
        shown = text if text and not self._streamed.strip().endswith(text) else ""
        if shown and answer.verbatim:
            shown = code_block(answer.text.strip("\n"))
        self._streamed = ""
        proved = "\n".join(
            [*(f"- [x] {line}" for line in answer.verified),
             *(f"- [ ] {line}" for line in answer.not_verified)]
        )  # fmt: skip
        ended = answer.reason is not None or answer.stop != "done"
        quiet = answer.stop in ("done", "interrupted", "model_failed")
        reason = self._words.end_reason(answer) if ended and not quiet else ""
        told = join_paragraphs([shown, proved, reason])
        if told:
            self._paragraph(told)

    def replay(self, items: Sequence[Item]) -> None:
        """Send what happened in earlier turns."""
        for item in items:
            if isinstance(item, UserInput):
                self._said(item.typed)
            elif isinstance(item, Replied):
                self.tell(item.question)
                self._said(item.reply or "")
            else:
                self(item)
        self._end_text()

    def _said(self, text: str) -> None:
        self._end_text()
        if text.strip():
            self._outbox.put(
                UserMessageChunk(
                    session_update="user_message_chunk",
                    content=text_block(safe(text)),
                    message_id=uuid.uuid4().hex,
                )
            )


def _progress(
    key: str, status: ToolCallStatus, content: list[Content] | None, **more: Any
) -> ToolCallProgress:
    if content is not None:
        more["content"] = content
    return ToolCallProgress(
        session_update="tool_call_update", tool_call_id=key, status=status, **more
    )


def _result(observation: str) -> list[Content]:
    return [fence_text(safe(without_marks(observation)))]


def _task_in(arguments: str) -> str:
    try:
        given = json.loads(arguments)
    except ValueError:
        return ""
    return " ".join(str(given.get("task", "")).split()) if isinstance(given, dict) else ""
