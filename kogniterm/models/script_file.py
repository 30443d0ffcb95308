"""The script of a scripted model, as written by hand in YAML; docs/scripted.md explains it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from kogniterm.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelBlockedError,
    ModelError,
    ModelNotFoundError,
    ModelQuotaError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from kogniterm.models.yamlfile import Node, read_yaml
from kogniterm.types import ModelPurpose, Usage

WHAT = "script"
COMMAND_TOOL = "execute_command"
PLAN_TOOL = "make_plan"
ERRORS: Mapping[str, type[ModelError]] = {
    "auth": ModelAuthError,
    "not_found": ModelNotFoundError,
    "quota": ModelQuotaError,
    "unavailable": ModelUnavailableError,
    "timeout": ModelTimeoutError,
    "blocked": ModelBlockedError,
    "reply": ModelReplyError,
    "overflow": ContextOverflowError,
}
AtEnd = Literal["fail", "repeat_last", "restart"]
FOREVER = -1

FILE_KEYS = ("model", "replies", "at_end", "delays", "chunk")
MODEL_KEYS = ("context_window", "max_output", "calls_tools", "local", "one_command", "images")
REPLY_KEYS = (
    "when",
    "expect",
    "text",
    "thoughts",
    "run",
    "purpose",
    "calls",
    "plan",
    "error",
    "message",
    "retry",
    "retry_after",
    "delay",
    "repeat",
    "chunk",
    "usage",
)
CONDITION_KEYS = (
    "purpose",
    "turn",
    "call",
    "tool",
    "offers",
    "last_contains",
    "last_matches",
    "any_contains",
    "system_contains",
    "images",
)
CALL_KEYS = ("tool", "arguments", "raw_arguments", "id", "run", "purpose")
PLAN_KEYS = ("goal", "reason", "steps")
STEP_KEYS = (
    "id", "what", "why", "inputs", "tools", "expect", "check", "fallback", "delegate", "substeps",
)  # fmt: skip
CHECK_KEYS = ("kind", "value")
USAGE_KEYS = ("input", "output", "cached")


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of the request; every part that is given must."""

    purpose: ModelPurpose | None = None
    turn: int | None = None
    call: int | None = None
    tool: str | None = None
    offers: str | None = None
    last_contains: str | None = None
    last_matches: re.Pattern[str] | None = None
    any_contains: str | None = None
    system_contains: str | None = None
    images: int | None = None


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One tool call; `raw` holds arguments that are no JSON object, to be kept as invalid."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    raw: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ScriptedError:
    """A failure to raise; with `retry` it passes through the visible retries."""

    kind: str
    message: str
    retry: bool = False
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One entry of `replies`; `times` is FOREVER or how often it may be given."""

    line: int
    when: Condition = Condition()
    expect: Condition = Condition()
    text: str = ""
    thoughts: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedError | None = None
    delay: float = 0.0
    times: int = 1
    chunk: int | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script. Delays are kept only when the file says `delays: true`."""

    path: str
    replies: tuple[ScriptedReply, ...]
    at_end: AtEnd = "fail"
    delays: bool = False
    chunk: int | None = None
    model: Mapping[str, Any] = field(default_factory=dict)


def read_script(path: Path) -> Script:
    """The script at `path`. Raises `UsageError` naming file, line and key."""
    root = read_yaml(path, WHAT)
    entries = root.mapping(FILE_KEYS)
    if "replies" not in entries:
        raise root.error("replies is missing.")
    at_end = entries["at_end"].choice(get_args(AtEnd)) if "at_end" in entries else "fail"
    replies = tuple(_reply(item) for item in entries["replies"].items())
    if not replies:
        raise entries["replies"].error("holds no reply.")
    return Script(
        path=str(path),
        replies=replies,
        at_end=at_end,  # type: ignore[arg-type]  # choice() has checked it against AtEnd
        delays=entries["delays"].flag() if "delays" in entries else False,
        chunk=entries["chunk"].whole(1) if "chunk" in entries else None,
        model=_model(entries["model"]) if "model" in entries else {},
    )


def _model(node: Node) -> dict[str, Any]:
    return {
        name: child.whole(1) if name in {"context_window", "max_output"} else child.flag()
        for name, child in node.mapping(MODEL_KEYS).items()
    }


def _reply(node: Node) -> ScriptedReply:
    if node.scalar:
        return ScriptedReply(node.node.start_mark.line + 1, text=node.text())
    given = node.mapping(REPLY_KEYS)
    texts = {name: given[name].text() for name in ("text", "thoughts") if name in given}
    calls = _calls(node, given)
    error = _error(node, given)
    if not calls and error is None and not texts.get("text"):
        raise node.error("says nothing: give text, run, calls, plan or error.")
    if calls and error is not None:
        raise given["error"].error("a reply that fails makes no calls.")
    return ScriptedReply(
        line=node.node.start_mark.line + 1,
        when=_condition(given["when"]) if "when" in given else Condition(),
        expect=_condition(given["expect"]) if "expect" in given else Condition(),
        calls=calls,
        error=error,
        delay=given["delay"].seconds() if "delay" in given else 0.0,
        times=_times(given["repeat"]) if "repeat" in given else 1,
        chunk=given["chunk"].whole(1) if "chunk" in given else None,
        usage=_usage(given["usage"]) if "usage" in given else None,
        **texts,
    )


def _times(node: Node) -> int:
    return FOREVER if node.scalar and node.text() == "forever" else node.whole(1)


def _usage(node: Node) -> Usage:
    counts = {name: child.whole() for name, child in node.mapping(USAGE_KEYS).items()}
    return Usage(calls=1, **counts)


def _condition(node: Node) -> Condition:
    found: dict[str, Any] = {}
    for name, child in node.mapping(CONDITION_KEYS).items():
        if name in {"turn", "call"}:
            found[name] = child.whole(1)
        elif name == "images":
            found[name] = child.whole()
        elif name == "purpose":
            found[name] = child.choice(get_args(ModelPurpose))
        elif name == "last_matches":
            found[name] = child.map(re.compile, "a regular expression")
        else:
            found[name] = child.text()
    if not found:
        raise node.error("holds no condition.")
    return Condition(**found)


def _error(node: Node, given: Mapping[str, Node]) -> ScriptedError | None:
    if "error" not in given:
        for name in ("message", "retry", "retry_after"):
            if name in given:
                raise given[name].error("only goes with error.")
        return None
    kind = given["error"].choice(tuple(ERRORS))
    message = given["message"].text() if "message" in given else f"the script fails with {kind}"
    return ScriptedError(
        kind,
        message,
        retry=given["retry"].flag() if "retry" in given else False,
        retry_after=given["retry_after"].seconds() if "retry_after" in given else None,
    )


def _calls(node: Node, given: Mapping[str, Node]) -> tuple[ScriptedCall, ...]:
    """The tool calls of a reply: one `run` or `plan`, or a list of `calls`."""
    ways = [name for name in ("run", "calls", "plan") if name in given]
    if len(ways) > 1:
        raise given[ways[1]].error("does not go with {other}; use calls.", other=ways[0])
    if "purpose" in given and "run" not in given:
        raise given["purpose"].error("only goes with run.")
    if not ways:
        return ()
    if ways == ["run"]:
        return (_command(given),)
    if ways == ["plan"]:
        return (ScriptedCall(PLAN_TOOL, _plan(given["plan"])),)
    calls = tuple(_call(item) for item in given["calls"].items())
    if not calls:
        raise given["calls"].error("holds no call.")
    return calls


def _command(given: Mapping[str, Node], call_id: str | None = None) -> ScriptedCall:
    arguments = {"command": given["run"].text()}
    if "purpose" in given:
        arguments["purpose"] = given["purpose"].text()
    return ScriptedCall(COMMAND_TOOL, arguments, id=call_id)


def _call(node: Node) -> ScriptedCall:
    given = node.mapping(CALL_KEYS)
    call_id = given["id"].text() if "id" in given else None
    if "run" in given:
        for name in ("tool", "arguments", "raw_arguments"):
            if name in given:
                raise given[name].error("does not go with run.")
        return _command(given, call_id)
    if "tool" not in given:
        raise node.error("names no tool; give tool or run.")
    if "purpose" in given:
        raise given["purpose"].error("only goes with run; put it into arguments.")
    tool = given["tool"].text()
    if "raw_arguments" in given:
        if "arguments" in given:
            raise given["arguments"].error("does not go with raw_arguments.")
        return ScriptedCall(tool, raw=given["raw_arguments"].text(), id=call_id)
    arguments = given["arguments"].plain() if "arguments" in given else {}
    if not isinstance(arguments, dict):
        return ScriptedCall(tool, raw=json.dumps(arguments), id=call_id)
    return ScriptedCall(tool, arguments, id=call_id)


def _plan(node: Node) -> dict[str, Any]:
    given = node.mapping(PLAN_KEYS)
    for name in ("goal", "steps"):
        if name not in given:
            raise node.error("{name} is missing.", name=name)
    plan: dict[str, Any] = {
        name: given[name].text() for name in ("goal", "reason") if name in given
    }
    plan["steps"] = [_step(item, number) for number, item in enumerate(given["steps"].items(), 1)]
    return plan


def _step(node: Node, number: int) -> dict[str, Any]:
    """A plan step; one written as plain text gets the next id and no more."""
    if node.scalar:
        return {"id": f"s{number}", "what": node.text()}
    given = node.mapping(STEP_KEYS)
    if "what" not in given:
        raise node.error("what is missing.")
    step: dict[str, Any] = {"id": given["id"].text() if "id" in given else f"s{number}"}
    for name, child in given.items():
        if name == "check":
            check = child.mapping(CHECK_KEYS)
            step[name] = {part: value.text() for part, value in check.items()}
        elif name in ("inputs", "tools"):
            step[name] = [item.text() for item in child.items()]
        elif name == "substeps":
            step[name] = [_step(item, place) for place, item in enumerate(child.items(), 1)]
        else:
            step[name] = child.text()
    return step
