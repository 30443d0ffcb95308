"""The log of a turn: one line an event at the level debug, without the texts of user and model."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from kogniterm.protocols import EventSink
from kogniterm.text.shorten import cut
from kogniterm.types import Phrase, events
from kogniterm.types.events import EventVisitor

log = logging.getLogger(__name__)
_COMMAND = 300
"""Characters of a command that are logged."""
_NAMES = ("file", "hosts", "model", "name", "names", "provider", "steps", "used")
"""Values of a sentence that no user or model writes as text."""


def logging_sink(sink: EventSink, redact: Callable[[str], str]) -> EventSink:
    """Return a sink that logs each event before it is passed on to `sink`."""
    lines = TurnLog(redact)

    def logged(event: events.Event) -> None:
        lines(event)
        sink(event)

    return logged


class TurnLog(EventVisitor):
    """Writes the lines of one turn. The formatter of the log redacts them.

    What is cut, or joined to one line, is redacted before: no rest of a secret looks like one.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._asked: dict[str, float] = {}

    def on_turn_started(self, event: events.TurnStarted) -> None:
        log.debug(
            "turn %d started: model=%s folder=%s input=%d characters",
            event.turn, event.model, event.folder, len(event.text),
        )  # fmt: skip

    def on_turn_resumed(self, event: events.TurnResumed) -> None:
        log.debug("turn %d resumed: model=%s folder=%s", event.turn, event.model, event.folder)

    def on_turn_ended(self, event: events.TurnEnded) -> None:
        one = event.answer
        log.debug(
            "turn ended: %s exit=%d answer=%d characters seconds=%.2f waited=%.2f%s",
            one.stop, one.exit_code, len(one.text), one.seconds, one.waited,
            f": {_outline(one.reason)}" if one.reason else "",
        )  # fmt: skip

    def on_model_called(self, event: events.ModelCalled) -> None:
        self._asked[event.call] = time.monotonic()
        what = f"step={event.step} model={event.model or '-'} agent={event.agent or '-'}"
        log.debug("model call %s: %s %s", event.call, event.purpose, what)

    def on_model_answered(self, event: events.ModelAnswered) -> None:
        used, taken = event.usage, time.monotonic() - self._asked.pop(event.call, time.monotonic())
        first = f" first={event.first_seconds:.2f}" if event.first_seconds is not None else ""
        log.debug(
            "model answer %s: input=%d cached=%d output=%d tokens seconds=%.2f%s calls=%s end=%s",
            event.call, used.input, used.cached, used.output, taken, first,
            ",".join(event.tools) or "-", event.finish_reason or "-",
        )  # fmt: skip

    def on_model_retried(self, event: events.ModelRetried) -> None:
        what = f"attempt {event.attempt} of {event.of}, wait={event.wait:g} s"
        log.debug("model call %s again: %s: %s", event.call, what, event.reason)

    def on_model_failed(self, event: events.ModelFailed) -> None:
        log.debug("model call %s failed: %s", event.call, event.kind)

    def on_limit_decided(self, event: events.LimitDecided) -> None:
        log.debug("limit %s: %s by %s", event.reached.name, event.choice, event.by)

    def on_plan_proposed(self, event: events.PlanProposed) -> None:
        log.debug("plan proposed: revision=%d steps=%d", event.plan.revision, len(event.plan.steps))

    def on_plan_reviewed(self, event: events.PlanReviewed) -> None:
        log.debug("plan %s by %s", event.kind, event.by)

    def on_plan_changed(self, event: events.PlanChanged) -> None:
        steps = " ".join(f"{step.id}={step.status}" for step in event.plan.walk())
        log.debug("plan: revision=%d %s", event.plan.revision, steps)

    def on_tool_ran(self, event: events.ToolRan) -> None:
        self._tool(event.name, event.call_id, event.observation, failed=event.failed)

    def on_action_ended(self, event: events.ActionEnded) -> None:
        self._tool(event.tool, event.request_id, event.observation, failed=event.failed)

    def _tool(self, name: str, which: str, observation: str, *, failed: bool) -> None:
        end = "failed" if failed else "done"
        log.debug("tool %s %s: %s, %d characters", name, which, end, len(observation))

    def on_agent_started(self, event: events.AgentStarted) -> None:
        log.debug("sub-agent %s started: %s", event.agent, event.name or "no name")

    def on_action_proposed(self, event: events.ActionProposed) -> None:
        request, verdict = event.request, event.verdict
        what = cut(" ".join(self._redact(request.command).split()), _COMMAND) or request.effect
        log.debug("request %s: %s in %s: %s", request.id, request.tool, event.cwd, what)
        why = "; ".join(map(str, verdict.reasons or event.report.reasons))
        log.debug("verdict %s: %s, %s: %s", request.id, verdict.kind, event.report.label, why)

    def on_action_decided(self, event: events.ActionDecided) -> None:
        one = event.decision
        log.debug("decision %s: %s by %s", event.request.id, one.kind, one.by)
        if one.kind == "reject":
            why = "; ".join(map(str, one.reasons)) or f"a reason of {len(one.reason)} characters"
            log.debug("rejected %s: %s", event.request.id, why)

    def on_command_started(self, event: events.CommandStarted) -> None:
        log.debug("command %s started in %s", event.request_id, event.cwd)

    def on_command_waiting(self, event: events.CommandWaiting) -> None:
        kind = event.waiting.kind if event.waiting is not None else "goes on"
        log.debug("command %s waits: %s", event.request_id, kind)

    def on_command_ended(self, event: events.CommandEnded) -> None:
        one = event.result
        end = f"exit={one.exit_code} signal={one.signal or '-'} seconds={one.duration:.2f}"
        size = f"output={one.output_bytes} bytes, {one.omitted_bytes} left out"
        log.debug("command %s %s: %s %s", event.request_id, one.ended, end, size)

    def on_hosts_started(self, event: events.HostsStarted) -> None:
        log.debug("hosts %s: %s", event.request_id, " | ".join(map(",".join, event.groups)))

    def on_host_answered(self, event: events.HostAnswered) -> None:
        log.debug("host %s %s: %s", event.request_id, event.answer.host, event.answer.state)

    def on_notice(self, event: events.Notice) -> None:
        log.debug("notice (%s): %s", event.level, _outline(event.text))


def _outline(sentence: Phrase) -> str:
    """Return a sentence with its names and numbers; another value may quote user or model."""

    def shown(name: str, value: object) -> object:
        if isinstance(value, Phrase):
            return _outline(value)
        if name in _NAMES or isinstance(value, int | float):
            return value
        if isinstance(value, tuple | list):
            return "; ".join(str(shown(name, one)) for one in value)
        return f"[{len(str(value))} characters]"

    values = {name: shown(name, value) for name, value in sentence.values.items()}
    return str(Phrase(sentence.template, values))
