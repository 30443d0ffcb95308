"""The spans and the numbers of a turn, made of its events.

    invoke_agent kogniterm                    a turn
      chat MODEL                              a model call; below `plan` where it made a plan
      execute_tool TOOL                       an action, from its proposal to its end
      tools/call TOOL                       the same of a tool of an MCP server
        approval                              the wait for the user
        command                               the run of a command
      execute_tool delegate
        invoke_agent NAME                     a sub-agent, with its own calls and actions

A span of a call or a wait is made when it ends, with its times, because only then is it known what
it was. Everything here runs on one thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.trace import Span, SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status, StatusCode

from kogniterm import __version__
from kogniterm.addons.telemetry import conventions as names
from kogniterm.addons.telemetry.telemetry_variables import TelemetryVariables
from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.agent.subagent import DELEGATE
from kogniterm.approval.analysis.arguments import rules_for
from kogniterm.models.catalog import cost_of
from kogniterm.types import RiskReport, Usage, events

Found = Mapping[str, str | int | float | bool | tuple[str, ...] | None]
"""Attributes; those without a value are left out."""
NANO = 1_000_000_000
_FAILED_STOPS = ("not_done", "model_failed", "budget", "unknown")
_BEGINS = ("turn_started", "turn_resumed")


@dataclass(slots=True)
class _Call:
    """A model call that has begun."""

    event: events.ModelCalled
    began: int
    retries: list[tuple[int, events.ModelRetried]] = field(default_factory=list)
    text: str = ""


@dataclass(slots=True)
class _ActionSpan:
    """An action that was proposed and has not ended."""

    id: str
    tool: str
    span: Span
    began: int
    asks: bool = False
    program: str = ""
    started: int | None = None
    command: str = ""


@dataclass(slots=True)
class _Agent:
    """An agent at work: its span, and for a sub-agent that of the `delegate` call."""

    span: Span
    name: str
    began: int
    delegate: Span | None = None
    usage: Usage = field(default_factory=Usage)
    model: str = ""


class TurnSpans(events.EventVisitor):
    """Follows the events of one session, turn after turn."""

    def __init__(self, tracer: Tracer, meter: Meter, variables: TelemetryVariables) -> None:
        self._tracer, self._variables = tracer, variables
        self._histograms = {
            name: meter.create_histogram(
                name, unit, what, explicit_bucket_boundaries_advisory=boundaries
            )
            for name, (unit, what, boundaries) in names.HISTOGRAMS.items()
        }
        self._counters = {
            name: meter.create_counter(name, *about) for name, about in names.COUNTERS.items()
        }
        self._session = self._model = ""
        self._agents: dict[str, _Agent] = {}
        self._calls: dict[str, _Call] = {}
        self._actions: dict[str, _ActionSpan] = {}
        self._asked: dict[str, int] = {}
        self._now = 0

    def take(self, event: events.Event, time: int) -> None:
        """Take one more event, and its time in nanoseconds since the epoch."""
        self._now = time
        # What is outside of a turn is not the agent's.
        if "" in self._agents or events.event_name(type(event)) in _BEGINS:
            self(event)

    def end(self, time: int) -> None:
        """End the spans that are open: the session is over."""
        self._now = time
        self._end_open("interrupted")

    # --- turns and agents -----------------------------------------------------------------------

    def on_turn_started(self, event: events.TurnStarted) -> None:
        self._begin_turn(event, event.text)

    def on_turn_resumed(self, event: events.TurnResumed) -> None:
        self._begin_turn(event, "")

    def _begin_turn(self, event: events.TurnStarted | events.TurnResumed, text: str) -> None:
        self._end_open("interrupted")
        self._session, self._model = event.session_id, event.model
        about: Found = {
            "gen_ai.provider.name": names.provider_of(event.model),
            "gen_ai.request.model": names.model_of(event.model),
            "gen_ai.agent.version": __version__,
            "kogniterm.turn.number": event.turn,
            names.INPUT_MESSAGES: _message("user", text),
        }
        caller = TraceContextTextMapPropagator().extract(self._variables.context)
        span = self._start(f"invoke_agent {names.AGENT}", caller, self._now, about, names.AGENT)
        self._agents[""] = _Agent(span, names.AGENT, self._now)

    def on_turn_ended(self, event: events.TurnEnded) -> None:
        answer = event.answer
        about = {
            "kogniterm.turn.stop": answer.stop,
            "kogniterm.turn.waited": round(answer.waited, 3),
            "gen_ai.usage.input_tokens": answer.usage.input,
            "gen_ai.usage.output_tokens": answer.usage.output,
            names.OUTPUT_MESSAGES: _message("assistant", answer.text, finish="stop"),
        }
        self._agents[""].span.set_attributes(self._fit(about))
        self._end_open(answer.stop)

    def _end_open(self, stop: str) -> None:
        """End what is open, the innermost first; a stop is an error where the turn failed."""
        error = stop if stop in _FAILED_STOPS else ""
        for call in list(self._calls.values()):
            self._call_ends(call, {}, error)
        for action in list(self._actions.values()):
            self._end_action(action, error)
        for key in sorted(self._agents, reverse=True):  # that of the turn, "", is the last
            self._agent_ends(key, error)
        self._asked.clear()

    def on_agent_started(self, event: events.AgentStarted) -> None:
        if event.agent in self._agents:
            return
        name, outer, delegate = event.name or "subagent", self._agents[""].span, None
        if not name.startswith("/"):  # a custom command is no call of the model
            delegate = self._start_tool(DELEGATE.name, names.AGENT, event.agent, outer, self._now)
        about = {
            "gen_ai.agent.id": event.agent,
            "gen_ai.provider.name": names.provider_of(self._model),
            names.INPUT_MESSAGES: _message("user", event.task),
        }
        span = self._start(f"invoke_agent {name}", delegate or outer, self._now, about, name)
        self._agents[event.agent] = _Agent(span, name, self._now, delegate)

    def _agent_ends(self, key: str, error: str) -> None:
        agent = self._agents.pop(key)
        if key:  # the end of a turn tells of all its agents
            agent.span.set_attributes(self._fit({
                "gen_ai.request.model": names.model_of(agent.model or self._model),
                "gen_ai.usage.input_tokens": agent.usage.input,
                "gen_ai.usage.output_tokens": agent.usage.output,
            }))  # fmt: skip
        for span in (agent.span, agent.delegate):
            if span is not None:
                _end(span, self._now, error)
        self._took("gen_ai.invoke_agent.duration", agent.began, {"gen_ai.agent.name": agent.name})

    # --- model calls ----------------------------------------------------------------------------

    def on_model_called(self, event: events.ModelCalled) -> None:
        self._calls[event.call] = _Call(event, self._now)

    def on_model_retried(self, event: events.ModelRetried) -> None:
        if call := self._calls.get(event.call):
            call.retries.append((self._now, event))

    def on_answer_delta(self, event: events.AnswerDelta) -> None:
        """Keep the text of the main agent's call: those of sub-agents are not streamed."""
        for call in reversed(self._calls.values()):
            if not call.event.agent:
                call.text += event.text
                return

    def on_model_answered(self, event: events.ModelAnswered) -> None:
        call = self._calls.get(event.call) if event.call else None
        usage = event.usage
        if call is None:  # of a tool that asked the model: only its tokens are known
            self._add_usage(usage, cost_of(self._model, usage), self._of_model())
            return
        if agent := self._agents.get(call.event.agent):
            agent.usage, agent.model = agent.usage + usage, call.event.model
        cost = cost_of(call.event.model, usage)
        ended = (event.finish_reason.lower(),) if event.finish_reason else None
        found = {
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cached or None,
            "gen_ai.usage.cache_creation.input_tokens": usage.written or None,
            "gen_ai.response.id": event.response_id,
            "gen_ai.response.model": event.response_model,
            "gen_ai.response.finish_reasons": ended,
            "gen_ai.response.time_to_first_chunk": event.first_seconds,
            "kogniterm.cost.usd": cost or None,
            names.OUTPUT_MESSAGES: _message(
                "assistant", call.text, event.tools,
                names.finish_of(event.finish_reason, called=bool(event.tools)),
            ),
        }  # fmt: skip
        self._call_ends(call, found, planned=MAKE_PLAN.name in event.tools)
        about = {**self._of_model(call.event), "gen_ai.response.model": event.response_model}
        self._add_usage(usage, cost, about)
        if event.first_seconds is not None:
            self._histograms["gen_ai.client.operation.time_to_first_chunk"].record(
                event.first_seconds, self._fit(about)
            )

    def _add_usage(self, usage: Usage, cost: float | None, about: Found) -> None:
        for kind, count in (("input", usage.input), ("output", usage.output)):
            attributes = self._fit({**about, "gen_ai.token.type": kind})
            self._histograms["gen_ai.client.token.usage"].record(count, attributes)
        if cost:
            self._counters["kogniterm.cost"].add(cost, self._fit(about))

    def on_model_failed(self, event: events.ModelFailed) -> None:
        call = self._calls.get(event.call)
        if call is not None:
            self._call_ends(call, {}, event.kind)

    def _call_ends(
        self, call: _Call, found: Found, error: str = "", *, planned: bool = False
    ) -> None:
        """Make the span of a model call, below one of a plan where the call made it."""
        event = call.event
        self._calls.pop(event.call, None)
        agent = self._agents.get(event.agent) or self._agents[""]
        outer, plan = agent.span, None
        if planned:
            plan = self._start(f"plan {agent.name}", outer, call.began, {}, agent.name)
        model = self._of_model(event)
        about = {
            **model,
            "kogniterm.model.purpose": event.purpose,
            "gen_ai.request.stream": True,
            "gen_ai.request.reasoning.level": event.effort,
            **found,
        }
        name = f"chat {model['gen_ai.request.model']}"
        span = self._start(name, plan or outer, call.began, about)
        for at, retry in call.retries:
            span.add_event("retry", {"kogniterm.retry.attempt": retry.attempt,
                                     "kogniterm.retry.wait": round(retry.wait, 3)}, at)  # fmt: skip
        _end(span, self._now, error)
        if plan is not None:
            plan.end(self._now)
        self._took("gen_ai.client.operation.duration", call.began, {**model, "error.type": error})

    def _of_model(self, call: events.ModelCalled | None = None) -> Found:
        """Return what spans and metrics of a model call say of the model."""
        model = (call.model if call is not None else "") or self._model
        host, port = names.host_and_port(call.server) if call and call.server else ("", None)
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": names.provider_of(model),
            "gen_ai.request.model": names.model_of(model),
            "server.address": host,
            "server.port": port,
        }

    # --- tools and actions ----------------------------------------------------------------------

    def on_tool_ran(self, event: events.ToolRan) -> None:
        error = "malformed" if event.malformed else "failed" if event.failed else ""
        if event.call_id and (sub := self._agents.get(event.call_id)):
            said = {names.OUTPUT_MESSAGES: _message("assistant", event.observation, finish="stop")}
            sub.span.set_attributes(self._fit(said))
            self._agent_ends(event.call_id, error)
            return
        agent = self._agents.get(event.agent) or self._agents[""]
        began = self._now - int(event.seconds * NANO)
        span = self._start_tool(event.name, agent.name, event.call_id, agent.span, began)
        ran = _ActionSpan("", names.mcp_parts(event.name)[1], span, began)
        self._end_action(ran, error, event.arguments, event.observation)

    def on_action_proposed(self, event: events.ActionProposed) -> None:
        request = event.request
        action = self._actions.get(request.id)
        if action is None:
            agent = self._agents.get(request.agent) or self._agents[""]
            span = self._start_tool(
                request.tool, agent.name, request.call_id, agent.span, self._now
            )
            asks = request.effect == "person"
            tool = names.mcp_parts(request.tool)[1]
            action = self._actions[request.id] = _ActionSpan(
                request.id, tool, span, self._now, asks
            )
        action.span.set_attribute("kogniterm.risk", event.report.label)
        action.program = _program(event.report)

    def on_approval_asked(self, event: events.ApprovalAsked) -> None:
        self._asked[event.request_id] = self._now

    def on_plan_proposed(self, event: events.PlanProposed) -> None:
        self._asked[event.request_id] = self._now

    def on_action_decided(self, event: events.ActionDecided) -> None:
        action, decision = self._actions.get(event.request.id), event.decision
        if action is None:
            return
        about = self._decision(event.request.id, decision.kind, decision.by, action.span)
        action.span.set_attributes(about)
        if decision.kind == "reject":  # which the attributes tell; it is no error
            self._end_action(action, "")
        elif action.asks:
            action.started = self._now

    def on_limit_decided(self, event: events.LimitDecided) -> None:
        about = {"kogniterm.limit": event.reached.name, "kogniterm.approval.decision": event.choice}
        self._agents[""].span.add_event("limit", about, self._now)

    def on_plan_reviewed(self, event: events.PlanReviewed) -> None:
        self._decision(event.request_id, event.kind, event.by, self._agents[""].span)

    def _decision(self, id_: str, kind: str, by: str, outer: Span) -> dict[str, str]:
        """Count a decision and make the span of the wait for it, if the user was asked."""
        # In the words of the documentation, and without the number of a lease.
        who = {"person": "user"}.get(by, by.partition(" ")[0])
        about = {"kogniterm.approval.decision": kind, "kogniterm.approval.by": who}
        self._counters["kogniterm.approvals"].add(1, about)
        began = self._asked.pop(id_, None)
        if began is not None:
            self._wait("approval", outer, began, about)
        return about

    def _wait(self, name: str, outer: Span, began: int, about: Found) -> None:
        """Make the span of a wait for the user, whose time is not the agent's."""
        self._start(name, outer, began, about).end(self._now)
        by = {"kogniterm.approval.by": about.get("kogniterm.approval.by")}
        self._took("kogniterm.approval.wait.duration", began, by)

    def on_command_started(self, event: events.CommandStarted) -> None:
        if action := self._actions.get(event.request_id):
            action.started, action.command = self._now, event.command

    def on_command_ended(self, event: events.CommandEnded) -> None:
        action, result = self._actions.get(event.request_id), event.result
        if action is None:
            return
        outcome: str = result.ended
        if result.ended == "exited":
            outcome = "succeeded" if result.exit_code == 0 else "failed"
        began = action.started or action.began
        # The end is reported behind what follows it: other commands, hooks and the journal.
        ended = self._now
        if result.duration:
            ended = min(ended, began + int(result.duration * NANO))
        about = {
            "kogniterm.command.outcome": outcome,
            "process.exit.code": result.exit_code,
            "process.executable.name": action.program,
        }
        if action.program:
            action.span.update_name(f"execute_tool {action.tool} {action.program}")
        # A command that says no is an observation, so only what kept it from ending is an error.
        error = "" if result.ended in ("exited", "detached") else result.ended
        if error != "not_started":
            _end(self._start("command", action.span, began, about), ended, error)
        self._counters["kogniterm.commands"].add(1, {"kogniterm.command.outcome": outcome})
        action.span.set_attributes(self._fit(about))
        self._end_action(action, error, action.command, result.text)

    def on_action_ended(self, event: events.ActionEnded) -> None:
        action = self._actions.get(event.request_id)
        if action is None:
            return
        if action.asks and action.started is not None:
            self._wait("user_input", action.span, action.started, {})
        error = "failed" if event.failed else ""
        self._end_action(action, error, event.arguments, event.observation)

    def _end_action(
        self, action: _ActionSpan, error: str, given: str = "", result: str = ""
    ) -> None:
        self._actions.pop(action.id, None)
        if result:
            texts = {names.TOOL_ARGUMENTS: given, names.TOOL_RESULT: result}
            action.span.set_attributes(self._fit(texts))
        _end(action.span, self._now, error)
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": action.tool}
        self._took("gen_ai.execute_tool.duration", action.began, {**tool, "error.type": error})

    # --- spans and numbers ----------------------------------------------------------------------

    def _start(
        self, name: str, outer: Span | Context, time: int, about: Found, agent: str = ""
    ) -> Span:
        """Start a span below `outer`; its name begins with the operation of the conventions."""
        operation, space, _ = name.partition(" ")
        own = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": self._session,
               "gen_ai.agent.name": agent} if space else {}  # fmt: skip
        return self._tracer.start_span(
            name,
            context=outer if isinstance(outer, Context) else trace.set_span_in_context(outer),
            kind=SpanKind.CLIENT if operation in ("chat", "tools/call") else SpanKind.INTERNAL,
            attributes=self._fit({**own, **about}),
            start_time=time,
        )

    def _start_tool(self, tool: str, agent: str, call_id: str, outer: Span, time: int) -> Span:
        server, tool = names.mcp_parts(tool)
        about = {"gen_ai.tool.name": tool, "gen_ai.tool.type": "function",
                 "gen_ai.tool.call.id": call_id}  # fmt: skip
        if not server:
            return self._start(f"execute_tool {tool}", outer, time, about, agent)
        about |= {"gen_ai.operation.name": "execute_tool", "mcp.method.name": "tools/call",
                  "kogniterm.mcp.server": server}  # fmt: skip
        return self._start(f"tools/call {tool}", outer, time, about, agent)

    def _fit(self, found: Found) -> dict[str, Any]:
        """Return the attributes that have a value; those with texts only if they are asked for."""
        texts = self._variables.content
        return {
            name: value
            for name, value in found.items()
            if value not in (None, "") and (texts or name not in names.CONTENT)
        }

    def _took(self, name: str, began: int, about: Found) -> None:
        self._histograms[name].record(max((self._now - began) / NANO, 0.0), self._fit(about))


def _end(span: Span, time: int, error: str) -> None:
    if error:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end(time)


def _program(report: RiskReport) -> str:
    """Return the name of the only program of a command, where it is one that is well known.

    The name of any other may be that of a file of the user's.
    """
    if len(report.programs) != 1 or not report.programs[0]:
        return ""
    name = report.programs[0][0].rpartition("/")[2]
    return name if rules_for(name) is not None else ""


def _message(role: str, text: str, tools: Sequence[str] = (), finish: str = "") -> str:
    """Return one message in the form that the conventions define, as JSON; "" for an empty one."""
    parts = [{"type": "text", "content": text}] if text else []
    parts += [{"type": "tool_call", "name": name} for name in tools]
    ended = {"finish_reason": finish} if finish else {}
    message = {"role": role, "parts": parts, **ended}
    return json.dumps([message], ensure_ascii=False) if parts else ""
