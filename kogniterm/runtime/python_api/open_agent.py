"""`kogniterm.open_agent`: run tasks from a Python program, with the program as the approver.

An agent is a session like any other: the same graph, policy, executor, journal and memory. The
program takes the places of the user: it gives the tasks, approves by a callback, answers the
model's questions, and receives the events that a screen would show.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kogniterm import settings as settings_package
from kogniterm.approval import Unattended
from kogniterm.errors import UsageError
from kogniterm.paths import OVERRIDES
from kogniterm.protocols import Approver, EventSink
from kogniterm.runtime.build import open_session
from kogniterm.text.spelling import closest_word
from kogniterm.types import (
    ActionRequest,
    Answer,
    Decision,
    Phrase,
    Plan,
    PlanReview,
    RiskReport,
    UserInput,
    Verdict,
    events,
)

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.turn_ports import Question

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]

Approve: TypeAlias = Callable[[ActionRequest, RiskReport], MaybeAwaitable[bool | Decision]]
"""Decides on a request that policy neither allows nor denies: True, False, or a `Decision`."""

AskProgram: TypeAlias = Callable[[str, tuple[str, ...]], MaybeAwaitable[str | None]]
"""Answers a question of the model, given its suggested answers; None gives no answer."""


def open_agent(
    folder: str | os.PathLike[str] = ".",
    *,
    model: str | BaseChatModel | None = None,
    approve: Approve | None = None,
    ask: AskProgram | None = None,
    on_event: EventSink | None = None,
    tools: Iterable[Callable[..., object]] = (),
    storage: str | os.PathLike[str] | None = None,
    session: str | None = None,
    **settings: object,
) -> Agent:
    """Open a session in `folder` and return its agent; use it with `async with`.

    `model` is a name as for `--model`, or a chat model of LangChain, which stays yours to close;
    without it the configured one. `approve` is asked about each
    action that policy neither allows nor denies, and may be a coroutine function; without it such
    actions are refused, as in `kogniterm run` without a user. `ask` answers questions of the model.
    `on_event` receives every event on the loop's thread, in order. `tools` are functions marked
    with `kogniterm.tools.tool`: one with the effect "none" runs without approval. `storage` is a
    folder for sessions and memory, made if it is missing, or the URL of a PostgreSQL database;
    without it the user's own. `session` continues a stored session by its ID, or the last one of
    the folder by "last". Other keyword arguments are settings by name (docs/configuration.md),
    above the user's own, such as `approval_mode="auto"` or `max_cost_usd=0.5`.

    Raises `SettingsError` for a wrong setting, `UsageError` for a wrong folder, session or model,
    and `StorageError` or `ModelError` when a store or the model cannot be opened.
    """
    workspace = Path(folder).absolute()
    if not workspace.is_dir():
        raise UsageError("{folder} is not a folder.", folder=str(workspace))
    environ = settings_package.environment()
    name = model if isinstance(model, str) else None
    flags: dict[str, object] = {"model": name, "plan_approval": "never", **settings}
    if storage is not None and "://" in str(storage):
        flags["database_url"] = str(storage)
    elif storage is not None:
        environ[OVERRIDES["data"]] = str(Path(storage).absolute())
    _check_names(settings)
    loaded = settings_package.load(flags, environ=environ)
    opened = open_session(
        loaded,
        folder=str(workspace),
        session_id=session,
        environ=environ,
        tools=tuple(tools),
        chat=None if isinstance(model, str) else model,
    )
    approver = Unattended() if approve is None else ProgramApprover(approve)
    return Agent(opened, approver, ask, on_event or (lambda event: None))


def _check_names(given: Iterable[str]) -> None:
    """Raise `UsageError` for the first name that is no setting."""
    known = settings_package.Settings.model_fields
    for name in given:
        if name in known:
            continue
        near = closest_word(name, known)
        if near is not None:
            raise UsageError(
                "There is no setting {name}; did you mean {near}?", name=name, near=near
            )
        raise UsageError(
            "There is no setting {name}; `kogniterm config show` lists the settings.", name=name
        )


class Agent:
    """A session driven by a program; one task at a time. Made by `open_agent`."""

    def __init__(
        self, session: LiveSession, approver: Approver, ask: AskProgram | None, on_event: EventSink
    ) -> None:
        self.session = session
        self.approver = approver
        self.ask = ask
        self.on_event = on_event
        self._turn: asyncio.Task[Answer] | None = None
        self._notices = list(session.notices)

    @property
    def id(self) -> str:
        """The ID of the session, to continue it later."""
        return self.session.id

    async def run(
        self,
        task: str | None,
        *,
        data: str | None = None,
        attachments: Iterable[str] = (),
        agent: str = "",
        command: str = "",
    ) -> Answer:
        """Take `task` to its answer; None continues the task that a crash interrupted.

        `data` goes to the model as data beside the words, `attachments` are names of files seen
        from the folder. `agent` gives the task to the sub-agent of that name, and `command` runs
        the custom command or skill of that name with the task as its arguments, which may be
        empty. `Answer.stop` says why the task ended, and `Answer.exit_code` is what
        `kogniterm run` would exit with. Cancelling stops what runs and raises `CancelledError`.
        Raises `UsageError` while another task runs, for an empty task, and for an unknown name.
        """
        given = self._given(task, data, attachments, agent, command)
        turn = self._begin(given, self.on_event)
        try:
            return await asyncio.shield(turn)
        except asyncio.CancelledError:
            # The turn ends with an answer of its own, but whoever cancelled waits for the error.
            await self._stop_turn(turn)
            raise

    async def events(
        self,
        task: str | None,
        *,
        data: str | None = None,
        attachments: Iterable[str] = (),
        agent: str = "",
        command: str = "",
    ) -> AsyncIterator[events.Event]:
        """Run `task` and yield its events as they come; the last one is a `TurnEnded`.

        Leaving the iteration early stops the task. Raises as `run` does.
        """
        queue: asyncio.Queue[events.Event | None] = asyncio.Queue()

        def tell(event: events.Event) -> None:
            self.on_event(event)
            queue.put_nowait(event)

        turn = self._begin(self._given(task, data, attachments, agent, command), tell)
        turn.add_done_callback(lambda _done: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await turn
        finally:
            await self._stop_turn(turn)

    def stop(self) -> None:
        """Stop the running task, if any: its `run` returns an answer that says "interrupted"."""
        if self._turn is not None:
            self._turn.cancel()

    async def aclose(self) -> None:
        """End what still runs, finish learning, and release the session. Safe to call twice."""
        if self._turn is not None:
            await self._stop_turn(self._turn)
        await asyncio.to_thread(self.session.end_jobs)
        await self.session.finish()
        self.session.close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _given(
        self,
        task: str | None,
        data: str | None,
        attachments: Iterable[str],
        agent: str,
        command: str,
    ) -> UserInput | None:
        """Return the input that `run` describes. Raises `UsageError`.

        The words of a task call nothing: a program may pass on what others wrote.
        """
        if task is None:
            return None
        if not command and not task.strip():
            raise UsageError("The task is empty; describe what to do.")
        if agent and command:
            raise UsageError("Specify either agent or command, not both.")
        files = tuple(attachments)
        if command:
            return self._of_command(command, task, data, files)
        name = agent.removeprefix("@").lower()
        text = f"@{name} {task}" if name else task
        return UserInput(text, data=data, source="script", attachments=files, agent=name)

    def _of_command(
        self, command: str, arguments: str, data: str | None, files: tuple[str, ...]
    ) -> UserInput:
        from kogniterm.runtime.inputs.custom_commands import command_input

        name = command.removeprefix("/")
        given, names = command_input(self.session, f"/{name} {arguments}", ())
        if given is None:
            known = ", ".join(sorted(names)) or "-"
            raise UsageError(
                "There is no custom command or skill {name}; there are: {known}.",
                name=name,
                known=known,
            )
        return replace(given, data=data, source="script", attachments=(*given.attachments, *files))

    def _begin(self, given: UserInput | None, sink: EventSink) -> asyncio.Task[Answer]:
        if self._turn is not None and not self._turn.done():
            raise UsageError("This agent is at work; wait for its task, or open another agent.")
        while self._notices:
            sink(events.Notice(self._notices.pop(0), "warning"))
        running = self.session.run(
            given, approver=self.approver, sink=sink, ask=self._ask if self.ask else None
        )
        self._turn = asyncio.ensure_future(running)
        return self._turn

    async def _stop_turn(self, turn: asyncio.Task[Answer]) -> None:
        """Stop `turn` and wait until it has settled what was open."""
        if not turn.done():
            turn.cancel()
            with suppress(asyncio.CancelledError):
                await turn

    async def _ask(self, question: Question, answers: Iterable[str | Phrase]) -> str | None:
        assert self.ask is not None
        words = question if isinstance(question, str) else "\n".join(map(str, question))
        return await _run_awaitable(self.ask(words, tuple(map(str, answers))))


class ProgramApprover:
    """Lets a callback decide. Plans need no permission, because each of their actions does."""

    def __init__(self, approve: Approve) -> None:
        self.approve = approve

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Return the callback's decision on `request`."""
        del verdict
        decided = await _run_awaitable(self.approve(request, report))
        if isinstance(decided, Decision):
            return decided
        return Decision("approve" if decided else "reject", request.command, events.BY_PROGRAM)

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Approve the plan."""
        del previous
        return PlanReview("approve", plan, events.BY_PROGRAM)


async def _run_awaitable(value: MaybeAwaitable[T]) -> T:
    if inspect.isawaitable(value):
        found: T = await value
        return found
    return value
