"""`kogniterm` without a verb: draw the prompt at once, and open the session behind it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.cli.options import flags_of, folder_of, session_wanted, settings_of
from kogniterm.errors import UsageError
from kogniterm.settings import QuickSettings, environment, quick
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.settings import Settings
    from kogniterm.types import ModelInfo
    from kogniterm.ui.repl import Opened

MOST_FILES = 5000


def run(args: argparse.Namespace, task: str | None = None) -> int:
    """Open the prompt, with `task` as its first input; returns the exit status."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError('The prompt needs a terminal; to do one task without: kogniterm run "…".')
    from kogniterm.settings.layers import save_setting
    from kogniterm.ui.app import run_repl
    from kogniterm.ui.repl import Wiring
    from kogniterm.ui.screen_preferences import from_quick

    folder = folder_of(args)
    environ = environment()
    first = quick(environ, flags_of(args))
    opener = Opener(args, folder, first)
    return run_repl(
        open_session=opener.open,
        preferences=from_quick(first, folder),
        folder=folder,
        home=environ.get("HOME", ""),
        version=__version__,
        wiring=Wiring(
            session_id=session_wanted(args),
            first_input=task,
            model_names=model_names,
            files=partial(workspace_files, Path(folder)),
            save_preference=partial(save_setting, first.paths.config_file),
        ),
    )


def model_names() -> Sequence[str]:
    """Return model names to complete: each provider, with its default model if it has one."""
    from kogniterm.models.catalog import PROVIDERS

    return [f"{provider.name}:{provider.default_model}".rstrip(":") for provider in PROVIDERS]


def workspace_files(folder: Path) -> Iterator[str]:
    """Yield files of the workspace to complete, the first few thousand of a huge one."""
    from kogniterm.host.safe_files import resolved
    from kogniterm.tools.search_files import files_below

    # The folder that the user gave or stands in may have been named through a link.
    return (str(path) for path in islice(files_below(resolved(folder)), MOST_FILES))


class Opener:
    """Opens sessions for the prompt. Imports and checks run on a thread, behind the first key."""

    def __init__(self, args: argparse.Namespace, folder: str, first: QuickSettings) -> None:
        self._args = args
        self._folder = folder
        self._first_run = not first.paths.database.exists()

    async def open(self, session_id: str | None) -> Opened:
        """Open a session; return it with what the user should be told about it."""
        from kogniterm.runtime import build
        from kogniterm.runtime.use_cases.stored_data import last_turn
        from kogniterm.ui.repl import Opened

        settings = await asyncio.to_thread(settings_of, self._args)
        await asyncio.to_thread(build.preload)
        session = build.open_session(settings, folder=self._folder, session_id=session_id)
        first_run, self._first_run = self._first_run, False
        warming = asyncio.ensure_future(asyncio.to_thread(session.warm))
        warming.add_done_callback(lambda done: done.exception())
        return Opened(
            session,
            model_reason=model_reason(settings, session.model) if first_run else None,
            first_run=first_run,
            notices=session.notices,
            last_turn=last_turn(session) if session_id is not None else ("", ""),
        )


def model_reason(settings: Settings, info: ModelInfo) -> Phrase:
    """Return why this model is asked: who named it, or which key was found, or that none was."""
    origin = settings.origin("model")
    if settings.model and origin.kind == "flag":
        return Phrase("You named it with {flag}.", {"flag": "--model"})
    if settings.model and origin.kind == "environment":
        return Phrase("The variable {name} names it.", {"name": origin.name})
    if settings.model:
        return Phrase("{where} names it.", {"where": origin})
    if info.local:
        return Phrase(
            "No key for a model service is set, so the model on this machine answers: nothing "
            "leaves it. For bigger tasks set {key}, then start again.",
            {"key": "GOOGLE_API_KEY"},
        )
    from kogniterm.runtime.build import KEY_SETTINGS, URL_SETTINGS

    key = settings.origin(KEY_SETTINGS.get(info.provider) or URL_SETTINGS[info.provider])
    return Phrase(
        "Chosen by {where}. For another model: /model, or --model at the start.",
        {"where": key.name if key.file is None else key},
    )
