"""The REPL: reads lines while turns run, keeps the queue, and obeys Ctrl-C, Esc and Ctrl-D.

Before the first render only prompt_toolkit and the standard library are imported. Drawing,
settings, the graph and the providers load behind the prompt, and what was typed meanwhile
waits in the queue. This module and `ui.plain_front` are the two ways to sit in front of it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm.errors import EXIT_NOT_DONE, KognitermError, UsageError
from kogniterm.types import ActionRequest, Text, UserInput
from kogniterm.ui.commands.basic import MODES, basic_registry
from kogniterm.ui.commands.registry import Command, split_line
from kogniterm.ui.front import Front, open_front
from kogniterm.ui.locale import translate, use_language
from kogniterm.ui.preferences import Preferences
from kogniterm.ui.theme import Background, background_from_colorfgbg, choose
from kogniterm.ui.toolbar import Facts, short_folder
from kogniterm.ui.turns import Turns, Work

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kogniterm.protocols import Approver, Terminal
    from kogniterm.runtime.session import LiveSession
    from kogniterm.ui.attention import Attention
    from kogniterm.ui.paint import Painter
    from kogniterm.ui.question import AskHooks
    from kogniterm.ui.render import Finished, ScreenSink

log = logging.getLogger(__name__)
AGAIN_SECONDS = 2.0
"""Within which a second Esc or Ctrl-D means the stronger thing."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open session, and what the person should be told about it once."""

    session: LiveSession
    model_reason: Text | None = None
    first_run: bool = False
    notices: tuple[Text, ...] = ()
    hooks: AskHooks | None = None
    redact: Callable[[str], str] | None = None


OpenSession = Callable[[str | None], Awaitable[Opened]]


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the REPL is given besides the session; everything is optional."""

    commands: Sequence[Command] = ()
    model_names: Callable[[], Sequence[str]] | None = None
    files: Callable[[], Iterable[str]] | None = None
    terminal: Callable[[Front], Terminal] | None = None
    save_preference: Callable[[str, object], None] | None = None
    session_id: str | None = None
    first_input: str | None = None
    clock: Callable[[], float] = field(default=time.monotonic)


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
    use_language(preferences.language)
    repl = Repl(open_session, preferences, folder, home, version, wiring or Wiring())
    return asyncio.run(repl.run())


class Repl:
    """One person, one terminal, one session at a time."""

    def __init__(
        self,
        open_session: OpenSession,
        preferences: Preferences,
        folder: str,
        home: str,
        version: str,
        wiring: Wiring,
        front: Callable[[Repl], Front] | None = None,
    ) -> None:
        self.preferences = preferences
        self.registry = basic_registry(wiring.commands)
        self.turns = Turns(self._work, self._refresh)
        self._open_session = open_session
        self._folder = folder
        self._home = home
        self._version = version
        self._wiring = wiring
        self._background: Background | None = background_from_colorfgbg(preferences.colorfgbg)
        self._session: LiveSession | None = None
        self._screen: ScreenSink | None = None
        self._approver: Approver | None = None
        self._attention: Attention | None = None
        self._pressed: tuple[str, float] = ("", float("-inf"))
        self._stopping_command = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.front = front(self) if front is not None else open_front(self)

    async def run(self) -> int:
        """Show the prompt, load behind it, leave cleanly."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_failure)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, partial(self._leave_with, 128 + number))
        try:
            return await self.front.run()
        finally:
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)
            await self._close_session()

    # --- loading behind the prompt --------------------------------------------------------------

    def ready(self) -> None:
        """The first render is done: load the rest."""
        self._spawn(self._load())

    async def _load(self) -> None:
        try:
            await asyncio.to_thread(_import_drawing)
            self._make_screen()
            if self._wiring.first_input:
                self.submit(self._wiring.first_input)
            await self.reopen(self._wiring.session_id)
        except KognitermError as error:
            self._fail(error.text)
            self.front.exit(error.exit_code)
        except Exception:
            log.exception("the session could not be opened")
            self._fail(Text("Something went wrong inside KogniTerm; the log file has the details."))
            self.front.exit(EXIT_NOT_DONE)

    async def reopen(self, session_id: str | None) -> None:
        """Close the session, if one is open, and open another one."""
        self.turns.pause()
        await self._close_session()
        opened = await self._open_session(session_id)
        self._session = opened.session
        self.front.history_redact(opened.redact)
        if opened.hooks is not None:
            self.front.use_hooks(opened.hooks)
        self._greet(opened)
        if opened.session.state.open_turn:
            self.say(Text("The last turn of this session was not finished; going on with it."))
            self.turns.queue.insert(0, Work())
        self.turns.begin()
        self._refresh()

    def _make_screen(self) -> None:
        from kogniterm.ui.attention import Attention
        from kogniterm.ui.render import ScreenOptions, ScreenSink

        prefs = self.preferences
        self._attention = Attention(prefs, self.front.control)
        options = ScreenOptions(
            fold=prefs.fold, live=not prefs.bare, notify_after=prefs.notify_after
        )
        self._screen = ScreenSink(
            self._make_painter(),
            self.front,
            clock=self._wiring.clock,
            options=options,
            attention=self._attention,
        )
        self._approver = self.front.make_approver(self)

    def _make_painter(self) -> Painter:
        from kogniterm.ui.paint import Painter

        prefs = self.preferences
        return Painter(
            self.theme,
            color=prefs.color,
            attributes=not prefs.bare,
            unicode=prefs.unicode and not prefs.bare,
            system="truecolor" if prefs.truecolor else "256",
        )

    def _greet(self, opened: Opened) -> None:
        if opened.first_run:
            self.say(Text("Say what you want done. Every command is shown to you before it runs."))
        values = {"name": opened.session.model.name}
        if opened.model_reason is not None:
            self.say(Text("Model: {name}. {why}", values | {"why": opened.model_reason}))
        if opened.first_run:
            self.say(Text('Try: "what takes the most space in this folder?" or /help.'))
        for notice in opened.notices:
            self.say(notice, "warning")

    # --- Conversation: what the prompt tells ----------------------------------------------------

    def submit(self, text: str) -> None:
        """A line was sent: a command, a command of the person's own, or an input."""
        line = text.strip()
        if not line:
            return
        if line.startswith("/") and "\n" not in line and "/" not in line.split()[0][1:]:
            self._spawn(self._dispatch(line))
        elif line.startswith("!") and line[1:].strip():
            self.turns.add(Work(shell=line[1:].strip()))
        else:
            self.ask_model(UserInput(line, attachments=mentions(line)))

    def interrupt(self) -> None:
        """Ctrl-C: the running command first, then the turn."""
        if self._command_running() and not self._stopping_command:
            self._stop_command()
        elif self.turns.running:
            self._stop_turn()
        else:
            self.front.say_below(translate(Text("Ctrl-D leaves.")))

    def escape(self) -> None:
        """Esc: the running command; twice: the turn."""
        again = self._again("escape")
        if not self.turns.running:
            return
        if again:
            self._stop_turn()
        elif self._command_running():
            self._stop_command()
        else:
            self.front.say_below(translate(Text("Esc again stops the turn.")))

    def leave(self) -> None:
        """Ctrl-D on an empty line; asks when something still runs."""
        if self.turns.running and not self._again("leave"):
            text = Text("Something is still running. Ctrl-D again stops it and leaves.")
            self.front.say_below(translate(text))
            return
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
        self._spawn(self.front.edit_outside())

    def queued(self) -> Sequence[str]:
        """What waits for its turn."""
        return [work.text for work in self.turns.queue if work.text]

    def facts(self) -> Facts:
        """What the toolbar tells."""
        session = self._session
        if session is None:
            return Facts(folder=short_folder(self._folder, self._home))
        usage = session.usage
        return Facts(
            model=session.model.name,
            mode=session.mode,
            plan_mode=session.plan_mode,
            session=session.id[:8],
            folder=short_folder(session.cwd, self._home),
            tokens=usage.input + usage.output,
            jobs=sum(job.state == "running" for job in session.executor.jobs()),
        )

    def saw_background(self, background: Background | None) -> None:
        """The terminal said what its background is."""
        self._background = background
        self._restyle()

    # --- ReplContext: what commands use ---------------------------------------------------------

    @property
    def session(self) -> LiveSession:
        """The open session. Raises `UsageError` while it is still being opened."""
        if self._session is None:
            raise UsageError("The session is still being opened; try again in a moment.")
        return self._session

    @property
    def opened(self) -> bool:
        """Whether a session is open."""
        return self._session is not None

    @property
    def painter(self) -> Painter:
        """How things are drawn now."""
        return self._screen.painter if self._screen is not None else self._make_painter()

    @property
    def theme(self) -> Any:
        """The theme in use."""
        prefs = self.preferences
        color = prefs.color and not prefs.bare
        return choose(prefs.theme, color=color, background=self._background)

    @property
    def finished(self) -> Sequence[Finished]:
        """The commands that ended on this screen."""
        return self._screen.finished if self._screen is not None else ()

    @property
    def model_names(self) -> Callable[[], Sequence[str]] | None:
        """Lists the models, where the caller knows how."""
        return self._wiring.model_names

    @property
    def files(self) -> Callable[[], Iterable[str]] | None:
        """Lists the workspace's files for @ completion."""
        return self._wiring.files

    @property
    def clock(self) -> Callable[[], float]:
        """Monotonic seconds."""
        return self._wiring.clock

    @property
    def version(self) -> str:
        """KogniTerm's version, for the banner."""
        return self._version

    def write(self, renderable: RenderableType) -> None:
        """Write something into the scrollback."""
        if self._screen is not None:
            self._screen.write(renderable)

    def say(self, text: Text, level: str = "info") -> None:
        """Write a sentence into the scrollback."""
        if self._screen is not None:
            self._screen.notice(text, level)
        else:
            self.front.commit(translate(text) + "\n")

    def prefer(self, **changes: object) -> None:
        """Change preferences, for now and, where the caller keeps them, for good."""
        self.preferences = replace(self.preferences, **changes)  # type: ignore[arg-type]  # the fields' own types are checked by the commands
        use_language(self.preferences.language)
        self.front.use_keys(self.preferences.keys)
        self._restyle()
        if self._wiring.save_preference is not None:
            for name, value in changes.items():
                self._wiring.save_preference(name, value)

    def ask_model(self, user_input: UserInput) -> None:
        """Queue an input for the model."""
        self.turns.add(Work(input=user_input))

    async def show_file(self, path: str) -> None:
        """Open a file in the pager."""
        await self.front.show_file(path)

    def quit(self) -> None:
        """Stop what runs and leave."""
        self._leave_with(0)

    def stop_turn(self) -> None:
        """Stop the turn, as a question's answer."""
        self._stop_turn()

    def person_needed(self) -> None:
        """A question waits."""
        if self._attention is not None:
            self._attention.call(translate(Text("KogniTerm: a question waits for you")))

    def leave_when_done(self) -> None:
        """There will be no more input: leave when the queue is worked off."""
        self._spawn(self._leave_when_done())

    async def _leave_when_done(self) -> None:
        while self._session is None and self._tasks - {asyncio.current_task()}:
            await asyncio.wait(self._tasks - {asyncio.current_task()})
        await self.turns.drained()
        await self._quit(0)

    def folder_of(self, request: ActionRequest) -> str:
        """The folder a request was proposed for."""
        folders = self._screen.folders if self._screen is not None else {}
        return folders.get(request.id, self._folder)

    # --- pieces ---------------------------------------------------------------------------------

    async def _work(self, work: Work) -> None:
        """Do one entry of the queue. This is a border: whatever happens is told, not raised."""
        session, screen, approver = self._session, self._screen, self._approver
        if session is None or screen is None or approver is None:
            return
        self._stopping_command = False
        if work.text:
            self.front.echo(work.text)
        terminal = self._wiring.terminal(self.front) if self._wiring.terminal else None
        try:
            if work.shell is not None:
                await session.run_shell(work.shell, sink=screen, terminal=terminal)
                return
            await session.run(
                work.input,
                approver=approver,
                sink=screen,
                terminal=terminal,
                recover=self.front.recover,
            )
            if self._attention is not None:
                self._attention.title(session.title or session.folder)
        except KognitermError as error:
            self._fail(error.text)
        except Exception:
            log.exception("a turn failed")
            self._fail(Text("Something went wrong inside KogniTerm; the log file has the details."))
        finally:
            screen.settle()
            self.front.say_below("")

    async def _dispatch(self, line: str) -> None:
        name, argument = split_line(line)
        try:
            command = self.registry.find(name)
            if self.turns.running and not command.while_running:
                raise UsageError("/{name} has to wait until the turn is over.", name=command.name)
            self.front.echo(line)
            done = command.run(self, argument)
            if done is not None:
                await done
        except KognitermError as error:
            self._fail(error.text)
        except Exception:
            log.exception("a slash command failed")
            self._fail(Text("Something went wrong inside KogniTerm; the log file has the details."))
        self._refresh()

    def _stop_command(self) -> None:
        self._stopping_command = True
        if self._session is not None:
            self._session.stop_command()
        if self._screen is not None and not self._screen.running:
            return
        self.front.say_below(translate(Text("Stopping the command; once more stops the turn.")))

    def _stop_turn(self) -> None:
        self.front.restore(self.turns.stop())

    def _command_running(self) -> bool:
        return self._screen is not None and self._screen.frame is not None

    def _again(self, key: str) -> bool:
        now = self._wiring.clock()
        before, self._pressed = self._pressed, (key, now)
        return before[0] == key and now - before[1] <= AGAIN_SECONDS

    def _leave_with(self, status: int) -> None:
        self._spawn(self._quit(status))

    async def _quit(self, status: int) -> None:
        self.turns.pause()
        self.turns.queue.clear()
        self.turns.cancel()
        await self.turns.settle()
        if self._attention is not None:
            self._attention.close()
        self.front.exit(status)

    async def _close_session(self) -> None:
        self.turns.cancel()
        await self.turns.settle()
        if self._session is not None:
            session, self._session = self._session, None
            await asyncio.to_thread(session.close)

    def _restyle(self) -> None:
        self.front.restyle(self.theme)
        if self._screen is not None:
            self._screen.painter = self._make_painter()
        self._refresh()

    def _refresh(self) -> None:
        self.front.refresh()

    def _fail(self, text: Text) -> None:
        self.say(text, "error")

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def mentions(line: str) -> tuple[str, ...]:
    """The files named with @ in `line` that exist."""
    words = (word[1:].strip("\"'.,;:()") for word in line.split() if word.startswith("@"))
    return tuple(word for word in words if word and Path(word).exists())


def _log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback failed: that is for the log; a traceback on the screen helps nobody."""
    log.error("%s", context.get("message"), exc_info=context.get("exception"))


def _import_drawing() -> None:
    """Load what draws, on a thread."""
    import kogniterm.ui.ask_panel
    import kogniterm.ui.render  # noqa: F401  # the import is the work
