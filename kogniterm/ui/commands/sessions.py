"""Commands about sessions: resume, fork, export, rename, compact, and report a bug."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.runtime.operations.stored_data import (
    export_parts,
    report_parts,
    write_for_user,
)
from kogniterm.storage.folders import expand_path
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase
from kogniterm.ui.commands.command_helpers import first_word
from kogniterm.ui.locale import translate
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.sessions.store import SessionInfo

FORMATS = ("md", "jsonl")
LOG_LINES = 400


async def resume(repl: Repl, argument: str) -> None:
    """Run /resume [ID or words of the title]."""
    from kogniterm.sessions.store import matching_sessions

    words, saved = argument.strip(), repl.session.archive.store.sessions(used=True)
    found = matching_sessions(saved, words) if words else saved
    if words and [info.id for info in found] == [repl.session.id]:
        raise UsageError("You are already in this session.")
    if words and not found:
        raise UsageError("Session not found. List sessions with /resume.")
    wanted = found[0].id if len(found) == 1 and words else await _pick(repl, found)
    if not wanted:
        return
    await repl.reopen(wanted)


def resume_choices(repl: Repl) -> Iterable[str]:
    """Return the ids and titles of the other sessions."""
    saved = repl.session.archive.store.sessions(used=True)
    others = [info for info in saved if info.id != repl.session.id]
    titles = [one_line(info.title) for info in others]
    return [*(info.id[:8] for info in others), *dict.fromkeys(filter(None, titles))]


async def _pick(repl: Repl, infos: Sequence[SessionInfo]) -> str:
    """Return the id of the session picked from the others; empty when none is picked."""
    from kogniterm.ui.questions.session_list import session_rows

    others = [info for info in infos if info.id != repl.session.id]
    if not others:
        raise UsageError("No other sessions yet.")
    rows = session_rows(repl.session.archive.store, others, repl.home)
    return await repl.pick_session(rows)


async def fork(repl: Repl, argument: str) -> None:
    """Run /fork [TURN]."""
    from kogniterm.sessions.session_transfer import fork as make_fork

    if argument and not argument.isdigit():
        raise UsageError("Specify the number of the last turn to copy.")
    before = repl.session.id
    turn = int(argument) if argument else None
    made = make_fork(repl.session.archive.store, before, turn=turn)
    await repl.reopen(made.id)
    repl.display.say(Phrase("You are now in a copy of the session."))


def export(repl: Repl, argument: str) -> None:
    """Run /export [md|jsonl] FILE."""
    kind, name = first_word(argument)
    if kind not in FORMATS:
        kind, name = ("jsonl" if argument.endswith(".jsonl") else "md"), argument.strip()
    if not name:
        raise UsageError("Specify the file to write: /export FILE.")
    session = repl.session
    form = "markdown" if kind == "md" else "jsonl"
    parts = export_parts(session.archive.store, session.id, form, translate)
    path = expand_path(session.executor.cwd, name)
    write_for_user(session.archive.paths, path, parts, "export", new=True)
    repl.display.say(
        Phrase("Session exported to {path}. Recognised secrets were redacted.", {"path": path})
    )


def rename(repl: Repl, argument: str) -> None:
    """Run /rename TITLE."""
    from kogniterm.sessions.fold import Note
    from kogniterm.sessions.store import title_of

    session = repl.session
    title = session.journal.redact(title_of(argument))
    session.journal.record(Note.TITLE.record(title), durable=True)
    repl.display.say(Phrase("Session renamed: {title}", {"title": session.state.title}))


async def compact(repl: Repl, argument: str) -> None:
    """Run /compact."""
    if repl.session.state.open_turn:
        raise UsageError("A turn is in progress; use /compact when it has ended.")
    context = repl.session.context
    repl.display.say(await context.compact_now(asked=True, sink=repl.display.screen))


def bug(repl: Repl, argument: str) -> None:
    """Run /bug [FILE]."""
    session = repl.session
    parts = report_parts(
        session.archive.store,
        session.id,
        redact=session.journal.redact,
        about={"terminal": repl.display.preferences.term, "model": session.model.name},
        attachments={"log": _log_tail(session.archive.paths.log_file)},
    )
    name = argument or f"kogniterm-report-{session.id[:8]}.jsonl"
    path = expand_path(session.executor.cwd, name)
    write_for_user(session.archive.paths, path, parts, "report", new=True)
    repl.display.say(
        Phrase(
            "Bug report written to {path}; nothing was sent. It contains "
            "this session and the end of the log, with known secrets "
            "redacted: read it before you share it.",
            {"path": path},
        )
    )


def _log_tail(file: Path) -> Iterator[str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    yield from lines[-LOG_LINES:]
