"""Puts the REPL together: its display, its commands, its controls, and the front that fits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from kogniterm.ui.controls import Controls
from kogniterm.ui.display import Display
from kogniterm.ui.front import Front
from kogniterm.ui.repl import OpenSession, Repl, Wiring
from kogniterm.ui.screen.screen_preferences import Preferences
from kogniterm.ui.slash_commands import Command


def open_front(controls: Controls) -> Front:
    """Return the front that fits the terminal: a live prompt, or plain lines."""
    if controls.display.preferences.bare or not (sys.stdin.isatty() and sys.stdout.isatty()):
        from kogniterm.ui.prompt.plain_front import PlainFront

        return PlainFront(controls, sys.stdin, sys.stdout)
    from kogniterm.ui.prompt.terminal_front import TerminalFront

    return TerminalFront(controls, sys.stdin, sys.stdout)


def load_commands() -> Sequence[Command]:
    from kogniterm.ui.commands.command_table import COMMANDS

    return COMMANDS


def build_repl(
    open_session: OpenSession,
    preferences: Preferences,
    folder: str,
    home: str = "",
    version: str = "",
    wiring: Wiring | None = None,
    front: Callable[[Controls], Front] = open_front,
) -> Repl:
    """Return the REPL; its `run` returns the exit status once the user leaves.

    `open_session(id)` opens a session (None: a new one) and is first called after the prompt
    was drawn, so it may import whatever it likes; it runs on the loop and should do slow work
    in a thread.
    """
    display = Display(preferences)
    repl = Repl(open_session, display, load_commands, folder, home, wiring)
    controls = Controls(repl, version)
    repl.submit = controls.submit
    repl.front = display.front = front(controls)
    return repl
