"""`kogniterm resume`: go on with a session, the last one, or one picked from the list."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from kogniterm.cli.options import Argument, Subparsers, add_verb
from kogniterm.cli.verb_helpers import open_sessions, visible
from kogniterm.errors import UsageError
from kogniterm.ui.commands.registry import local_time
from kogniterm.ui.locale import _, plural
from kogniterm.ui.screen.surface import cells

if TYPE_CHECKING:
    from kogniterm.sessions.store import SessionInfo

_SHOWN = 20


def add_parser(subparsers: Subparsers) -> None:
    """Add `resume` with the options of a session."""
    session = Argument(
        "session",
        "last, an id or its beginning, or a title; without it, pick from the list",
        "SESSION",
        nargs="?",
    )
    add_verb(subparsers, "resume", [session], session_options=True)


def run(args: argparse.Namespace) -> int:
    """Find the session and open the prompt on it."""
    from kogniterm.cli import open_prompt

    with open_sessions(args) as store:
        info = store.find(args.session) if args.session else pick(store.sessions())
    args.resume = info.id
    if not hasattr(args, "cwd"):
        args.cwd = info.folder
    return open_prompt.run(args)


def pick(infos: list[SessionInfo]) -> SessionInfo:
    """Return the session a user picks, by its number or by words of its title.

    Raises `UsageError` when there is none, and where nobody can pick.
    """
    if not infos:
        raise UsageError("There is no session yet; start one with: kogniterm")
    if not sys.stdin.isatty():
        raise UsageError("Say which session: kogniterm resume last, or an id from sessions list.")
    from kogniterm.sessions.session_search import holds_words

    shown = infos
    while True:
        _list(shown)
        answer = sys.stdin.readline()
        if not answer:
            raise UsageError("No session was picked.")
        answer = answer.strip() or "1"
        if answer.isdigit():
            if not 1 <= int(answer) <= len(shown):
                raise UsageError("{answer} is no number from the list.", answer=answer)
            return shown[int(answer) - 1]
        found = [info for info in infos if holds_words(info.title, answer)]
        if len(found) == 1:
            return found[0]
        if not found:
            said = _("No title holds: {words}").format(words=answer)
            sys.stderr.write(visible(said) + "\n")
        shown = found or infos


def _list(infos: list[SessionInfo]) -> None:
    """Return the last of `infos` with their numbers, a terminal line each, and the question."""
    from kogniterm.ui.screen.surface import stream_size

    columns = stream_size(sys.stderr)[1]
    for number, info in enumerate(infos[:_SHOWN], 1):
        line = f"{number:>3}  {local_time(info.updated)}  {info.title}  ({info.folder})"
        sys.stderr.write(_cut(visible(line), columns - 1) + "\n")
    left = len(infos) - _SHOWN
    if left > 0:
        sys.stderr.write(plural("     … {count} more", "     … {count} more", left) + "\n")
    sys.stderr.write(_("Which one? A number, or words of the title [1] "))
    sys.stderr.flush()


def _cut(line: str, columns: int) -> str:
    if cells(line) <= columns:
        return line
    while cells(line) > columns - 1:
        line = line[:-1]
    return line.rstrip() + "…"
