"""What Ctrl-C, Esc and Ctrl-D mean at this moment: the command, the turn, or leaving."""

from __future__ import annotations

from collections.abc import Callable

from kogniterm.ui.locale import _
from kogniterm.ui.turns import Turns

AGAIN_SECONDS = 2.0
"""Within which a second Esc or Ctrl-D means the stronger thing."""


class Stopping:
    """Decides what to stop. `note` tells the person what the key did or would do next."""

    def __init__(
        self,
        turns: Turns,
        *,
        command_running: Callable[[], bool],
        stop_command: Callable[[], None],
        restore: Callable[[str], None],
        note: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._turns = turns
        self._command_running = command_running
        self._stop = stop_command
        self._restore = restore
        self._note = note
        self._clock = clock
        self._pressed: tuple[str, float] = ("", float("-inf"))
        self._stopped_command = False

    def new_work(self) -> None:
        """Something else runs now."""
        self._stopped_command = False

    def interrupt(self) -> None:
        """Ctrl-C on an empty line: the running command first, then the turn."""
        if self._command_running() and not self._stopped_command:
            self.stop_command()
        elif self._turns.running:
            self.stop_turn()
        else:
            self._note(_("Ctrl-D leaves."))

    def escape(self) -> None:
        """Esc: the running command; twice: the turn."""
        again = self._again("escape")
        if not self._turns.running:
            return
        if again:
            self.stop_turn()
        elif self._command_running():
            self.stop_command()
        else:
            self._note(_("Esc again stops the turn."))

    def may_leave(self) -> bool:
        """Ctrl-D on an empty line: whether to leave now; the first one asks."""
        if self._turns.running and not self._again("leave"):
            self._note(_("Something is still running. Ctrl-D again stops it and leaves."))
            return False
        return True

    def stop_command(self) -> None:
        """End the running command; the turn goes on."""
        self._stopped_command = True
        self._stop()
        self._note(_("Stopping the command; once more stops the turn."))

    def stop_turn(self) -> None:
        """End the turn and give back what was typed."""
        self._restore(self._turns.stop())

    def _again(self, key: str) -> bool:
        now = self._clock()
        before, self._pressed = self._pressed, (key, now)
        return before[0] == key and now - before[1] <= AGAIN_SECONDS
