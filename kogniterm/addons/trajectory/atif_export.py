"""A session as a trajectory in ATIF, the Agent Trajectory Interchange Format of Harbor.

The document is made from the journal alone, in version 1.8 of the format (RFC 0001 of
github.com/harbor-framework/harbor). Every model call that the journal counts is in one step, so
the sums of the steps are what the session used. What KogniTerm adds to the format is in `extra`:
the verdict, the decision and the outcome of each action, plans, and what a step back took away.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kogniterm.errors import UsageError
from kogniterm.models.catalog import cost_of
from kogniterm.sessions.history import (
    Moment,
    PastAction,
    PastCompaction,
    PastDamage,
    PastEnd,
    PastNote,
    PastOutcome,
    PastRewind,
    PastTurn,
    SessionHistory,
)
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.codec import stored_records
from kogniterm.sessions.recording import THINKING
from kogniterm.sessions.session_search import content_of, is_image
from kogniterm.sessions.session_transfer import redact_in
from kogniterm.sessions.store import SessionStore
from kogniterm.text.redact import redact
from kogniterm.types import UNUSABLE, NodeUpdate, Plan, Usage
from kogniterm.types.turn_values import NOTE, RECIPE_NODE

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

VERSION = "ATIF-v1.8"
AGENT = "kogniterm"
Json = dict[str, Any]

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


def trajectory(store: SessionStore, reference: str) -> Iterator[str]:
    """Yield the text of the document. Raises `UsageError` for a session without a step."""
    info = store.find(reference)
    history = SessionHistory()
    history.read_stored(stored_records(store.database, info.id))
    export = _Export(info.id, history)
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
    """Goes through a history and grows the trajectories of the agent and its sub-agents."""

    def __init__(self, session_id: str, history: SessionHistory) -> None:
        self.root = _Trajectory(session_id)
        self._agents: dict[str, _Trajectory] = {}
        self._ended: list[_Trajectory] = []
        self._turns: list[Json] = []
        self._plan: Plan | None = None
        self._first: dict[int, int] = {}
        self._history = history
        versions = [one.version for one in history.opened if one.version]
        self._version = versions[-1] if versions else "unknown"
        fork = next((one for one in reversed(history.opened) if one.parent is not None), None)
        self._parent: Json = {}
        copied_to = 0
        if fork is not None:
            self._parent = {"parent_session": fork.parent, "parent_record": fork.parent_seq}
            copied_to = fork.parent_seq or 0
        for turn in history.all_turns:
            if turn.message is not None:
                self._input(turn, turn.message)
                self._mark_copied(self._first[turn.seq], turn.seq <= copied_to)
            for moment in turn.moments:
                before = len(self.root.steps)
                self._model_changed(moment.model)
                self._take(turn, moment)
                self._mark_copied(before, moment.seq <= copied_to)
        self._model_changed(history.model)

    def _mark_copied(self, first: int, copied: bool) -> None:
        for step in self.root.steps[first:] if copied else ():
            step["is_copied_context"] = True

    def _take(self, turn: PastTurn, moment: Moment) -> None:
        time = moment.time
        match moment.part:
            case NodeUpdate() as update:
                self._node(update, time)
            case PastAction() as action:
                self._action(action)
            case PastOutcome(action=action):
                self._outcome(action, time)
            case PastCompaction() as done:
                extra = {"kind": "compaction", "messages_kept": done.kept}
                if done.usage.calls or done.usage.reused:
                    step = self.root.add("agent", done.summary, time, extra=extra)
                    self.root.charge(step, done.usage, cost_of(self.root.model, done.usage))
                else:
                    said = "Earlier messages were shortened to fit the model's context window."
                    self.root.add("system", said, time, extra=extra)
            case PastRewind() as rewind:
                self._rewound(rewind, time)
            case PastDamage(seq=seq):
                said = f"Record {seq} of the journal is damaged and was left out."
                self.root.add("system", said, time, extra={"kind": "damaged_record"})
            case PastEnd() as end:
                self._turn_ended(turn.number, end)
            case PastNote() as note if note.usage != Usage():
                model = str(note.data.get("model") or self.root.model)
                step = self.root.add(
                    "agent", "", time,
                    model_name=model if model != self.root.model else None,
                    extra={"kind": "calls_outside_the_conversation", "turn": note.data.get("turn")},
                )  # fmt: skip
                self.root.charge(step, note.usage, cost_of(model, note.usage))

    def _input(self, turn: PastTurn, message: BaseMessage) -> None:
        extra: Json = {"turn": turn.number, "from": turn.input.source}
        said = _text(message)
        if turn.input.typed != said:
            extra["typed"] = turn.input.typed
        self._turns.append({"turn": turn.number})
        self._first[turn.seq] = len(self.root.steps)
        self.root.add("user", said, turn.time, extra=extra)

    def _node(self, update: NodeUpdate, time: float) -> None:
        ours = self._of(update.agent)
        ours.name = ours.name or update.agent_name
        step: Json | None = None
        for message in update.messages:
            if message.type == "ai":
                step = self._said(ours, update, message, time)
            elif message.type == "tool":
                self._add_result(ours, message)
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
        calls = list(_calls(message))
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

    def _add_result(self, ours: _Trajectory, message: BaseMessage) -> None:
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
        ours.charge(target, usage, cost_of(model or self.root.model, usage))

    def _with_plan(self, plan: Plan, time: float) -> None:
        step = self.root.last_agent_step
        if step is None:
            step = self.root.add("agent", "", time, llm_call_count=0)
        step.setdefault("extra", {})["plan"] = codec.to_plain(plan)

    def _action(self, action: PastAction) -> None:
        """Add a request, and what became of it, to the call that made it."""
        request, intent, judged = action.request, action.intent, action.judgements
        if request is None or not action.env_hash:  # the user's own command, or only proposed
            return
        # The command may run in another folder than the one in which it was requested.
        cwd = judged[-1].cwd if judged and intent is not None else action.cwd
        known: Json = {"request_id": request.id, "command": request.command, "cwd": cwd}
        if judged:
            verdict = judged[-1].verdict
            known["label"] = judged[-1].report.label
            known["verdict"] = {
                "kind": verdict.kind, "reasons": [str(reason) for reason in verdict.reasons],
            }  # fmt: skip
        if (decision := action.decision) is not None:
            told = {"kind": decision.kind, "by": decision.by, "reason": decision.reason}
            if decision.kind == "edit":
                told["command"] = decision.command
            known["decision"] = {name: value for name, value in told.items() if value}
        if action.outcome is not None:
            known["status"] = action.outcome.status
        elif intent is not None:
            known["status"] = "unknown"
        if (result := action.result) is not None:
            known |= {
                "ended": result.ended,
                "exit_code": result.exit_code,
                "seconds": round(result.duration, 3),
                "output_bytes": result.output_bytes,
                "omitted_bytes": result.omitted_bytes,
            }
        call = self._of(request.agent).call(request.call_id)
        call.setdefault("extra", {}).setdefault("requests", []).append(known)

    def _outcome(self, action: PastAction, time: float) -> None:
        outcome = action.outcome
        assert outcome is not None
        ours = self._of(outcome.agent)
        for message in outcome.told:
            self._add_result(ours, message)
        if outcome.usage != Usage():
            self._charge(ours, outcome.usage, time, None)
        if outcome.plan is not None and outcome.plan != self._plan:
            self._plan = outcome.plan
            self._with_plan(outcome.plan, time)

    def _rewound(self, rewind: PastRewind, time: float) -> None:
        for step in self.root.steps[self._first.get(rewind.to_seq, len(self.root.steps)) :]:
            step.setdefault("extra", {})["rewound"] = True
        self._close(self.root)
        self._ended += self._agents.values()
        self._agents.clear()
        said = f"The conversation went back to before turn {rewind.turn}."
        self.root.add("system", said, time, extra={"kind": "rewind", "turn": rewind.turn})

    def _turn_ended(self, turn: int, end: PastEnd) -> None:
        ended = {"turn": turn, "stop": end.stop, "exit_code": end.exit_code}
        self._turns = [one for one in self._turns if one["turn"] != turn] + [ended]
        # A sub-agent that the user called has no call that its answer could refer to.
        for key in [key for key in self._agents if key not in self.root.open]:
            reference = self._ended_agent(key)
            step = self.root.last_agent_step
            if step is None or step.get("llm_call_count") != 0:
                step = self.root.add("agent", "", end.time, llm_call_count=0)
            results = step.setdefault("observation", {"results": []})["results"]
            results.append({"subagent_trajectory_ref": reference})
        if end.stop != "done":
            said = end.answer or f"The turn ended: {end.stop}."
            self.root.add("system", said, end.time, extra={"kind": "turn_ended", **ended})

    def _model_changed(self, model: str) -> None:
        """Keep the model of the steps so far on them: the document names the last one."""
        if model and model != self.root.model:
            for step in self.root.steps:
                if step["source"] == "agent":
                    step.setdefault("model_name", self.root.model)
            self.root.model = model

    # --- the document ------------------------------------------------------------------------

    def document(self, title: str, folder: str) -> Json:
        self._close(self.root)
        embedded = [
            self._embed_trajectory(agent) for agent in [*self._ended, *self._agents.values()]
        ]
        actions = [one for turn in self._history.all_turns for one in turn.actions.values()]
        decisions = sorted((pair for one in actions for pair in one.decisions), key=itemgetter(0))
        counted = Counter(f"{decision.kind} by {decision.by}" for _seq, decision in decisions)
        extra: Json = {
            "title": title, "folder": folder, "turns": self._turns,
            "decisions": dict(counted), **self._parent,
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
        agent: Json = {"name": AGENT, "version": self._version}
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

    def _embed_trajectory(self, agent: _Trajectory) -> Json:
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


def _calls(message: BaseMessage) -> Iterator[Json]:
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
    images = [_block_name(block) for block in blocks if is_image(block)]
    return "\n".join(filter(None, (content_of(message), *images)))


def _block_name(block: Any) -> str:
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
