"""The kinds of records in the journal. A session is the list of its records, and nothing else.

A record is numbered, dated, and holds the hash of its predecessor, so that a missing or changed
record is detected. Order is by `seq`, never by `time`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kogniterm.types import (
    ActionRequest,
    AgentState,
    CommandResult,
    Decision,
    NodeUpdate,
    Plan,
    RiskReport,
    Usage,
    UserInput,
    Verdict,
)
from kogniterm.types.command_results import HostAnswer

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


STOPPED = "stopped"
"""The node of what was stopped from outside: open calls of a sub-agent, a turn."""
NESTED = "kogniterm_instructions"
"""Marks a note with the instructions of a folder, see `runtime/trust/instruction_texts`."""


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """First record of a session, and one for each later process that resumed it."""

    session_id: str
    folder: str
    version: str
    model: str
    parent: str | None = None
    parent_seq: int | None = None


@dataclass(frozen=True, slots=True)
class InputReceived:
    """The input that begins a turn. `message` is the input as the model sees it.

    With `plan_only` nothing may act in this turn, whichever process continues it.
    """

    turn: int
    input: UserInput
    message: BaseMessage
    plan_only: bool = False


@dataclass(frozen=True, slots=True)
class NodeRan:
    """The update of a finished graph node: messages, plan and action requests."""

    update: NodeUpdate


@dataclass(frozen=True, slots=True)
class Requested:
    """An action request that reached the runtime, with what is frozen for it."""

    request: ActionRequest
    cwd: str
    env_hash: str
    script_hashes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of the policy on a request, with its risk report."""

    request_id: str
    report: RiskReport
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision of the approver on a request."""

    request_id: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Intent:
    """The intent to run a command, durable before it starts; without an outcome it is unknown.

    `repeats` are the requests of earlier runs of the same command whose outcome is unknown: the
    user wanted it to run again, and with the outcome of this run they are settled. `digest` is that
    of the text which ran, with the user's key; `command` is redacted.
    """

    request_id: str
    command: str
    cwd: str
    env_hash: str
    output_path: str | None = None
    repeats: tuple[str, ...] = ()
    digest: str = ""


@dataclass(frozen=True, slots=True)
class HostIntent:
    """The intent to run the command of a request on one host, on disk before it starts there."""

    request_id: str
    host: str


@dataclass(frozen=True, slots=True)
class HostOutcome:
    """The end of the command of a request on one host, or that nothing is known of it."""

    request_id: str
    answer: HostAnswer


OutcomeStatus = Literal["finished", "failed", "refused", "cancelled", "unknown"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a request: exactly one each. `message` is the ToolMessage the model sees.

    `plan` is given when the request was the check of a plan step and completed it. `agent` is the
    sub-agent that asked and whose history the message is added to; empty for the main agent.
    With `again` the same call waits as another request, whose outcome tells the model of both.
    `usage` is that of a model which a tool asked.
    """

    request_id: str
    status: OutcomeStatus
    message: BaseMessage
    result: CommandResult | None = None
    plan: Plan | None = None
    agent: str = ""
    again: ActionRequest | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def told(self) -> tuple[BaseMessage, ...]:
        """Return what is added to the history."""
        return (self.message,) if self.again is None else ()


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction: `messages` replace the whole history. Also a snapshot to fold from.

    `summary` is the model's text (None: it was not asked, or failed), `usage` its cost, `window`
    the tokens to fit into (0 in records of older versions). With these a replay makes the same
    history. `agents` are the running sub-agents, whose histories are whole.
    """

    messages: tuple[BaseMessage, ...]
    plan: Plan | None
    pending: tuple[ActionRequest, ...] = ()
    turn: int = 0
    agents: Mapping[str, AgentState] = field(default_factory=dict)
    summary: str | None = None
    usage: Usage = field(default_factory=Usage)
    window: int = 0


@dataclass(frozen=True, slots=True)
class Rewound:
    """A step back in the conversation, to before the record `to_seq`, which began `turn`.

    `messages` and `plan` are those of that moment; they replace the present ones. The records
    since then stay in the journal and are no longer part of the conversation. `instructions` is
    the record whose project instructions are in the system message from here on (0: none).
    """

    turn: int
    to_seq: int
    messages: tuple[BaseMessage, ...]
    plan: Plan | None = None
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class TurnClosed:
    """The end of a turn: the reason, the exit code, and the answer's text."""

    turn: int
    stop: str
    exit_code: int
    answer: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Any other change: title, model, mode, draft, lease, trust."""

    kind: str
    data: Mapping[str, object] = field(default_factory=dict)


RecordBody = (
    SessionOpened
    | InputReceived
    | NodeRan
    | Requested
    | Judged
    | Decided
    | Intent
    | HostIntent
    | HostOutcome
    | Outcome
    | Compacted
    | Rewound
    | TurnClosed
    | Noted
)


@dataclass(frozen=True, slots=True)
class Record:
    """A record in the journal; `hash` covers seq, time, kind, payload, previous."""

    seq: int
    time: float
    body: RecordBody
    previous: str
    hash: str
