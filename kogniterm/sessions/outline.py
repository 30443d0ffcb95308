"""A session turn by turn as plain values, for `--json` and for a list of turns to fork at."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.backend import Backend
from kogniterm.sessions.records import InputReceived, Intent, Outcome, TurnEnded
from kogniterm.sessions.stored import stored_records


@dataclass(frozen=True, slots=True)
class TurnOutline:
    """One turn: the task, what was run with which exit, and the answer (None: never ended)."""

    turn: int
    time: float
    task: str
    commands: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    answer: str | None = None
    stop: str | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "turn": self.turn,
            "time": self.time,
            "task": self.task,
            "commands": list(self.commands),
            "answer": self.answer,
            "stop": self.stop,
        }


def outline(backend: Backend, session_id: str) -> list[TurnOutline]:
    """The turns of a session in order; damaged records are left out."""
    turns: list[TurnOutline] = []
    for stored in stored_records(backend, session_id):
        if stored.kind not in ("input", "intent", "outcome", "turn_ended"):
            continue
        with suppress(StorageCorruptError):
            body = stored.record().body
            if isinstance(body, InputReceived):
                turns.append(TurnOutline(body.turn, stored.time, body.input.text))
            elif turns:
                turns[-1] = _with(turns[-1], body)
    return turns


def _with(turn: TurnOutline, body: object) -> TurnOutline:
    match body:
        case Intent() as intent:
            started = {"id": intent.request_id, "command": intent.command, "status": "unknown"}
            return replace(turn, commands=(*turn.commands, started))
        case Outcome() as outcome:
            code = outcome.result.exit_code if outcome.result is not None else None
            ended = {"status": outcome.status, "exit_code": code}
            return replace(
                turn,
                commands=tuple(
                    {**command, **ended} if command["id"] == outcome.request_id else command
                    for command in turn.commands
                ),
            )
        case TurnEnded() as end:
            return replace(turn, answer=end.answer, stop=end.stop)
        case _:
            return turn
