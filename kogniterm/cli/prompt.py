"""`kogniterm` without a verb: draw the prompt at once, and open the session behind it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm import __version__
from kogniterm.cli.first_run import model_reason
from kogniterm.cli.options import flags_of, folder_of, session_wanted, settings_of
from kogniterm.errors import UsageError
from kogniterm.settings import QuickSettings, environment, quick
from kogniterm.types import ActionRequest, RiskReport, Text

if TYPE_CHECKING:
    from kogniterm.approval.leases import LeaseKind
    from kogniterm.runtime.session import LiveSession
    from kogniterm.ui.preferences import Preferences
    from kogniterm.ui.question import AskHooks, Offer
    from kogniterm.ui.wiring import Opened

MOST_FILES = 5000
LAST_RECORDS = 500
"""How far back the last turn of a resumed session is looked for."""


def run(args: argparse.Namespace) -> int:
    """Open the prompt; returns the exit status."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError('The prompt needs a terminal; to do one task without: kogniterm run "…".')
    from kogniterm.settings.saving import save_setting
    from kogniterm.ui.repl import run_repl
    from kogniterm.ui.wiring import Wiring

    folder = folder_of(args)
    environ = environment()
    first = quick(environ, flags_of(args))
    opener = Opener(args, folder, first)
    return run_repl(
        open_session=opener.open,
        preferences=preferences_of(first, folder),
        folder=folder,
        home=environ.get("HOME", ""),
        version=__version__,
        wiring=Wiring(
            session_id=session_wanted(args),
            model_names=model_names,
            files=partial(workspace_files, Path(folder)),
            save_preference=partial(save_setting, first.paths.config_file),
        ),
    )


def preferences_of(first: QuickSettings, folder: str) -> Preferences:
    """How the person wants the screen."""
    from kogniterm.ui.preferences import from_quick

    return replace(
        from_quick(first, folder),
        title=first.window_title,
        notify_after=first.notify_after,
        fold=first.fold_lines,
    )


def model_names() -> Sequence[str]:
    """Model names to complete: each provider, with its default model where it has one."""
    from kogniterm.models.catalog import PROVIDERS

    return [f"{provider.name}:{provider.default_model}".rstrip(":") for provider in PROVIDERS]


def workspace_files(folder: Path) -> Iterator[str]:
    """Files of the workspace to complete, the first few thousand of a huge one."""
    from kogniterm.safe_files import resolved
    from kogniterm.tools.search import files_below

    # The folder that the user gave or stands in may have been named through a link.
    return (str(path) for path in islice(files_below(resolved(folder)), MOST_FILES))


def question_hooks(session: LiveSession) -> AskHooks:
    """Return what the session adds to every question, at the prompt and in a one-shot run."""
    from kogniterm.ui.question import AskHooks

    return AskHooks(
        preview=session.preview,
        diff=lambda request: request.detail or None,
        offers=partial(lease_offers, session),
    )


def lease_offers(
    session: LiveSession, request: ActionRequest, report: RiskReport
) -> Sequence[Offer]:
    """What may be granted with an approval: how long each kind holds is decided here."""
    from kogniterm.ui.question import Offer as Offered

    if request.effect != "command":
        return ()
    terms: dict[str, tuple[Text, dict[str, Any]]] = {
        "exact": (Text("{what}, in this session"), {}),
        "program": (Text("{what}, ten times"), {"uses": 10}),
        "effect": (Text("{what}, for 15 minutes"), {"seconds": 900.0}),
    }
    found = []
    for offer in session.offers(report):
        label, limits = terms[offer.kind]
        grant = partial(_grant, session, report, offer.kind, limits)
        found.append(Offered(Text(label.template, {"what": offer.text}), grant))
    return found


def last_turn(session: LiveSession) -> tuple[str, str]:
    """What the person said last in the session, and the answer, if there was one."""
    from kogniterm.sessions.records import InputReceived, TurnEnded

    said = answer = ""
    for record in session.journal.records(max(1, session.state.seq - LAST_RECORDS)):
        if isinstance(record.body, InputReceived):
            said, answer = record.body.input.text, ""
        elif isinstance(record.body, TurnEnded):
            answer = record.body.answer
    return said, answer


def _grant(
    session: LiveSession, report: RiskReport, kind: LeaseKind, limits: dict[str, Any]
) -> None:
    session.grant(report, kind, **limits)


class Opener:
    """Opens sessions for the prompt. Imports and checks run on a thread, behind the first key."""

    def __init__(self, args: argparse.Namespace, folder: str, first: QuickSettings) -> None:
        self._args = args
        self._folder = folder
        self._first_run = not first.paths.database.exists()

    async def open(self, session_id: str | None) -> Opened:
        """A session, and what the person should be told about it."""
        from kogniterm.runtime import build
        from kogniterm.text.redact import redact
        from kogniterm.ui.commands.own import session_commands
        from kogniterm.ui.wiring import Opened

        settings = await asyncio.to_thread(settings_of, self._args)
        await asyncio.to_thread(build.preload)
        session = build.open_session(settings, folder=self._folder, session_id=session_id)
        first_run, self._first_run = self._first_run, False
        warming = asyncio.ensure_future(asyncio.to_thread(session.warm))
        warming.add_done_callback(lambda done: done.exception())
        commands, refused = session_commands(session)
        return Opened(
            session,
            model_reason=model_reason(settings, session.model) if first_run else None,
            first_run=first_run,
            notices=(*session.notices, *refused),
            commands=commands,
            hooks=question_hooks(session),
            redact=redact,
            last_turn=last_turn(session) if session_id is not None else ("", ""),
        )
