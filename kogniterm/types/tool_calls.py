"""Tools and their calls as values: the tool as offered, the action request, the observation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kogniterm.types.images import Image

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


@dataclass(frozen=True, slots=True)
class Observation:
    """What a tool gives back: text, and images beside it."""

    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolRan:
    """An effect-free tool ran inside the graph; `agent` is the sub-agent that called it."""

    name: str
    arguments: str
    observation: str
    failed: bool = False
    agent: str = ""
