"""The runner of a session: an approved request, from its intent on disk to its outcome.

A command runs on the executor's thread and is reported live to the sinks; a tool runs on the loop.
Whatever was started gets exactly one outcome, whatever happens to the turn meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kogniterm import prompts
from kogniterm.agent import messages
from kogniterm.agent.compaction import observation_limit
from kogniterm.agent.messages import observed_images
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP
from kogniterm.approval.analysis.exit_status import with_exit_facts
from kogniterm.errors import (
    ExecutionError,
    KognitermError,
    OutcomeNotWrittenError,
    PathChangedError,
    StorageError,
    ToolError,
    why,
)
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.execution.shell.shell_state import PROPOSED, UNCACHED
from kogniterm.protocols import EventSink, Executor, Terminal, Tool
from kogniterm.runtime.budgets import Budget, TurnCount
from kogniterm.runtime.crash_recovery import ended_note, runs_settled, tool_ended_note
from kogniterm.runtime.extensions.extension_port import ActionNotes, ExtensionPort
from kogniterm.runtime.turn_journal import TurnJournal, text_of
from kogniterm.runtime.turn_ports import PolicyPort, SandboxFindings, SessionModes, ToolEnd, TurnIO
from kogniterm.sessions.records import Intent, Noted, Outcome, OutcomeStatus
from kogniterm.text.shorten import head_and_tail
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    CommandResult,
    Decision,
    Phrase,
    Plan,
    RiskReport,
    SandboxRefusal,
    Waiting,
    events,
)

FLUSH_SECONDS = 0.03
STOP_AGAIN = 0.1
STOPPED_BY_USER = "The user stopped it."
MAX_WAITING_BYTES = 256 * 1024
"""Output that may wait for the loop at once. What exceeds it is only in the output file."""


class Approved(NamedTuple):
    """An approved request, with its decision and the facts about it."""

    request: ActionRequest
    decision: Decision
    report: RiskReport


@dataclass(slots=True)
class Runner:
    """Runs the approved requests of one session.

    `keep_preimages` is `UndoService.keep`, `note_left` notes what a request left, and
    `command_timeout` is in seconds, None for no limit.
    """

    journal: TurnJournal
    policy: PolicyPort
    modes: SessionModes
    executor: Executor
    tool_of: Callable[[str], Tool]
    """Finds the tool of an approved request. Raises `ToolError`."""
    budget: Budget
    extensions: ExtensionPort = field(default_factory=ExtensionPort)
    keep_preimages: Callable[[ActionRequest, RiskReport, bool], object] = lambda *given: None
    note_left: Callable[[str], object] = lambda request_id: None
    command_timeout: float | None = None
    env_hash: str = ""
    of_skill: Callable[[str, str], bool] = lambda command, cwd: False
    """A check of a command and its folder: whether it runs something of a skill or plugin."""
    answered_from: Path | None = None
    """The file that answers commands, where none runs."""
    keep: Callable[[Callable[[], CommandResult]], CommandResult] = lambda call: call()
    stopping: CommandStop = field(init=False)

    def __post_init__(self) -> None:
        self.stopping = CommandStop(self.executor)

    async def act(
        self,
        request: ActionRequest,
        decision: Decision,
        report: RiskReport,
        io: TurnIO,
        count: TurnCount,
    ) -> ActionRequest | None:
        """Arrows 10 and 11: run what was approved, durable before it starts, and record its end.

        Returns the request to run it again outside, when the sandbox stopped it and a user can be
        asked. Raises `asyncio.CancelledError` after the outcome is recorded, when the turn was
        cancelled meanwhile.
        """
        if request.effect == "person":
            # A question starts nothing, so no outcome can be unknown: a resume asks again.
            with count.waiting():
                await self.end_tool(request, await self.run_tool(request), io, count)
            return None
        run = Approved(request, decision, report)
        shell = request.effect == "command"
        self.intend(run, self.executor.next_output if shell else None)
        if shell:
            return await self._act_command(run, io, count)
        own = self.extensions.acting_for(request)
        if own is None:
            await self.end_tool(request, await self.run_tool(request), io, count)
            return None
        end = await own.act(replace(request, command=decision.command), report, io.sink)
        heard = await self._record_end(request, end, io, count)
        if end.cancelled:
            raise asyncio.CancelledError
        await own.recorded(request)
        heard.conclude()
        return None

    def intend(self, run: Approved, output: str | None) -> None:
        """Keep what will be overwritten, and write the intent to disk, before the start."""
        request, command = run.request, run.decision.command
        shown = self.journal.redact_command(command, request.effect)
        # Policy lets a small model do what undo takes back, also where the text does not tell.
        relied_on = run.decision.by == "policy" and self.modes.model.info.one_command
        self.keep_preimages(replace(request, command=shown), run.report, relied_on)
        self._write_intent(replace(request, command=command), output)

    def _write_intent(self, request: ActionRequest, output: str | None) -> None:
        """Write to disk that exactly `request` is about to run."""
        cwd, shell, journal = self.executor.cwd, request.effect == "command", self.journal
        hosts = request.hosts if request.effect == "hosts" else ()
        line = journal.redact_command(request.command, request.effect)
        settled = runs_settled(journal, line, cwd, shell=shell, hosts=hosts)
        digest = journal.digest(text_of(request))
        intent = Intent(request.id, request.command, cwd, self.env_hash, output, settled, digest)
        journal.record(intent, durable=True)

    async def _act_command(
        self, run: Approved, io: TurnIO, count: TurnCount
    ) -> ActionRequest | None:
        io.sink(self.start_event(run))
        box = self.policy.confine(run.decision, run.report)
        self.stopping.begin()
        task = asyncio.ensure_future(self.in_thread(self.executor.run, run, io, io.terminal))
        cancelled = await until_done(task, self.stopping)
        again = await self.end_command(
            run, task.result(), box, io, count, can_ask=io.attended and not cancelled
        )
        if cancelled:
            raise asyncio.CancelledError
        return again

    def start_event(self, run: Approved) -> events.CommandStarted:
        """Return the event that a command starts, as it is shown."""
        shown = self.journal.redact_command(run.decision.command)
        return events.CommandStarted(run.request.id, shown, self.executor.cwd)

    async def end_command(
        self,
        run: Approved,
        result: CommandResult,
        box: Sandbox | None,
        io: TurnIO,
        count: TurnCount,
        *,
        can_ask: bool,
    ) -> ActionRequest | None:
        """Arrow 11 for a command: record its end; return the request to run it again outside.

        With `can_ask` the user can be asked, where the sandbox stopped it.
        """
        journal, sink, request = self.journal, io.sink, run.request
        if result.ended == "stopped" and self.stopping.by_user:
            result = replace(result, notes=(STOPPED_BY_USER, *result.notes))
        result = self._redact_result(result)
        ask = can_ask and request.refusal is None
        after = self.policy.after_run(
            run.decision.command, result, box, can_ask=ask, answers=io.user_answers
        )
        previous = journal.state.plan
        plan, found = (None, "") if after.refused else self._settle_check(request, result)
        heard = await self._hear_extensions(run, result, after, io)
        note = "\n".join(filter(None, (found, after.note, heard.note)))
        shown = journal.show_request(request), journal.shown_decision(request.id, run.decision)
        looked = run.report.label == "safe_readonly"
        message = messages.command_message(shown[0], result, shown[1], note, looked=looked)
        again = None
        if after.refused is not None:
            judged = journal.state.requested.get(request.id)
            file = self.policy.changed_file(judged.script_hashes) if judged is not None else None
            effects = run.report.label != "safe_readonly"
            refusal = SandboxRefusal(after.refused, message.text, effects, file or "")
            command = run.decision.command
            again = replace(request, id=f"{request.id}-again", command=command, refusal=refusal)
        outcome = Outcome(request.id, _status(result), message, result, plan, request.agent, again)
        # The end is reported once it is on disk: a crash must not undo what was reported.
        try:
            await journal.record_outcome(outcome, sink)
        except OutcomeNotWrittenError:
            # The end is reported all the same; the error says whether it is kept.
            sink(events.CommandEnded(request.id, result))
            raise
        if after.changed:
            journal.record(Noted("steering_files", {"changed": list(after.changed)}))
        sink(events.CommandEnded(request.id, result))
        self._tell_that_nothing_ran(result, sink)
        for notice in after.notices:
            sink(events.Notice(notice, "warning"))
        if plan is not None and plan != previous:
            sink(events.PlanChanged(plan, previous))
        _report_missing_state(result, sink)
        heard.conclude()
        return again

    async def _hear_extensions(
        self, run: Approved, result: CommandResult, after: SandboxFindings, io: TurnIO
    ) -> ActionNotes:
        """Call the extensions after a command, whose end is on disk before them."""
        request = replace(run.request, command=run.decision.command)
        ended = result.ended == "exited" and after.refused is None
        if not ended or not self.extensions.follows(request):
            return ActionNotes(self.extensions.take_notes(request))
        self.note_end(request, result)
        heard = await self.extensions.after_action(request, result, io.sink)
        self.note_left(request.id)  # a hook that formats a file belongs to the action
        return heard

    def note_end(self, request: ActionRequest, result: CommandResult) -> None:
        """Note on disk that a command has ended whose outcome has to wait for its turn."""
        with suppress(StorageError):  # the outcome tells of it once more
            note = ended_note(request.id, self._redact_result(result))
            self.journal.record(note, durable=True)

    def _settle_check(
        self, request: ActionRequest, result: CommandResult
    ) -> tuple[Plan | None, str]:
        """Return the plan with the step that this command checked, and the finding."""
        state = self.journal.state
        if request.tool != COMPLETE_STEP.name or state.plan is None:
            return None, ""
        from kogniterm.agent.plan.evaluate import settle_check

        step = str(request.arguments["step"])
        return settle_check(
            state.plan, step, request.id, result, state.messages, self.journal.value_of
        )

    async def in_thread(
        self,
        execute: Callable[..., CommandResult],
        run: Approved,
        io: TurnIO,
        terminal: Terminal | None,
        pool: ThreadPoolExecutor | None = None,
    ) -> CommandResult:
        """Run an approved command with `execute` on a thread; return its result, whatever it is."""
        watcher = LoopSink(asyncio.get_running_loop(), io.sink, run.request.id)
        limits = [self.command_timeout, self.budget.remaining("seconds")]
        command = run.decision.command
        given = self.journal.given
        pinned = self.of_skill(command, self.executor.cwd)
        call = partial(
            execute,
            command,
            env={**PROPOSED, **UNCACHED} if pinned else PROPOSED,
            timeout=min((one for one in limits if one is not None), default=None),
            sink=watcher,
            terminal=terminal,
        )
        try:
            if secrets := given.values_for(command):
                call = partial(call, secrets=secrets)
            elif run.request.tool == EXECUTE_COMMAND and not self.modes.model.info.one_command:
                call = partial(call, on_wait="detach")
            result = await asyncio.get_running_loop().run_in_executor(pool, self.keep, call)
        except ExecutionError as error:
            # The intent is in the journal, so this needs an outcome like any other end.
            watcher.flush()
            result = CommandResult(command, "not_started", None, str(error), 0.0, self.executor.cwd)
            # In place of the output, the screens show why there is none.
            io.sink(events.CommandOutput(run.request.id, f"{error}\n".encode("utf-8", "replace")))
        watcher.flush()
        self.note_left(run.request.id)
        return with_exit_facts(command, result)

    def _tell_that_nothing_ran(self, result: CommandResult, sink: EventSink) -> None:
        if self.answered_from is not None and result.ended != "not_started":
            text = Phrase("Answered from {file}; nothing ran.", {"file": self.answered_from.name})
            sink(events.Notice(text))

    def _redact_result(self, result: CommandResult) -> CommandResult:
        """Return the result redacted, and clipped to what the model's window takes."""
        text = self.journal.redact(result.text)
        limit = observation_limit(self.modes.model.info.context_window)
        return replace(
            result,
            command=self.journal.redact_command(result.command),
            jobs=tuple(
                replace(job, command=self.journal.redact_command(job.command))
                for job in result.jobs
            ),
            text=head_and_tail(text, limit),
            omitted_bytes=result.omitted_bytes + max(0, len(text) - limit),
        )

    async def run_tool(self, request: ActionRequest) -> ToolEnd:
        """Run a tool; return how it ended. Raises what is no failure of the tool."""
        from kogniterm.tools.mcp.mcp_errors import McpCallLostError

        try:
            found = await self.tool_of(request.tool).run(request.arguments)
        except PathChangedError as error:
            return ToolEnd("", changed=error.text)
        except McpCallLostError as error:
            told = f"{error}\n{prompts.text('execute_tool.do_not_repeat')}"
            return ToolEnd(told, failed=True, lost=True)
        except ToolError as error:
            return ToolEnd(str(error), failed=True)
        except OSError as error:  # what it worked on was replaced meanwhile
            return ToolEnd(f"{request.tool} failed: {why(error)}.", failed=True)
        finally:
            self.note_left(request.id)
        text, images = observed_images(found, self.modes.model.info)
        return ToolEnd(text, images, found.usage)

    async def end_tool(
        self, request: ActionRequest, end: ToolEnd, io: TurnIO, count: TurnCount
    ) -> None:
        """Arrow 11 for a tool: record its end; end the turn where extensions want it."""
        (await self._record_end(request, end, io, count)).conclude()

    async def _record_end(
        self, request: ActionRequest, end: ToolEnd, io: TurnIO, count: TurnCount
    ) -> ActionNotes:
        """Record the end of a tool; return the words of the extensions on it."""
        if end.changed is not None:
            refusal = Decision(
                "reject", request.command, events.START_CHECK, str(end.changed), (end.changed,)
            )
            count.refused.append((end.changed, events.START_CHECK))
            io.sink(events.ActionDecided(self.journal.show_request(request), refusal))
            self.journal.settle(request, "refused", messages.refusal_message(request, refusal))
            return ActionNotes()
        if end.failed and request.effect == "person":
            count.unasked.append(self.journal.show_request(request).command)
        journal, failure, usage = self.journal, end.failed, end.usage
        limit = observation_limit(self.modes.model.info.context_window)
        observation = head_and_tail(journal.redact(end.text), limit)
        if failure or not self.extensions.follows(request):
            heard = ActionNotes(self.extensions.take_notes(request))
        else:
            if request.effect != "person":
                # What was done is on disk before a hook runs, which may be cut by a crash.
                self.journal.record(tool_ended_note(request.id, observation), durable=True)
            heard = await self.extensions.after_action(request, observation, io.sink)
            self.note_left(request.id)
        text = "\n".join(filter(None, (observation, heard.note)))
        message = messages.action_message(
            request, text, failed=failure, images=end.images, masked=end.masked
        )
        status: OutcomeStatus = "failed" if failure else "finished"
        if end.lost:
            status = "unknown"
            if not io.attended:
                count.unknown.append(journal.show_request(request).command)
        outcome = Outcome(request.id, status, message, agent=request.agent, usage=usage)
        await journal.record_outcome(outcome, io.sink)
        given = ""
        if request.effect == "network":
            arguments = json.dumps(dict(request.arguments), ensure_ascii=False, default=str)
            given = journal.redact(arguments)
        io.sink(events.ActionEnded(request.id, request.tool, observation, failure, given))
        if usage.calls:
            count.add_usage(usage)
            io.sink(events.ModelAnswered(request.tool, usage, count.usage))
            io.sink(events.BudgetUsed(count.budget.use_and_limits()))
        return heard

    async def run_own(
        self, executor: CommandExecutor, command: str, sink: EventSink, terminal: Terminal | None
    ) -> CommandResult:
        """Run a command of the user's own (`!command`): not judged, otherwise as durable.

        The model sees it with its next turn. Raises `KognitermError` when it cannot be started.
        """
        journal, request_id = self.journal, self.journal.new_id()
        secrets = journal.given.values_for(command)
        own, shown = ActionRequest(request_id, "", "", command), journal.redact_command(command)
        self._write_intent(own, executor.next_output)
        watcher = LoopSink(asyncio.get_running_loop(), sink, request_id)
        sink(events.CommandStarted(request_id, shown, executor.cwd))
        executor.sandbox = None  # the user's own commands run as the user would run them
        attended = terminal is not None
        run = partial(
            executor.run, command, sink=watcher, terminal=terminal, interactive=attended,
            secrets=secrets, env=UNCACHED if self.of_skill(command, executor.cwd) else None,
        )  # fmt: skip
        task = asyncio.ensure_future(asyncio.to_thread(self.keep, run))
        self.stopping.begin()
        try:
            await until_done(task, self.stopping)
            result = task.result()
        except KognitermError as error:
            text = f"I wanted to run this command myself: {shown}\n[not run: {error}]"
            journal.record(Outcome(request_id, "failed", messages.note(text)), durable=True)
            raise
        watcher.flush()
        result = self._redact_result(with_exit_facts(command, result))
        message = messages.shell_message(result)
        await journal.record_outcome(Outcome(request_id, _status(result), message, result), sink)
        sink(events.CommandEnded(request_id, result))
        self._tell_that_nothing_ran(result, sink)
        _report_missing_state(result, sink)
        return result


def _status(result: CommandResult) -> OutcomeStatus:
    if result.ended in ("exited", "signaled", "detached"):
        return "finished"
    return "failed" if result.ended == "not_started" else "cancelled"


def _report_missing_state(result: CommandResult, sink: EventSink) -> None:
    """Report the shell state of sandboxed commands that this command did not have."""
    if result.not_outside:
        text = Phrase(
            "Changes that sandboxed commands made to {names} do not apply "
            "outside the sandbox. To apply them, repeat them in a command "
            "that runs outside.",
            {"names": ", ".join(result.not_outside)},
        )
        sink(events.Notice(text))


class CommandStop:
    """A request to end the running command, or to let it go on as a job.

    It is repeated because the command on the screen may not have reached the executor yet: an end
    until the command has ended, the other until the executor has a command to let go on.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._requested = asyncio.Event()
        self.by_user = False

    def request(self) -> None:
        """End the running command; does nothing when none runs."""
        self.by_user = True
        self._requested.set()
        self._executor.stop()

    def request_job(self) -> None:
        """Let the running command go on as a job, the first of several."""
        self._requested.set()

    def begin(self) -> None:
        """Drop the request: a new command begins."""
        self.by_user = False
        self._requested.clear()

    async def repeat(self) -> None:
        """Carry requests out, until cancelled."""
        while True:
            await self._requested.wait()
            if self.by_user:
                self._executor.stop()
            elif self._executor.detach():
                self._requested.clear()
            await asyncio.sleep(STOP_AGAIN)


async def until_done(task: asyncio.Future[Any], stopping: CommandStop) -> bool:
    """Wait for a command's thread; return whether the turn was cancelled meanwhile.

    A stop that was requested since `stopping.begin` ends the command.

    No number of cancels abandons the thread: the outcome has to be recorded.
    """
    cancelled = False
    stopper = asyncio.ensure_future(stopping.repeat())
    try:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                cancelled = True
                stopping.request()
    finally:
        stopper.cancel()
    return cancelled


class LoopSink:
    """Carries output from the executor's thread to the loop, bounded and in few large pieces."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sink: EventSink,
        request_id: str,
    ) -> None:
        self._loop = loop
        self._sink = sink
        self._request_id = request_id
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._dropped = 0
        self._scheduled = False

    def output(self, data: bytes) -> None:
        """Take output, on the executor's thread."""
        with self._lock:
            self._waiting += data
            excess = len(self._waiting) - MAX_WAITING_BYTES
            if excess > 0:
                del self._waiting[:excess]
                self._dropped += excess
            if self._scheduled:
                return
            self._scheduled = True
        self._loop.call_soon_threadsafe(self._loop.call_later, FLUSH_SECONDS, self.flush)

    def waiting(self, waiting: Waiting | None) -> None:
        """Take a diagnosis, on the executor's thread."""
        event = events.CommandWaiting(self._request_id, waiting)
        self._loop.call_soon_threadsafe(self._show_waiting, event)

    def _show_waiting(self, event: events.CommandWaiting) -> None:
        """Show the diagnosis after the output that came before it, however late the loop is."""
        self.flush()
        self._sink(event)

    def flush(self) -> None:
        """Pass on what has gathered, on the loop's thread."""
        with self._lock:
            data, dropped = bytes(self._waiting), self._dropped
            self._waiting.clear()
            self._dropped = 0
            self._scheduled = False
        if dropped:
            notice = f"\n[… {dropped} bytes not shown …]\n".encode()
            self._sink(events.CommandOutput(self._request_id, notice))
        if data:
            self._sink(events.CommandOutput(self._request_id, data))
