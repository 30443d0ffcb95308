"""Runs slash commands: the registry, and everything that a command may use of the REPL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Job, Phrase, UserInput
from kogniterm.ui.commands.command_table import basic_registry
from kogniterm.ui.commands.registry import Registry, split_line
from kogniterm.ui.questions.choice import ChoiceQuestion, Option
from kogniterm.ui.repl import Repl
from kogniterm.ui.screen_preferences import Preferences

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kogniterm.runtime.session import LiveSession
    from kogniterm.ui.screen.paint import Painter
    from kogniterm.ui.screen.renderer import Finished


class CommandRunner:
    """Implements `ReplContext` over the REPL, its display and its front."""

    def __init__(self, repl: Repl) -> None:
        self._repl = repl
        self._display = repl.display
        self._own = repl.own_commands
        self._registry = basic_registry((*repl.wiring.commands, *self._own))

    @property
    def registry(self) -> Registry:
        """The commands there are, the open session's own among them."""
        if self._repl.own_commands is not self._own:
            self._own = self._repl.own_commands
            self._registry = basic_registry((*self._repl.wiring.commands, *self._own))
        return self._registry

    def knows(self, line: str) -> bool:
        """Tell whether a line that looks like a slash command is one."""
        return self.registry.knows(split_line(line)[0])

    async def run(self, line: str) -> None:
        """Run a line that is a slash command; errors are told."""
        self._repl.front.echo(line)
        await self._repl.guarded(self._run(line))
        self._repl.front.surface.refresh()

    async def _run(self, line: str) -> None:
        name, argument = split_line(line)
        if not self.registry.has(name):
            # It may be one of the user's own commands, which come with the session.
            await self._repl.wait_until_open()
        command = self.registry.find(name)
        if command.needs_session:
            await self._repl.wait_until_open()
        if self._repl.turns.running and not command.while_running:
            raise UsageError("/{name} has to wait until the turn is over.", name=command.name)
        done = command.run(self, argument)
        if done is not None:
            await done

    # --- what commands use ----------------------------------------------------------------------

    @property
    def session(self) -> LiveSession:
        """The open session. Raises `UsageError` while it is still being opened."""
        return self._repl.session

    @property
    def preferences(self) -> Preferences:
        """How the user wants the screen."""
        return self._display.preferences

    @property
    def painter(self) -> Painter:
        """What draws now."""
        return self._display.painter

    @property
    def finished(self) -> Sequence[Finished]:
        """The commands that ended on this screen, oldest first."""
        return self._display.screen.finished if self._display.screen is not None else ()

    @property
    def model_names(self) -> Callable[[], Sequence[str]] | None:
        """Lists the models, where the caller knows how."""
        return self._repl.wiring.model_names

    def jobs(self) -> Sequence[Job]:
        """Return what commands left running."""
        return self._repl.jobs()

    def write(self, renderable: RenderableType) -> None:
        """Write something into the scrollback."""
        self._display.write(renderable)

    def say(self, text: Phrase, level: str = "info") -> None:
        """Write a sentence into the scrollback."""
        self._display.say(text, level)

    def prefer(self, **changes: object) -> None:
        """Change preferences, for now and, where the caller keeps them, for good."""
        self._display.change(**changes)
        save = self._repl.wiring.save_preference
        if save is not None:
            for name, value in changes.items():
                save(name, value)

    def ask_model(self, user_input: UserInput) -> None:
        """Queue an input for the model."""
        self._repl.ask_model(user_input)

    def steer(self, text: str) -> None:
        """Say something to the running turn."""
        self._repl.steer(text)

    async def reopen(self, session_id: str | None) -> None:
        """Close this session and open another one; None: a new one."""
        await self._repl.reopen(session_id)

    async def choose(self, title: str, body: Sequence[str], options: Sequence[Option]) -> str:
        """Ask a question with fixed answers; return the value of the one that was chosen."""
        return await self._repl.front.questions.ask(ChoiceQuestion(title, body, options))

    async def edit_text(self, text: str) -> str | None:
        """Return `text` as it was saved in the user's editor; None when nothing was changed."""
        return await self._repl.front.edit_text(text)

    async def show_file(self, path: str) -> None:
        """Open a file in the pager."""
        await self._repl.front.show_file(path)

    def read_own_commands(self) -> tuple[str, ...]:
        """Offer the own commands as they are now; return the names of those that are new."""
        from kogniterm.ui.commands.custom import session_commands

        before = {command.name for command in self.registry.commands}
        commands, refused = session_commands(self.session)
        for text in refused:
            self.say(text, "warning")
        self._repl.own_commands = commands
        return tuple(command.name for command in commands if command.name not in before)

    def quit(self) -> None:
        """Leave."""
        self._repl.leave()
