"""The actions of the prompt's keys and lines: send, queue, steer, stop, leave."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

from kogniterm.errors import EXIT_INTERRUPTED
from kogniterm.runtime.inputs.called_input import is_slash_command, split_line
from kogniterm.ui.locale import _
from kogniterm.ui.repl import Repl
from kogniterm.ui.turns import Work

AGAIN_SECONDS = 2.0
"""Within which a second Esc or Ctrl-D means the stronger thing."""


class Controls:
    """The REPL as its front sees it."""

    def __init__(self, repl: Repl, version: str = "") -> None:
        self.repl = repl
        self.display = repl.display
        self.version = version
        self._turns = repl.turns
        self._pressed: tuple[str, float] = ("", float("-inf"))
        self._stopped_command_of: Work | None = None

    # --- lines ----------------------------------------------------------------------------------

    def submit(self, text: str) -> None:
        """Take a line that was sent: a slash command, a command of the user's, or an input."""
        line = text.strip()
        if not line:
            return
        if line in ("exit", "quit"):
            self.repl.spawn(self.repl.run_command(f"/{line}"))
        elif is_slash_command(line):
            self.repl.spawn(self.repl.run_command(line))
        elif line.startswith("!") and line[1:].strip():
            self._turns.add(Work(shell=line[1:].strip()))
        else:
            from kogniterm.types import UserInput

            self.repl.ask_model(UserInput(line, attachments=self.repl.attachments(line)))

    def say_now(self, text: str) -> None:
        """Say a line, or what is queued when it is empty, to the running turn."""
        line = text.strip()
        if is_slash_command(line) or line.startswith("!") or (line and not self._turns.running):
            self.submit(text)
            return
        for words in [line] if line else self._turns.take_inputs():
            self.repl.front.echo(words)
            self.repl.steer(words)

    def knows_command(self, line: str) -> bool:
        """Return whether a line is a slash command whose name is written in full."""
        return self.repl.registry.knows(split_line(line)[0])

    def list_queued(self) -> Sequence[str]:
        """Return what waits for its turn."""
        return self._turns.waiting

    def take_back(self) -> str | None:
        """Return the last queued message, queued no longer."""
        return self._turns.take_back()

    def send_now(self) -> None:
        """Stop the turn and go on with what is queued."""
        if self._turns.running and self._turns.queue:
            self._turns.cancel()

    # --- keys -----------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Take Ctrl-C on an empty line: the running command first, then the turn."""
        if not self._stop():
            self.repl.front.say_below(_("Press Ctrl-D to exit."))

    def escape(self) -> None:
        """Take Esc on an empty line: what Ctrl-C does; while nothing runs, twice to go back."""
        if self._stop() or self.repl.front.draft():
            return
        if not self.repl.opened or not self.repl.session.state.turn:
            return
        if self._again("escape"):
            self.submit("/rewind")
        else:
            self._hint(_("Press Esc again to go back to an earlier message."))

    def _stop(self) -> bool:
        """Stop the running command first, then the turn; return whether something ran."""
        # Nobody types in a guide that plays, so any key that stops something leaves.
        guide = self.repl.wiring.guide
        if guide is not None and guide.plays:
            self.repl.leave(EXIT_INTERRUPTED)
        elif self.display.command_running() and not (
            self._turns.current is not None and self._turns.current is self._stopped_command_of
        ):
            self._stopped_command_of = self._turns.current
            self.repl.session.services.runner.stopping.request()
            hint = _("Stopping the command. Press again to stop the turn.")
            self.repl.front.say_below(hint, self.display.command_running)
        elif self._turns.running:
            self.stop_turn()
        else:
            return False
        return True

    def leave(self) -> None:
        """Take Ctrl-D on an empty line: leave; while something runs the first one asks."""
        current = self._turns.current
        if current is not None and current.shell is not None:
            # The keyboard is the command's own: this was typed ahead of its end, as to a shell.
            self.repl.leave_when_done()
        elif self._turns.running and not self._again("leave"):
            self._hint(_("A turn is in progress; Ctrl-D again stops it and exits."))
        else:
            self.repl.leave()

    def hang_up(self) -> None:
        """Leave: the terminal is gone."""
        self.repl.leave(128 + signal.SIGHUP)

    def stop_turn(self) -> None:
        """End the turn and give back what was typed."""
        self.repl.front.restore(self._turns.stop())

    def _again(self, key: str) -> bool:
        again = self._counts(key)
        self._pressed = ("", 0.0) if again else (key, self.repl.wiring.clock())
        return again

    def _counts(self, key: str) -> bool:
        """Return whether pressing the key again means the stronger thing."""
        return self._pressed[0] == key and (
            self.repl.wiring.clock() - self._pressed[1] <= AGAIN_SECONDS
        )

    def _hint(self, hint: str) -> None:
        """Show what pressing the same key again does, as long as it does so."""
        front, key = self.repl.front, self._pressed[0]
        front.say_below(hint, lambda: self._counts(key))
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, front.surface.refresh)
