"""What a turn needs besides its journal: policy's word, and the context of the model's calls.

A live session and a replay give a turn different objects behind these protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kogniterm.types import (
    ActionRequest,
    CommandResult,
    Decision,
    RiskReport,
    UserInput,
    Verdict,
)

if TYPE_CHECKING:
    from kogniterm.agent.graph_state import ThinkContext
    from kogniterm.execution.sandbox.confinement import Sandbox
    from kogniterm.runtime.budgets import TurnCount
    from kogniterm.runtime.context import Attached
    from kogniterm.runtime.modes import SessionModes
    from kogniterm.runtime.services.sandbox_service import Aftermath
    from kogniterm.runtime.turn_io import TurnIO


class PolicyPort(Protocol):
    """Judges requests, and what is around a command that it let through."""

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Return the facts about a request."""

    def judge(
        self,
        request: ActionRequest,
        report: RiskReport,
        modes: SessionModes,
        cwd: str,
        *,
        unknown_outcome: bool = False,
    ) -> Verdict:
        """Return policy's word on a request."""

    def file_states(self, request: ActionRequest, report: RiskReport) -> Mapping[str, str]:
        """Return the state of every file that decides what the request runs, by name."""

    def changed_file(self, states: Mapping[str, str]) -> str | None:
        """Return the first of these files that is not as it was judged, or None."""

    def confine(self, decision: Decision, report: RiskReport) -> Sandbox | None:
        """Let the executor run the next command in the sandbox this decision calls for."""

    def after_run(self, command: str, result: CommandResult, box: Sandbox | None) -> Aftermath:
        """Return what must be told of a command that has run in `box`."""


class ContextPort(Protocol):
    """What goes into the model's calls."""

    def recall(self, user_input: UserInput) -> Attached:
        """Return what the files named in this input hold and memory adds to it, as data."""

    async def make_room(self, io: TurnIO, count: TurnCount) -> None:
        """Compact the history when it nears the model's window."""

    def think_context(self, count: TurnCount) -> ThinkContext:
        """Return the ports of one graph invocation."""
