"""The journal as a turn writes it, with secrets replaced, and as the model looks it up."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage

from kogniterm import approval, prompts
from kogniterm.agent.compaction import estimate_tokens
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP, MAKE_PLAN
from kogniterm.errors import OutcomeNotWrittenError, ToolError
from kogniterm.protocols import Clock, EventSink
from kogniterm.runtime.user_secrets import UserSecrets
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import (
    Compacted,
    Decided,
    InputReceived,
    Intent,
    Judged,
    NodeRan,
    Noted,
    Outcome,
    OutcomeStatus,
    Record,
    RecordBody,
    Requested,
    Rewound,
)
from kogniterm.text.visible import with_texts
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    Decision,
    EffectClass,
    NodeUpdate,
    Phrase,
    Plan,
    RiskReport,
    UserInput,
    Verdict,
    events,
)

if TYPE_CHECKING:
    from kogniterm.agent.messages import Observed
    from kogniterm.sessions.journal.journal import SessionJournal
    from kogniterm.sessions.records import Record


class Steering:
    """The user's steering of a turn, and how much of it each agent has got.

    Agents are named by the id of their call; the main one has the empty name. `_given` counts what
    went into a request, `_heard` what is journaled with the reply to one.
    """

    def __init__(self) -> None:
        self._words: list[str] = []
        self._heard: dict[str, int] = {}
        self._given: dict[str, int] = {}

    def add(self, text: str) -> None:
        """Send `text` with the next model call."""
        self._words.append(text)

    def take(self, agent: str = "") -> Sequence[str]:
        """Return what to send with the model call that `agent` is about to make."""
        # What the main agent heard before it delegated the task is part of the task.
        heard = self._heard.setdefault(agent, self._heard.get("", 0))
        self._given[agent] = len(self._words)
        return tuple(self._words[heard:])

    def note_journaled(self, agent: str = "") -> None:
        """Note that what `agent` was given is in the journal now."""
        if agent in self._given:
            self._heard[agent] = self._given.pop(agent)

    def heard_by(self, agent: str) -> None:
        """Count for the main agent, which was not asked, what `agent` heard in its place."""
        self._heard[""] = max(self._heard.get("", 0), self._heard.get(agent, 0))

    def unheard(self) -> tuple[str, ...]:
        """Return, once, what the main agent had not heard when the turn ended."""
        left = tuple(self._words[self._heard.get("", 0) :])
        self._words.clear()
        self._heard.clear()
        self._given.clear()
        return left


log = logging.getLogger(__name__)
SERVER_WAIT = 30.0
"""Seconds for a database server that is away to come back before the turn ends."""

_PAUSE = 0.5
_Body = TypeVar("_Body", bound=RecordBody)
_COMMANDS_KEPT = 32
_OF_CALLS = frozenset(("arguments", "input", "args", "command"))
"""The fields of a provider's own form of a call that hold what the model wrote."""
_OF_PLANS = frozenset((MAKE_PLAN.name, COMPLETE_STEP.name))


class Redacting(Protocol):
    """Replaces secrets by placeholders; see `text.redact.Redactor`."""

    @property
    def highest(self) -> int:
        """Return the highest number of a placeholder that a text has got."""

    @property
    def known(self) -> int:
        """Return how many secrets are known."""

    def redact(self, text: str) -> str:
        """Return `text` as it may be kept and sent."""

    def redact_runs(self, text: str) -> str:
        """Return `text` with only those secrets replaced that hide nothing a program acts on."""

    def values_in(self, text: str) -> Sequence[str]:
        """Return those secrets of `text`."""

    def mark(self, text: str, values: Sequence[str]) -> str:
        """Return `text` with a placeholder wherever one of `values` stands."""

    def placeholder(self, text: str) -> str:
        """Return the first placeholder in `text`; "" without one."""

    def carry(self, old: str, new: str) -> tuple[str, str] | None:
        """Return both sides of an edit with the values that it keeps where they are."""

    def know(self, values: Iterable[str]) -> None:
        """Treat `values` as secret from now on."""


def text_of(request: ActionRequest) -> str:
    """Return the text that decides what a request does: its command, or its tool's arguments."""
    if request.effect == "command":
        return request.command
    rest = [request.tool, dict(request.arguments), list(request.hosts)]
    command = request.command if request.effect == "hosts" else ""
    return json.dumps([command, *rest], sort_keys=True, ensure_ascii=False, default=str)


@dataclass(slots=True)
class TurnJournal:
    """Writes what happens in a session, and holds the state that follows from it.

    What is written and shown is redacted here; the state holds that, too. What runs, and what the
    model itself wrote in this process, is kept beside it in memory as it is: `exact` and
    `exact_messages` return it. `key` is the user's own, with which texts are digested.

    `history_tokens` estimates the size of the history, counted as it grows. `preferences` gives the
    user's preferences as they hold here, in words. `given` are the secrets that the user gave.
    `outputs` is the folder of the session's raw outputs.
    """

    journal: SessionJournal
    secrets: Redacting
    clock: Clock
    key: bytes = b""
    given: UserSecrets = field(default_factory=UserSecrets)
    outputs: Path | None = None
    steering: Steering = field(default_factory=Steering)
    preferences: Callable[[], Mapping[str, str]] = dict
    history_tokens: int = field(init=False)
    _ids: int = 0
    _exact: dict[str, ActionRequest] = field(default_factory=dict)
    _own_words: dict[int, tuple[BaseMessage, BaseMessage]] = field(default_factory=dict)
    """The messages of the state that redaction changed, by identity, with the model's own."""
    _shown: dict[str, tuple[int, str]] = field(default_factory=dict)
    _parts: tuple[UserInput, tuple[str, ...]] | None = None
    """The last input as it was written, and its parts with the commands as they are."""

    def __post_init__(self) -> None:
        self.history_tokens = estimate_tokens(self.state.messages)
        self.given.noted = lambda: self.state.user_secrets

    @property
    def state(self) -> SessionState:
        """Return the state of the session, folded from its records."""
        return self.journal.state

    def records(self, from_seq: int = 1) -> Iterator[Record]:
        """Return the readable records from `from_seq` on, in order."""
        return self.journal.records(from_seq)

    def record(self, body: _Body, *, durable: bool = False, hold: bool = False) -> _Body:
        """Append `body` to the journal, redacted, and advance the state by it; return what it got.

        Inputs, observations and notes are redacted by whoever makes them. With `hold` it is
        written with the next record, or before somebody is asked (`TurnCount.waiting`).
        """
        body = cast("_Body", self._redact_body(body))
        # Before a record holds a text with a new number: the next process continues behind it,
        # also where a compaction left the text out.
        if self.secrets.highest > self.state.secret_numbers:
            self.journal.append(Noted(Note.SECRETS, {Note.SECRETS: self.secrets.highest}))
        before = len(self.state.messages)
        self.journal.append(body, durable=durable, hold=hold)
        node = f" {body.update.node}" if isinstance(body, NodeRan) else ""
        log.debug("record %d: %s%s", self.state.seq, type(body).__name__, node)
        if isinstance(body, NodeRan):
            self.steering.note_journaled(body.update.agent)
        if not isinstance(body, Compacted | Rewound):
            self.history_tokens += estimate_tokens(self.state.messages[before:])
        else:
            self.history_tokens = estimate_tokens(self.state.messages)
        return body

    def _redact_body(self, body: RecordBody) -> RecordBody:
        match body:
            case NodeRan(update=update):
                return NodeRan(self._redact_update(update))
            case Requested(request=request):
                return replace(body, request=self.show_request(request))
            case Judged(report=report, verdict=verdict):
                shown = self.shown_judgement(report, verdict)
                return replace(body, report=shown[0], verdict=shown[1])
            case Decided(decision=decision):
                return replace(body, decision=self.shown_decision(body.request_id, decision))
            case Intent(request_id=request_id, command=line):
                return replace(body, command=self.redact_command(line, self._effect_of(request_id)))
            case Outcome(again=ActionRequest() as again):
                return replace(body, again=self._keep(again))
            case _:
                return body

    def settle_kept(self) -> None:
        """Write the outcomes that the database could not take before.

        Raises `OutcomeNotWrittenError`.
        """
        before = len(self.state.messages)
        self.journal.settle_kept()
        self.history_tokens += estimate_tokens(self.state.messages[before:])

    def settle(self, request: ActionRequest, status: OutcomeStatus, message: Observed) -> None:
        """Record how `request` ended, with the message that the model will see."""
        self.record(Outcome(request.id, status, message, agent=request.agent), durable=True)

    async def record_outcome(self, outcome: Outcome, sink: EventSink) -> None:
        """Record how something that was started has ended.

        While a server is away, the outcome is kept on this machine and tried again for
        `SERVER_WAIT` seconds. Raises `OutcomeNotWrittenError`, whose message says where an outcome
        that is kept stands.
        """
        try:
            self.record(outcome, durable=True)
        except OutcomeNotWrittenError as error:
            if not error.waits:
                raise
            await self._retry_kept(error, sink)

    async def _retry_kept(self, first: OutcomeNotWrittenError, sink: EventSink) -> None:
        values = {"problem": first.text, "seconds": int(SERVER_WAIT)}
        wait = Phrase("{problem} Retrying the database for up to {seconds} seconds.", values)
        sink(events.Notice(wait, "warning"))
        deadline = self.clock.monotonic() + SERVER_WAIT
        while self.clock.monotonic() < deadline:
            await asyncio.sleep(_PAUSE)
            with suppress(OutcomeNotWrittenError):
                self.settle_kept()
                return
        raise first

    def value_of(self, name: str, given: UserInput | None = None) -> str | None:
        """Return the value of a plan's reference to the input, the session or a preference.

        `given` is an input that is not in the journal yet. It is redacted; None if there is none.
        """
        known, given = self.state, given or self.state.open_input
        kind, _dot, key = name.rpartition(".")
        values: Mapping[str, str | None] = {}
        if kind == "session":
            values = {"cwd": known.cwd or known.folder, "folder": known.folder}
        elif kind == "session.preferences":
            values = self.preferences()
        elif given is not None:
            files = ", ".join(given.attachments) or None
            values = {"text": given.text, "data": given.data, "files": files}
        value = values.get(key)
        return None if value is None else self.redact(value)

    def new_id(self) -> str:
        """Return an action request id that is unique in the session, also after a resume."""
        self._ids += 1
        return f"{self.state.seq + 1}-{self._ids}"

    def redact(self, text: str) -> str:
        """Replace secrets in a text on its way to journal and model."""
        return self.secrets.redact(text)

    def redact_command(self, command: str, effect: EffectClass = "command") -> str:
        """Return a command, or the line of a request with another effect, as it is shown and kept.

        What runs is never made of this.
        """
        if effect not in ("command", "hosts"):
            return command if effect in ("edit", "read") else self.secrets.redact_runs(command)
        known, shown = self._shown.get(command, (-1, ""))
        if known != self.secrets.known:
            secrets = self.secrets
            shown = approval.mask_command(command, secrets.values_in, secrets.mark, self._exists)
            if len(self._shown) >= _COMMANDS_KEPT:
                self._shown.clear()
            self._shown[command] = (self.secrets.known, shown)
        return shown

    def _exists(self, word: str) -> bool:
        """Return whether a word of a command is the name of a file in the current folder."""
        with suppress(OSError, ValueError):
            return os.path.lexists(Path(self.state.cwd, word))
        return False

    # --- requests -------------------------------------------------------------------------------

    def exact(self, request: ActionRequest) -> ActionRequest | None:
        """Return a pending request as it is to be judged and run.

        None where this process does not know it: redaction changed it, and a restart lost the rest.
        """
        known = self._exact.get(request.id)
        if known is not None or request.effect == "person":
            return known or request
        text = text_of(request)
        if not request.digest:  # a record of an earlier version
            return None if "[secret:" in text else request
        return request if request.digest == self.digest(text) else None

    def digest(self, text: str) -> str:
        """Return the keyed digest of a text: without the key nobody can guess the text by it."""
        return hmac.new(self.key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:32]

    def exact_messages(self, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """Return messages of the state as they are sent: the model's own words unchanged."""
        if not self._own_words:
            return messages
        return [self._own_words.get(id(one), (one, one))[1] for one in messages]

    def show_request(self, request: ActionRequest) -> ActionRequest:
        """Return a request as it may be shown, kept and sent, with the digest of what runs."""
        line = self.redact_command(request.command, request.effect)
        if any(one in request.command and one not in line for one in request.hosts):
            line = request.command  # a secret that holds a host would hide it
        return replace(
            request,
            command=line,
            purpose=self.redact(request.purpose),
            arguments=self._redact_arguments(request.tool, request.arguments),
            detail=self.secrets.redact_runs(request.detail),
            agent_task=self.redact(request.agent_task),
            digest=self.digest(text_of(request)),
        )

    def _effect_of(self, request_id: str) -> EffectClass:
        asked = self.state.requested.get(request_id)
        return "command" if asked is None else asked.request.effect

    def shown_judgement(self, report: RiskReport, verdict: Verdict) -> tuple[RiskReport, Verdict]:
        """Return the facts about a request, and its verdict, as they may be shown and kept."""
        # The line of a tool runs no program, and is no shell text.
        redact = self.redact_command if report.programs else self.secrets.redact_runs
        line = redact(report.command)
        if line == report.command:
            return report, verdict
        words, change = self.secrets.redact_runs, self._of_report
        shown = replace(
            report,
            command=line,
            reasons=tuple(map(change, report.reasons)),
            effects=tuple(
                replace(one, target=words(one.target)) if one.kind == "network" else one
                for one in report.effects
            ),
            programs=tuple((*argv[:1], *map(words, argv[1:])) for argv in report.programs),
            git_calls=tuple(
                replace(one, words=(*one.words[:1], *map(words, one.words[1:])))
                for one in report.git_calls
            ),
        )
        trace = tuple(replace(one, reason=change(one.reason)) for one in verdict.trace)
        return shown, replace(verdict, reasons=tuple(map(change, verdict.reasons)), trace=trace)

    def _of_report(self, reason: Phrase) -> Phrase:
        def change(value: object) -> object:
            return self.secrets.redact_runs(value) if isinstance(value, str) else value

        return replace(reason, values={name: change(one) for name, one in reason.values.items()})

    def shown_decision(self, request_id: str, decision: Decision) -> Decision:
        """Return a decision as it may be shown and kept."""
        command = self.redact_command(decision.command, self._effect_of(request_id))
        return replace(decision, command=command, reason=self.redact(decision.reason))

    def _keep(self, request: ActionRequest) -> ActionRequest:
        """Keep a request as it is in memory; return it as it is written."""
        shown = self.show_request(request)
        self._exact[request.id] = request
        return shown

    # --- what the model wrote -------------------------------------------------------------------

    def record_update(self, update: NodeUpdate) -> NodeUpdate:
        """Append what a node of the graph added; return it as it was recorded.

        Requests alone are held: the node would make them again from the reply on disk.
        """
        only_requests = bool(update.pending) and not update.messages
        return self.record(NodeRan(update), hold=only_requests).update

    def _redact_update(self, update: NodeUpdate) -> NodeUpdate:
        """Return what a node added as it is written; keep what the model wrote in memory.

        Secrets that the model wrote are replaced, as where it has read one in an image.
        """
        return replace(
            update,
            messages=tuple(map(self._redact_reply, update.messages)),
            plan=self.redact_plan(update.plan) if update.plan is not None else None,
            own_plan=self.redact_plan(update.own_plan) if update.own_plan is not None else None,
            pending=tuple(map(self._keep, update.pending)),
            answer=self.redact(update.answer) if update.answer is not None else None,
        )

    def _redact_reply(self, message: BaseMessage) -> BaseMessage:
        content = message.content
        if isinstance(content, str):
            content = self.redact(content)
        else:
            content = [self._redact_block(one) for one in content]
        calls = [
            {**call, "args": self._redact_arguments(call["name"], call["args"])}
            for call in (message.tool_calls if isinstance(message, AIMessage) else ())
        ]
        changed: dict[str, Any] = {
            "content": content, "additional_kwargs": self._redact_raw(message.additional_kwargs)
        }  # fmt: skip
        if isinstance(message, AIMessage):
            wrong = self._redact_raw(message.invalid_tool_calls)
            changed |= {"tool_calls": calls, "invalid_tool_calls": wrong}
        if all(getattr(message, name) == value for name, value in changed.items()):
            return message
        clean = message.model_copy(update=changed)
        self._own_words[id(clean)] = (clean, message)
        return clean

    def _redact_block(self, block: str | dict[str, Any]) -> str | dict[str, Any]:
        """Return a block of content; what is neither words nor a call is no text of the model."""
        if isinstance(block, str):
            return self.redact(block)
        if block.get("type") == "text":
            return {**block, "text": self.redact(str(block.get("text", "")))}
        return cast("dict[str, Any]", self._redact_raw(block))

    def _redact_raw(self, value: Any, key: str = "") -> Any:
        """Return a provider's own form of calls with their arguments redacted."""
        if isinstance(value, Mapping):
            # What lies in arguments is arguments, whatever a tool calls it.
            inside = key if key in _OF_CALLS else ""
            return {name: self._redact_raw(one, inside or name) for name, one in value.items()}
        if isinstance(value, list):
            return [self._redact_raw(one, key) for one in value]
        known = key in _OF_CALLS and isinstance(value, str)
        return self.secrets.redact_runs(value) if known else value

    def _redact_arguments(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call: what they write or run hides nothing but plain words."""
        if tool in _OF_PLANS:
            return cast("dict[str, Any]", self._redact_plan(arguments))
        given = dict(arguments)
        if tool == EXECUTE_COMMAND and isinstance(given.get("command"), str):
            command = self.redact_command(given.pop("command"))
            return {"command": command, **with_texts(given, self.redact)}
        path = {"path": given.pop("path")} if "path" in given else {}
        return {**path, **with_texts(given, self.secrets.redact_runs)}

    def redact_plan(self, plan: Plan) -> Plan:
        """Return the plan as it may be kept and sent."""
        plain = codec.to_plain(plan)
        clean = self._redact_plan(plain)
        return plan if clean == plain else codec.from_fields(Plan, clean)

    def _redact_plan(self, value: Any) -> Any:
        """Return a plan in JSON; the commands that check its steps hide nothing they do."""
        if isinstance(value, Mapping):
            check = value.get("kind") == "command" and isinstance(value.get("value"), str)
            clean = {name: self._redact_plan(one) for name, one in value.items()}
            return {**clean, "value": self.redact_command(value["value"])} if check else clean
        if isinstance(value, list):
            return [self._redact_plan(one) for one in value]
        return self.redact(value) if isinstance(value, str) else value

    def redact_input(self, user_input: UserInput) -> UserInput:
        """Return the input as it may be kept and sent; a secret in it becomes a variable.

        The commands in it are kept as they are.
        """

        def typed(text: str) -> str:
            return self.redact(self.given.named_in(text))

        data, parts = user_input.data, user_input.parts
        shown = tuple(
            self.redact_command(one) if number % 2 else typed(one)
            for number, one in enumerate(parts)
        )
        clean = replace(
            user_input,
            text=typed(user_input.text),
            line=typed(user_input.line),
            parts=shown,
            data=self.redact(data) if data is not None else None,
        )
        if clean.typed != user_input.typed and user_input.foreign:  # its stretches have moved
            clean = replace(clean, foreign=((0, len(clean.typed)),))
        both = enumerate(zip(shown, parts, strict=True))
        self._parts = clean, tuple(one[number % 2] for number, one in both)
        return clean

    def exact_parts(self, given: UserInput) -> Sequence[str]:
        """Return the parts of an input of the state, with its commands as they are to run."""
        known = self._parts
        return known[1] if known is not None and known[0] == given else given.parts


def secrets_told(names: Sequence[str]) -> str:
    """Return what the model is told of secrets that the user gave; "" for none."""
    shown = [f"${name}" for name in names]
    if not shown:
        return ""
    return prompts.text("secrets.given", names=", ".join(shown), first=shown[0])


MOST = 12
AROUND = 160
"""Characters shown on each side of a hit."""

LOOKUP_TOOL = "recall_history"
"""Its own results are left out, or every search would find the searches before it."""


class JournalLookup:
    """The history port of the tools: what was said and observed, by record number."""

    def __init__(self, journal: TurnJournal) -> None:
        self.journal = journal

    def search(self, words: str) -> str:
        """Return the newest entries that hold `words`, whatever their case."""
        wanted = words.casefold()
        hits = [
            f"#{number} {_around(text, text.casefold().find(wanted), len(words))}"
            for number, text in self._entries()
            if wanted in text.casefold()
        ]
        left_out = f"\n[{len(hits) - MOST} older hits left out]" if len(hits) > MOST else ""
        return "\n".join(reversed(hits[-MOST:])) + left_out

    def entry(self, number: int) -> str:
        """Return the full text of record `number`. Raises `ToolError` when it has none."""
        for found, text in self._entries(number):
            if found == number:
                return text
            break
        raise ToolError(
            "Entry {number} not found; search with words first to get entry numbers.", number=number
        )

    def _entries(self, first: int = 1) -> Iterator[tuple[int, str]]:
        for record in self.journal.state.conversation(self.journal.records(first)):
            text = "\n".join(filter(None, map(_text, _messages(record))))
            if text:
                yield record.seq, text


def _messages(record: Record) -> tuple[BaseMessage, ...]:
    match record.body:
        case InputReceived(message=message):
            return (message,)
        case Outcome():
            return record.body.told
        case NodeRan(update=update):
            return update.messages
        case _:
            return ()


def _text(message: BaseMessage) -> str:
    if message.name == LOOKUP_TOOL:
        return ""
    if isinstance(message, AIMessage):
        calls = [
            f"{c['name']}({c['args']})" for c in message.tool_calls if c["name"] != LOOKUP_TOOL
        ]
        return "\n".join(filter(None, [message.text, *calls]))
    return f"{message.name or message.type}: {message.text}"


def _around(text: str, position: int, length: int) -> str:
    start, end = max(0, position - AROUND), position + length + AROUND
    return " ".join(text[start:end].split())
