"""`kogniterm` without a verb: draw the prompt at once, and open the session behind it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.cli.options import CallOptions
from kogniterm.errors import UsageError
from kogniterm.installed import parts
from kogniterm.settings import QuickSettings, environment, quick
from kogniterm.types import Phrase
from kogniterm.ui.locale import language

if TYPE_CHECKING:
    from kogniterm.models.model_lists import ModelLists
    from kogniterm.paths import Paths
    from kogniterm.runtime.operations.updates import UpdateWatch
    from kogniterm.runtime.replay.recorded_events import PastTurns
    from kogniterm.runtime.session import LiveSession
    from kogniterm.settings import Settings
    from kogniterm.types import ModelInfo
    from kogniterm.ui.questions.session_list import SessionRow
    from kogniterm.ui.repl import Opened
    from kogniterm.ui.set_up import SetUpScreen

MOST_FILES = 100_000
IDLE_SECONDS = 30.0
"""Seconds after a session was opened until the server of the next call's warm start is started."""


def run(call: CallOptions, task: str | None = None, sessions: Sequence[SessionRow] = ()) -> int:
    """Open the prompt, with `task` as its first input; returns the exit status.

    The user picks one of `sessions` before, where there are any.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError('The prompt needs a terminal. For one task without it: kogniterm run "…".')
    from kogniterm.settings.layers import save_setting
    from kogniterm.ui.app import build_repl
    from kogniterm.ui.repl import Wiring
    from kogniterm.ui.screen.screen_preferences import from_quick

    folder = call.folder()
    environ = environment()
    first = quick(environ, call.settings)
    opener = Opener(call._replace(at_prompt=True), folder, first)
    repl = build_repl(
        opener.open,
        from_quick(first, folder),
        folder,
        environ.get("HOME", ""),
        __version__,
        Wiring(
            set_up=opener.set_up,
            session_id=call.resume,
            sessions=sessions,
            first_input=task,
            model_lists=lambda: opener.model_lists,
            files=lambda: workspace_files(Path(opener.folder)),
            save_preference=partial(save_setting, first.paths.config_file),
        ),
    )
    return asyncio.run(repl.run())


def workspace_files(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield files of the workspace and when they were changed, the first of a huge one."""
    from kogniterm.host.safe_files import folder as open_folder
    from kogniterm.host.safe_files import resolve_path
    from kogniterm.tools.search_files import files_below

    # The folder that the user gave or stands in may have been named through a link.
    root = resolve_path(folder)
    with suppress(OSError), open_folder(root) as descriptor:
        for path in islice(files_below(root, []), MOST_FILES):
            with suppress(OSError):  # gone meanwhile
                found = os.stat(path, dir_fd=descriptor, follow_symlinks=False)
                yield str(path), found.st_mtime


class Opener:
    """Opens sessions for the prompt. Imports and checks run on a thread, behind the first key.

    New sessions work in the first `folder`; later it is that of the session that is open.
    """

    def __init__(self, call: CallOptions, folder: str, first: QuickSettings) -> None:
        self._call = call
        self.folder = self._folder = folder
        self._first_run = not first.paths.database.exists()
        self._explain = self._first_run
        self._paths = first.paths
        self.model_lists: ModelLists | None = None
        self._updates: UpdateWatch | None = None
        self._settings: Settings | None = None

    async def set_up(self, screen: SetUpScreen) -> bool:
        """Ask for a model where none is configured; return whether there is one now."""
        settings = self._settings = await asyncio.to_thread(self._call.load_settings)
        # A file of keys that was named takes the place of the one that would be written.
        if self._call.env_file or not await asyncio.to_thread(_needs_set_up, settings, self._paths):
            return True
        self._settings = None
        from kogniterm.host.installation import own_command
        from kogniterm.ui.set_up import SetUp

        tour = own_command("tour", "--lang", language())
        if await SetUp(screen, settings, self._paths, tour=tour).choose():
            self._explain = True
            return True
        screen.say(Phrase("No model is set up. To set one up later: kogniterm login"), "warning")
        return False

    async def open(self, session_id: str | None) -> Opened:
        """Open a session; return it with what the user should be told about it."""
        from kogniterm.runtime import build
        from kogniterm.runtime.opening import model_lists
        from kogniterm.ui.repl import Opened, import_modules

        await import_modules("kogniterm.runtime.operations.updates", *build.FIRST_TURN)
        from kogniterm.runtime.operations.updates import UpdateWatch

        self._updates = self._updates or UpdateWatch(self._paths.cache / "update-told")
        settings, self._settings = self._settings, None
        if settings is None:
            settings = await asyncio.to_thread(self._call.load_settings)
        self.model_lists = await asyncio.to_thread(model_lists, settings, self._paths)
        opening = asyncio.get_running_loop().run_in_executor(
            None, partial(build.open_session, settings, folder=self._folder, session_id=session_id)
        )
        try:
            session = await asyncio.shield(opening)
        except asyncio.CancelledError:
            (await opening).close()  # the user left meanwhile
            raise
        self.folder = session.folder
        first_run, self._first_run = self._first_run, False
        explain, self._explain = self._explain, False
        warming = asyncio.ensure_future(asyncio.to_thread(session.warm))
        warming.add_done_callback(lambda done: done.exception())
        asyncio.get_running_loop().call_later(IDLE_SECONDS, _call_add_ons)
        return Opened(
            session,
            model_reason=model_reason(settings, session.model) if explain else None,
            first_run=first_run,
            notices=session.notices,
            past=_past_turns(session) if session_id is not None else None,
            updates=self._updates,
        )


def _past_turns(session: LiveSession) -> PastTurns:
    from kogniterm.runtime.replay.recorded_events import past_turns

    return past_turns(session)


def _call_add_ons() -> None:
    for when_idle in parts("WHEN_IDLE"):
        asyncio.get_running_loop().run_in_executor(None, when_idle)


def _needs_set_up(settings: Settings, paths: Paths) -> bool:
    from kogniterm.runtime.operations.provider_login import needs_set_up

    return needs_set_up(settings, paths)


def model_reason(settings: Settings, info: ModelInfo) -> Phrase:
    """Return why this model is asked: who named it, or which key was found, or that none was."""
    origin = settings.origin("model")
    if settings.model and origin.kind == "flag":
        return Phrase("Set with {flag}.", {"flag": "--model"})
    if settings.model and origin.kind == "environment":
        return Phrase("Set by the variable {name}.", {"name": origin.name})
    if settings.model:
        return Phrase("Set in {where}.", {"where": origin})
    if info.local:
        return Phrase(
            "No provider is configured, so the embedded model answers on this machine. For larger "
            "tasks, add one with: kogniterm login"
        )
    from kogniterm.runtime.opening import KEY_SETTINGS, URL_SETTINGS

    key = settings.origin(KEY_SETTINGS.get(info.provider) or URL_SETTINGS[info.provider])
    return Phrase(
        "Selected by {where}. To use another: /model, or --model at the start.",
        {"where": key.name if key.file is None else key},
    )
