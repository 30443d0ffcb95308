"""The JSON sinks of a task: one final object, or one event a line (docs/json-output.md).

Standard output carries JSON and nothing else. Command output is decoded incrementally, so an
event never splits a character.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from kogniterm.errors import (
    EXIT_BUDGET,
    EXIT_INTERRUPTED,
    EXIT_MODEL,
    EXIT_NOT_DONE,
    EXIT_REFUSED,
    KognitermError,
    OutcomeNotWrittenError,
    StorageLockedError,
    StorageLostError,
    TurnInterruptedError,
)
from kogniterm.models.catalog import cost_of
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    Answer,
    CommandResult,
    LeftRunning,
    Phrase,
    Plan,
    StopReason,
    Usage,
    events,
)

Redact = Callable[[str], str]
_REDACTED = (
    "action_proposed", "action_decided", "command_started", "command_ended", "hosts_started",
    "hosts_ended",
)  # fmt: skip
"""Events that were redacted where they were made, so that nothing of what runs is hidden."""


def plain(value: object, redact: Redact = str) -> Any:
    """Return `value` as JSON types: one with fields by their names, else as redacted text."""
    if isinstance(value, str):
        return redact(str(value))
    if value is None or isinstance(value, (int, float, bool)):
        return value
    names: tuple[str, ...] = getattr(value, "__match_args__", ())
    if names and not isinstance(value, Phrase):
        names += ("stays", "end_with") if isinstance(value, LeftRunning) else ()
        return {name: plain(getattr(value, name), redact) for name in names}
    if isinstance(value, (list, tuple)):
        return [plain(item, redact) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item, redact) for key, item in value.items()}
    return redact(str(value))


class Summary(events.EventVisitor):
    """Collects the final object of a task from its events."""

    def __init__(self, redact: Redact = str) -> None:
        self._redact = redact
        self._session_id: str | None = None
        self._model: str | None = None
        self._folder: str | None = None
        self._usage = Usage()
        self._plan: Plan | None = None
        self._actions: dict[str, dict[str, Any]] = {}
        self._notices: list[str] = []
        self._left: list[dict[str, Any]] = []

    def begin(self, session_id: str, model: str, folder: str) -> None:
        """Take note of the session, which a turn that goes on does not report."""
        self._session_id, self._model, self._folder = session_id, model, folder

    def on_turn_started(self, event: events.TurnStarted) -> None:
        self.begin(event.session_id, event.model, event.folder)

    def on_turn_resumed(self, event: events.TurnResumed) -> None:
        self.begin(event.session_id, event.model, event.folder)

    def on_model_answered(self, event: events.ModelAnswered) -> None:
        self._usage = event.total

    def on_plan_changed(self, event: events.PlanChanged) -> None:
        self._plan = event.plan

    def on_action_proposed(self, event: events.ActionProposed) -> None:
        self._question_fields(event.request)["risk"] = event.report.label

    def on_action_decided(self, event: events.ActionDecided) -> None:
        entry = self._question_fields(event.request)
        entry["decided_by"] = event.decision.by
        if event.decision.kind == "reject":
            entry |= {"status": "refused", "reason": self._redact(event.decision.reason)}
        elif event.decision.kind == "edit":
            entry |= {"proposed": entry["command"], "command": event.decision.command}

    def on_command_started(self, event: events.CommandStarted) -> None:
        # Nobody may take for not started what ends without a word.
        self._action(event.request_id)["status"] = "unknown"

    def on_command_ended(self, event: events.CommandEnded) -> None:
        self._action(event.request_id).update(self._result(event.result))

    def on_hosts_started(self, event: events.HostsStarted) -> None:
        self._action(event.request_id)["status"] = "unknown"

    def on_hosts_ended(self, event: events.HostsEnded) -> None:
        self._action(event.request_id)["hosts"] = plain(event.groups, self._redact)

    def on_action_ended(self, event: events.ActionEnded) -> None:
        self._action(event.request_id)["status"] = "failed" if event.failed else "finished"

    def on_notice(self, event: events.Notice) -> None:
        self._notices.append(self._redact(str(event.text)))

    def on_jobs_left(self, event: events.JobsLeft) -> None:
        self._left = plain(event.programs, self._redact)

    def final(self, answer: Answer) -> dict[str, Any]:
        """Return the final object of a task that ended with `answer`."""
        commands = [a for a in self._actions.values() if a.get("tool") == EXECUTE_COMMAND]
        others = [a for a in self._actions.values() if a.get("tool") != EXECUTE_COMMAND]
        usage = answer.usage if answer.usage.calls else self._usage
        return {
            "version": events.VERSION,
            "type": "result",
            "answer": self._redact(answer.text),
            "stop": answer.stop,
            "exit_code": answer.exit_code,
            "reason": None if answer.reason is None else self._redact(str(answer.reason)),
            "retry_after": answer.retry_after,
            "passes": answer.passes,
            "session_id": self._session_id,
            "model": self._model,
            "folder": self._folder,
            "seconds": round(answer.seconds, 3),
            "waited_seconds": round(answer.waited, 3),
            "usage": plain(usage),
            "cost": cost_of(self._model or "", usage),
            "plan": plain(self._plan),
            "verified": [self._redact(line) for line in answer.verified],
            "not_verified": [self._redact(line) for line in answer.not_verified],
            "commands": commands,
            "actions": others,
            "notices": self._notices,
            "left_running": self._left,
        }

    def _action(self, request_id: str) -> dict[str, Any]:
        return self._actions.setdefault(request_id, {})

    def _question_fields(self, request: ActionRequest) -> dict[str, Any]:
        begun = {
            "id": request.id,
            "tool": request.tool,
            "command": request.command,
            "purpose": self._redact(request.purpose),
            "agent": self._redact(request.agent_task) or None,
            "agent_name": self._redact(request.agent_name) or None,
            "status": "proposed",
        }
        return self._actions.setdefault(request.id, begun)

    def _result(self, result: CommandResult) -> dict[str, Any]:
        return {
            "status": result.ended,
            "exit_code": result.exit_code,
            "signal": result.signal,
            "output": self._redact(result.text),
            "output_bytes": result.output_bytes,
            "omitted_bytes": result.omitted_bytes,
            "output_path": result.output_path,
            "duration": round(result.duration, 3),
            "cwd": result.cwd,
            "pipe": [
                {"program": self._redact(one.program), "exit_code": one.code} for one in result.pipe
            ],
            "no_evidence": self._redact(result.masked) or None,
        }


class JsonSink(Summary):
    """`--output json`: silent until the end, then one object."""

    def __init__(self, stream: TextIO, redact: Redact = str) -> None:
        super().__init__(redact)
        self._stream = stream
        self._finished = False

    def finish(self, answer: Answer) -> None:
        """Print the final object, which has the type "result"; later calls print nothing."""
        if not self._finished:
            self._finished = True
            _write(self._stream, self.final(answer))


class StreamJsonSink(JsonSink):
    """`--output stream-json`: every event as it comes, then the final object, one a line."""

    def __init__(self, stream: TextIO, redact: Redact = str) -> None:
        super().__init__(stream, redact)
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}

    def __call__(self, event: events.Event) -> None:
        super().__call__(event)
        kind = events.event_name(type(event))
        if kind != "command_output":  # has been printed in whole characters
            self._print(kind, event)

    def on_command_output(self, event: events.CommandOutput) -> None:
        if event.request_id not in self._decoders:
            self._decoders[event.request_id] = codecs.getincrementaldecoder("utf-8")("replace")
        self._print_output(event.request_id, self._decoders[event.request_id].decode(event.data))

    def on_command_ended(self, event: events.CommandEnded) -> None:
        super().on_command_ended(event)
        if decoder := self._decoders.pop(event.request_id, None):
            self._print_output(event.request_id, decoder.decode(b"", final=True))

    def _print_output(self, request_id: str, text: str) -> None:
        if text:
            self._print("command_output", {"request_id": request_id, "text": text})

    def _print(self, kind: str, fields: object) -> None:
        redacted = plain(fields, str if kind in _REDACTED else self._redact)
        _write(self._stream, {"version": events.VERSION, "type": kind, **redacted})


def failure(error: BaseException) -> Answer:
    """Return the answer of a task that broke before its turn could end, for the sinks' `finish`."""
    if isinstance(error, KeyboardInterrupt):
        error = TurnInterruptedError("The task was interrupted.")
    if isinstance(error, KognitermError):
        stop = _STOPS.get(error.exit_code, "not_done")
        if isinstance(error, _UNAVAILABLE):
            stop = "storage_unavailable"
        return Answer("", stop, error.exit_code, error.text)
    what = Phrase("{kind}: {what}", {"kind": type(error).__name__, "what": error})
    return Answer("", "not_done", EXIT_NOT_DONE, what)


_UNAVAILABLE = (StorageLostError, StorageLockedError, OutcomeNotWrittenError)
"""Errors of a database that is away or locked for now: the turn stays open and can go on."""
_STOPS: Mapping[int, StopReason] = {
    EXIT_REFUSED: "refused",
    EXIT_BUDGET: "budget",
    EXIT_MODEL: "model_failed",
    EXIT_INTERRUPTED: "interrupted",
}


def _write(stream: TextIO, value: dict[str, Any]) -> None:
    # Lone surrogates (bytes of a file name, say) cannot be written as UTF-8; ASCII escapes can.
    stream.write(json.dumps(value, ensure_ascii=True) + "\n")
    stream.flush()
