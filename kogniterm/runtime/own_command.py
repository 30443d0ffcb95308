"""A command of the person's own (`!command`): nobody is asked, everything else is as durable."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from kogniterm.agent.messages import note, shell_message
from kogniterm.errors import KognitermError
from kogniterm.protocols import EventSink, Terminal
from kogniterm.runtime import events
from kogniterm.runtime.outcomes import record_outcome
from kogniterm.runtime.recovery import runs_settled
from kogniterm.runtime.run_command import LoopSink, tell_what_was_missing, until_done
from kogniterm.sessions.records import Intent, Outcome
from kogniterm.types import CommandResult

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession


async def run_own_command(
    session: LiveSession, command: str, *, sink: EventSink, terminal: Terminal | None
) -> CommandResult:
    """Run `command` between an intent and its outcome; the model sees it with its next turn."""
    request_id, executor = session.new_id(), session.executor
    session.record(
        Intent(
            request_id,
            session.redact(command),
            session.cwd,
            session.env_hash,
            executor.next_output,
            runs_settled(session, command, shell=True),
        ),
        durable=True,
    )
    watcher = LoopSink(asyncio.get_running_loop(), sink, request_id)
    sink(events.CommandStarted(request_id, command, session.cwd))
    executor.sandbox = None  # the user's own commands run as the user would run them
    attended = terminal is not None
    run = partial(executor.run, command, sink=watcher, terminal=terminal, interactive=attended)
    task = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        await until_done(task, session.stopping)
        result = task.result()
    except KognitermError as error:
        failed = note(f"I wanted to run this command myself: {command}\n[not run: {error}]")
        session.record(Outcome(request_id, "failed", failed), durable=True)
        raise
    watcher.flush()
    result = session.redact_result(result)
    done = result.ended in ("exited", "signaled", "detached")
    message = shell_message(result)
    outcome = Outcome(request_id, "finished" if done else "cancelled", message, result)
    await record_outcome(session, outcome, sink)
    sink(events.CommandEnded(request_id, result))
    tell_what_was_missing(result, sink)
    return result
