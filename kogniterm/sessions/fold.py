"""The state of a session, folded from the records of its journal.

`advance(state, record)` is the only definition of what a record means for the session; a live
session uses it record by record, a resumed one over the records it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from kogniterm import prompts
from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import (
    Compacted,
    Decided,
    HostIntent,
    HostOutcome,
    InputReceived,
    Intent,
    Judged,
    NodeRan,
    Noted,
    Outcome,
    Record,
    Requested,
    Rewound,
    SessionOpened,
    TurnClosed,
)
from kogniterm.types import (
    ActionRequest,
    AgentState,
    ApprovalMode,
    Decision,
    LimitChoice,
    LimitReached,
    Phrase,
    Plan,
    PlanMode,
    Usage,
    UserInput,
    Verdict,
    approval_mode,
    events,
)
from kogniterm.types.command_results import HostAnswer, HostState

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


_Load = Callable[[], "Sequence[BaseMessage]"]


class _Head:
    """The first messages of a transcript, loaded on first use."""

    __slots__ = ("_load", "_messages")

    def __init__(self, load: _Load | None) -> None:
        self._load = load
        self._messages: Sequence[BaseMessage] = ()

    @property
    def messages(self) -> Sequence[BaseMessage]:
        if self._load is not None:
            self._messages, self._load = self._load(), None
        return self._messages


class Transcript(Sequence["BaseMessage"]):
    """An immutable sequence of messages; the cost of `extended` is that of the new messages.

    All transcripts of a session share one growing list, of which each sees a prefix; only
    extending an older one copies. `load` fetches messages that come before the given ones,
    so that a session can be shown before its history was read.
    """

    __slots__ = ("_head", "_length", "_shared")

    def __init__(self, messages: Iterable[BaseMessage] = (), *, load: _Load | None = None) -> None:
        self._head = _Head(load)
        self._shared = list(messages)
        self._length = len(self._shared)

    def extend_by(self, messages: Sequence[BaseMessage]) -> Transcript:
        """Return this transcript with `messages` after it; results go right behind their calls."""
        if not messages:
            return self
        if messages[0].type == "tool" and len(self) and self[-1].type == "human":
            return Transcript(self[:-1]).extend_by(messages).extend_by(self[-1:])
        longer = Transcript()
        longer._head = self._head
        current = len(self._shared) == self._length
        longer._shared = self._shared if current else self._shared[: self._length]
        longer._shared.extend(messages)
        longer._length = self._length + len(messages)
        return longer

    def __len__(self) -> int:
        return len(self._head.messages) + self._length

    def __iter__(self) -> Iterator[BaseMessage]:
        return chain(self._head.messages, islice(self._shared, self._length))

    def __reversed__(self) -> Iterator[BaseMessage]:
        shared = self._shared
        last = (shared[number] for number in range(self._length - 1, -1, -1))
        return chain(last, reversed(self._head.messages))

    @overload
    def __getitem__(self, index: int) -> BaseMessage: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[BaseMessage, ...]: ...
    def __getitem__(self, index: int | slice) -> BaseMessage | tuple[BaseMessage, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        position = range(len(self))[index]
        head = self._head.messages
        return head[position] if position < len(head) else self._shared[position - len(head)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        return self is other or tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((id(self._shared), self._length))

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"


TITLE_LENGTH = 60
NOTHING_USED = Usage()
LOST_COMMAND = "(a command whose record is damaged)"

_Value = TypeVar("_Value")


class Note(StrEnum):
    """The kinds of `Noted` that change the state; each is also the key of its one datum."""

    TITLE = "title"
    MODEL = "model"
    MODE = "mode"
    PLAN_MODE = "plan_mode"
    FOLDER = "folder"
    INSTRUCTIONS = "instructions"
    AGAIN = "again"
    UNSETTLED = "unsettled"
    LIMIT = "limit"
    USAGE = "usage"
    SECRETS = "secret_numbers"
    USER_SECRETS = "user_secrets"

    def record(self, value: str) -> Noted:
        """Return the note that sets this to `value`."""
        return Noted(self.value, {self.value: value})


@dataclass(frozen=True, slots=True)
class UnknownRun:
    """A run whose outcome was recorded as unknown in `turn` (0: in the parent session).

    Of a command on other machines, `hosts` are those whose outcome is unknown.
    """

    intent: Intent
    turn: int
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a session after the records so far.

    `pending` are the action requests that have no ToolMessage yet, in order. Of these, the ones in
    `unknown` were started and have no outcome: the journal holds their intent only. They must never
    be run again by themselves. `unsettled` are the runs whose outcome was recorded as unknown,
    until the user wants one run again or a later run of the same command, which only the user can
    approve, has ended. `on_hosts` are the hosts of pending requests for which an intent is on disk,
    with their answers (None: there is none yet); `host_states` are the last answers of the turn's
    hosts. With `plan_only` the open turn may only make a
    plan; `refused` is what was refused in it, in order, `unasked` questions that nobody answered,
    `plan_before` the plan before it. `requested`, `verdicts` and `decisions` are of `pending`.
    `limit` is the limit at which the open turn waits for the user.
    `agents` are the running sub-agents, by the id of the `delegate` call that each will answer;
    with its answer in `messages` a sub-agent is gone. `cwd` is the folder after the last command;
    `mode` and `plan_mode` are those of the last process, to be shown and never taken over; `draft`
    is the input that was typed and not sent (kept beside the journal, not in it). `history_seq` is
    the record from which `messages` are read, `instructions` the one with the project instructions
    in force, `fixed_instructions` the one whose instructions are in the system message (0: none).
    `others_usage` is the part of `usage` that sub-agents with models of their own took, by model.
    `rewound` are the records that are no longer part of the conversation, as pairs: the first of
    them, and the record that went back to before it. `secret_numbers` is the highest number that
    stands for a secret in the records; no other secret may get it, or a lower one. `user_secrets`
    are the names of the secrets that the user gave; no record holds a value.
    """

    session_id: str = ""
    folder: str = ""
    title: str = ""
    model: str = ""
    mode: ApprovalMode = "manual"
    plan_mode: PlanMode = "auto"
    cwd: str = ""
    turn: int = 0
    open_input: UserInput | None = None
    plan_only: bool = False
    limit: LimitReached | None = None
    messages: Transcript = field(default_factory=Transcript)
    plan: Plan | None = None
    plan_before: Plan | None = None
    pending: tuple[ActionRequest, ...] = ()
    agents: Mapping[str, AgentState] = field(default_factory=dict)
    unknown: tuple[Intent, ...] = ()
    unsettled: tuple[UnknownRun, ...] = ()
    on_hosts: Mapping[str, Mapping[str, HostAnswer | None]] = field(default_factory=dict)
    host_states: Mapping[str, HostState] = field(default_factory=dict)
    refused: tuple[Decision, ...] = ()
    unasked: tuple[str, ...] = ()
    requested: Mapping[str, Requested] = field(default_factory=dict)
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    others_usage: Mapping[str, Usage] = field(default_factory=dict)
    parent: str | None = None
    draft: str = ""
    seq: int = 0
    hash: str = ""
    history_seq: int = 1
    instructions: int = 0
    fixed_instructions: int = 0
    rewound: tuple[tuple[int, int], ...] = ()
    secret_numbers: int = 0
    user_secrets: tuple[str, ...] = ()

    def in_force(self, seq: int) -> bool:
        """Return whether the record `seq` is part of the conversation: nothing went behind it."""
        return not any(first <= seq < back for first, back in self.rewound)

    def conversation(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield those of `records` that are part of the conversation."""
        return (record for record in records if self.in_force(record.seq))

    @property
    def open_turn(self) -> bool:
        """True when the last turn has begun and not ended."""
        return self.open_input is not None

    @property
    def waiting(self) -> tuple[ActionRequest, ...]:
        """The pending requests that were never started: they may be asked again."""
        started = {intent.request_id for intent in self.unknown}
        return tuple(request for request in self.pending if request.id not in started)

    @property
    def asking(self) -> bool:
        """True when a limit or the next pending request waits for the user's answer."""
        if self.limit is not None:
            return True
        request = next(iter(self.waiting), None)
        if request is None:
            return False
        if request.effect == "person":
            return True
        verdict = self.verdicts.get(request.id)
        undecided = request.id not in self.decisions
        return verdict is not None and verdict.kind == "ask" and undecided


def fold(records: Iterable[Record], state: SessionState | None = None) -> SessionState:
    """Return the state after `records`, starting from `state` (or from nothing)."""
    return reduce(advance, records, state or SessionState())


def advance(state: SessionState, record: Record) -> SessionState:
    """Return the state after one more record."""
    return replace(_advance(state, record), seq=record.seq, hash=record.hash)


def advance_unreadable(state: SessionState, kind: str, request_id: str | None) -> SessionState:
    """Return the state after a record of which only the stored kind and request are readable.

    A command whose intent is lost was started: it is unknown, with the content of its request and
    approval. One whose outcome is lost has ended in an unknown way.
    """
    if request_id is None or kind not in ("intent", "outcome"):
        return state
    if kind == "intent":
        asked = state.requested.get(request_id)
        waiting = (one for one in state.pending if one.id == request_id)
        request = next(waiting, asked.request if asked is not None else None)
        decision = state.decisions.get(request_id)
        command = decision.command if decision else request.command if request else LOST_COMMAND
        cwd = asked.cwd if asked is not None else state.cwd
        lost = Intent(request_id, command, cwd, "")
        return replace(state, unknown=(*state.unknown, lost))
    request = next((one for one in state.pending if one.id == request_id), None)
    if request is None:
        kept = tuple(one for one in state.unknown if one.request_id != request_id)
        return replace(state, unknown=kept)
    return _outcome(state, lost_outcome(request))


def lost_outcome(request: ActionRequest) -> Outcome:
    """Return a replacement for an outcome that cannot be read, with a message to the model."""
    told = {
        "content": prompts.text("execute_tool.outcome_damaged"),
        "tool_call_id": request.call_id,
        "name": request.tool,
    }
    message = {"type": "tool", "data": {**told, "status": "error"}}
    plain = {"request_id": request.id, "status": "unknown", "agent": request.agent}
    return codec.from_fields(Outcome, {**plain, "message": message})


def _advance(state: SessionState, record: Record) -> SessionState:
    match record.body:
        case SessionOpened() as body:
            return _open_session(state, body)
        case InputReceived() as body:
            return replace(
                state,
                turn=body.turn,
                open_input=body.input,
                plan_only=body.plan_only,
                limit=None,
                host_states={},
                refused=(),
                unasked=(),
                plan_before=state.plan,
                title=state.title or title_of(body.input.typed),
                messages=state.messages.extend_by((body.message,)),
            )
        case NodeRan(update=update):
            others = state.others_usage
            if update.model:
                before = others.get(update.model, NOTHING_USED)
                others = {**others, update.model: before + update.usage}
            given = (update.messages, update.usage, update.failure, update.own_plan)
            return replace(
                _told(state, update.agent, *given),
                plan=update.plan if update.plan is not None else state.plan,
                pending=state.pending + update.pending,
                usage=state.usage + update.usage,
                others_usage=others,
            )
        case Requested() as body:
            return replace(state, requested={**state.requested, body.request.id: body})
        case Judged() as body:
            return replace(state, verdicts={**state.verdicts, body.request_id: body.verdict})
        case Decided() as body:
            return replace(state, decisions={**state.decisions, body.request_id: body.decision})
        case Intent() as body:
            return replace(state, unknown=(*state.unknown, body))
        case HostIntent() | HostOutcome() as body:
            return _on_host(state, body)
        case Outcome() as body:
            return _outcome(state, body)
        case Compacted() as body:
            return replace(
                state,
                messages=Transcript(body.messages),
                plan=body.plan,
                pending=body.pending,
                agents=body.agents,
                turn=body.turn or state.turn,
                usage=state.usage + body.usage,
                history_seq=record.seq,
                fixed_instructions=state.instructions,
            )
        case Rewound() as body:
            return _went_back(state, body, record.seq)
        case TurnClosed() as body:
            return replace(
                state,
                turn=body.turn,
                open_input=None,
                plan_only=False,
                limit=None,
                agents={},
                refused=(),
            )
        case Noted() as body:
            return _apply_note(state, body, record.seq)


def _open_session(state: SessionState, body: SessionOpened) -> SessionState:
    """Apply the first record, with the session's folder, or a later one of a resume.

    A resume on another machine may be in another folder.
    """
    if state.folder and body.folder in ("", state.folder):
        return replace(state, model=body.model or state.model)
    if state.folder:
        model = body.model or state.model
        return replace(state, model=model, folder=body.folder, cwd=body.folder)
    return replace(
        state,
        session_id=body.session_id,
        folder=body.folder,
        cwd=body.folder,
        model=body.model,
        parent=body.parent,
    )


def _went_back(state: SessionState, body: Rewound, seq: int) -> SessionState:
    """Return the state with the conversation of an earlier moment.

    What was spent, the folder, and commands whose outcome is unknown are facts that stay.
    """
    return replace(
        state,
        messages=Transcript(body.messages),
        plan=body.plan,
        pending=(),
        agents={},
        open_input=None,
        plan_only=False,
        limit=None,
        refused=(),
        history_seq=seq,
        fixed_instructions=body.instructions,
        rewound=(*state.rewound, (body.to_seq, seq)),
    )


def _told(
    state: SessionState,
    agent: str,
    messages: Sequence[BaseMessage],
    usage: Usage = NOTHING_USED,
    failure: Phrase | None = None,
    own_plan: Plan | None = None,
) -> SessionState:
    """Append `messages` to the history of `agent`, or to the main history.

    There, an answer to a sub-agent's call ends this sub-agent.
    """
    if agent:
        before = state.agents.get(agent, AgentState())
        after = before.grow(messages, usage, failure, own_plan)
        return replace(state, agents={**state.agents, agent: after})
    answered = {getattr(message, "tool_call_id", None) for message in messages}
    agents = {key: one for key, one in state.agents.items() if key not in answered}
    return replace(state, messages=state.messages.extend_by(messages), agents=agents)


def _on_host(state: SessionState, body: HostIntent | HostOutcome) -> SessionState:
    known = dict(state.on_hosts.get(body.request_id, {}))
    if isinstance(body, HostIntent):
        known[body.host] = None
    else:
        answer = known[body.answer.host] = body.answer
        state = replace(state, host_states={**state.host_states, answer.host: answer.state})
    return replace(state, on_hosts={**state.on_hosts, body.request_id: known})


def _outcome(state: SessionState, body: Outcome) -> SessionState:
    ran = body.result is not None and body.result.ended != "not_started"
    # A question whose tool failed, because nobody was there to answer it.
    asked = (one for one in state.pending if one.id == body.request_id and one.effect == "person")
    unasked = (one.command for one in asked if body.status == "failed")
    return replace(
        _told(state, body.agent, body.told, body.usage),
        usage=state.usage + body.usage,
        plan=body.plan if body.plan is not None else state.plan,
        pending=tuple(_pending_after(state, body)),
        unknown=tuple(one for one in state.unknown if one.request_id != body.request_id),
        unsettled=_open_runs(state, body),
        on_hosts=_without(state.on_hosts, body.request_id),
        refused=(*state.refused, *_add_refusal(state, body)),
        unasked=(*state.unasked, *unasked),
        requested=_without(state.requested, body.request_id),
        verdicts=_without(state.verdicts, body.request_id),
        decisions=_without(state.decisions, body.request_id),
        cwd=body.result.cwd if ran and body.result is not None else state.cwd,
    )


def _pending_after(state: SessionState, body: Outcome) -> Iterator[ActionRequest]:
    """Yield what waits after an outcome: another run of the same call in its own place."""
    for request in state.pending:
        if request.id != body.request_id:
            yield request
        elif body.again is not None:
            yield body.again


def _add_refusal(state: SessionState, body: Outcome) -> tuple[Decision, ...]:
    """Return the decision by which a request was refused.

    Of one that was approved and then withheld, this is a rejection that says why.
    """
    decision = state.decisions.get(body.request_id)
    question = any(one.id == body.request_id and one.effect == "person" for one in state.pending)
    if body.status != "refused" or decision is None or (question and decision.by == "person"):
        return ()  # who wants another plan refuses no action
    if decision.kind == "approve":
        return (Decision("reject", decision.command, events.START_CHECK, body.message.text),)
    return (decision,)


def _open_runs(state: SessionState, body: Outcome) -> tuple[UnknownRun, ...]:
    """Return the runs that stay unknown when one has ended."""
    ended = (one for one in state.unknown if one.request_id == body.request_id)
    intent = next(ended, None)
    if intent is None or body.status in ("failed", "refused"):
        return state.unsettled
    if body.status == "unknown":
        answers = state.on_hosts.get(body.request_id, {}).items()
        hosts = (host for host, one in answers if one is None or one.state == "unknown")
        return (*state.unsettled, UnknownRun(intent, state.turn, tuple(hosts)))
    return _without_runs(state, intent.repeats)


def _without_runs(state: SessionState, ids: Sequence[str]) -> tuple[UnknownRun, ...]:
    return tuple(run for run in state.unsettled if run.intent.request_id not in ids)


def unsettled_note(runs: Iterable[UnknownRun]) -> Noted:
    """Return the note that hands the unknown runs of a session on to its fork."""
    told = [
        [run.intent.request_id, run.intent.command, run.intent.cwd, list(run.hosts)] for run in runs
    ]
    return Noted(Note.UNSETTLED, {Note.UNSETTLED: told})


def _apply_note(state: SessionState, body: Noted, seq: int) -> SessionState:
    value = body.data.get(body.kind)
    match body.kind:
        case Note.TITLE:
            return replace(state, title=str(value))
        case Note.MODEL:
            return replace(state, model=str(value))
        case Note.MODE:
            return replace(state, mode=approval_mode(str(value)))
        case Note.PLAN_MODE:
            known = value if value in ("auto", "always", "never") else "auto"
            return replace(state, plan_mode=cast(PlanMode, known))
        case Note.FOLDER:
            return replace(state, folder=str(value), cwd=str(value))
        case Note.INSTRUCTIONS:
            fixed = state.fixed_instructions if state.turn else seq
            return replace(state, instructions=seq, fixed_instructions=fixed)
        case Note.LIMIT:
            return replace(state, limit=_limit_of(body.data))
        case Note.USAGE:
            return replace(state, usage=state.usage + usage_of_note(body))
        case Note.SECRETS:
            number = value if isinstance(value, int) else 0
            return replace(state, secret_numbers=max(state.secret_numbers, number))
        case Note.USER_SECRETS:
            names = (*state.user_secrets, *(value if isinstance(value, list) else ()))
            return replace(state, user_secrets=tuple(dict.fromkeys(map(str, names))))
        case Note.AGAIN:
            return replace(state, unsettled=_without_runs(state, (str(value),)))
        case Note.UNSETTLED:
            rows = value if isinstance(value, list | tuple) else ()
            with suppress(TypeError, ValueError):  # another program may have written it
                runs = [
                    UnknownRun(
                        Intent(str(request_id), str(command), str(cwd), ""),
                        0,
                        tuple(map(str, chain.from_iterable(hosts))),
                    )
                    for request_id, command, cwd, *hosts in rows
                ]
                return replace(state, unsettled=(*state.unsettled, *runs))
            return state
        case _:
            return state


def usage_note(usage: Usage, model: str, turn: int) -> Noted:
    """Return the note of calls of a model, for a turn, that no other record counts."""
    told = {"model": model, "turn": turn}
    return Noted(Note.USAGE, {Note.USAGE: codec.to_plain(usage), **told})


def usage_of_note(body: Noted) -> Usage:
    """Return the usage in a note; nothing for another note, or one that cannot be read."""
    value = body.data.get(Note.USAGE)
    if body.kind != Note.USAGE or not isinstance(value, Mapping):
        return NOTHING_USED
    with suppress(TypeError):
        return codec.from_fields(Usage, value)
    return NOTHING_USED


def limit_note(reached: LimitReached, choice: LimitChoice | None = None) -> Noted:
    """Return the note of a limit that is used up, while the user is asked or with the choice."""
    told = {"of_session": reached.of_session, "most": reached.limit, "choice": choice}
    return Noted(Note.LIMIT, {Note.LIMIT: reached.name, **told})


def _limit_of(data: Mapping[str, Any]) -> LimitReached | None:
    """Return the limit of a note that has no choice yet."""
    name, most = data.get(Note.LIMIT), data.get("most")
    if data.get("choice") or not isinstance(name, str) or not isinstance(most, int | float):
        return None
    return LimitReached(name, most, bool(data.get("of_session")))


def _without(mapping: Mapping[str, _Value], key: str) -> Mapping[str, _Value]:
    return {name: value for name, value in mapping.items() if name != key}


def title_of(task: str) -> str:
    """Return a title for the first task: its first line with words, cut at a word's end."""
    line = next((line.strip() for line in task.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[: TITLE_LENGTH - 1]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > TITLE_LENGTH // 2 else cut).rstrip(" ,.;:") + "…"
