"""The journal's records: what each kind says. A session is the list of these, and nothing else.

A record is numbered, dated, and holds the hash of its predecessor, so a missing or changed
record shows. Order is by `seq`, never by `time`.
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

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


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
    """A turn begins. `message` is what the model will see of the input.

    With `plan_only` nothing may act in this turn, whichever process goes on with it.
    """

    turn: int
    input: UserInput
    message: BaseMessage
    plan_only: bool = False


@dataclass(frozen=True, slots=True)
class NodeRan:
    """A graph node finished: its messages, plan and action requests join the state."""

    update: NodeUpdate


@dataclass(frozen=True, slots=True)
class Requested:
    """An action request reached the runtime; what will be frozen for it stands here."""

    request: ActionRequest
    cwd: str
    env_hash: str
    script_hashes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judged:
    """Policy's verdict on a request, with the risk report it rests on."""

    request_id: str
    report: RiskReport
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Decided:
    """What the approver decided, and who it was."""

    request_id: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Intent:
    """Durable before the command starts. An intent without an outcome is unknown.

    `repeats` are the requests of earlier runs of the same command whose outcome is unknown: the
    user wanted it to run again, and with the outcome of this run they are settled.
    """

    request_id: str
    command: str
    cwd: str
    env_hash: str
    output_path: str | None = None
    repeats: tuple[str, ...] = ()


OutcomeStatus = Literal["finished", "failed", "refused", "cancelled", "unknown"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a request: exactly one each. `message` is the ToolMessage the model sees.

    `plan` is given when the request was the check of a plan step and closed it. `agent` is the
    sub-agent that asked and whose history the message joins; empty for the main agent.
    """

    request_id: str
    status: OutcomeStatus
    message: BaseMessage
    result: CommandResult | None = None
    plan: Plan | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Compacted:
    """History was shortened: `messages` replace everything before. Also a snapshot to fold from.

    `summary` is what the model said (None: it was not asked, or failed), `usage` what that cost,
    `window` the tokens it was cut for (0 in records of older versions). With these the same
    history can be made again. `agents` are the sub-agents at work, whose histories are whole.
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
class TurnEnded:
    """A turn is over: why, with which exit code, and the answer's text."""

    turn: int
    stop: str
    exit_code: int
    answer: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Anything else worth keeping: renamed, model or mode changed, draft text, lease, trust."""

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
    | Outcome
    | Compacted
    | TurnEnded
    | Noted
)


@dataclass(frozen=True, slots=True)
class Record:
    """A body as it stands in the journal; `hash` covers seq, time, kind, payload, previous."""

    seq: int
    time: float
    body: RecordBody
    previous: str
    hash: str
