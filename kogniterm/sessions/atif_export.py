"""A session as a trajectory in ATIF, the Agent Trajectory Interchange Format of Harbor.

The document is made from the journal alone, in version 1.8 of the format (RFC 0001 of
github.com/harbor-framework/harbor). Every model call that the journal counts is in one step, so
the sums of the steps are what the session used. What KogniTerm adds to the format is in `extra`:
the verdict, the decision and the outcome of each action, plans, and what a step back took away.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kogniterm.errors import StorageCorruptError, UsageError
from kogniterm.sessions.fold import Note, usage_of_note
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.codec import StoredRecord, stored_records
from kogniterm.sessions.recording import THINKING
from kogniterm.sessions.records import (
    Compacted,
    Decided,
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
from kogniterm.sessions.session_search import content_of, is_image
from kogniterm.sessions.session_transfer import redact_in
from kogniterm.sessions.store import SessionStore
from kogniterm.types import UNUSABLE, NodeUpdate, Plan, Usage
from kogniterm.types.turn_values import NOTE, RECIPE_NODE

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

VERSION = "ATIF-v1.8"
AGENT = "kogniterm"
Json = dict[str, Any]
Redact = Callable[[str], str]
PriceOf = Callable[[str, Usage], float | None]
"""Returns what calls of a model cost in US dollars; None where the price is not known."""

_KEPT = frozenset({
    "schema_version", "session_id", "trajectory_id", "tool_call_id", "source_call_id", "timestamp",
    "source", "function_name", "kind", "status", "stop", "by", "label", "ended", "request_id",
})  # fmt: skip
"""Fields of the format whose values are no text of a user, model or program."""
_SUMMED = ("prompt_tokens", "completion_tokens", "cached_tokens")
_NOTES = (
    "Written by `kogniterm sessions export --format atif`. Steps with extra.rewound are no longer "
    "part of the conversation. The extra of a tool call lists the requests that it made, with the "
    "verdict of the rules, the decision and the outcome."
)


def trajectory(
    store: SessionStore, reference: str, *, redact: Redact, price: PriceOf
) -> Iterator[str]:
    """Yield the text of the document. Raises `UsageError` for a session without a step."""
    info = store.find(reference)
    export = _Export(info.id, redact, price)
    for stored in stored_records(store.database, info.id):
        export.take(stored)
    if not export.root.steps:
        raise UsageError(
            "Session {session} has no turn yet, so there is nothing to export as ATIF.",
            session=info.id,
        )
    document = redact_in(export.document(info.title, info.folder), redact, _KEPT)
    encoder = json.JSONEncoder(indent=2, ensure_ascii=True)
    yield from encoder.iterencode(document)
    yield "\n"


class _Trajectory:
    """The steps of one agent; `open` are the steps whose calls wait for a result, by the call."""

    def __init__(self, id: str, model: str = "", name: str = "") -> None:
        self.id = id
        self.model = model
        self.name = name
        self.steps: list[Json] = []
        self.open: dict[str, Json] = {}
        self.costs: list[float | None] = []

    def add(self, source: str, message: str, time: float, **fields: Any) -> Json:
        """Add a step; fields without a value are left out."""
        step: Json = {
            "step_id": len(self.steps) + 1,
            "timestamp": datetime.fromtimestamp(time, UTC).isoformat(),
            "source": source,
            "message": message,
            **{name: value for name, value in fields.items() if value not in (None, [], {})},
        }
        self.steps.append(step)
        return step

    def charge(self, step: Json, usage: Usage, cost: float | None) -> None:
        """Add model calls to a step of the agent."""
        metrics = step.setdefault("metrics", dict.fromkeys(_SUMMED, 0))
        for name, used in zip(_SUMMED, (usage.input, usage.output, usage.cached), strict=True):
            metrics[name] += used
        more = {"cache_write_tokens": usage.written, "reused_calls": usage.reused}
        extra = metrics.get("extra", {})
        extra = {name: extra.get(name, 0) + value for name, value in more.items()}
        if any(extra.values()):
            metrics["extra"] = {name: value for name, value in extra.items() if value}
        known = metrics.get("cost_usd", 0.0) if step.get("llm_call_count") else 0.0
        step["llm_call_count"] = step.get("llm_call_count", 0) + usage.calls + usage.reused
        metrics.pop("cost_usd", None)
        if cost is not None and known is not None:
            metrics["cost_usd"] = round(known + cost, 10)
        self.costs.append(cost)

    def result(self, call_id: str, **fields: Any) -> Json | None:
        """Add the result of a call to the step that made it; None when there is no such step."""
        step = self.open.get(call_id)
        if step is None:
            return None
        found: Json = {"source_call_id": call_id}
        found |= {name: value for name, value in fields.items() if value not in (None, [], {})}
        step.setdefault("observation", {"results": []})["results"].append(found)
        return found

    def call(self, call_id: str) -> Json:
        """Return the open call with this ID; an empty one when there is none."""
        calls: list[Json] = self.open.get(call_id, {}).get("tool_calls", [])
        return next((call for call in calls if call["tool_call_id"] == call_id), {})

    @property
    def last_agent_step(self) -> Json | None:
        """The newest step of the agent itself, to which later costs belong."""
        return next((step for step in reversed(self.steps) if step["source"] == "agent"), None)


class _Export:
    """Reads records in order and grows the trajectories of the agent and its sub-agents."""

    def __init__(self, session_id: str, redact: Redact, price: PriceOf) -> None:
        self.root = _Trajectory(session_id)
        self._redact = redact
        self._price = price
        self._version = ""
        self._agents: dict[str, _Trajectory] = {}
        self._ended: list[_Trajectory] = []
        self._requests: dict[str, Json] = {}
        self._decisions: Counter[str] = Counter()
        self._turns: list[Json] = []
        self._plan: Plan | None = None
        self._parent: Json = {}
        self._first: dict[int, int] = {}
        self._copied_to = 0

    def take(self, stored: StoredRecord) -> None:
        """Read one record; a damaged one is named in a step."""
        before = len(self.root.steps)
        try:
            self._take(stored.record())
        except StorageCorruptError:
            said = f"Record {stored.seq} of the journal is damaged and was left out."
            self.root.add("system", said, stored.time, extra={"kind": "damaged_record"})
        self._first[stored.seq] = before
        if stored.seq <= self._copied_to:
            for step in self.root.steps[before:]:
                step["is_copied_context"] = True

    def _take(self, record: Record) -> None:
        time = record.time
        match record.body:
            case SessionOpened() as body:
                self._version = body.version or self._version
                self._model_changed(body.model)
                if body.parent is not None:
                    self._parent = {"parent_session": body.parent, "parent_record": body.parent_seq}
                    self._copied_to = body.parent_seq or 0
            case InputReceived() as body:
                self._input(body, time)
            case NodeRan(update=update):
                self._node(update, time)
            case Requested() | Judged() | Decided() | Intent() as body:
                self._request(body)
            case Outcome() as body:
                self._outcome(body, time)
            case Compacted() as body:
                extra = {"kind": "compaction", "messages_kept": len(body.messages)}
                if body.usage.calls or body.usage.reused:
                    step = self.root.add("agent", body.summary or "", time, extra=extra)
                    self.root.charge(step, body.usage, self._price(self.root.model, body.usage))
                else:
                    said = "Earlier messages were shortened to fit the model's context window."
                    self.root.add("system", said, time, extra=extra)
            case Rewound() as body:
                self._rewound(body, time)
            case TurnClosed() as body:
                self._turn_ended(body, time)
            case Noted() as body:
                self._noted(body, time)

    def _input(self, body: InputReceived, time: float) -> None:
        extra: Json = {"turn": body.turn, "from": body.input.source}
        said = _text(body.message)
        if body.input.typed != said:
            extra["typed"] = body.input.typed
        self._turns.append({"turn": body.turn})
        self.root.add("user", said, time, extra=extra)

    def _node(self, update: NodeUpdate, time: float) -> None:
        ours = self._of(update.agent)
        ours.name = ours.name or update.agent_name
        step: Json | None = None
        for message in update.messages:
            if message.type == "ai":
                step = self._said(ours, update, message, time)
            elif message.type == "tool":
                self._observed(ours, message)
            else:
                source = "system" if NOTE in message.additional_kwargs else "user"
                ours.add(source, _text(message), time, extra={"node": update.node})
        if update.usage != Usage():
            self._charge(ours, update.usage, time, step, update.model)
        if update.failure is not None:
            extra = {"kind": "agent_stopped"}
            ours.add("system", str(update.failure), time, extra=extra)
        if update.plan is not None and update.plan != self._plan:
            self._plan = update.plan
            self._with_plan(update.plan, time)

    def _of(self, agent: str) -> _Trajectory:
        """Return the trajectory of a sub-agent, a new one where it begins; without one, ours."""
        if not agent:
            return self.root
        if agent not in self._agents:
            number = len(self._ended) + len(self._agents) + 1
            name = f"{self.root.id}.{number}"
            self._agents[agent] = _Trajectory(name, model=self.root.model)
        return self._agents[agent]

    def _said(
        self, ours: _Trajectory, update: NodeUpdate, message: BaseMessage, time: float
    ) -> Json:
        """Add a step for what a model answered, or KogniTerm in its place."""
        calls = list(_calls(message, self._redact))
        extra: Json = {"node": update.node}
        if problem := message.response_metadata.get(UNUSABLE):
            extra["unusable"] = problem
        # KogniTerm writes replies too.
        exchange = update.node == RECIPE_NODE and bool(update.agent)
        used = update.usage.calls + update.usage.reused
        by_model = update.node in THINKING or exchange or used > 0
        answered = update.model or self.root.model
        step = ours.add(
            "agent",
            _text(message),
            time,
            model_name=answered if answered != ours.model else None,
            reasoning_content=_thoughts(message) if by_model else None,
            tool_calls=calls,
            extra=extra,
        )
        if not by_model:
            step["llm_call_count"] = 0
        ours.open |= {call["tool_call_id"]: step for call in calls}
        return step

    def _observed(self, ours: _Trajectory, message: BaseMessage) -> None:
        """Add the result of a call; that of a delegation refers to the sub-agent's trajectory."""
        call_id = str(getattr(message, "tool_call_id", ""))
        artifact = getattr(message, "artifact", None)
        extra: Json = {}
        if getattr(message, "status", "success") == "error":
            extra["error"] = True
        if isinstance(artifact, Mapping) and artifact.get("malformed"):
            extra["malformed"] = True
        reference = self._ended_agent(call_id) if ours is self.root else None
        ours.result(call_id, content=_text(message), subagent_trajectory_ref=reference, extra=extra)
        ours.open.pop(call_id, None)

    def _ended_agent(self, call_id: str) -> list[Json] | None:
        agent = self._agents.pop(call_id, None)
        if agent is None:
            return None
        self._ended.append(agent)
        return [{"trajectory_id": agent.id, "session_id": self.root.id}]

    def _charge(
        self, ours: _Trajectory, usage: Usage, time: float, step: Json | None, model: str = ""
    ) -> None:
        """Count calls of a model where they belong; without any step of the agent, in a new one."""
        target = step or ours.last_agent_step
        if target is None or target.get("llm_call_count") == 0:
            extra = {"kind": "model_call_without_reply"}
            target = ours.add("agent", "", time, extra=extra)
        ours.charge(target, usage, self._price(model or self.root.model, usage))

    def _with_plan(self, plan: Plan, time: float) -> None:
        step = self.root.last_agent_step
        if step is None:
            step = self.root.add("agent", "", time, llm_call_count=0)
        step.setdefault("extra", {})["plan"] = codec.to_plain(plan)

    def _request(self, body: Requested | Judged | Decided | Intent) -> None:
        """Add what became of a request to the call that made it."""
        if isinstance(body, Requested):
            request = body.request
            known = self._requests.setdefault(request.id, {})
            known |= {"request_id": request.id, "command": request.command, "cwd": body.cwd}
            call = self._of(request.agent).call(request.call_id)
            requests = call.setdefault("extra", {}).setdefault("requests", [])
            if known not in requests:
                requests.append(known)
            return
        known = self._requests.setdefault(body.request_id, {})
        match body:
            case Judged(report=report, verdict=verdict):
                known["label"] = report.label
                known["verdict"] = {
                    "kind": verdict.kind, "reasons": [str(reason) for reason in verdict.reasons],
                }  # fmt: skip
            case Decided(decision=decision):
                self._decisions[f"{decision.kind} by {decision.by}"] += 1
                told = {"kind": decision.kind, "by": decision.by, "reason": decision.reason}
                if decision.kind == "edit":
                    told["command"] = decision.command
                known["decision"] = {name: value for name, value in told.items() if value}
            case Intent():
                # Replaced by the outcome; without one it is not known how the run ended.
                known["status"] = "unknown"

    def _outcome(self, body: Outcome, time: float) -> None:
        ours = self._of(body.agent)
        known = self._requests.setdefault(body.request_id, {})
        known["status"] = body.status
        if body.result is not None:
            result = body.result
            known |= {
                "ended": result.ended,
                "exit_code": result.exit_code,
                "seconds": round(result.duration, 3),
                "output_bytes": result.output_bytes,
                "omitted_bytes": result.omitted_bytes,
            }
        for message in body.told:
            self._observed(ours, message)
        if body.usage != Usage():
            self._charge(ours, body.usage, time, None)
        if body.plan is not None and body.plan != self._plan:
            self._plan = body.plan
            self._with_plan(body.plan, time)

    def _rewound(self, body: Rewound, time: float) -> None:
        for step in self.root.steps[self._first.get(body.to_seq, len(self.root.steps)) :]:
            step.setdefault("extra", {})["rewound"] = True
        self._close(self.root)
        self._ended += self._agents.values()
        self._agents.clear()
        said = f"The conversation went back to before turn {body.turn}."
        self.root.add("system", said, time, extra={"kind": "rewind", "turn": body.turn})

    def _turn_ended(self, body: TurnClosed, time: float) -> None:
        ended = {"turn": body.turn, "stop": body.stop, "exit_code": body.exit_code}
        self._turns = [one for one in self._turns if one["turn"] != body.turn] + [ended]
        # A sub-agent that the user called has no call that its answer could refer to.
        for key in [key for key in self._agents if key not in self.root.open]:
            reference = self._ended_agent(key)
            step = self.root.last_agent_step
            if step is None or step.get("llm_call_count") != 0:
                step = self.root.add("agent", "", time, llm_call_count=0)
            results = step.setdefault("observation", {"results": []})["results"]
            results.append({"subagent_trajectory_ref": reference})
        if body.stop != "done":
            said = body.answer or f"The turn ended: {body.stop}."
            self.root.add("system", said, time, extra={"kind": "turn_ended", **ended})

    def _noted(self, body: Noted, time: float) -> None:
        if body.kind == Note.MODEL:
            self._model_changed(str(body.data.get(Note.MODEL, "")))
        usage = usage_of_note(body)
        if usage != Usage():
            model = str(body.data.get("model") or self.root.model)
            step = self.root.add(
                "agent", "", time,
                model_name=model if model != self.root.model else None,
                extra={"kind": "calls_outside_the_conversation", "turn": body.data.get("turn")},
            )  # fmt: skip
            self.root.charge(step, usage, self._price(model, usage))

    def _model_changed(self, model: str) -> None:
        """Keep the model of the steps so far on them: the document names the last one."""
        if model and model != self.root.model:
            for step in self.root.steps:
                if step["source"] == "agent":
                    step.setdefault("model_name", self.root.model)
            self.root.model = model

    # --- the document ------------------------------------------------------------------------

    def document(self, title: str, folder: str) -> Json:
        """Return the whole document."""
        self._close(self.root)
        embedded = [self._embedded(agent) for agent in [*self._ended, *self._agents.values()]]
        extra: Json = {
            "title": title, "folder": folder, "turns": self._turns,
            "decisions": dict(self._decisions), **self._parent,
        }  # fmt: skip
        agents = (*self._ended, *self._agents.values())
        costs = [*self.root.costs, *(cost for one in agents for cost in one.costs)]
        document: Json = {
            "schema_version": VERSION,
            "session_id": self.root.id,
            "trajectory_id": self.root.id,
            "agent": self._agent(self.root),
            "steps": self.root.steps,
            "notes": _NOTES,
            "final_metrics": _totals(self.root.steps, costs),
            "extra": extra,
        }
        if embedded:
            document["subagent_trajectories"] = embedded
            # The format's own sums are of its steps; these are with the sub-agents.
            totals = document["final_metrics"]
            parts = [totals, *(one["final_metrics"] for one in embedded)]
            totals["extra"] = {
                f"{name}_with_subagents": sum(part[name] for part in parts)
                for name in (f"total_{one}" for one in _SUMMED)
            }
        return document

    def _agent(self, ours: _Trajectory) -> Json:
        agent: Json = {"name": AGENT, "version": self._version or "unknown"}
        if ours.model:
            agent["model_name"] = ours.model
        if ours.name:
            agent["extra"] = {"sub_agent": ours.name}
        return agent

    def _close(self, ours: _Trajectory) -> None:
        """Give the calls without a result one that says so: the session ended in the middle."""
        for call_id in list(ours.open):
            agent = self._agents.get(call_id) if ours is self.root else None
            reference = [{"trajectory_id": agent.id, "session_id": self.root.id}] if agent else None
            ours.result(
                call_id, subagent_trajectory_ref=reference, extra={"status": "no result recorded"}
            )
        ours.open.clear()

    def _embedded(self, agent: _Trajectory) -> Json:
        self._close(agent)
        return {
            "schema_version": VERSION,
            "session_id": self.root.id,
            "trajectory_id": agent.id,
            "agent": self._agent(agent),
            "steps": agent.steps,
            "final_metrics": _totals(agent.steps, agent.costs),
        }


def _totals(steps: list[Json], costs: Iterable[float | None]) -> Json:
    """Return the sums; the cost is left out unless the price of every call is known."""
    metrics = [step["metrics"] for step in steps if "metrics" in step]
    totals: Json = {f"total_{name}": sum(one[name] for one in metrics) for name in _SUMMED}
    known = list(costs)
    dollars = [cost for cost in known if cost is not None]
    if len(dollars) == len(known):
        totals["total_cost_usd"] = round(sum(dollars), 10)
    return {**totals, "total_steps": len(steps)}


def _calls(message: BaseMessage, redact: Redact) -> Iterator[Json]:
    """Yield the tool calls of a reply, those with unusable arguments too."""
    for call in getattr(message, "tool_calls", ()):
        yield {
            "tool_call_id": str(call["id"]),
            "function_name": call["name"],
            # A model chose these keys: none of them says what its value is.
            "arguments": redact_in(call["args"], redact, frozenset()),
        }
    for call in getattr(message, "invalid_tool_calls", ()):
        yield {
            "tool_call_id": str(call["id"]),
            "function_name": call["name"] or "",
            "arguments": {},
            "extra": {"raw_arguments": call["args"], "problem": call["error"]},
        }


def _text(message: BaseMessage) -> str:
    """Return the words of a message; an image is named, because the format wants it as a file."""
    blocks = message.content if isinstance(message.content, list) else ()
    images = [_named(block) for block in blocks if is_image(block)]
    return "\n".join(filter(None, (content_of(message), *images)))


def _named(block: Any) -> str:
    known = block.get("extras", {})
    size = f"{known.get('width')}x{known.get('height')}"
    return f"[image {known.get('name')}, {size} pixels]"


def _thoughts(message: BaseMessage) -> str | None:
    """Return the thinking that a provider showed."""
    said = [str(message.additional_kwargs.get("reasoning_content") or "")]
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("thinking", "reasoning"):
            parts = block.get("summary") or ()
            own = str(block.get(block["type"]) or "")
            said.append(own or "".join(str(part.get("text") or "") for part in parts))
    return "\n".join(filter(None, said)) or None
