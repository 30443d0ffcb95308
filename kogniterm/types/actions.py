"""Actions as values: tools, action requests and observations; risk report, verdict and decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from kogniterm.types.images import Image
from kogniterm.types.localized import Phrase
from kogniterm.types.token_usage import Usage

EffectClass = Literal[
    "none", "read", "command", "edit", "network", "person", "keystrokes", "external", "hosts"
]
"""The effect of a tool call.

"external": it runs code of a package that KogniTerm did not write; "hosts": it runs a command on
other machines.
"""


EXECUTE_COMMAND = "execute_command"
"""The tool that runs a shell command."""

FIND_TOOLS, CALL_TOOL = "find_tools", "call_tool"
"""The tools by which those of MCP servers are found and called."""

RUN_ON_HOSTS = "run_on_hosts"
"""The tool that runs a command on other machines."""

USE_SKILL = "use_skill"
"""The tool that reads the instructions of a skill."""

_RENAMED_TOOLS = {"ask_person": "ask_user", "read_output": "read_file"}


def names_renamed_tool(text: str) -> bool:
    """Return whether `text` may hold the name that a tool had in an earlier version."""
    return any(name in text for name in _RENAMED_TOOLS)


def current_tool(name: str) -> str:
    """Return the present name of a tool, for journals and recipes of earlier versions."""
    return _RENAMED_TOOLS.get(name, name)


class ToolSpec(NamedTuple):
    """A tool as the model sees it: name, description, JSON schema of its arguments.

    A tool whose `effect` is "none" runs inside the graph; every other one leaves the graph as
    an action request. `may` is the strongest effect of a call, where that is above `effect`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    effect: EffectClass = "none"
    may: EffectClass | None = None


@dataclass(frozen=True, slots=True)
class SandboxRefusal:
    """A run of a command that the sandbox stopped: why, and what the model would have read of it.

    With `effects` it may have changed something before, and it did change the file `changed`, which
    decides what the command runs.
    """

    reason: Phrase
    observation: str
    effects: bool = True
    changed: str = ""


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An action with effects, waiting outside the graph for approval.

    `id` is unique in the session and is the intent id; `call_id` is the model's tool call id.
    For a command, `command` is the exact shell text; for other tools it is a one-line
    rendering of what would happen, and `arguments` holds what the tool gets. `detail` is shown
    before approval beside it: the unified diff of an edit. `hosts` are those that the tool
    contacts. `called` is the tool that the model called, where it stood for this one (`call_tool`).
    `agent` is the call id of the `delegate` call whose sub-agent asks (empty: the main
    agent), `agent_task` its task, short, and `agent_name` its name where it has one; a custom
    command that asks has its own name there, with the slash. `refusal` is given when the same call
    has run in the sandbox, and may run again outside of it. `digest` stands in the journal for what
    would run, with the user's key; redaction may have changed the rest.
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
    agent_name: str = ""
    refusal: SandboxRefusal | None = None
    hosts: tuple[str, ...] = ()
    called: str = ""
    digest: str = ""


class Observation(NamedTuple):
    """The result of a tool call: text, images beside it, and the `usage` of a model it asked."""

    text: str
    images: tuple[Image, ...] = ()
    usage: Usage = Usage()


class ToolRan(NamedTuple):
    """A run of an effect-free tool inside the graph; `agent` is the sub-agent that called it.

    A `malformed` call did not run: the observation tells the model what is wrong with it.
    `call_id` is the model's tool call id, and `seconds` how long it ran.
    """

    name: str
    arguments: str
    observation: str
    failed: bool = False
    agent: str = ""
    malformed: bool = False
    call_id: str = ""
    seconds: float = 0.0


ApprovalMode = Literal["manual", "accept-edits", "auto", "plan"]


APPROVAL_MODES: tuple[ApprovalMode, ...] = get_args(ApprovalMode)
"""The approval modes, in the order in which a key goes through them."""


MODE_NAMES: Mapping[str, ApprovalMode] = {
    "ask": "manual", "accept-edits": "accept-edits", "auto": "auto", "plan": "plan",
}  # fmt: skip
"""The modes by the names that the user gives them; `manual`, an earlier name, is read too."""


RiskLabel = Literal["safe_readonly", "workspace_write", "needs_approval", "dangerous"]


RISK_LABELS: tuple[RiskLabel, ...] = get_args(RiskLabel)


def approval_mode(value: str) -> ApprovalMode:
    """Return the approval mode called `value`; an unknown one reads as manual (fails closed)."""
    return MODE_NAMES.get(value, "manual")


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
"""Effects that create, change or remove files."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing a command would do, as far as its text tells; `target` is a path, host or name.

    `source` is the file that is copied, moved or linked there: it keeps its name when the target is
    a folder. Of what is deleted because it is moved, it is where that goes.
    """

    kind: EffectKind
    target: str
    outside: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class GitCall:
    """A call of git in a command: its folder, empty where it is not known, and its verb and words.

    The folder is absolute; one in the home begins with the mark that stands for the home. `entered`
    are the folders that the command changes to, as written: each of them may fail, or be a link.
    """

    folder: str
    words: tuple[str, ...]
    entered: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        return self.words[0]


@dataclass(frozen=True, slots=True)
class Part:
    """One program of a command with what it starts, as what allows it has to know it.

    `folder` is where it runs, or where it leads the shell, unless the command begins there; "…" if
    unknown. `fed` is whether its input may be the output of another program or text of the command.
    """

    label: RiskLabel = "needs_approval"
    folder: str = ""
    fed: bool = False


@dataclass(frozen=True, slots=True)
class RiskReport:
    """Facts about a command, with reasons for the user. Never a permission.

    `deciding` are the files (or patterns of files) whose content decides what the command runs,
    also those that do not exist; like targets, they are relative to the workspace. `parts` tell
    more of each of the `programs`, and `beside` what the command does without them. `groups` are
    the hosts of a command on other machines, in the order in which they are asked.
    """

    command: str
    label: RiskLabel
    reasons: tuple[Phrase, ...] = ()
    effects: tuple[Effect, ...] = ()
    programs: tuple[tuple[str, ...], ...] = ()
    deciding: tuple[str, ...] = ()
    git_calls: tuple[GitCall, ...] = ()
    parts: tuple[Part, ...] = ()
    beside: tuple[Phrase, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()


class ShellChange(NamedTuple):
    """A change of the shell's state: a variable's value, a function's text, `-` for an option on.

    A variable without a value is only exported.
    """

    kind: Literal["set", "export", "option", "function"]
    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """One rule that was checked: its origin, whether it matched, its decision."""

    origin: str
    decision: Literal["allow", "ask", "deny"]
    matched: bool
    reason: Phrase


@dataclass(frozen=True, slots=True)
class Verdict:
    """Policy's verdict on a request."""

    kind: Literal["allow", "ask", "deny"]
    reasons: tuple[Phrase, ...] = ()
    trace: tuple[RuleTrace, ...] = ()
    lease_id: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The approver's decision. `command` holds the bytes approved, which are the bytes that run.

    `reason` is in English or in the user's words; `reasons` are sentences of policy.
    """

    kind: Literal["approve", "edit", "reject"]
    command: str
    by: str
    reason: str = ""
    reasons: tuple[Phrase, ...] = ()

    @property
    def why(self) -> Phrase:
        """Return the reason for the user, translatable where policy gave it, or the command."""
        once = tuple({str(reason): reason for reason in self.reasons}.values())
        return Phrase("{why}", {"why": once or self.reason or self.command})
