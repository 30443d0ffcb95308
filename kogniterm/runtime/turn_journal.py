"""The journal as a turn writes it, with secrets replaced, and as the model looks it up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

from langchain_core.messages import AIMessage, BaseMessage

from kogniterm.agent.compaction import estimate_tokens
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP, MAKE_PLAN
from kogniterm.errors import OutcomeNotWrittenError, ToolError
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.protocols import Clock, EventSink
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import (
    Compacted,
    InputReceived,
    NodeRan,
    Noted,
    Outcome,
    OutcomeStatus,
    Record,
    RecordBody,
    Rewound,
)
from kogniterm.text.visible import with_texts
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    NodeUpdate,
    Phrase,
    Plan,
    UserInput,
    events,
)

if TYPE_CHECKING:
    from kogniterm.agent.messages import Observed
    from kogniterm.sessions.journal.journal import Journal
    from kogniterm.sessions.records import Record


@dataclass(slots=True)
class Steering:
    """The user's steering of a turn, and how much of it each agent has got.

    Agents are named by the id of their call; the main one has the empty name. `_given` counts what
    went into a request, `_heard` what is journaled with the reply to one.
    """

    _words: list[str] = field(default_factory=list)
    _heard: dict[str, int] = field(default_factory=dict)
    _given: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> None:
        """Send `text` with the next model call."""
        self._words.append(text)

    def take(self, agent: str = "") -> Sequence[str]:
        """Return what to send with the model call that `agent` is about to make."""
        # What the main agent heard before it delegated the task is part of the task.
        heard = self._heard.setdefault(agent, self._heard.get("", 0))
        self._given[agent] = len(self._words)
        return tuple(self._words[heard:])

    def journaled(self, agent: str = "") -> None:
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


SERVER_WAIT = 30.0
"""Seconds for a database server that is away to come back before the turn ends."""

_PAUSE = 0.5

_TEXT_TOOLS = frozenset((EXECUTE_COMMAND, MAKE_PLAN.name, COMPLETE_STEP.name))
"""Tools whose arguments are words for the user, or commands, which get the values again."""


class Redacting(Protocol):
    """Replaces secrets by placeholders, and placeholders by secrets."""

    @property
    def highest(self) -> int:
        """Return the highest number of a placeholder that a text has got."""

    def redact(self, text: str) -> str:
        """Return `text` as it may be kept and sent."""

    def restore(self, text: str) -> str:
        """Return `text` with the values in place of the placeholders."""

    def lost(self, text: str) -> str:
        """Return the first placeholder in `text` whose value is not known; "" without one."""


@dataclass(slots=True)
class TurnJournal:
    """Writes what happens in a session, and holds the state that follows from it.

    `history_tokens` estimates the size of the history, counted as it grows. `preferences` gives the
    user's preferences as they hold here, in words.
    """

    journal: Journal
    secrets: Redacting
    clock: Clock
    steering: Steering = field(default_factory=Steering)
    preferences: Callable[[], Mapping[str, str]] = dict
    history_tokens: int = field(init=False)
    _ids: int = 0

    def __post_init__(self) -> None:
        self.history_tokens = estimate_tokens(self.state.messages)

    @property
    def state(self) -> SessionState:
        """Return the state of the session, folded from its records."""
        return self.journal.state

    def records(self, from_seq: int = 1) -> Iterator[Record]:
        """Return the readable records from `from_seq` on, in order."""
        return self.journal.records(from_seq)

    def record(self, body: RecordBody, *, durable: bool = False) -> None:
        """Append `body` to the journal and advance the state by it."""
        self._keep_secret_numbers()
        before = len(self.state.messages)
        self.journal.append(body, durable=durable)
        if isinstance(body, NodeRan):
            self.steering.journaled(body.update.agent)
        if not isinstance(body, Compacted | Rewound):
            self.history_tokens += estimate_tokens(self.state.messages[before:])
        else:
            self.history_tokens = estimate_tokens(self.state.messages)

    def _keep_secret_numbers(self) -> None:
        """Note the numbers that texts have got, before a record holds one of them.

        The next process continues behind them, also where a compaction left the texts out.
        """
        if self.secrets.highest > self.state.secret_numbers:
            self.journal.append(Noted(Note.SECRETS, {Note.SECRETS: self.secrets.highest}))

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

    def record_update(self, update: NodeUpdate) -> NodeUpdate:
        """Append what a node of the graph added; return it as it was recorded.

        Secrets that the model wrote are replaced, as where it has read one in an image. Only the
        arguments of other tools than `execute_command` stay as they are: what they write would be
        another text.
        """
        clean = replace(
            update,
            messages=tuple(map(self._redact_reply, update.messages)),
            plan=self.redact_plan(update.plan) if update.plan is not None else None,
            own_plan=self.redact_plan(update.own_plan) if update.own_plan is not None else None,
            pending=tuple(map(self._redact_request, update.pending)),
            answer=self.redact(update.answer) if update.answer is not None else None,
        )
        self.record(NodeRan(clean))
        return clean

    def _redact_reply(self, message: BaseMessage) -> BaseMessage:
        if not isinstance(message, AIMessage):
            return message
        content = message.content
        if isinstance(content, str):
            content = self.redact(content)
        else:  # blocks of other types hold signatures of the provider, which are no texts
            content = [
                {**one, "text": self.redact(one["text"])}
                if isinstance(one, dict) and one.get("type") == "text"
                else one
                for one in content
            ]
        calls = [
            {**call, "args": with_texts(call["args"], self.redact)}
            if call["name"] in _TEXT_TOOLS
            else call
            for call in message.tool_calls
        ]
        return message.model_copy(update={"content": content, "tool_calls": calls})

    def _redact_request(self, request: ActionRequest) -> ActionRequest:
        if request.tool not in _TEXT_TOOLS:
            return request
        arguments = with_texts(dict(request.arguments), self.redact)
        purpose = self.redact(request.purpose)
        command = self.redact(request.command)
        return replace(request, command=command, purpose=purpose, arguments=arguments)

    def redact_plan(self, plan: Plan) -> Plan:
        """Return the plan as it may be kept and sent."""
        plain = codec.to_plain(plan)
        clean = with_texts(plain, self.redact)
        return plan if clean == plain else codec.from_fields(Plan, clean)

    def redact_input(self, user_input: UserInput) -> UserInput:
        """Return the input as it may be kept and sent."""
        data = user_input.data
        return replace(
            user_input,
            text=self.redact(user_input.text),
            line=self.redact(user_input.line),
            parts=tuple(map(self.redact, user_input.parts)),
            data=self.redact(data) if data is not None else None,
        )


MOST = 12
AROUND = 160
"""Characters shown on each side of a hit."""

LOOKUP_TOOL = "recall_history"
"""Its own results are left out, or every search would find the searches before it."""


@dataclass(frozen=True, slots=True)
class JournalLookup:
    """The history port of the tools: what was said and observed, by record number."""

    journal: TurnJournal

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
