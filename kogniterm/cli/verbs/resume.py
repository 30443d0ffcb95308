"""`kogniterm resume`: continue a session, the last one, or one picked from the list."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli.options import CallOptions, Example, Subparsers, add_verb
from kogniterm.cli.verb_helpers import open_sessions
from kogniterm.errors import UsageError
from kogniterm.runtime.operations.action import Argument
from kogniterm.settings import environment
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kogniterm.sessions.store import SessionStore
    from kogniterm.ui.questions.session_list import SessionRow


def add_parser(subparsers: Subparsers) -> None:
    """Add `resume` with the options of a session."""
    session = Argument(
        "session",
        "ID or its beginning, title, or last; without it, choose from a list",
        "SESSION",
        nargs="?",
    )
    add_verb(
        subparsers,
        "resume",
        [session],
        examples=(
            Example("kogniterm resume"),
            Example("kogniterm resume last"),
            Example('kogniterm resume "fix the tests"'),
        ),
        session_options=True,
    )


def run(call: CallOptions, session: str | None) -> int:
    """Find the session, or list those to pick from, and open the prompt on it."""
    from kogniterm.cli import open_prompt

    if session and call.resume is not None:
        other = "--continue" if call.resume == "last" else "--resume"
        raise UsageError(
            "{option} cannot be combined with {other}.", option=_("SESSION"), other=other
        )
    rows: Sequence[SessionRow] = ()
    with open_sessions(call) as store:
        if session:
            info = store.find(session)
            there = info.folder if Path(info.folder).is_dir() else None
            call = call._replace(resume=info.id, cwd=call.cwd or there)
        else:
            rows = _rows(store)
    return open_prompt.run(call, sessions=rows)


def _rows(store: SessionStore) -> Sequence[SessionRow]:
    """Return the sessions to pick from. Raises `UsageError` if there are none, or no terminal."""
    from kogniterm.ui.questions.session_list import session_rows

    infos = store.sessions(used=True)
    if not infos:
        raise UsageError("No sessions yet; start one with: kogniterm")
    if not sys.stdin.isatty():
        raise UsageError(
            "Choosing from the list needs a terminal. Name a session: kogniterm resume last."
        )
    return session_rows(store, infos, environment().get("HOME", ""))
