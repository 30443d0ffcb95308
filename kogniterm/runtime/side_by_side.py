"""Actions of one response at once: which may, and how they run (arrows 8 to 11 for several).

A group is a run of pending requests, in their order, that need no question and whose footprints do
not meet (`approval.footprint`); everything else runs alone, before or after. Commands that a recipe
declares `together` need no footprint, and the user is asked about all of them at once. Each intent
is on disk before the first of them starts. Outcomes are recorded in the order of the calls, so the
history is the one that the same actions would have left one after the other.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kogniterm import approval
from kogniterm.execution.executor import CommandExecutor, Lane
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.protocols import EventSink, Terminal
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.crash_recovery import runs_repeated
from kogniterm.runtime.gate import Gate, JudgedRequest
from kogniterm.runtime.runner import Approved, Runner, until_done
from kogniterm.runtime.turn_end import started_and_stopped
from kogniterm.runtime.turn_ports import SessionModes, ToolEnd, TurnIO
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    CommandResult,
    Decision,
    events,
)

"""The only tool whose commands run beside others: those of plans have a step that waits."""


class Judging(Protocol):
    """Finds out what a request touches that would run without a question."""

    def footprint_alone(
        self,
        request: ActionRequest,
        modes: SessionModes,
        cwd: str,
        *,
        at_prompt: bool,
        declared: bool = False,
    ) -> approval.Footprint | None:
        """Return it, or None where the request runs alone."""


class Prepared(NamedTuple):
    """A request that was judged, and perhaps decided on, before its turn came."""

    judged: JudgedRequest
    decision: Decision | None = None

    @property
    def refused(self) -> bool:
        """Return whether it must not run."""
        return self.decision is not None and self.decision.kind == "reject"


class SideBySide:
    """Finds the requests that run at once, at most `most`, and runs them."""

    def __init__(
        self, policy: Judging, modes: SessionModes, executor: CommandExecutor, most: int
    ) -> None:
        self.policy = policy
        self.modes = modes
        self.executor = executor
        self.most = most

    def candidates(
        self,
        gate: Gate,
        pending: Sequence[ActionRequest],
        io: TurnIO,
        together: Collection[str] = (),
    ) -> Sequence[ActionRequest]:
        """Return the first of `pending` that may run at once, as far as can be told beforehand."""
        if len(pending) < 2 or self.most < 2:
            return ()
        found: list[ActionRequest] = []
        taken: list[approval.Footprint] = []
        for request in pending[: self.most]:
            touched = self._footprint(gate, request, io, declared=request.id in together)
            if touched is None or not all(approval.disjoint(touched, other) for other in taken):
                break
            found.append(request)
            taken.append(touched)
        return found if len(found) > 1 else ()

    def _footprint(
        self, gate: Gate, request: ActionRequest, io: TurnIO, *, declared: bool
    ) -> approval.Footprint | None:
        command, cwd = request.effect == "command", self.executor.cwd
        plain = declared or self.executor.has_plain_shell
        if command and not (request.tool == EXECUTE_COMMAND and plain):
            return None
        if runs_repeated(gate.journal, request, cwd):
            return None  # the user is asked about it
        if gate.extensions.acting_for(request) is not None:
            return None  # what an extension runs itself
        if gate.extensions.follows(request):
            return None  # what an extension does after it is not known
        return self.policy.footprint_alone(
            request, self.modes, cwd, at_prompt=io.at_prompt, declared=declared
        )

    async def admit(
        self,
        gate: Gate,
        found: Sequence[ActionRequest],
        io: TurnIO,
        count: TurnCount,
        together: Collection[str] = (),
    ) -> tuple[Sequence[Approved], Mapping[str, Prepared]]:
        """Judge and decide on the candidates; return those that run at once, and what was judged.

        The first one that needs a question after all, or is refused, and what follows wait. Those
        declared `together` are asked about in one question, unless policy denies one of them.
        """
        judged: dict[str, Prepared] = {}
        asked: list[JudgedRequest] = []
        for request in found:
            found_out = await gate.judge(request, io)
            judged[request.id] = Prepared(found_out)
            kind = found_out.verdict.kind
            if found_out.request != request or (kind != "allow" and request.id not in together):
                break  # what a hook made of it may disturb the others
            if kind == "ask":
                asked.append(found_out)
                continue
            judged[request.id] = await _decide_run(gate, found_out, io, count)
            if kind == "deny":
                asked.clear()
            if kind == "deny" or gate.changed_since(request) is not None:
                break
        answers = await gate.ask_together(asked, io, count)
        for one, answer in zip(asked, answers, strict=True):
            judged[one.request.id] = await _decide_run(gate, one, io, count, answer)
            if answer is None and judged[one.request.id].refused:
                break
        ready = [(one, judged[one.id]) for one in found if one.id in judged]
        approved = [
            Approved(request, known.decision, known.judged.report)
            for request, known in ready
            if known.decision is not None
            and not known.refused
            and known.decision.command == request.command  # what the user edited runs alone
            and gate.changed_since(request) is None
        ]
        return approved, judged

    async def run(
        self,
        runner: Runner,
        approved: Sequence[Approved],
        io: TurnIO,
        count: TurnCount,
        together: Collection[str] = (),
    ) -> Sequence[ActionRequest]:
        """Run what was approved at once; return the requests to run some again outside.

        Those are at most the last one and the ones declared `together`. Raises
        `asyncio.CancelledError` after all outcomes are recorded, when the turn was cancelled
        meanwhile.
        """
        commands = [run for run in approved if run.request.effect == "command"]
        opened: AbstractContextManager[Sequence[Lane]] = nullcontext(())
        if commands:
            opened = self.executor.side_by_side(len(commands))
        # A thread for each: the loop's own may be fewer.
        pool = ThreadPoolExecutor(max(len(commands), 1), "command")
        try:
            with opened as lanes:
                group = _Group(runner, io, count, pool, together)
                try:
                    group.begin(approved, iter(lanes))
                    return await group.end()
                finally:
                    await group.leave()
        finally:
            pool.shutdown(wait=False)


async def _decide_run(
    gate: Gate, found: JudgedRequest, io: TurnIO, count: TurnCount, answer: Decision | None = None
) -> Prepared:
    request, report, verdict = found
    decision, report = await gate.decide(request, report, verdict, io, count, answer)
    return Prepared(found._replace(report=report), decision)


@dataclass(slots=True)
class _Member:
    """One action of a group: what runs it, and its sandbox."""

    run: Approved
    task: asyncio.Future[CommandResult | ToolEnd]
    box: Sandbox | None = None


class _Group:
    """The actions that run at once, in the order of their calls."""

    def __init__(
        self,
        runner: Runner,
        io: TurnIO,
        count: TurnCount,
        pool: ThreadPoolExecutor,
        together: Collection[str],
    ) -> None:
        self.runner = runner
        self.together = together
        self.io = io
        self.count = count
        self.pool = pool
        self.members: list[_Member] = []
        self.cancelled = False

    def begin(self, approved: Sequence[Approved], lanes: Iterator[Lane]) -> None:
        """Write every intent, then start everything."""
        runner = self.runner
        taken = [(run, next(lanes) if _is_command(run) else None) for run in approved]
        for run, lane in taken:
            runner.intend(run, lane.output if lane is not None else None)
        for run, lane in taken:
            if lane is not None:
                # What a sandbox guards is looked at before any command can change it.
                lane.sandbox = runner.policy.confine(run.decision, run.report)
        runner.stopping.begin()
        keyboard = _Keyboard(self.io.terminal, self.io.sink)
        for run, lane in taken:
            if lane is None:
                tool = self.runner.run_tool(run.request)
                self.members.append(_Member(run, asyncio.ensure_future(tool)))
                continue
            self.io.sink(runner.start_event(run))
            running = self._command(run, lane, keyboard.for_command(run.request.id))
            self.members.append(_Member(run, asyncio.ensure_future(running), lane.sandbox))

    async def _command(
        self, run: Approved, lane: Lane, terminal: Terminal | None
    ) -> CommandResult | ToolEnd:
        result = await self.runner.in_thread(lane.run, run, self.io, terminal, self.pool)
        before = itertools.takewhile(lambda member: member.run is not run, self.members)
        if result.ended == "exited" and not all(member.task.done() for member in before):
            # Its outcome has to wait; a crash until then must not make it unknown.
            self.runner.note_end(run.request, result)
        self.io.sink(events.CommandDone(run.request.id, result.exit_code))
        return result

    async def end(self) -> Sequence[ActionRequest]:
        """Record each end in its turn; see `SideBySide.run`."""
        again: list[ActionRequest] = []
        for member in self.members:
            await self._wait(member)
            if member.task.cancelled():
                ended = started_and_stopped(member.run.request, "the user stopped the turn")
                self.runner.journal.record(ended, durable=True)
                continue
            if (once_more := await self._record(member, member.task.result())) is not None:
                again.append(once_more)
        if self.cancelled:
            raise asyncio.CancelledError
        return again

    async def _record(self, member: _Member, end: CommandResult | ToolEnd) -> ActionRequest | None:
        if isinstance(end, ToolEnd):
            await self.runner.end_tool(member.run.request, end, self.io, self.count)
            return None
        # Of a response a question may come only behind the last one, so that the answers to the
        # model keep their order.
        last = member is self.members[-1] or member.run.request.id in self.together
        can_ask = self.io.attended and not self.cancelled and last
        return await self.runner.end_command(
            member.run, end, member.box, self.io, self.count, can_ask=can_ask
        )

    async def _wait(self, member: _Member) -> None:
        """Wait for the end of a member; a cancel of the turn ends all of them."""
        stopping, task = self.runner.stopping, member.task
        if _is_command(member.run):
            self.cancelled |= await until_done(task, stopping)
            return
        while not task.done():
            if self.cancelled:
                task.cancel()
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                self.cancelled = True
                stopping.request()

    async def leave(self) -> None:
        """Leave nothing running behind an error: its end would have nowhere to go."""
        left = [member for member in self.members if not member.task.done()]
        if left:
            self.cancelled = True
            self.runner.stopping.request()
        for member in left:
            await self._wait(member)


def _is_command(run: Approved) -> bool:
    return run.request.effect == "command"


class _Keyboard:
    """The user's terminal, for one of several commands at a time; the others wait for it."""

    def __init__(self, terminal: Terminal | None, sink: EventSink) -> None:
        self.terminal = terminal
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._holder = ""

    def for_command(self, request_id: str) -> Terminal | None:
        """Return the terminal for one command; None where no user is there."""
        if self.terminal is None:
            return None
        return _Borrowed(self, self.terminal, request_id)

    def take(self, request_id: str) -> None:
        """Take it for a command. Raises `BlockingIOError` while another has it."""
        with self._lock:
            if self._holder not in ("", request_id):
                raise BlockingIOError(errno.EAGAIN, "another command has the keyboard")
            self._holder = request_id
        self._loop.call_soon_threadsafe(self._sink, events.KeyboardMoved(request_id))

    def give_back(self) -> None:
        """Let the next command have it."""
        with self._lock:
            self._holder = ""


class _Borrowed:
    """Implements `protocols.Terminal` for one of the commands that share a terminal."""

    def __init__(self, keyboard: _Keyboard, terminal: Terminal, request_id: str) -> None:
        self.keyboard = keyboard
        self.terminal = terminal
        self.request_id = request_id

    def size(self) -> tuple[int, int]:
        return self.terminal.size()

    def acquire(self) -> tuple[int, int]:
        self.keyboard.take(self.request_id)
        try:
            return self.terminal.acquire()
        except BaseException:
            self.keyboard.give_back()
            raise

    def release(self, unread: bytes = b"") -> None:
        try:
            self.terminal.release(unread)
        finally:
            self.keyboard.give_back()
