"""The numbers of turns: tokens, cost, durations, commands by outcome, approvals by decision."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.metrics import Meter

from kogniterm.runtime.telemetry import conventions as names
from kogniterm.types import Usage

Attributes = Mapping[str, str | int]


class TurnMetrics:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, of: str) -> object:
            return meter.create_histogram(
                name, "s", of, explicit_bucket_boundaries_advisory=names.SECONDS
            )

        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKENS,
        )
        self._durations = {
            name: seconds(name, of)
            for name, of in (
                (names.CALL_DURATION, "GenAI operation duration."),
                (names.CALL_FIRST_CHUNK, "Time to the first chunk of a response."),
                (names.AGENT_DURATION, "Duration of an agent invocation."),
                (names.TOOL_DURATION, "Duration of a tool execution."),
                (names.APPROVAL_WAIT, "Time that the user took to decide."),
            )
        }
        self._cost = meter.create_counter(
            names.COST_TOTAL, "{USD}", "Cost of model calls at list price, in US dollars."
        )
        self._commands = meter.create_counter(
            names.COMMANDS, "{command}", "Commands that were run, by outcome."
        )
        self._approvals = meter.create_counter(
            names.APPROVALS, "{decision}", "Decisions about actions, by who decided."
        )

    def took(self, name: str, seconds: float, attributes: Attributes) -> None:
        """Record a duration; `name` is that of its histogram."""
        self._durations[name].record(max(seconds, 0.0), attributes)  # type: ignore[attr-defined]  # a Histogram

    def used(self, usage: Usage, cost: float | None, attributes: Attributes) -> None:
        """Record the tokens of a model call, and its cost in US dollars where that is known."""
        for kind, count in (("input", usage.input), ("output", usage.output)):
            self._tokens.record(count, {**attributes, names.TOKEN_TYPE: kind})
        if cost:
            self._cost.add(cost, attributes)

    def ran(self, outcome: str) -> None:
        """Count a command that ended."""
        self._commands.add(1, {names.OUTCOME: outcome})

    def decided(self, decision: str, by: str) -> None:
        """Count a decision about an action."""
        self._approvals.add(1, {names.DECISION: decision, names.BY: by})
