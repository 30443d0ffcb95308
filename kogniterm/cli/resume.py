"""`kogniterm resume`: go on with a session, the last one, or one picked from the list."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from kogniterm.cli import stores
from kogniterm.cli.options import SESSION, add_options
from kogniterm.errors import UsageError
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.sessions.store import SessionInfo

_SHOWN = 20


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `resume` with the options of a session."""
    parser = subparsers.add_parser("resume", help=_("go on with a session"))
    parser.add_argument(
        "session",
        nargs="?",
        metavar=_("SESSION"),
        help=_("last, an id or its beginning, or a title; without it, pick from the list"),
    )
    add_options(parser.add_argument_group(_("session options")), SESSION)


def run(args: argparse.Namespace) -> int:
    """Find the session and open the prompt on it."""
    from kogniterm.cli import prompt

    with stores.opened(stores.location_of(args)) as store:
        info = store.find(args.session) if args.session else pick(store.sessions(limit=_SHOWN))
    args.resume = info.id
    if not hasattr(args, "cwd"):
        args.cwd = info.folder
    return prompt.run(args)


def pick(infos: list[SessionInfo]) -> SessionInfo:
    """The session a person picks by number. Raises `UsageError` when there is none to pick."""
    if not infos:
        raise UsageError("There is no session yet; start one with: kogniterm")
    if not sys.stdin.isatty():
        raise UsageError("Say which session: kogniterm resume last, or an id from sessions list.")
    for number, info in enumerate(infos, 1):
        line = f"{number:>3}  {stores.local_time(info.updated)}  {info.title}  ({info.folder})"
        sys.stderr.write(stores.visible(line) + "\n")
    sys.stderr.write(_("Which one? [1] "))
    sys.stderr.flush()
    answer = sys.stdin.readline().strip() or "1"
    if not answer.isdigit() or not 1 <= int(answer) <= len(infos):
        raise UsageError("{answer} is no number from the list.", answer=answer)
    return infos[int(answer) - 1]
