"""/diff, /undo and /init: what the session changed in the workspace, and its AGENTS.md."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError, why
from kogniterm.host.safe_files import read_regular, resolve_path, write_regular
from kogniterm.storage.folders import seen_from
from kogniterm.text.file_text import unified_diff as diff_of
from kogniterm.text.visible import render_line
from kogniterm.types import Phrase, UserInput
from kogniterm.ui.locale import _
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.execution.undo import FileDifference
    from kogniterm.memory.project import ProjectProfile

SHOWN_LINES = 200
FILE = "AGENTS.md"


def show_changes(repl: Repl, argument: str) -> None:
    """Run /diff."""
    undo = repl.session.undo
    (found,) = undo.store.changes([undo.store.images()])
    if not found:
        raise UsageError(
            "No changes made by this session. Only files saved for /undo are compared."
        )
    show_differences(repl, found)


async def undo(repl: Repl, argument: str) -> None:
    """Run /undo."""
    from kogniterm.runtime.operations.rewind_session import tell_restored
    from kogniterm.ui.questions.rewind_list import kept_lines

    store, way = repl.session.undo.store, repl.session.undo.latest()
    more = [Option("undo_all", _("also take back what changed since"), "all")]
    while True:
        show_differences(repl, way.changes)
        answer = await repl.choose(
            _("Restore the files as they were before this action?"),
            [_describe_action(way.images[0].what), *kept_lines(way.kept, repl.session.folder)],
            [
                *([Option("yes", _("restore the files"), "yes")] if way.changes else ()),
                *(more if way.kept else ()),
                Option("no", _("keep the current files"), "no"),
            ],
        )
        if answer != "all":
            break
        way, more = store.way_back(way.images, everything=True), []
    restored = store.restore(way) if answer == "yes" else ()
    if not restored:
        repl.display.say(Phrase("Nothing changed."))
        return
    tell_restored(repl.session, restored)
    paths = [seen_from(repl.session.folder, path) for path in restored]
    repl.display.say(Phrase("Restored: {paths}", {"paths": ", ".join(paths)}))


def show_difference(difference: FileDifference) -> str:
    """Return a difference as a unified diff, or as one line where there is no text to compare."""
    if difference.lines is not None:
        return diff_of(difference.path, difference.before, difference.after)
    words = {"deleted": _("deleted"), "created": _("created"), "modified": _("changed")}
    return f"{words.get(difference.change, difference.change)}: {render_line(difference.path)}"


def show_differences(repl: Repl, differences: Sequence[FileDifference]) -> None:
    """Write the differences as diffs."""
    for difference in differences:
        near = difference._replace(path=seen_from(repl.session.folder, difference.path))
        _write_diff(repl, show_difference(near))


def _write_diff(repl: Repl, changes: str) -> None:
    from kogniterm.ui.screen import diffs

    columns = repl.front.surface.size()[1]
    repl.display.write(diffs.diff(changes, limit=SHOWN_LINES, columns=columns))


async def init(repl: Repl, argument: str) -> None:
    """Run /init [TEXT]."""
    from kogniterm.runtime.operations.project_files import init_request, scan_project

    session = repl.session
    folder = resolve_path(Path(session.folder))
    repl.display.say(Phrase("Scanning {folder} …", {"folder": folder}))
    profile = await asyncio.to_thread(scan_project, session)
    if session.model.one_command:
        await _write_what_was_found(repl, folder, profile, argument)
        return
    text = init_request(profile, argument, exists=os.path.lexists(folder / FILE))
    line = f"/init {argument}".rstrip()
    repl.ask_model(UserInput(text, attachments=repl.attachments(argument), line=line))


async def _write_what_was_found(
    repl: Repl, folder: Path, profile: ProjectProfile, wanted: str
) -> None:
    """Write what the scan found to AGENTS.md, after the user has seen the changes."""
    from kogniterm.runtime.operations.project_files import project_file

    path = folder / FILE
    if path.is_symlink():
        raise UsageError(
            "{path} is a symbolic link; KogniTerm does not write through links.", path=path
        )
    before = _read(path)
    after = project_file(before, profile, folder.name, wanted)
    if after == before:
        repl.display.say(Phrase("{file} is already up to date.", {"file": FILE}))
        return
    _write_diff(repl, diff_of(FILE, before or None, after))
    answer = await repl.choose(
        _("Write these changes to AGENTS.md?"),
        [],
        [Option("yes", _("write the file"), "yes"), Option("no", _("no"), "no")],
    )
    if answer != "yes":
        repl.display.say(Phrase("Nothing changed."))
        return
    if _read(path) != before:
        raise UsageError(
            "{path} changed in the meantime; nothing was written. Run /init again.", path=path
        )
    store, name = repl.session.undo.store, repl.session.journal.new_id()
    store.keep(name, f"/init {path.name}", [path])
    try:
        write_regular(path, after.encode("utf-8"))
    except OSError as error:
        raise UsageError("{path} cannot be written: {why}.", path=path, why=why(error)) from error
    store.note_left(name)
    repl.display.say(
        Phrase(
            "{path} written; /undo reverts it. It applies once you trust the folder with /trust.",
            {"path": path},
        )
    )


def _read(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("{file} cannot be read: {why}.", file=path, why=why(error)) from error


def _describe_action(what: str) -> str:
    """Return what an action did; an undo can be undone, too."""
    from kogniterm.execution.undo import UNDO_OF
    from kogniterm.text.visible import render_line

    if what.startswith(UNDO_OF):
        return _("undo of: {what}").format(what=_describe_action(what.removeprefix(UNDO_OF)))
    return render_line(what)
