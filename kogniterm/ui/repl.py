"""The REPL: opens sessions, runs their turns and their queue, and loads what it needs behind.

Before the first render only prompt_toolkit and the standard library are imported. Drawing,
settings, the graph and the providers load behind the prompt, and what was typed meanwhile
waits in the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.errors import (
    EXIT_DONE,
    EXIT_NOT_DONE,
    EXIT_USAGE,
    KognitermError,
    UsageError,
    of_system,
)
from kogniterm.runtime.inputs.called_input import split_line
from kogniterm.runtime.named_files import mentions, named_words
from kogniterm.types import Phrase
from kogniterm.ui.display import Display, follow_preferences
from kogniterm.ui.front import Front
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import ChoiceQuestion, ask_fixed
from kogniterm.ui.slash_commands import Command, Registry, custom_commands
from kogniterm.ui.turns import Drafts, Turns, Work

if TYPE_CHECKING:
    from kogniterm.models.model_lists import ModelLists
    from kogniterm.protocols import Approver
    from kogniterm.runtime.operations.updates import UpdateWatch
    from kogniterm.runtime.replay.recorded_events import PastTurns
    from kogniterm.runtime.session import LiveSession
    from kogniterm.types import ApprovalMode, Job, UserInput
    from kogniterm.ui.asking_approver import AskingApprover
    from kogniterm.ui.guide import Guide
    from kogniterm.ui.questions.question import Option, Value
    from kogniterm.ui.questions.session_list import SessionRow
    from kogniterm.ui.quiet_moments import QuietMoments
    from kogniterm.ui.set_up import SetUpScreen

log = logging.getLogger(__name__)
_LEAVE_ON = (signal.SIGTERM, signal.SIGHUP)
DRAWING = (
    "kogniterm.text.redact",
    "kogniterm.ui.screen.renderer",
    "kogniterm.ui.questions.approval",
)
OPENING = (
    "kogniterm.ui.asking_approver",
    "kogniterm.ui.commands.command_table",
    "kogniterm.ui.quiet_moments",
)
"""Modules that are imported behind the prompt: to draw, and to take inputs for a session."""
BROKEN = Phrase("Internal error; details are in the log file (see: kogniterm config path).")


class Opened(NamedTuple):
    """An open session, and what the user is told about it once.

    `model_reason` says why this model is used; `past` are the last turns of a session that is
    resumed. `updates` finds a newer KogniTerm on this machine.
    """

    session: LiveSession
    model_reason: Phrase | None = None
    first_run: bool = False
    notices: tuple[Phrase, ...] = ()
    past: PastTurns | None = None
    updates: UpdateWatch | None = None


OpenSession = Callable[[str | None], Awaitable[Opened]]
"""Opens the session with this id, or a new one for None."""


class Wiring(NamedTuple):
    """The settings and functions of the REPL besides the session; everything is optional.

    `model_lists` returns the models for /model, None before a session was opened. `files` lists the
    workspace, with times of change, for @ completion; `save_preference` keeps what /theme, /keys,
    /lang and /model change.
    `set_up` asks for a model where none is configured; it returns False when there is still none.
    The user picks one of `sessions`, where there are any, before one is opened. A `guide`
    accompanies a session that is not kept.
    """

    model_lists: Callable[[], ModelLists | None] = lambda: None
    files: Callable[[], Iterable[tuple[str, float]]] | None = None
    save_preference: Callable[[str, object], None] | None = None
    set_up: Callable[[SetUpScreen], Awaitable[bool]] | None = None
    session_id: str | None = None
    sessions: Sequence[SessionRow] = ()
    first_input: str | None = None
    guide: Guide | None = None
    clock: Callable[[], float] = time.monotonic


async def import_modules(*names: str) -> None:
    """Import modules on a thread, where keys are taken meanwhile.

    Each is waited for by itself, so that a user who leaves waits for one of them only.
    """
    for name in names:
        await asyncio.to_thread(import_module, name)


class Repl:
    """One user, one terminal, one session at a time.

    It opens sessions and runs their turns and the slash commands, which get it as their first
    argument. `front` and `submit`, which takes a line, are set by the code that puts the REPL
    together.
    """

    front: Front
    submit: Callable[[str], None]

    def __init__(
        self,
        open_session: OpenSession,
        display: Display,
        commands: Callable[[], Sequence[Command]],
        folder: str,
        home: str = "",
        wiring: Wiring | None = None,
    ) -> None:
        self.display = display
        self.wiring = wiring or Wiring()
        self.turns = Turns(self._work, self._refresh)
        self.folder = folder
        self.home = home
        self._commands = commands
        self._session: LiveSession | None = None
        self._is_open = asyncio.Event()
        self._open_session = open_session
        self._approver: Approver | None = None
        self._asking: AskingApprover | None = None
        self._updates: UpdateWatch | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._leaving = False
        self._drafts = Drafts(lambda: self._session, self._draft)

    async def run(self) -> int:
        """Show the prompt, load behind it, leave cleanly."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_failure)
        # nohup starts us with HUP ignored, and that is to stay.
        ours = [n for n in _LEAVE_ON if signal.getsignal(n) is not signal.SIG_IGN]
        for number in ours:
            loop.add_signal_handler(number, partial(self.leave, 128 + number))
        try:
            return await self.front.run()
        except (EOFError, OSError) as error:
            # The terminal is gone; its signal is on its way, or was lost with it.
            log.warning("the terminal is gone: %s", error)
            await self._wind_up(gone=True)
            return 128 + signal.SIGHUP
        finally:
            with contextlib.suppress(OSError):  # the terminal may be gone
                self.display.close()
            await self._close_session()
            for number in ours:
                loop.remove_signal_handler(number)

    # --- loading behind the prompt --------------------------------------------------------------

    def ready(self) -> None:
        """Load the rest: the first render is done."""
        self.spawn(self._load())

    async def _load(self) -> None:
        try:
            await import_modules(*DRAWING)
            self.display.open(self.front.surface, self.wiring.clock)
            if self.wiring.first_input:
                self.submit(self.wiring.first_input)
            if not await self._set_up():
                self.front.exit(EXIT_USAGE)
                return
            wanted = self.wiring.session_id
            if self.wiring.sessions:
                wanted = await self.pick_session(self.wiring.sessions)
                if not wanted:
                    self.front.exit(EXIT_DONE)
                    return
            await import_modules(*OPENING)
            await self.reopen(wanted)
            self._drafts.begin()
            if self._updates is not None:
                self._say_update(await asyncio.to_thread(self._updates.newer_commits))
        except KognitermError as error:
            self.display.say(error.text, "error")
            self.front.exit(error.exit_code)
        except Exception as error:
            log.exception("the session could not be opened")
            self.display.say(of_system(error) or BROKEN, "error")
            self.front.exit(EXIT_NOT_DONE)

    async def _set_up(self) -> bool:
        """Return whether there is a model for a session, after asking for one where needed."""
        wiring = self.wiring
        if wiring.set_up is None or wiring.session_id is not None or wiring.sessions:
            return True
        await import_modules("kogniterm.ui.set_up")
        from kogniterm.ui.set_up import SetUpScreen

        front, terminal = self.front, self.front.terminal_files
        screen = SetUpScreen(front.questions, self.display.say, front.hand_over, *terminal)
        return await wiring.set_up(screen)

    async def reopen(self, session_id: str | None) -> None:
        self.turns.pause()
        # What stood on the line at the last tick may have been sent since.
        self._drafts.leave()
        self.turns.cancel()
        await self.turns.settle()
        await self._end_jobs()
        left = self._session
        self._say_how_to_resume(apart=True)
        self._quiet.withdraw()
        # Before it is closed: a command that comes meanwhile waits for the next session.
        self._is_open.clear()
        await self._close_session()
        try:
            opened = await self._open_session(session_id)
        except KognitermError as error:
            if left is None:
                raise
            # Another process may have the session that was wanted: the one before goes on.
            self.display.say(error.text, "error")
            opened = await self._open_session(left.id)
        self._use(opened)

    def _use(self, opened: Opened) -> None:
        """Take inputs for a session that was opened."""
        from kogniterm.ui.asking_approver import AskingApprover

        self._session = session = opened.session
        self._updates = opened.updates
        guide = self.wiring.guide
        asking = self._asking = AskingApprover(self.front.questions, session, self.display)
        self._approver = guide.approver(asking) if guide is not None else asking
        _new, refused = self._read_custom_commands()
        follow_preferences(session, self.display)
        self._is_open.set()
        greet(self.display, opened._replace(notices=(*opened.notices, *refused)))
        state = session.state
        if state.draft and not self.front.draft():
            self.front.restore(state.draft)
        self._drafts.take_draft(state.draft)
        if state.open_turn:
            self.display.say(Phrase("The last turn was interrupted; continuing it."))
        if state.open_turn or state.unknown:
            self.turns.queue.insert(0, Work())
        if guide is not None:
            guide.begin(self)
        if self.display.screen is not None:
            port, resumed = session.extensions.port, bool(state.turn)
            self.spawn(self.guard(port.opened(self.display.screen, resumed=resumed)))
        self.turns.begin()
        self.front.surface.refresh()
        if guide is None:
            if session.memory is not None:
                session.memory.read("start")
            self.spawn(self.guard(self._use_quiet_moment()))

    # --- the session and its turns --------------------------------------------------------------

    @cached_property
    def _quiet(self) -> QuietMoments:
        from kogniterm.ui.quiet_moments import QuietMoments

        return QuietMoments(
            lambda: self._session.memory if self._session is not None else None,
            lambda: self.front,
            self.turns,
            self.display.say,
        )

    registry = cached_property[Registry](lambda self: Registry(self._commands()))
    """The slash commands, loaded on first use: the prompt takes keys without them."""

    @property
    def session(self) -> LiveSession:
        """The open session. Raises `UsageError` while it is still being opened."""
        if self._session is None:
            raise UsageError("The session is still opening; try again in a moment.")
        return self._session

    @property
    def opened(self) -> bool:
        return self._session is not None

    def ask_model(self, user_input: UserInput) -> None:
        pasted = user_input.foreign or self.front.pasted(user_input.typed)[1]
        self.turns.add(Work(input=replace(user_input, foreign=pasted)))

    def steer(self, text: str) -> None:
        """Say something to the running turn; queued like any input while none runs."""
        running = self.turns.current
        if self._session is None or running is None or running.shell is not None:
            from kogniterm.types import UserInput

            self.ask_model(UserInput(text))
            return
        self._session.steer(text)
        self.front.say_below(_("Sent with the next step."))

    def attachments(self, line: str) -> tuple[str, ...]:
        """Return the files and job outputs that `line` names."""
        session = self._session
        if session is None:
            return mentions(line, self.folder)
        names = mentions(line, session.folder)
        named = self.front.pasted(line)[0]
        return (*names, *named, *job_outputs(line, session.executor.jobs()))

    def switch_mode(self) -> None:
        """Use the next approval mode, and explain it until the next key."""
        from kogniterm.ui.words.approval_words import MODE_NOTES, mode_text

        if self._session is not None:
            self.use_mode(next_mode(self._session))
            mode = self._session.modes.approval
            name = mode_text(mode, sandboxed=self._session.policy.sandboxed)
            self.front.say_below(f"{name}: {translate(MODE_NOTES[mode])}")
            self.front.surface.refresh()

    def use_mode(self, mode: ApprovalMode) -> None:
        """Change the approval mode; an open question is judged again, and goes on waiting."""
        self.session.use_mode(mode)
        if self._asking is not None:
            self.front.questions.renew(self._asking.judge_again)

    def switch_thoughts(self) -> None:
        """Show thoughts in full, or fold them again, and say so until the next key."""
        shown = self.display.preferences.thoughts == "shown"
        self.display.change(thoughts="folded" if shown else "shown")
        self.front.say_below(_("Thoughts are folded.") if shown else _("Thoughts are shown."))
        self.front.surface.refresh()

    async def _work(self, work: Work) -> None:
        """Do one entry of the queue. This is a border: whatever happens is told, not raised."""
        screen = self.display.screen
        self._quiet.withdraw()
        self._drafts.keep()
        if work.text and not work.echoed:
            self.front.echo(work.text)
        await self.guard(self._run(work))
        if screen is not None:
            screen.settle()
        self.front.say_below("")
        if self.wiring.guide is None:
            self.spawn(self.guard(self._use_quiet_moment()))

    async def _run(self, work: Work) -> None:
        from kogniterm.types import UserInput
        from kogniterm.ui.questions.model_question import ask_user
        from kogniterm.ui.terminal.user_terminal import ask_secret

        session, screen, approver = self.session, self.display.screen, self._approver
        assert screen is not None
        assert approver is not None
        terminal = self.front.terminal()
        if work.shell is not None:
            await session.run_shell(work.shell, sink=screen, terminal=terminal)
            return
        given = work.input
        if given is not None and given.text.startswith("@"):
            from kogniterm.runtime.inputs.agent_turn import address_agent

            given = address_agent(given, session.extensions.port.agents())
        answer = await session.run(
            given,
            approver=approver,
            sink=screen,
            terminal=terminal,
            recover=partial(ask_fixed, self.front.questions),
            ask=partial(ask_user, self.front.questions),
            at_limit=partial(ask_fixed, self.front.questions),
            at_prompt=True,
            ask_secret=partial(ask_secret, self.front.hand_over, self.front.terminal_files),
        )
        # Said too late for the turn: it is queued, or given back to the line.
        unheard = self.session.journal.steering.unheard()
        if answer.stop == "interrupted":
            self.front.restore("\n".join(unheard))
        else:
            inputs = [UserInput(text, attachments=self.attachments(text)) for text in unheard]
            self.turns.queue[:0] = [Work(input=given) for given in inputs]
        follow_preferences(session, self.display)
        self.display.title(session.state.title)
        if self._updates is not None:
            self._say_update(self._updates.newer_version())
        if self.wiring.guide is not None:
            self.wiring.guide.turn_ended(answer)

    async def _use_quiet_moment(self) -> None:
        if words := await self._quiet.use():
            self.submit(words)

    def _say_update(self, notice: Phrase | None) -> None:
        if notice is not None:
            self.display.say(notice)

    async def guard(self, work: Awaitable[None]) -> None:
        """Await `work`; an error is shown to the user, an unexpected one is logged too."""
        try:
            await work
        except KognitermError as error:
            self.display.say(error.text, "error")
        except Exception as error:
            log.exception("a turn or a command failed")
            self.display.say(of_system(error) or BROKEN, "error")

    # --- slash commands -------------------------------------------------------------------------

    async def run_command(self, line: str) -> None:
        """Run a line that is a slash command; errors are shown."""
        self.front.echo(line)
        await self.guard(self._run_command(line))
        self.front.surface.refresh()

    async def _run_command(self, line: str) -> None:
        name, argument = split_line(line)
        if not self.registry.has(name):
            # It may be one of the user's own commands, which come with the session.
            await self._is_open.wait()
        command = self.registry.find(name)
        if command.needs_session:
            await self._is_open.wait()
        if self.turns.running and not command.while_running:
            raise UsageError(
                "/{name} cannot run during a turn. Wait until it ends, or stop it with Ctrl-C.",
                name=command.name,
            )
        done = command.run(self, argument)
        if done is not None:
            await done
        if self.wiring.guide is not None:
            self.wiring.guide.command_ended(command.name)

    def prefer(self, **changes: object) -> None:
        """Change preferences, for now and, where the caller keeps them, for good."""
        self.display.change(**changes)
        save = self.wiring.save_preference
        if save is not None:
            for name, value in changes.items():
                save(name, value)

    async def choose(
        self, title: str, body: Sequence[str], options: Sequence[Option[Value]]
    ) -> Value:
        """Ask a question with fixed answers; return the value of the one that was chosen."""
        return await self.front.questions.ask(ChoiceQuestion(title, body, options))

    async def pick_session(self, rows: Sequence[SessionRow]) -> str:
        """Ask for a session; return its id, empty when none was picked."""
        from kogniterm.ui.questions.session_list import SessionPickList

        return await self.front.questions.ask(SessionPickList(rows))

    def read_custom_commands(self) -> tuple[str, ...]:
        """Offer the custom commands as they are now; return the names of those that are new."""
        new, refused = self._read_custom_commands()
        for text in refused:
            self.display.say(text, "warning")
        return new

    def _read_custom_commands(self) -> tuple[tuple[str, ...], tuple[Phrase, ...]]:
        """Put the custom commands into the registry; return the new names, and the refusals."""
        built_in = self._commands()
        commands, refused = custom_commands(self.session, built_in)
        *most, last = built_in
        before, self.registry = self.registry, Registry((*most, *commands, last))
        return tuple(one.name for one in commands if not before.knows(one.name)), refused

    # --- leaving --------------------------------------------------------------------------------

    def leave(self, status: int = 0) -> None:
        self.spawn(self._quit(status))

    def leave_when_done(self) -> None:
        """Leave when the queue is worked off: there will be no more input."""
        self.spawn(self._leave_when_done())

    async def _leave_when_done(self) -> None:
        others = self._tasks - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        await self.turns.wait_until_idle()
        await self._quit(0)

    async def _quit(self, status: int) -> None:
        await self._wind_up(gone=status != 0)
        try:
            with contextlib.suppress(OSError):  # the terminal may be gone
                await self._end_jobs()
                self._say_how_to_resume()
        finally:
            self.display.close()
            self.front.exit(status)

    async def _wind_up(self, *, gone: bool) -> None:
        """Keep what was not sent, and end what runs. The first one to ask does it.

        A question whose user is gone is left open, to be asked again on resume.
        """
        if not self._leaving:
            from kogniterm.types.turn_values import LEFT_OPEN

            self._leaving = True
            self._quiet.withdraw()
            self.turns.pause()
            self._drafts.keep("\n".join([*self.turns.waiting, self.front.draft()]).strip("\n"))
            self._drafts.end()
            self.turns.queue.clear()
            self.turns.cancel(LEFT_OPEN if gone and self.front.question_open else "")
        await self.turns.settle()

    def _refresh(self) -> None:
        self.front.surface.refresh()

    def _draft(self) -> str:
        return self.front.draft()

    async def _end_jobs(self) -> None:
        """End what commands left running and is not to stay; say what became of it."""
        if self._session is not None:
            from kogniterm.ui.words.turn_words import left_texts

            left = await asyncio.to_thread(self._session.end_jobs)
            for text in left_texts(left):
                self.display.say(text)

    def _say_how_to_resume(self, *, apart: bool = False) -> None:
        """Show the command that resumes the session that is left, if it was used.

        With `apart` an empty line follows.
        """
        session = self._session
        kept = self.wiring.guide is None
        if session is None or not kept or not session.archive.store.is_used(session.id):
            return
        from rich.text import Text

        short = session.archive.store.short_id(session.id)
        line = Text(_("Resume this session:"), "muted")
        line.append(f" kogniterm --resume {short}", "command")
        self.display.write(line.append("\n") if apart else line)

    async def _close_session(self) -> None:
        self.turns.cancel()
        await self.turns.settle()
        if self._session is not None:
            session, self._session = self._session, None
            told = await session.finish("prompt_input_exit" if self._leaving else "clear")
            await asyncio.to_thread(session.close)
            for one in told:
                if self._leaving:
                    sys.stderr.write(f"{translate(one)}\n")
                else:
                    self.display.say(one, "warning")

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run something beside the turns; leaving waits for it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log the failure of a callback; a traceback on the screen helps no user."""
    log.error("%s", context.get("message"), exc_info=context.get("exception"))


def greet(display: Display, opened: Opened) -> None:
    """Say once what the user should know about a session that was opened."""
    values: dict[str, object] = {"name": opened.session.model.label}
    if opened.first_run:
        display.say(Phrase("Describe a task and press Enter."))
        display.say(_how_approval_works(opened.session))
    if opened.model_reason is not None:
        values["why"] = opened.model_reason
        display.say(Phrase("Model: {name}. {why}", values))
    elif opened.first_run:
        display.say(Phrase("Model: {name}.", values))
    if opened.first_run:
        display.say(Phrase('Try "what takes the most space in this folder?".'))
    for notice in opened.notices:
        display.say(notice, "warning")
    if opened.past is not None:
        from kogniterm.ui.past_turns import draw_past_turns

        surface, screen = display.front.surface, display.screen
        finished = screen.finished if screen is not None else []
        text = draw_past_turns(opened.past, display.painter, surface.size(), finished)
        surface.commit(f"\n{text}" if opened.notices and text else text)
        title = opened.session.state.title or opened.session.id
        display.say(Phrase("Session resumed: {title}", {"title": title}))


def next_mode(session: LiveSession) -> ApprovalMode:
    """Return the next approval mode that works here."""
    from kogniterm.runtime.questions.approval_facts import usable_modes

    usable = usable_modes(session.policy, session.model)
    before = session.modes.approval
    return usable[(usable.index(before) + 1) % len(usable)] if before in usable else usable[0]


def mode_line(session: LiveSession) -> Phrase:
    from kogniterm.runtime.questions.approval_facts import MODE_HELP
    from kogniterm.ui.words.approval_words import mode_text

    mode = session.modes.approval
    name = mode_text(mode, sandboxed=session.policy.sandboxed)
    values = {"name": name, "help": MODE_HELP[mode]}
    if mode in ("manual", "accept-edits") and session.policy.circumstances.safe_unasked:
        return Phrase("Mode: {name} ({help}). Read-only commands run without asking.", values)
    return Phrase("Mode: {name} ({help}).", values)


def _how_approval_works(session: LiveSession) -> Phrase:
    asks = session.modes.approval == "manual"
    if asks and not session.policy.circumstances.safe_unasked:
        return Phrase(
            "Each command waits for your approval. Press y to approve, n to reject, x to explain."
        )
    return Phrase("{mode} Shift-Tab or /mode changes it.", {"mode": mode_line(session)})


JOBS = "jobs"
JOB = "job:"
"""The words behind @ for the outputs of all jobs, and before the ID of one."""


def job_outputs(line: str, jobs: Sequence[Job]) -> tuple[str, ...]:
    """Return the outputs of the jobs that `line` names: `@job:ID`, or `@jobs` for all of them."""
    words = set(named_words(line))
    return tuple(
        job.output_path
        for job in jobs
        if job.output_path and (JOBS in words or f"{JOB}{job.id}" in words)
    )
