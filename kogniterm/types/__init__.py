"""The values that travel between rooms: frozen, checked when made, free of I/O.

Anything a person may read that is made below the user interface is a `Text`: an English
template with named values. The user interface translates the template, everybody else uses
`str(text)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from kogniterm.types.images import Image as Image
from kogniterm.types.images import Observation as Observation
from kogniterm.types.plans import Check as Check
from kogniterm.types.plans import CheckKind as CheckKind
from kogniterm.types.plans import DelegateKind as DelegateKind
from kogniterm.types.plans import Evidence as Evidence
from kogniterm.types.plans import Plan as Plan
from kogniterm.types.plans import PlanReview as PlanReview
from kogniterm.types.plans import PlanStep as PlanStep
from kogniterm.types.plans import StepStatus as StepStatus
from kogniterm.types.text import Text as Text

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

ApprovalMode = Literal["manual", "auto"]
PlanMode = Literal["auto", "always", "never"]
PlanApproval = Literal["auto", "always", "never"]
RiskLabel = Literal["safe_readonly", "workspace_write", "needs_approval", "dangerous"]
RISK_LABELS: tuple[RiskLabel, ...] = get_args(RiskLabel)


def approval_mode(value: str) -> ApprovalMode:
    """The approval mode called `value`; anything unknown reads as manual (fails closed)."""
    return "auto" if value == "auto" else "manual"


# --- what a person gives and gets ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UserInput:
    """One input of a person: the words, and data piped in beside them."""

    text: str
    data: str | None = None
    source: Literal["repl", "run", "shell", "script"] = "repl"
    attachments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more model calls; `cached` is the part of `input` served from a cache."""

    input: int = 0
    output: int = 0
    cached: int = 0
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


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
    reason: Text | None = None
    usage: Usage = Usage()
    verified: tuple[str, ...] = ()
    not_verified: tuple[str, ...] = ()
    seconds: float = 0.0
    waited: float = 0.0
    refused_by: str = ""


# --- tools and action requests ---------------------------------------------------------------

EffectClass = Literal["none", "read", "command", "edit", "network", "person", "keystrokes"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it: name, description, JSON schema of its arguments.

    A tool whose `effect` is "none" runs inside the graph; every other one leaves the graph as
    an action request.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    effect: EffectClass = "none"


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """Something that would change the world, waiting outside the graph for approval.

    `id` is unique in the session and is the intent id; `call_id` is the model's tool call id.
    For a command, `command` is the exact shell text; for other tools it is a one-line
    rendering of what would happen, and `arguments` holds what the tool gets. `detail` is shown
    before approval beside it: the unified diff of an edit. `agent` is the call id of the
    `delegate` call whose sub-agent asks (empty: the main agent), `agent_task` its task, short.
    """

    id: str
    call_id: str
    tool: str
    command: str
    purpose: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    effect: EffectClass = "command"
    detail: str = ""
    agent: str = ""
    agent_task: str = ""


# --- approval --------------------------------------------------------------------------------

EffectKind = Literal[
    "read",
    "create",
    "write",
    "overwrite",
    "delete",
    "network",
    "privilege",
    "execute",
    "secret",
    "process",
]
CHANGING_KINDS: frozenset[EffectKind] = frozenset({"create", "write", "overwrite", "delete"})
"""Effects on files that are there differently, or not at all, afterwards."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing a command would do, as far as its text tells; `target` is a path, host or name.

    A file that is copied, moved or linked there is the `source`: it keeps its name when the target
    is a folder.
    """

    kind: EffectKind
    target: str
    outside: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class GitCall:
    """A call of git in a command: its folder, empty where it is not known, and its verb and words.

    The folder is absolute; one in the home begins with the mark that stands for the home.
    """

    folder: str
    words: tuple[str, ...]

    @property
    def verb(self) -> str:
        """The subcommand."""
        return self.words[0]


@dataclass(frozen=True, slots=True)
class RiskReport:
    """Facts about a command with reasons a person understands. Never a permission.

    `deciding` are the files (or patterns of files) whose content decides what the command runs,
    also those that do not exist; like targets, they are relative to the workspace.
    """

    command: str
    label: RiskLabel
    reasons: tuple[Text, ...] = ()
    effects: tuple[Effect, ...] = ()
    programs: tuple[tuple[str, ...], ...] = ()
    deciding: tuple[str, ...] = ()
    git_calls: tuple[GitCall, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """One rule that was looked at: where it comes from, whether it matched, what it said."""

    origin: str
    decision: Literal["allow", "ask", "deny"]
    matched: bool
    reason: Text


@dataclass(frozen=True, slots=True)
class Verdict:
    """Policy's word on a request."""

    kind: Literal["allow", "ask", "deny"]
    reasons: tuple[Text, ...] = ()
    trace: tuple[RuleTrace, ...] = ()
    lease_id: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The approver's word. `command` holds the bytes approved, which are the bytes that run.

    `reason` is in English or in the person's words; `reasons` are sentences that policy gave.
    """

    kind: Literal["approve", "edit", "reject"]
    command: str
    by: str
    reason: str = ""
    reasons: tuple[Text, ...] = ()

    @property
    def why(self) -> Text:
        """The reason for people, who may read another language than the model, or the command."""
        once = tuple({str(reason): reason for reason in self.reasons}.values())
        return Text("{why}", {"why": once or self.reason or self.command})


# --- execution -------------------------------------------------------------------------------

Ended = Literal["exited", "signaled", "timeout", "stopped", "detached", "not_started"]
WaitKind = Literal["terminal", "password", "sleeping", "busy", "network", "stopped"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a quiet command is quiet, from process state: what it waits for and since when."""

    kind: WaitKind
    seconds: float
    program: str
    evidence: str
    last_lines: str = ""


JobFate = Literal["ends", "detached", "kept", "sandbox"]


@dataclass(frozen=True, slots=True)
class Job:
    """A command left running in the background.

    `fate` is what becomes of it when KogniTerm ends: it `ends`, or stays because it was `detached`
    on purpose or `kept`; what runs in a `sandbox` ends with that.
    """

    id: str
    command: str
    state: Literal["running", "ended"]
    pids: tuple[int, ...]
    started: float
    exit_code: int | None = None
    output_path: str | None = None
    fate: JobFate = "ends"

    @property
    def told_fate(self) -> str:
        """Its fate in words, for the model."""
        return {
            "ends": "ends with KogniTerm unless the jobs tool keeps it",
            "detached": "detached: stays when KogniTerm ends",
            "kept": "kept: stays when KogniTerm ends",
            "sandbox": "in the sandbox, so it ends with KogniTerm: what is to stay has to be "
            "started outside of the sandbox",
        }[self.fate]


@dataclass(frozen=True, slots=True)
class LeftRunning:
    """A program that commands left running, and what became of it when KogniTerm ended.

    It stays when `why` is `detached` or `kept`, and was ended otherwise: a plain `background` job,
    one of the `sandbox`, or because the user had `asked` for that. `pids` are its processes.
    `output_path` is where what it still writes to its terminal goes.
    """

    pids: tuple[int, ...]
    command: str
    why: Literal["detached", "kept", "background", "sandbox", "asked"]
    job: str
    output_path: str | None = None

    @property
    def stays(self) -> bool:
        """Whether it runs on."""
        return self.why in ("detached", "kept")

    @property
    def end_with(self) -> str | None:
        """The command that ends it; None when it was ended."""
        return f"kill {' '.join(map(str, self.pids))}" if self.stays else None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What became of a command.

    `exit_code` is None when the command was ended by its timeout, stopped, or detached; a
    command that died of signal n by itself has 128+n and `signal` set. `text` is what the model
    sees: rendered as a screen would show it, clipped to head and tail. `duration` in seconds.
    `not_outside` names what sandboxed commands changed in the shell and this one, outside, lacked.
    """

    command: str
    ended: Ended
    exit_code: int | None
    text: str
    duration: float
    cwd: str
    signal: str | None = None
    output_path: str | None = None
    output_bytes: int = 0
    omitted_bytes: int = 0
    jobs: tuple[Job, ...] = ()
    waiting: Waiting | None = None
    notes: tuple[str, ...] = ()
    not_outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Keystrokes:
    """Keys for a running command, sent once its output matches `wait_for`, then after `delay` s."""

    send: str
    wait_for: str | None = None
    delay: float = 0.0


# --- models ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the runtime must know of a model. Windows are in tokens; `local` runs in process.

    `one_command` marks a model too small to drive the loop: one request, one command, and the
    command's own output is the answer. `images` are the media types of images it takes.
    """

    name: str
    provider: str
    context_window: int
    max_output: int
    calls_tools: bool = True
    local: bool = False
    one_command: bool = False
    images: tuple[str, ...] = ()


ModelPurpose = Literal["create_plan", "decide_action", "compact", "judge", "extract_facts"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call. `schema`, if given, is a JSON schema the reply's text must satisfy.

    `agent` is the sub-agent that asks, by its call id; nothing of it goes to a provider.
    """

    messages: tuple[BaseMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    purpose: ModelPurpose = "decide_action"
    schema: Mapping[str, Any] | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer as it streams."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """A piece of the model's thinking, where the provider shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class RetryNotice:
    """The call failed and will be made again in `wait` seconds."""

    attempt: int
    of: int
    wait: float
    reason: Text


UNUSABLE = "unusable"
"""Where the response metadata of a message says why it can be neither shown nor acted on."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply as it came; always the last event of a model call.

    It may be empty, and a provider may have cut it or found it malformed: then the message's
    `response_metadata` says so under `UNUSABLE`, in words for the model.
    """

    message: AIMessage
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Loading:
    """A model on this machine is being loaded before it can answer; `done`: it has been."""

    done: bool = False


ModelEvent = TextDelta | ThoughtDelta | RetryNotice | Loading | Reply


# --- what the graph reports ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """An effect-free tool ran inside the graph; `arguments` as JSON, `agent` who called it."""

    name: str
    arguments: str
    observation: str
    failed: bool = False
    agent: str = ""


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
    usage: Usage = Usage()
    failure: Text | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class AgentState:
    """A sub-agent at work: its own history, what it used up, why it was given up (if it was)."""

    messages: tuple[BaseMessage, ...] = ()
    usage: Usage = Usage()
    failure: Text | None = None

    def grown(
        self,
        messages: Sequence[BaseMessage],
        usage: Usage = Usage(),
        failure: Text | None = None,
    ) -> AgentState:
        """This one with `messages` at the end of its history."""
        return AgentState((*self.messages, *messages), self.usage + usage, failure)
