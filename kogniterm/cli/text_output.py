"""`--output text` off a terminal: plain lines, the answer alone on standard output.

A pipe gets the answer, and a log file of standard error reads well. Needs no drawing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TextIO

from kogniterm.installed import part
from kogniterm.text.file_text import shown_lines
from kogniterm.text.sanitize import Sanitizer
from kogniterm.text.shorten import cut, one_line
from kogniterm.text.visible import clean, render, render_again, render_request, without_style
from kogniterm.types import ENDINGS, RUN_ON_HOSTS, Answer, LeftRunning, Phrase, events
from kogniterm.ui.locale import _, translate
from kogniterm.ui.words.turn_words import (
    EDITS,
    LONGEST,
    QUIET_TOOLS,
    again,
    edit_words,
    end_reason,
    left_texts,
    limit_hint,
    shown_result,
    tool_label,
    tool_words,
)

_MARKS = {"pending": "[ ]", "active": "[>]", "done": "[x]", "failed": "[!]", "skipped": "[-]"}


_HEAD, _TAIL, _CHANGED, _LONGEST = 40, 20, 12, 10_000
"""First and last lines of a command and of a change that are written, and a last line's length."""
_HOST_LINES = 40
"""Lines of an answer of hosts that are written; the session has all."""


def _who_acts(task: str, name: str) -> str:
    values = {"task": render(task), "name": render(name)}
    if name.startswith("/"):
        return _("custom command: {task}").format(**values)
    if name:
        return _("sub-agent {name}: {task}").format(**values)
    return _("sub-agent: {task}").format(**values)


class _Shown:
    """The written part of a command's output: the first lines as they come, the last at its end."""

    def __init__(self, command: str) -> None:
        self.command, self.sanitizer = command, Sanitizer()
        self.lines = self.left_out = 0
        self.tail: deque[str] = deque(maxlen=_TAIL)
        self.held = ""  # the first lines, while another command's output is written

    def take(self, data: bytes) -> str:
        """Return what of it is written now, without its colours: this goes to a file or a pipe."""
        text = without_style(self.sanitizer.feed(data).decode("utf-8", errors="replace"))
        first = ""
        for line in text.replace("\r\n", "\n").splitlines(keepends=True):
            if self.lines < _HEAD:
                first += line
                self.lines += line.endswith("\n")
            elif self.tail and not self.tail[-1].endswith("\n"):
                self.tail[-1] = (self.tail[-1] + line)[-_LONGEST:]
            else:
                self.left_out += len(self.tail) == _TAIL
                self.tail.append(line)
        return first


class TextSink(events.EventVisitor):
    """Writes a task's events as lines; `finish` writes the answer, unless `out` is None.

    Of commands that run at once, the output of each stands together, in the order of their calls.
    """

    def __init__(self, out: TextIO | None, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._line_open, self._folder = False, ""
        self._commands: dict[str, _Shown] = {}  # the first is the one whose output is written
        self._changes: dict[str, str] = {}
        self._said = ""
        self._agents: set[str] = set()
        self._reason: Phrase | None = None
        self._left: tuple[LeftRunning, ...] = ()

    def begin(self, session_id: str, model: str, folder: str) -> None:
        """Write nothing: the lines are about the task. Paths are shown as seen from `folder`."""
        self._folder = folder

    def finish(self, answer: Answer) -> None:
        """Write the answer, and why the task stopped if it is not done."""
        if self._out is not None and answer.text:
            self._out.write(clean(answer.text).rstrip("\n") + "\n")
            self._out.flush()
        for sign, lines in (("[x]", answer.verified), ("[?]", answer.not_verified)):
            for line in lines:
                self._line(f"{sign} {render(line)}")
        for text in left_texts(self._left):
            self._line(translate(text))
        if answer.reason is not None and answer.exit_code != 0:
            self._line(f"kogniterm: {end_reason(answer)}")
            if hint := limit_hint(answer):
                self._line(hint)

    # --- events ---------------------------------------------------------------------------------

    def on_answer_delta(self, event: events.AnswerDelta) -> None:
        self._said += event.text

    def on_model_answered(self, event: events.ModelAnswered) -> None:
        """Write what the model says between calls.

        The answer, alone or beside the call that ends the turn, is written at the end.
        """
        if {*event.tools} - {"end_turn"} and (said := clean(self._said).strip()):
            self._line(said)
        self._said = ""

    def on_model_loading(self, event: events.ModelLoading) -> None:
        if not event.done:
            self._line(_("loading the local model"))

    def on_model_retried(self, event: events.ModelRetried) -> None:
        """Tell of another try; a reason that stands there already is not repeated."""
        self._said = ""
        known = event.attempt > 1 and event.reason == self._reason
        said = "" if known else f"{translate(event.reason)} "
        self._reason = event.reason
        self._line(said + again(event.wait, event.attempt, event.of))

    def on_action_proposed(self, event: events.ActionProposed) -> None:
        request = event.request
        self._changes[request.id] = request.detail
        if request.agent:  # one that began before this process was not announced here
            self._agent(request.agent, request.agent_task, request.agent_name)

    def on_action_decided(self, event: events.ActionDecided) -> None:
        if event.decision.kind == "reject":
            self._line(_("refused: {command}").format(command=render_request(event.request)))
            why = event.decision.reason and translate(event.decision.why)
            self._line(f"  {render_again(why)}")

    def on_agent_started(self, event: events.AgentStarted) -> None:
        self._agent(event.agent, event.task, event.name)

    def on_tool_ran(self, event: events.ToolRan) -> None:
        if event.failed or event.name not in QUIET_TOOLS:
            given = "{}" if event.name in QUIET_TOOLS else event.arguments
            self._tool(event.name, given, failed=event.failed)

    def on_plan_reviewed(self, event: events.PlanReviewed) -> None:
        if event.kind == "reject":
            self._line(_("plan refused: {reason}").format(reason=render(event.reason)))

    def on_notice(self, event: events.Notice) -> None:
        self._line(translate(event.text))

    def on_jobs_left(self, event: events.JobsLeft) -> None:
        self._left = event.programs

    def _agent(self, agent: str, task: str, name: str) -> None:
        """Say once who acts from here on."""
        if agent not in self._agents:
            self._agents.add(agent)
            self._line(_who_acts(task, name))

    def on_plan_changed(self, event: events.PlanChanged) -> None:
        plan, previous = event.plan, event.previous
        before = {step.id: step for step in previous.walk()} if previous else {}
        if previous is None or previous.revision != plan.revision:
            self._line(_("plan: {goal}").format(goal=one_line(plan.goal, 400)))
            before = {}
        for step in plan.walk():
            earlier = before.get(step.id)
            if earlier is not None and replace(earlier, substeps=step.substeps) == step:
                continue
            indent = "  " if step in plan.steps else "    "
            line = f"{indent}{_MARKS[step.status]} {step.id}. {one_line(step.what, 400)}"
            if earlier is not None and step.failed_checks > earlier.failed_checks:
                why = render(step.evidence[-1].note)
                line += f" ({_('check failed: {why}').format(why=why)})"
            self._line(line)

    def on_command_started(self, event: events.CommandStarted) -> None:
        self._commands[event.request_id] = _Shown(event.command)
        self._begin(event.request_id)

    def on_command_output(self, event: events.CommandOutput) -> None:
        if (shown := self._commands.get(event.request_id)) is None:
            return
        text = shown.take(event.data)
        if next(iter(self._commands)) == event.request_id:
            self._output(text)
        else:
            shown.held += text

    def _begin(self, request_id: str) -> None:
        """Write a command, and what it has written so far, if those before it have ended."""
        shown = self._commands[request_id]
        if next(iter(self._commands)) == request_id:
            self._line(f"$ {render(shown.command)}")
            self._output(shown.held)
            shown.held = ""

    def on_command_ended(self, event: events.CommandEnded) -> None:
        written = next(iter(self._commands), "") == event.request_id
        result, shown = event.result, self._commands.pop(event.request_id, None)
        if shown is not None:
            self._output(shown.held)
            if shown.left_out:
                self._line(_("[{count} lines left out]").format(count=shown.left_out))
            self._output("".join(shown.tail))
        if result.exit_code is not None:
            how = _("exit {code}").format(code=result.exit_code)
        elif result.ended == "signaled":
            how = _("ended by {signal}").format(signal=result.signal or "?")
        else:
            how = translate(ENDINGS[result.ended])
        how = "; ".join((how, *map(translate, result.pipe_told)))
        self._line(f"[{how}, {result.duration:.1f} s]")
        if written and self._commands:
            self._begin(next(iter(self._commands)))

    def on_hosts_ended(self, event: events.HostsEnded) -> None:
        draw = part("DRAWN", "hosts_ended")
        for line in draw(event.command, event.groups, lambda sign: "·", _HOST_LINES):
            self._line(line.plain)

    def on_action_ended(self, event: events.ActionEnded) -> None:
        if event.tool == RUN_ON_HOSTS:
            return
        if event.arguments and not event.failed:
            self._tool(event.tool, event.arguments)
        else:
            found = shown_result(event.observation, 300)
            if event.tool in EDITS and not event.failed:
                self._line(f"· {edit_words(found, self._folder)}")
            else:
                self._line(f"· {tool_label(event.tool).removesuffix(':')}: {found}")
        changes = "" if event.failed else self._changes.pop(event.request_id, "")
        changed = shown_lines(changes)[2:]
        for line in changed[:_CHANGED]:
            self._line(f"  {cut(line.expandtabs(4), LONGEST)}")
        if len(changed) > _CHANGED:
            self._line(_("[{count} lines left out]").format(count=len(changed) - _CHANGED))

    def _tool(self, name: str, arguments: str, *, failed: bool = False) -> None:
        line = f"· {tool_label(name)} {tool_words(name, arguments)}".rstrip()
        self._line(f"{line} ({_('failed')})" if failed else line)

    def _output(self, text: str) -> None:
        if text:
            self._err.write(text)
            self._err.flush()
            self._line_open = not text.endswith("\n")

    def _line(self, text: str) -> None:
        self._err.write(("\n" if self._line_open else "") + text + "\n")
        self._err.flush()
        self._line_open = False
