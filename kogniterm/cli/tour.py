"""`kogniterm tour`: a scripted session of the real program, in a temporary folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.cli.options import CallOptions, Example, Subparsers, add_verb
from kogniterm.cli.verb_helpers import write_lines
from kogniterm.runtime.operations.action import Argument
from kogniterm.settings import environment, quick
from kogniterm.ui.locale import _, language, mark, translate

if TYPE_CHECKING:
    from kogniterm.ui.controls import Controls
    from kogniterm.ui.front import Front
    from kogniterm.ui.repl import Opened
    from kogniterm.ui.screen.screen_preferences import Preferences

AUTO = Argument("--auto", "Play by itself; Esc or Ctrl-C ends it")
SCRIPTS = Path(__file__).with_name("tour_scripts")
KEPT = ("PATH", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TMPDIR", "TZ")
"""Variables that the session gets; no key, no setting and no home of the user's."""
_SERVER = "# The shop server\nhost = localhost\nport = 80800\nworkers = 4\n"


def add_parser(subparsers: Subparsers) -> None:
    """Add `tour`."""
    add_verb(
        subparsers,
        "tour",
        [AUTO],
        description=mark(
            "Show in about a minute how KogniTerm works: a plan, a change, a command with its "
            "effects, a check and an undo. The model's replies are written in advance; the "
            "commands really run, in a temporary folder that is removed at the end. Needs no key "
            "and no network. Without a terminal, the session is printed."
        ),
        examples=(Example("kogniterm tour"), Example("kogniterm tour --auto")),
    )


def run(call: CallOptions, auto: bool) -> int:
    """Show the tour; returns the exit status."""
    from kogniterm.ui.guide import TOUR_LABEL
    from kogniterm.ui.screen.surface import stream_size

    with tempfile.TemporaryDirectory(prefix="tour-") as home:
        status = _Tour(call, Path(home), auto=auto).run()
    closing = _("The folder was removed. To set up a model of your own: kogniterm login")
    columns = stream_size(sys.stdout)[1]
    for text in ("", translate(TOUR_LABEL), closing):
        write_lines(textwrap.wrap(text, columns - 1) or [""])
    return status


class _Tour:
    """One tour, whose session, settings and workspace are all below `home`."""

    def __init__(self, call: CallOptions, home: Path, *, auto: bool) -> None:
        self._home = home
        self._workspace = home / "shop"
        self._terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._plays = auto or not self._terminal
        users = environment()
        self._environ = {name: users[name] for name in KEPT if name in users}
        self._environ["HOME"] = str(home)
        self._first = quick(users, call.settings)
        call.set_up_logs(quick(self._environ).paths.log_file, "INFO")

    def run(self) -> int:
        """Play it on the terminal, or print it; returns the exit status."""
        from kogniterm.ui.app import build_repl
        from kogniterm.ui.guide import AT_ONCE, Guide, Pace
        from kogniterm.ui.repl import Wiring

        write_workspace(self._workspace)
        pace = Pace() if self._terminal else AT_ONCE
        preferences = self._preferences()
        with _front(preferences, live=self._terminal, plays=self._plays) as front:
            repl = build_repl(
                self._open,
                preferences,
                str(self._workspace),
                str(self._home),
                __version__,
                Wiring(guide=Guide(pace if self._plays else None)),
                front,
            )
            return asyncio.run(repl.run())

    def _preferences(self) -> Preferences:
        """Return the user's preferences, without what would leave or ring something."""
        from kogniterm.ui.screen.screen_preferences import from_quick

        mine = from_quick(self._first, str(self._workspace), tty=self._terminal)
        mine = replace(mine, history=None, screen_reader=mine.screen_reader or not self._terminal)
        return replace(mine, notify="off") if self._plays else mine

    async def _open(self, _session_id: str | None) -> Opened:
        """Open the session in the tour's own folders."""
        from kogniterm import settings
        from kogniterm.runtime import build
        from kogniterm.ui.repl import Opened, import_modules

        script = self._home / "script"
        script.write_bytes((SCRIPTS / f"{language()}.yaml").read_bytes())
        flags = {
            "model": f"scripted:{script}",
            "language": language(),
            "approval_mode": "manual",
            "memory": "off",
            "sandbox": "off",
        }
        chosen = await asyncio.to_thread(settings.load, flags, environ=self._environ)
        await import_modules(*build.FIRST_TURN)
        folder = str(self._workspace)
        return Opened(build.open_session(chosen, folder=folder, environ=self._environ))


@contextlib.contextmanager
def _front(
    preferences: Preferences, *, live: bool, plays: bool
) -> Iterator[Callable[[Controls], Front]]:
    """Yield what opens the front; one that plays whole lines by itself reads no keyboard."""
    from kogniterm.ui.app import open_front

    if not plays or (live and not preferences.bare):
        yield open_front
        return
    from kogniterm.ui.prompt.plain_front import PlainFront

    read, write = os.pipe()
    with os.fdopen(read, encoding="utf-8") as silent, os.fdopen(write, "w", encoding="utf-8"):
        yield lambda controls: PlainFront(controls, silent, sys.stdout)


def write_workspace(folder: Path) -> None:
    """Write the files that the tour's commands work on."""
    logs = folder / "logs" / "2025"
    logs.mkdir(parents=True)
    (folder / "server.conf").write_text(_SERVER, encoding="utf-8")
    for month in ("11", "12"):
        lines = (f"2025-{month}-01 GET /products/{number} 200\n" for number in (1, 2))
        (logs / f"{month}.log").write_text("".join(lines), encoding="utf-8")
