"""`kogniterm` without a verb: draw the prompt at once, and open the session behind it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.cli.options import flags_of, folder_of, session_wanted, settings_of
from kogniterm.errors import UsageError
from kogniterm.settings import QuickSettings, environment, quick

if TYPE_CHECKING:
    from kogniterm.ui.repl import Opened


def run(args: argparse.Namespace) -> int:
    """Open the prompt; returns the exit status."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError('The prompt needs a terminal; to do one task without: kogniterm run "…".')
    from kogniterm.ui.preferences import from_quick
    from kogniterm.ui.repl import Wiring, run_repl

    folder = folder_of(args)
    environ = environment()
    first = quick(environ, flags_of(args))
    opener = Opener(args, folder, first)
    return run_repl(
        open_session=opener.open,
        preferences=from_quick(first),
        folder=folder,
        home=environ.get("HOME", ""),
        version=__version__,
        wiring=Wiring(session_id=session_wanted(args)),
    )


class Opener:
    """Opens sessions for the prompt. Imports and checks run on a thread, behind the first key."""

    def __init__(self, args: argparse.Namespace, folder: str, first: QuickSettings) -> None:
        self._args = args
        self._folder = folder
        self._first_run = not first.paths.database.exists()

    async def open(self, session_id: str | None) -> Opened:
        """A session, and what the person should be told about it."""
        from kogniterm.approval.redact import redact
        from kogniterm.runtime import build
        from kogniterm.ui.repl import Opened

        settings = await asyncio.to_thread(settings_of, self._args)
        await asyncio.to_thread(build.preload)
        session = build.open_session(settings, folder=self._folder, session_id=session_id)
        first_run, self._first_run = self._first_run, False
        return Opened(session, first_run=first_run, redact=redact)
