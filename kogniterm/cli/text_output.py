"""`--output text` off a terminal: plain lines, the answer alone on standard output.

A pipe gets the answer, and a log file of standard error reads well. Needs no drawing.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TextIO

from kogniterm.lazy_dataclasses import dataclass
from kogniterm.text.sanitize import Sanitizer
from kogniterm.text.visible import clean, render, without_style
from kogniterm.types import ENDINGS, RUN_ON_HOSTS, Answer, LeftRunning, Phrase, Plan, events
from kogniterm.ui.locale import _, translate
from kogniterm.ui.tool_words import QUIET_TOOLS, tool_label, tool_words
from kogniterm.ui.turn_words import again, end_reason, left_texts, limit_hint

_MARKS = {"pending": "[ ]", "active": "[>]", "done": "[x]", "failed": "[!]", "skipped": "[-]"}


_MOST_HELD = 1 << 20
"""Bytes kept of what a command writes while another one's output is written; the newest ones."""
_HOST_LINES = 40
"""Lines of an answer of hosts that are written; the session has all."""


def _who_acts(task: str, name: str) -> str:
    values = {"task": render(task), "name": render(name)}
    if name.startswith("/"):
        return _("custom command: {task}").format(**values)
    if name:
        return _("sub-agent {name}: {task}").format(**values)
    return _("sub-agent: {task}").format(**values)


@dataclass(slots=True)
class _Waiting:
    """A command whose output is written once that of those before it is whole."""

    command: str
    output: bytearray = field(default_factory=bytearray)
    left_out: int = 0

    def keep(self, data: bytes) -> None:
        self.output += data
        excess = len(self.output) - _MOST_HELD
        if excess > 0:
            del self.output[:excess]
            self.left_out += excess


class TextSink:
    """Writes a task's events as lines; `finish` writes the answer, unless `out` is None.

    Of commands that run at once, the output of each stands together, in the order of their calls.
    """

    def __init__(self, out: TextIO | None, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._sanitizer = Sanitizer()
        self._line_open = False
        self._writing = ""
        self._waiting: dict[str, _Waiting] = {}
        self._agents: set[str] = set()
        self._reason: Phrase | None = None
        self._left: tuple[LeftRunning, ...] = ()

    def begin(self, session_id: str, model: str, folder: str) -> None:
        """Write nothing: the lines are about the task."""

    def __call__(self, event: events.Event) -> None:
        """Take one event."""
        match event:
            case events.PlanChanged():
                self._plan(event.plan, event.previous)
            case events.PlanReviewed() if event.kind == "reject":
                self._line(_("plan refused: {reason}").format(reason=render(event.reason)))
            case events.CommandStarted() | events.CommandOutput() | events.CommandEnded():
                self._of_command(event)
            case events.ActionDecided() if event.decision.kind == "reject":
                self._line(_("refused: {command}").format(command=render(event.request.command)))
                why = event.decision.reason and translate(event.decision.why)
                self._line(f"  {render(why)}")
            case events.AgentStarted():
                self._agent(event.agent, event.task, event.name)
            case events.ActionProposed() if event.request.agent:
                # A command that began before this process was not announced on this screen.
                request = event.request
                self._agent(request.agent, request.agent_task, request.agent_name)
            case events.ToolRan() if event.failed or event.name not in QUIET_TOOLS:
                self._tool(event.name, "{}" if event.name in QUIET_TOOLS else event.arguments)
            case events.HostsEnded():
                self._hosts(event)
            case events.ActionEnded() if event.tool != RUN_ON_HOSTS:
                self._action(event)
            case events.ModelLoading(done=False):
                self._line(_("loading the local model"))
            case events.ModelRetried():
                self._retry(event)
            case events.Notice():
                self._line(translate(event.text))
            case events.JobsLeft():
                self._left = event.programs

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

    def _agent(self, agent: str, task: str, name: str) -> None:
        """Say once who acts from here on."""
        if agent not in self._agents:
            self._agents.add(agent)
            self._line(_who_acts(task, name))

    def _plan(self, plan: Plan, previous: Plan | None) -> None:
        before = {step.id: step for step in previous.walk()} if previous else {}
        if previous is None or previous.revision != plan.revision:
            self._line(_("plan: {goal}").format(goal=render(plan.goal)))
            before = {}
        for step in plan.walk():
            earlier = before.get(step.id)
            if earlier is not None and replace(earlier, substeps=step.substeps) == step:
                continue
            indent = "  " if step in plan.steps else "    "
            line = f"{indent}{_MARKS[step.status]} {step.id}. {render(step.what)}"
            if earlier is not None and step.failed_checks > earlier.failed_checks:
                why = render(step.evidence[-1].note)
                line += f" ({_('check failed: {why}').format(why=why)})"
            self._line(line)

    def _of_command(
        self, event: events.CommandStarted | events.CommandOutput | events.CommandEnded
    ) -> None:
        match event:
            case events.CommandStarted() if self._writing:
                self._waiting[event.request_id] = _Waiting(event.command)
            case events.CommandStarted():
                self._command(event.request_id, event.command)
            case events.CommandOutput() if event.request_id in self._waiting:
                self._waiting[event.request_id].keep(event.data)
            case events.CommandOutput():
                self._output(self._sanitizer.feed(event.data))
            case events.CommandEnded():
                self._ended(event)
                self._next_command()

    def _command(self, request_id: str, command: str) -> None:
        """Write a command, whose output follows."""
        self._writing, self._sanitizer = request_id, Sanitizer()
        self._line(f"$ {render(command)}")

    def _next_command(self) -> None:
        """Write what the next one of several commands has written so far."""
        self._writing = ""
        if not self._waiting:
            return
        request_id = next(iter(self._waiting))
        held = self._waiting.pop(request_id)
        self._command(request_id, held.command)
        if held.left_out:
            self._line(_("[{count} bytes left out]").format(count=held.left_out))
        self._output(self._sanitizer.feed(bytes(held.output)))

    def _ended(self, event: events.CommandEnded) -> None:
        result = event.result
        if result.exit_code is not None:
            how = _("exit {code}").format(code=result.exit_code)
        elif result.ended == "signaled":
            how = _("ended by {signal}").format(signal=result.signal or "?")
        else:
            how = translate(ENDINGS[result.ended])
        how = "; ".join((how, *map(translate, result.pipe_told)))
        self._line(f"[{how}, {result.duration:.1f} s]")

    def _hosts(self, event: events.HostsEnded) -> None:
        from kogniterm.ui.screen.host_lines import host_answers

        for part in host_answers(event.command, event.groups, lambda sign: "·", _HOST_LINES):
            self._line(part.plain)

    def _action(self, event: events.ActionEnded) -> None:
        if event.arguments and not event.failed:
            self._tool(event.tool, event.arguments)
        else:
            found = render(event.observation.partition(chr(10))[0])
            self._line(f"· {tool_label(event.tool).removesuffix(':')}: {found}")

    def _tool(self, name: str, arguments: str) -> None:
        self._line(f"· {tool_label(name)} {tool_words(name, arguments)}".rstrip())

    def _output(self, data: bytes) -> None:
        """Write what a command printed, without its colours: this goes to a file or a pipe."""
        text = without_style(data.decode("utf-8", errors="replace").replace("\r\n", "\n"))
        if text:
            self._err.write(text)
            self._err.flush()
            self._line_open = not text.endswith("\n")

    def _retry(self, event: events.ModelRetried) -> None:
        """Tell of another try; a reason that stands there already is not repeated."""
        known = event.attempt > 1 and event.reason == self._reason
        said = "" if known else f"{translate(event.reason)} "
        self._reason = event.reason
        self._line(said + again(event.wait, event.attempt, event.of))

    def _line(self, text: str) -> None:
        self._err.write(("\n" if self._line_open else "") + text + "\n")
        self._err.flush()
        self._line_open = False
