"""The REPL: reads lines while turns run, keeps the queue, and opens what it needs behind.

Before the first render only prompt_toolkit and the standard library are imported. Drawing,
settings, the graph and the providers load behind the prompt, and what was typed meanwhile
waits in the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from kogniterm.errors import EXIT_NOT_DONE, KognitermError, UsageError, of_system
from kogniterm.runtime.asking import LEFT_OPEN
from kogniterm.types import Answer, Text, UserInput
from kogniterm.ui.choice import unknown_outcome
from kogniterm.ui.commands.basic import MODES, basic_registry
from kogniterm.ui.commands.registry import split_line
from kogniterm.ui.desk import Desk
from kogniterm.ui.drafts import Drafts
from kogniterm.ui.front import Front, open_front
from kogniterm.ui.inputs import is_slash_command, job_outputs, mentions
from kogniterm.ui.left_running import left_texts
from kogniterm.ui.preferences import Preferences
from kogniterm.ui.stopping import Stopping
from kogniterm.ui.turns import Turns, Work
from kogniterm.ui.wiring import Opened, OpenSession, Wiring

if TYPE_CHECKING:
    from kogniterm.protocols import Approver
    from kogniterm.sessions.records import Intent

__all__ = ["OpenSession", "Opened", "Repl", "Wiring", "run_repl"]

Wish = Literal["check", "again", "skip"]
log = logging.getLogger(__name__)
_LEAVE_ON = (signal.SIGTERM, signal.SIGHUP)
BROKEN = Text("Something went wrong inside KogniTerm; the log file has the details.")


def run_repl(
    *,
    open_session: OpenSession,
    preferences: Preferences,
    folder: str,
    home: str = "",
    version: str = "",
    wiring: Wiring | None = None,
) -> int:
    """Talk until the person leaves; returns the exit status.

    `open_session(id)` opens a session (None: a new one) and is first called after the prompt
    was drawn, so it may import whatever it likes; it runs on the loop and should do slow work
    in a thread.
    """
    repl = Repl(open_session, preferences, folder, home, version, wiring or Wiring())
    return asyncio.run(repl.run())


class Repl(Desk):
    """One person, one terminal, one session at a time."""

    def __init__(
        self,
        open_session: OpenSession,
        preferences: Preferences,
        folder: str,
        home: str = "",
        version: str = "",
        wiring: Wiring | None = None,
        front: Callable[[Repl], Front] = open_front,
    ) -> None:
        super().__init__(preferences, folder, home, version, wiring or Wiring())
        self.turns = Turns(self._work, self._refresh)
        self._is_open = asyncio.Event()
        self._open_session = open_session
        self._approver: Approver | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._leaving = False
        self.front = front(self)
        self._drafts = Drafts(lambda: self._session, self.front.draft)
        self._stopping = Stopping(
            self.turns,
            command_running=self._command_running,
            stop_command=self._stop_command,
            restore=self.front.restore,
            note=self.front.say_below,
            clock=self.wiring.clock,
        )

    async def run(self) -> int:
        """Show the prompt, load behind it, leave cleanly."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_failure)
        # nohup starts us with HUP ignored, and that is to stay.
        ours = [n for n in _LEAVE_ON if signal.getsignal(n) is not signal.SIG_IGN]
        for number in ours:
            loop.add_signal_handler(number, partial(self._leave_with, 128 + number))
        try:
            return await self.front.run()
        except (EOFError, OSError) as error:
            # The terminal is gone; its signal is on its way, or was lost with it.
            log.warning("the terminal is gone: %s", error)
            await self._wind_up(gone=True)
            return 128 + signal.SIGHUP
        finally:
            await self._close_session()
            for number in ours:
                loop.remove_signal_handler(number)

    # --- loading behind the prompt --------------------------------------------------------------

    def ready(self) -> None:
        """The first render is done: load the rest."""
        self._spawn(self._load())

    async def _load(self) -> None:
        try:
            await asyncio.to_thread(_import_drawing)
            self._screen = self.look.open_screen(self.front, self.wiring.clock)
            for renderable in self._early:
                self._screen.write(renderable)
            self._early.clear()
            self._approver = self.front.make_approver(self)
            if self.wiring.first_input:
                self.submit(self.wiring.first_input)
            await self.reopen(self.wiring.session_id)
            self._drafts.begin()
        except KognitermError as error:
            self.say(error.text, "error")
            self.front.exit(error.exit_code)
        except Exception as error:
            log.exception("the session could not be opened")
            self.say(of_system(error) or BROKEN, "error")
            self.front.exit(EXIT_NOT_DONE)

    async def reopen(self, session_id: str | None) -> None:
        """Close the session, if one is open, and open another one."""
        self.turns.pause()
        # What stood on the line at the last tick may have been sent since.
        self._drafts.leave()
        self.turns.cancel()
        await self.turns.settle()
        await self._end_jobs()
        await self._close_session()
        self._is_open.clear()
        opened = await self._open_session(session_id)
        self._session = opened.session
        self.registry = basic_registry((*self.wiring.commands, *opened.commands))
        self._is_open.set()
        self.front.history_redact(opened.redact)
        if opened.hooks is not None:
            self.front.use_hooks(opened.hooks)
        self._greet(opened)
        state = opened.session.state
        if state.draft and not self.front.draft():
            self.front.restore(state.draft)
        self._drafts.found(state.draft)
        if state.open_turn:
            self.say(Text("The last turn of this session was not finished; going on with it."))
        if state.open_turn or state.unknown:
            self.turns.queue.insert(0, Work())
        self.turns.begin()
        self._refresh()

    # --- what the prompt tells ------------------------------------------------------------------

    def submit(self, text: str) -> None:
        """A line was sent: a command, a command of the person's own, or an input."""
        line = text.strip()
        if not line:
            return
        if is_slash_command(line):
            self._spawn(self._dispatch(line))
        elif line.startswith("!") and line[1:].strip():
            self.turns.add(Work(shell=line[1:].strip()))
        else:
            self.ask_model(UserInput(line, attachments=self._attachments(line)))

    def knows(self, line: str) -> bool:
        """Whether a line that looks like a slash command is one."""
        return self.registry.knows(split_line(line)[0])

    def say_now(self, text: str) -> None:
        """Say a line, or what is queued when it is empty, to the running turn."""
        line = text.strip()
        if is_slash_command(line) or line.startswith("!") or (line and not self.turns.running):
            self.submit(text)
            return
        for words in [line] if line else self.turns.take_inputs():
            self.front.echo(words)
            self.steer(words)

    def interrupt(self) -> None:
        """Ctrl-C on an empty line."""
        self._stopping.interrupt()

    def escape(self) -> None:
        """Esc."""
        self._stopping.escape()

    def leave(self) -> None:
        """Ctrl-D on an empty line."""
        current = self.turns.current
        if current is not None and current.shell is not None:
            # The keyboard is the command's own: this was typed ahead of its end, as to a shell.
            self.leave_when_done()
        elif self._stopping.may_leave():
            self.quit()

    def send_now(self) -> None:
        """Stop the turn and go on with what is queued."""
        if self.turns.running and self.turns.queue:
            self.turns.cancel()

    def take_back(self) -> str | None:
        """The last queued message, queued no longer."""
        return self.turns.take_back()

    def switch_mode(self) -> None:
        """The other approval mode."""
        if self._session is not None:
            other = MODES[(MODES.index(self._session.mode) + 1) % len(MODES)]
            self._session.use_mode(other)
            self._refresh()

    def edit_outside(self) -> None:
        """Write the line in the editor."""
        self._spawn(self._guarded(self.front.edit_outside()))

    def paste_image(self) -> None:
        """Add the image on the clipboard to the line."""
        self._spawn(self._guarded(self.front.paste_image()))

    def leave_when_done(self) -> None:
        """There will be no more input: leave when the queue is worked off."""
        self._spawn(self._leave_when_done())

    def quit(self) -> None:
        """Stop what runs and leave."""
        self._leave_with(0)

    def hang_up(self) -> None:
        """The terminal is gone."""
        self._leave_with(128 + signal.SIGHUP)

    def stop_turn(self) -> None:
        """Stop the turn, as a question's answer."""
        self._stopping.stop_turn()

    # --- pieces ---------------------------------------------------------------------------------

    async def _work(self, work: Work) -> None:
        """Do one entry of the queue. This is a border: whatever happens is told, not raised."""
        screen = self._screen
        self._stopping.new_work()
        self._drafts.keep()
        if work.text:
            self.front.echo(work.text)
        await self._guarded(self._run(work))
        if screen is not None:
            screen.settle()
        self.front.say_below("")

    async def _run(self, work: Work) -> None:
        session, screen, approver = self.session, self._screen, self._approver
        assert screen is not None
        assert approver is not None
        terminal = self.front.terminal()
        if work.shell is not None:
            await session.run_shell(work.shell, sink=screen, terminal=terminal)
            return
        answer = await session.run(
            work.input,
            approver=approver,
            sink=screen,
            terminal=terminal,
            recover=self._recover,
            ask=self.ask_person,
        )
        self._take_unheard(answer)
        if self.look.attention is not None and session.title:
            self.look.attention.title(session.title)

    def _take_unheard(self, answer: Answer) -> None:
        """What was said too late for the turn becomes the next one, or comes back to the line."""
        unheard = self.session.steering.unheard()
        if answer.stop == "interrupted":
            self.front.restore("\n".join(unheard))
        else:
            inputs = [UserInput(text, attachments=self._attachments(text)) for text in unheard]
            self.turns.queue[:0] = [Work(input=given) for given in inputs]

    def _attachments(self, line: str) -> tuple[str, ...]:
        """The files and job outputs that `line` names."""
        session = self._session
        if session is None:
            return mentions(line, self._folder)
        names = mentions(line, session.folder)
        named = self.front.pasted_images(line)
        return (*names, *named, *job_outputs(line, session.executor.jobs()))

    async def _recover(self, intent: Intent, output: str) -> Wish:
        """Ask what to do about a command whose outcome is unknown."""
        wish = await self.front.choose(*unknown_outcome(intent.command, output))
        return "check" if wish == "check" else "again" if wish == "again" else "skip"

    async def _dispatch(self, line: str) -> None:
        self.front.echo(line)
        await self._guarded(self._command(line))
        self._refresh()

    async def _command(self, line: str) -> None:
        name, argument = split_line(line)
        if not self.registry.has(name):
            # It may be one of the user's own commands, which come with the session.
            await self._is_open.wait()
        command = self.registry.find(name)
        if command.needs_session:
            await self._is_open.wait()
        if self.turns.running and not command.while_running:
            raise UsageError("/{name} has to wait until the turn is over.", name=command.name)
        done = command.run(self, argument)
        if done is not None:
            await done

    async def _guarded(self, work: Any) -> None:
        """Await `work`; an error is told to the person, a surprise to the log as well."""
        try:
            await work
        except KognitermError as error:
            self.say(error.text, "error")
        except Exception as error:
            log.exception("a turn or a command failed")
            self.say(of_system(error) or BROKEN, "error")

    def _stop_command(self) -> None:
        if self._session is not None:
            self._session.stop_command()

    def _command_running(self) -> bool:
        return self._screen is not None and self._screen.frame is not None

    def _leave_with(self, status: int) -> None:
        self._spawn(self._quit(status))

    async def _leave_when_done(self) -> None:
        others = self._tasks - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        await self.turns.drained()
        await self._quit(0)

    async def _quit(self, status: int) -> None:
        await self._wind_up(gone=status != 0)
        try:
            with contextlib.suppress(OSError):  # the terminal may be gone
                await self._end_jobs()
        finally:
            if self.look.attention is not None:
                self.look.attention.close()
            self.front.exit(status)

    async def _wind_up(self, *, gone: bool) -> None:
        """Keep what was not sent, and end what runs. The first one to ask does it.

        A question whose person is gone is left open, to be asked again on resume.
        """
        if not self._leaving:
            self._leaving = True
            self.turns.pause()
            self._drafts.keep("\n".join([*self.queued(), self.front.draft()]).strip("\n"))
            self._drafts.end()
            self.turns.queue.clear()
            self.turns.cancel(LEFT_OPEN if gone and self.front.question_open else "")
        await self.turns.settle()

    async def _end_jobs(self) -> None:
        """End what commands left running and is not to stay; say what became of it."""
        if self._session is not None:
            left = await asyncio.to_thread(self._session.end_jobs)
            for text in left_texts(left):
                self.say(text)

    async def _close_session(self) -> None:
        self.turns.cancel()
        await self.turns.settle()
        if self._session is not None:
            session, self._session = self._session, None
            await session.finish()
            await asyncio.to_thread(session.close)

    def _refresh(self) -> None:
        self.front.refresh()

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback failed: that is for the log; a traceback on the screen helps nobody."""
    log.error("%s", context.get("message"), exc_info=context.get("exception"))


def _import_drawing() -> None:
    """Load what draws, on a thread."""
    import kogniterm.ui.ask_panel
    import kogniterm.ui.render  # noqa: F401  # the import is the work
