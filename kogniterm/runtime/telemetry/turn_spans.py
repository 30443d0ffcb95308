"""The spans of a turn, made of its events.

    invoke_agent kogniterm                    a turn
      chat MODEL                              a model call; below `plan` where it made a plan
      execute_tool TOOL                       an action, from its proposal to its end
        approval                              the wait for the user
        command                               the run of a command
      execute_tool delegate
        invoke_agent NAME                     a sub-agent, with its own calls and actions

A span of a call or a wait is made when it ends, with its times, because only then is it known what
it was. Everything here runs on one thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field

from opentelemetry import trace
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status, StatusCode

from kogniterm import __version__
from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.agent.subagent import DELEGATE
from kogniterm.approval.analysis.command_options import rules_for
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.models.catalog import cost_of
from kogniterm.runtime.telemetry import conventions as names
from kogniterm.runtime.telemetry.observed_events import Observed, TraceIds
from kogniterm.runtime.telemetry.span_exporters import Pipeline
from kogniterm.runtime.telemetry.turn_metrics import TurnMetrics
from kogniterm.settings.telemetry_variables import TelemetryVariables
from kogniterm.types import CALL_TOOL, ActionRequest, RiskReport, events

Value = str | int | float | bool | tuple[str, ...]
NANO = 1_000_000_000
_FAILED_STOPS = ("not_done", "model_failed", "budget", "unknown")


@dataclass(slots=True)
class _Call:
    """A model call that has begun."""

    event: events.ModelCalled
    began: int
    retries: list[tuple[int, events.ModelRetried]] = field(default_factory=list)
    text: str = ""


@dataclass(slots=True)
class _Action:
    """An action that was proposed and has not ended."""

    request: ActionRequest
    span: Span
    began: int
    program: str = ""
    asked: int | None = None
    started: int | None = None
    command: str = ""


@dataclass(slots=True)
class _Agent:
    """An agent at work: its span, and for a sub-agent that of the `delegate` call."""

    span: Span
    name: str
    began: int
    delegate: Span | None = None


class TurnSpans:
    """Follows the events of one session, turn after turn."""

    def __init__(self, pipeline: Pipeline, variables: TelemetryVariables) -> None:
        self._pipeline = pipeline
        self._tracer = pipeline.tracer
        self._metrics = TurnMetrics(pipeline.meter)
        self._variables = variables
        self._session = ""
        self._model = ""
        self._agents: dict[str, _Agent] = {}
        self._calls: dict[str, _Call] = {}
        self._actions: dict[str, _Action] = {}
        self._plans: dict[str, int] = {}

    def take(self, observed: Observed) -> None:
        """Take one more event."""
        event, time = observed.event, observed.time
        if isinstance(event, events.TurnStarted | events.TurnResumed):
            self._turn_begins(event, observed)
        elif "" in self._agents:  # what is outside of a turn is not the agent's
            self._in_turn(event, time)

    def _in_turn(self, event: events.Event, time: int) -> None:
        match event:
            case events.ModelCalled():
                self._calls[event.call] = _Call(event, time)
            case events.AnswerDelta():
                self._said(event)
            case events.ModelRetried():
                if call := self._calls.get(event.call):
                    call.retries.append((time, event))
            case events.ModelAnswered():
                self._answered(event, time)
            case events.ModelFailed():
                self._call_failed(event, time)
            case events.AgentStarted():
                self._agent_begins(event, time)
            case events.ToolRan():
                self._tool_ran(event, time)
            case events.TurnEnded():
                self._turn_ended(event, time)
            case _:
                self._about_actions(event, time)

    def _about_actions(self, event: events.Event, time: int) -> None:
        match event:
            case events.PlanProposed():
                self._plans[event.request_id] = time
            case events.PlanReviewed():
                self._reviewed(event, time)
            case events.LimitDecided():
                attributes = {names.LIMIT: event.reached.name, names.DECISION: event.choice}
                self._agents[""].span.add_event("limit", attributes, time)
            case events.ActionProposed():
                self._proposed(event, time)
            case events.ApprovalAsked():
                if action := self._actions.get(event.request_id):
                    action.asked = time
            case events.ActionDecided():
                self._decided(event, time)
            case events.CommandStarted():
                if action := self._actions.get(event.request_id):
                    action.started, action.command = time, event.command
            case events.CommandEnded():
                self._command_ended(event, time)
            case events.ActionEnded():
                self._action_ended(event, time)

    def end(self, time: int) -> None:
        """End the spans that are open: the session is over."""
        self._end_open(time, "interrupted")

    # --- turns and agents -----------------------------------------------------------------------

    def _turn_begins(
        self, event: events.TurnStarted | events.TurnResumed, observed: Observed
    ) -> None:
        self._end_open(observed.time, "interrupted")
        self._session, self._model = event.session_id, event.model
        context = None
        if self._variables.traceparent:
            carrier = {"traceparent": self._variables.traceparent}
            if self._variables.tracestate:
                carrier["tracestate"] = self._variables.tracestate
            context = TraceContextTextMapPropagator().extract(carrier)
        if observed.ids is not None:
            self._pipeline.ids.give(observed.ids)
        span = self._tracer.start_span(
            f"invoke_agent {names.AGENT}",
            context=context,
            kind=SpanKind.INTERNAL,
            attributes={
                **self._of_agent("invoke_agent", names.AGENT),
                names.PROVIDER: names.provider_of(event.model),
                names.REQUEST_MODEL: names.model_of(event.model),
                names.AGENT_VERSION: __version__,
                names.TURN: event.turn,
            },
            links=[Link(_remote(observed.before))] if observed.before is not None else (),
            start_time=observed.time,
        )
        if self._variables.content and isinstance(event, events.TurnStarted):
            span.set_attribute(names.INPUT_MESSAGES, _message("user", event.text))
        self._agents[""] = _Agent(span, names.AGENT, observed.time)

    def _turn_ended(self, event: events.TurnEnded, time: int) -> None:
        answer, agent = event.answer, self._agents[""]
        span = agent.span
        span.set_attributes(
            {
                names.STOP: answer.stop,
                names.WAITED: round(answer.waited, 3),
                names.INPUT_TOKENS: answer.usage.input,
                names.OUTPUT_TOKENS: answer.usage.output,
            }
        )
        if self._variables.content:
            span.set_attribute(names.OUTPUT_MESSAGES, _message("assistant", answer.text))
        self._end_open(time, answer.stop)

    def _end_open(self, time: int, stop: str) -> None:
        """End what is open, the innermost first; a stop other than `done` is its error."""
        error = "" if stop in ("done", "plan_only") else stop
        for call in list(self._calls.values()):
            self._call_ends(call, time, {}, error or "cancelled")
        for action in list(self._actions.values()):
            self._end_action(action, time, error or "cancelled")
        for key in [key for key in self._agents if key]:
            self._agent_ends(key, time, error)
        agent = self._agents.pop("", None)
        if agent is not None:
            if error:
                agent.span.set_attribute(names.ERROR, error)
            if error in _FAILED_STOPS:
                agent.span.set_status(Status(StatusCode.ERROR))
            agent.span.end(time)
            self._took(names.AGENT_DURATION, agent.began, time, {names.AGENT_NAME: agent.name})
        self._plans.clear()

    def _agent_begins(self, event: events.AgentStarted, time: int) -> None:
        name = event.name or "subagent"
        if event.agent in self._agents:
            return
        outer = self._agents[""].span
        delegate = None
        if not name.startswith("/"):  # a custom command is no call of the model
            delegate = self._start(
                f"execute_tool {DELEGATE.name}",
                outer,
                time,
                {
                    **self._of_agent("execute_tool", names.AGENT),
                    names.TOOL_NAME: DELEGATE.name,
                    names.TOOL_TYPE: "function",
                    names.TOOL_CALL: event.agent,
                },
            )
        attributes = {
            **self._of_agent("invoke_agent", name),
            names.AGENT_ID: event.agent,
            names.PROVIDER: names.provider_of(self._model),
        }
        span = self._start(f"invoke_agent {name}", delegate or outer, time, attributes)
        if self._variables.content:
            span.set_attribute(names.INPUT_MESSAGES, _message("user", event.task))
        self._agents[event.agent] = _Agent(span, name, time, delegate)

    def _agent_ends(self, key: str, time: int, error: str, said: str = "") -> None:
        agent = self._agents.pop(key)
        if self._variables.content and said:
            agent.span.set_attribute(names.OUTPUT_MESSAGES, _message("assistant", said))
        for span in (agent.span, agent.delegate):
            if span is not None:
                _end(span, time, error)
        self._took(names.AGENT_DURATION, agent.began, time, {names.AGENT_NAME: agent.name})

    # --- model calls ----------------------------------------------------------------------------

    def _said(self, event: events.AnswerDelta) -> None:
        """Keep the text of the main agent's call: those of sub-agents are not streamed."""
        for call in reversed(self._calls.values()):
            if not call.event.agent:
                call.text += event.text
                return

    def _answered(self, event: events.ModelAnswered, time: int) -> None:
        call = self._calls.get(event.call) if event.call else None
        if call is None:  # of a tool that asked the model: only its tokens are known
            self._metrics.used(event.usage, cost_of(self._model, event.usage), self._of_model())
            return
        usage, cost = event.usage, cost_of(call.event.model, event.usage)
        found: dict[str, Value] = {
            names.INPUT_TOKENS: usage.input,
            names.OUTPUT_TOKENS: usage.output,
        }
        known: Mapping[str, Value | None] = {
            names.CACHE_READ: usage.cached or None,
            names.CACHE_CREATION: usage.written or None,
            names.RESPONSE_ID: event.response_id or None,
            names.RESPONSE_MODEL: event.response_model or None,
            names.FINISH_REASONS: (event.finish_reason.lower(),) if event.finish_reason else None,
            names.FIRST_CHUNK: event.first_seconds,
            names.COST: cost or None,
        }
        found |= {name: value for name, value in known.items() if value is not None}
        if self._variables.content and call.text:
            found[names.OUTPUT_MESSAGES] = _message("assistant", call.text)
        self._call_ends(call, time, found, planned=MAKE_PLAN.name in event.tools)
        about = self._of_model(call.event)
        if event.response_model:
            about[names.RESPONSE_MODEL] = event.response_model
        self._metrics.used(usage, cost, about)
        if event.first_seconds is not None:
            self._metrics.took(names.CALL_FIRST_CHUNK, event.first_seconds, about)

    def _call_failed(self, event: events.ModelFailed, time: int) -> None:
        call = self._calls.get(event.call)
        if call is not None:
            self._call_ends(call, time, {}, event.kind)

    def _call_ends(
        self,
        call: _Call,
        time: int,
        found: Mapping[str, Value],
        error: str = "",
        *,
        planned: bool = False,
    ) -> None:
        """Make the span of a model call, below one of a plan where the call made it."""
        event = call.event
        self._calls.pop(event.call, None)
        agent = self._agents.get(event.agent) or self._agents[""]
        outer, plan = agent.span, None
        if planned:
            attributes = self._of_agent("plan", agent.name)
            plan = self._start(f"plan {agent.name}", outer, call.began, attributes)
        about = self._of_model(event)
        span = self._start(
            f"chat {about[names.REQUEST_MODEL]}",
            plan or outer,
            call.began,
            {
                **about,
                names.CONVERSATION: self._session,
                names.PURPOSE: event.purpose,
                names.REQUEST_STREAM: True,
                **({names.REASONING_LEVEL: event.effort} if event.effort else {}),
                **found,
            },
            SpanKind.CLIENT,
        )
        for at, retry in call.retries:
            span.add_event("retry", {"kogniterm.retry.attempt": retry.attempt,
                                     "kogniterm.retry.wait": round(retry.wait, 3)}, at)  # fmt: skip
        _end(span, time, error)
        if plan is not None:
            plan.end(time)
        more = {names.ERROR: error} if error else {}
        self._took(names.CALL_DURATION, call.began, time, {**about, **more})

    def _of_model(self, call: events.ModelCalled | None = None) -> dict[str, str | int]:
        """Return what spans and metrics of a model call say of the model."""
        model = (call.model if call is not None else "") or self._model
        found: dict[str, str | int] = {
            names.OPERATION: "chat",
            names.PROVIDER: names.provider_of(model),
            names.REQUEST_MODEL: names.model_of(model),
        }
        if call is not None and call.server:
            found[names.SERVER], found[names.PORT] = names.host_and_port(call.server)
        return found

    # --- tools and actions ----------------------------------------------------------------------

    def _tool_ran(self, event: events.ToolRan, time: int) -> None:
        error = "malformed" if event.malformed else "failed" if event.failed else ""
        if event.call_id in self._agents and event.call_id:
            self._agent_ends(event.call_id, time, error, event.observation)
            return
        agent = self._agents.get(event.agent) or self._agents[""]
        began = time - int(event.seconds * NANO)
        attributes: dict[str, Value] = {
            **self._of_agent("execute_tool", agent.name),
            names.TOOL_NAME: event.name,
            names.TOOL_TYPE: "function",
            **({names.TOOL_CALL: event.call_id} if event.call_id else {}),
        }
        if self._variables.content:
            attributes |= {
                names.TOOL_ARGUMENTS: event.arguments,
                names.TOOL_RESULT: event.observation,
            }
        span = self._start(f"execute_tool {event.name}", agent.span, began, attributes)
        _end(span, time, error)
        self._tool_took(event.name, began, time, error)

    def _proposed(self, event: events.ActionProposed, time: int) -> None:
        request = event.request
        action = self._actions.get(request.id)
        if action is None:
            agent = self._agents.get(request.agent) or self._agents[""]
            span = self._start(
                f"execute_tool {request.tool}",
                agent.span,
                time,
                {
                    **self._of_agent("execute_tool", agent.name),
                    names.TOOL_NAME: request.tool,
                    names.TOOL_TYPE: "function",
                    names.TOOL_CALL: request.call_id,
                },
            )
            action = self._actions[request.id] = _Action(request, span, time)
        action.span.set_attribute(names.RISK, event.report.label)
        action.program = _program(event.report)
        if request.tool.startswith("mcp__") or request.called == CALL_TOOL:
            action.span.set_attribute(names.MCP_METHOD, "tools/call")

    def _decided(self, event: events.ActionDecided, time: int) -> None:
        action, decision = self._actions.get(event.request.id), event.decision
        if action is None:
            return
        by = _who(decision.by)
        about: dict[str, Value] = {names.DECISION: decision.kind, names.BY: by}
        action.span.set_attributes(about)
        self._metrics.decided(decision.kind, by)
        if action.asked is not None:
            self._wait("approval", action.span, action.asked, time, about)
            action.asked = None
        if decision.kind == "reject":
            self._end_action(action, time, "rejected")
        elif action.request.effect == "person":
            action.started = time

    def _reviewed(self, event: events.PlanReviewed, time: int) -> None:
        by, began = _who(event.by), self._plans.pop(event.request_id, None)
        self._metrics.decided(event.kind, by)
        if began is not None:
            about: dict[str, Value] = {names.DECISION: event.kind, names.BY: by}
            self._wait("approval", self._agents[""].span, began, time, about)

    def _wait(
        self, name: str, outer: Span, began: int, time: int, attributes: Mapping[str, Value]
    ) -> None:
        """Make the span of a wait for the user, whose time is not the agent's."""
        self._start(name, outer, began, attributes).end(time)
        by = str(attributes.get(names.BY, ""))
        self._took(names.APPROVAL_WAIT, began, time, {names.BY: by} if by else {})

    def _command_ended(self, event: events.CommandEnded, time: int) -> None:
        action, result = self._actions.get(event.request_id), event.result
        if action is None:
            return
        outcome: str = result.ended
        if result.ended == "exited":
            outcome = "succeeded" if result.exit_code == 0 else "failed"
        began = action.started or action.began
        # The end is reported behind what follows it: other commands, hooks and the journal.
        ended = min(time, began + int(result.duration * NANO)) if result.duration else time
        about: dict[str, Value] = {names.OUTCOME: outcome}
        if result.exit_code is not None:
            about[names.EXIT_CODE] = result.exit_code
        if action.program:
            about[names.PROGRAM] = action.program
            action.span.update_name(f"execute_tool {action.request.tool} {action.program}")
        # A command that says no is an observation, so only what kept it from ending is an error.
        error = "" if result.ended in ("exited", "detached") else result.ended
        if error != "not_started":
            span = self._start("command", action.span, began, about)
            _end(span, ended, error)
        self._metrics.ran(outcome)
        action.span.set_attributes(about)
        self._end_action(action, time, error, action.command, result.text)

    def _action_ended(self, event: events.ActionEnded, time: int) -> None:
        action = self._actions.get(event.request_id)
        if action is None:
            return
        if action.request.effect == "person" and action.started is not None:
            self._wait("user_input", action.span, action.started, time, {})
        error = "failed" if event.failed else ""
        self._end_action(action, time, error, event.arguments, event.observation)

    def _end_action(
        self, action: _Action, time: int, error: str, given: str = "", result: str = ""
    ) -> None:
        request = action.request
        self._actions.pop(request.id, None)
        if self._variables.content and result:
            action.span.set_attributes({names.TOOL_ARGUMENTS: given, names.TOOL_RESULT: result})
        _end(action.span, time, error)
        self._tool_took(request.tool, action.began, time, error)

    # --- spans and numbers ----------------------------------------------------------------------

    def _start(
        self,
        name: str,
        outer: Span,
        time: int,
        attributes: Mapping[str, Value],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        context = trace.set_span_in_context(outer)
        return self._tracer.start_span(
            name, context=context, kind=kind, attributes=attributes, start_time=time
        )

    def _of_agent(self, operation: str, agent: str) -> dict[str, Value]:
        return {
            names.OPERATION: operation,
            names.AGENT_NAME: agent,
            names.CONVERSATION: self._session,
        }

    def _tool_took(self, tool: str, began: int, time: int, error: str) -> None:
        about = {names.OPERATION: "execute_tool", names.TOOL_NAME: tool}
        self._took(
            names.TOOL_DURATION, began, time, {**about, **({names.ERROR: error} if error else {})}
        )

    def _took(self, name: str, began: int, time: int, attributes: Mapping[str, str | int]) -> None:
        self._metrics.took(name, (time - began) / NANO, attributes)


def _end(span: Span, time: int, error: str) -> None:
    if error:
        span.set_attribute(names.ERROR, error)
        if error not in ("rejected", "cancelled", "interrupted"):
            span.set_status(Status(StatusCode.ERROR))
    span.end(time)


def _remote(ids: TraceIds) -> SpanContext:
    context = SpanContext(
        int(ids.trace, 16), int(ids.span, 16), is_remote=True, trace_flags=TraceFlags(1)
    )
    return NonRecordingSpan(context).get_span_context()


def _who(by: str) -> str:
    """Return who decided, in the words of the documentation; the number of a lease is left out."""
    return {"person": "user"}.get(by, by.partition(" ")[0])


def _program(report: RiskReport) -> str:
    """Return the name of the only program of a command, where it is one that is well known.

    The name of any other may be that of a file of the user's.
    """
    if len(report.programs) != 1 or not report.programs[0]:
        return ""
    name = report.programs[0][0].rpartition("/")[2]
    return name if rules_for(name) is not None else ""


def _message(role: str, text: str) -> str:
    """Return one message in the form that the conventions define, as JSON."""
    parts = [{"type": "text", "content": text}]
    return json.dumps([{"role": role, "parts": parts}], ensure_ascii=False)
