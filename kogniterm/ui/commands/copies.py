"""/fork, /export, /rename, /compact and /bug: what can be made of the open session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kogniterm.errors import UsageError
from kogniterm.paths import named
from kogniterm.types import Text
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.commands.shown import first_word
from kogniterm.ui.context import ReplContext
from kogniterm.ui.locale import translate

FORMATS = ("md", "jsonl")
LOG_LINES = 400


async def fork(context: ReplContext, argument: str) -> None:
    """/fork [TURN]."""
    from kogniterm.sessions.transfer import fork as make_fork

    if argument and not argument.isdigit():
        raise UsageError("Give the number of the turn to copy up to.")
    session = context.session
    turn = int(argument) if argument else None
    made = make_fork(session.cabinet.store, session.id, turn=turn)
    before = session.id
    await context.reopen(made.id)
    context.say(Text("This is a copy now; /resume {id} goes back.", {"id": before[:8]}))


def export(context: ReplContext, argument: str) -> None:
    """/export [md|jsonl] FILE."""
    from kogniterm.sessions.markdown import markdown
    from kogniterm.sessions.transfer import export_lines

    kind, name = first_word(argument)
    if kind not in FORMATS:
        kind, name = ("jsonl" if argument.endswith(".jsonl") else "md"), argument.strip()
    if not name:
        raise UsageError("Say which file to write.")
    session = context.session
    store = session.cabinet.store
    parts = (
        markdown(store, session.id, translate)
        if kind == "md"
        else (f"{line}\n" for line in export_lines(store, session.id))
    )
    path = _write_new(named(session.cwd, name), parts)
    session.cabinet.wrote(path, "export")
    context.say(Text("Written: {path}. Secrets in it were replaced.", {"path": path}))


def rename(context: ReplContext, argument: str) -> None:
    """/rename TITLE."""
    from kogniterm.sessions.fold import Note

    title = " ".join(argument.split())
    if not title:
        raise UsageError("A session needs a title with at least one letter.")
    context.session.record(Note.TITLE.record(context.session.redact(title)), durable=True)
    context.say(Text("Session: {title}", {"title": context.session.title}))


async def compact(context: ReplContext, argument: str) -> None:
    """/compact."""
    if context.session.state.open_turn:
        raise UsageError("A turn is under way; compact when it has ended.")
    before, after = await context.session.compact_now(asked=True)
    values: dict[str, object] = {"before": before, "after": after}
    context.say(Text("History compacted: about {before} tokens became {after}.", values))


def bug(context: ReplContext, argument: str) -> None:
    """/bug [FILE]."""
    import platform

    from kogniterm import __version__
    from kogniterm.sessions.report import report_lines

    session = context.session
    about = {
        "kogniterm": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "terminal": context.preferences.term,
        "model": session.model.name,
    }
    lines = report_lines(
        session.cabinet.store,
        session.id,
        redact=session.redact,
        about=about,
        attachments={"log": _log_tail(session.cabinet.paths.log_file)},
    )
    name = argument or f"kogniterm-report-{session.id[:8]}.jsonl"
    target = named(session.cwd, name)
    path = _write_new(target, (f"{line}\n" for line in lines))
    session.cabinet.wrote(path, "report")
    context.say(
        Text(
            "Written: {path}. It holds this session and the end of the log, known secrets "
            "replaced. Read it before you hand it on; nothing was sent.",
            {"path": path},
        )
    )


def _log_tail(file: Path) -> Iterator[str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    yield from lines[-LOG_LINES:]


def _write_new(path: Path, parts: Iterable[str]) -> Path:
    """Write a file that does not exist yet, for the person alone."""
    from kogniterm.sessions.files import replaced

    if path.exists():
        raise UsageError("{path} exists already; give another name.", path=path)
    if not path.parent.is_dir():
        raise UsageError("The folder {folder} does not exist.", folder=path.parent)
    with replaced(path) as file:
        file.writelines(parts)
    return path


COPIES = (
    Command(
        "fork",
        Text("go on in a copy of this session, up to a turn"),
        fork,
        "[TURN]",
        while_running=False,
    ),
    Command(
        "export",
        Text("write this session to a file, for reading or for import"),
        export,
        "[md|jsonl] FILE",
        choices=lambda context: [f"{kind} " for kind in FORMATS],
    ),
    Command("rename", Text("give this session another title"), rename, "TITLE"),
    Command(
        "compact",
        Text("make room: replace the history by a summary"),
        compact,
        while_running=False,
    ),
    Command("bug", Text("write a bug report without secrets into one file"), bug, "[FILE]"),
)
