"""A turn as values: its input, what the graph adds to the session, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kogniterm.types.localized import Phrase
from kogniterm.types.model_calls import Usage
from kogniterm.types.plans import Plan
from kogniterm.types.tool_calls import ActionRequest

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True, slots=True)
class UserInput:
    """One input of a person: the words, and data piped in beside them."""

    text: str
    data: str | None = None
    source: Literal["repl", "run", "shell", "script"] = "repl"
    attachments: tuple[str, ...] = ()


StopReason = Literal[
    "done", "not_done", "refused", "budget", "model_failed", "interrupted", "plan_only", "unknown"
]


@dataclass(frozen=True, slots=True)
class Answer:
    """How a turn ended: the text for the person, why it stopped, and the process exit code.

    Of a plan, `verified` names the steps that a command or check proved and `not_verified` the
    others: from the plan's evidence alone, whatever the text claims. `seconds` is how long the turn
    worked, `waited` how long it waited for the user beside that. `refused_by` is who refused what
    ended it so: `person`, `policy` or `unattended`.
    """

    text: str
    stop: StopReason = "done"
    exit_code: int = 0
    reason: Phrase | None = None
    usage: Usage = field(default_factory=Usage)
    verified: tuple[str, ...] = ()
    not_verified: tuple[str, ...] = ()
    seconds: float = 0.0
    waited: float = 0.0
    refused_by: str = ""


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    """What one graph node added to the session: journaled as the graph streams it.

    With an `agent` it adds to that sub-agent's history, and `failure` is why it was given up.
    """

    node: str
    messages: tuple[BaseMessage, ...] = ()
    plan: Plan | None = None
    pending: tuple[ActionRequest, ...] = ()
    answer: str | None = None
    usage: Usage = field(default_factory=Usage)
    failure: Phrase | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class AgentState:
    """A sub-agent at work: its own history, what it used up, why it was given up (if it was)."""

    messages: tuple[BaseMessage, ...] = ()
    usage: Usage = field(default_factory=Usage)
    failure: Phrase | None = None

    def grown(
        self,
        messages: Sequence[BaseMessage],
        usage: Usage | None = None,
        failure: Phrase | None = None,
    ) -> AgentState:
        """This one with `messages` at the end of its history."""
        return AgentState((*self.messages, *messages), self.usage + (usage or Usage()), failure)
