"""`--output text`: the answer on standard output, everything else as plain lines on standard
error, so that a pipe gets the answer alone and a log file reads well."""

from __future__ import annotations

from typing import TextIO

from kogniterm.text.sanitize import Sanitizer
from kogniterm.text.visible import render
from kogniterm.types import Answer, LeftRunning, Phrase, Plan, events
from kogniterm.ui.locale import _, translate
from kogniterm.ui.screen.status_line import again, end_reason, left_texts
from kogniterm.ui.screen.tool_lines import tool_words

_MARKS = {"pending": "[ ]", "active": "[>]", "done": "[x]", "failed": "[!]", "skipped": "[-]"}


class TextSink:
    """Writes a task's events as lines; `finish` writes the answer, unless `out` is None."""

    def __init__(self, out: TextIO | None, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._sanitizer = Sanitizer()
        self._line_open = False
        self._agents: set[str] = set()
        self._reason: Phrase | None = None
        self._left: tuple[LeftRunning, ...] = ()

    def __call__(self, event: events.Event) -> None:
        """Take one event."""
        match event:
            case events.PlanChanged():
                self._plan(event.plan, event.previous)
            case events.PlanReviewed() if event.kind == "reject":
                self._line(_("plan refused: {reason}").format(reason=render(event.reason)))
            case events.CommandStarted():
                self._sanitizer = Sanitizer()
                self._line(f"$ {render(event.command)}")
            case events.CommandOutput():
                self._output(self._sanitizer.feed(event.data))
            case events.CommandEnded():
                self._ended(event)
            case events.ActionDecided() if event.decision.kind == "reject":
                self._line(_("refused: {command}").format(command=render(event.request.command)))
                why = event.decision.reason and translate(event.decision.why)
                self._line(f"  {render(why)}")
            case events.AgentStarted():
                self._agent(event.agent, event.task)
            case events.ActionProposed() if event.request.agent:
                # One that began before this process did was announced to nobody here.
                self._agent(event.request.agent, event.request.agent_task)
            case events.ToolRan():
                self._line(f"· {event.name} {tool_words(event.name, event.arguments)}".rstrip())
            case events.ActionEnded():
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
            self._out.write(answer.text.rstrip("\n") + "\n")
            self._out.flush()
        for sign, lines in (("[x]", answer.verified), ("[?]", answer.not_verified)):
            for line in lines:
                self._line(f"{sign} {render(line)}")
        for text in left_texts(self._left):
            self._line(translate(text))
        if answer.reason is not None and answer.exit_code != 0:
            self._line(f"kogniterm: {end_reason(answer)}")

    def _agent(self, agent: str, task: str) -> None:
        """Who acts from here on, said once."""
        if agent not in self._agents:
            self._agents.add(agent)
            self._line(_("sub-agent: {task}").format(task=render(task)))

    def _plan(self, plan: Plan, previous: Plan | None) -> None:
        before = {step.id: step for step in previous.steps} if previous else {}
        if previous is None or previous.revision != plan.revision:
            self._line(_("plan: {goal}").format(goal=render(plan.goal)))
            before = {}
        for step in plan.steps:
            earlier = before.get(step.id)
            if earlier == step:
                continue
            line = f"  {_MARKS[step.status]} {step.id}. {render(step.what)}"
            if earlier is not None and step.failed_checks > earlier.failed_checks:
                why = render(step.evidence[-1].note)
                line += f" ({_('check failed: {why}').format(why=why)})"
            self._line(line)

    def _ended(self, event: events.CommandEnded) -> None:
        result = event.result
        if result.exit_code is not None:
            how = _("exit {code}").format(code=result.exit_code)
        elif result.ended == "signaled":
            how = _("ended by {signal}").format(signal=result.signal or "?")
        else:
            how = {
                "timeout": _("timed out"),
                "stopped": _("stopped"),
                "detached": _("left running"),
                "not_started": _("not started"),
            }.get(result.ended, result.ended)
        self._line(f"[{how}, {result.duration:.1f} s]")

    def _action(self, event: events.ActionEnded) -> None:
        if event.arguments and not event.failed:
            self._line(f"· {event.tool} {tool_words(event.tool, event.arguments)}".rstrip())
        else:
            self._line(f"· {event.tool}: {render(event.observation.partition(chr(10))[0])}")

    def _output(self, data: bytes) -> None:
        text = data.decode("utf-8", errors="replace").replace("\r\n", "\n")
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
