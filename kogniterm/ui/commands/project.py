"""/init: a KOGNITERM.md from what a scan of the project finds, shown as a diff before it is."""

from __future__ import annotations

import asyncio
import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError, why
from kogniterm.safe_files import read_regular, resolved, write_regular
from kogniterm.types import Text
from kogniterm.ui.choice import Option
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.context import ReplContext
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.memory.profiles import ProjectProfile

FILE = "KOGNITERM.md"
START, END = "<!-- found by /init -->", "<!-- end of what /init found -->"
MOST = 12


async def init(context: ReplContext, argument: str) -> None:
    """/init."""
    from kogniterm.memory.project import scan

    session = context.session
    folder = resolved(Path(session.folder))
    path = folder / FILE
    if path.is_symlink():
        raise UsageError("{path} is a link; it is not written through.", path=path)
    context.say(Text("Looking at {folder} …", {"folder": folder}))
    profile = await asyncio.to_thread(scan, folder, None, session.clock)
    before = _read(path)
    after = proposed(before, profile, folder.name)
    if after == before:
        context.say(Text("{file} says all of it already.", {"file": FILE}))
        return
    _show(context, before, after)
    answer = await context.choose(
        _("Write KOGNITERM.md like this?"),
        [],
        [Option("yes", _("write it"), "yes"), Option("no", _("do not"), "no")],
    )
    if answer != "yes":
        context.say(Text("Nothing was changed."))
        return
    if _read(path) != before:
        raise UsageError("{path} changed meanwhile; nothing was written.", path=path)
    _write(context, path, after)
    context.say(
        Text("Written: {path}; /undo takes it back. /trust lets it have an effect.", {"path": path})
    )


def proposed(before: str, profile: ProjectProfile, name: str) -> str:
    """The file's new text: what people wrote stays, what was found stands between two marks."""
    found = "\n".join([START, *_sections(profile), END])
    if not before.strip():
        head = f"# {name}\n\nWhat whoever works here should know. Write below; it is kept.\n\n"
        return f"{head}{found}\n"
    first, last = before.find(START), before.find(END)
    if 0 <= first < last:
        return before[:first] + found + before[last + len(END) :]
    return f"{before.rstrip()}\n\n{found}\n"


def _sections(profile: ProjectProfile) -> list[str]:
    languages = sorted(profile.languages.items(), key=lambda item: (-item[1], item[0]))
    sections = (
        ("Languages", [f"{language} ({count} files)" for language, count in languages[:MOST]]),
        ("Build", [f"`{command}`" for command in profile.build_commands]),
        ("Test", [f"`{command}`" for command in profile.test_commands]),
        ("Layout", [f"`{folder}`" for folder in profile.layout]),
        ("Dependencies", list(profile.dependencies)),
    )
    lines: list[str] = []
    for title, items in sections:
        if items:
            lines += ["", f"## {title}", "", *(f"- {item}" for item in items[:MOST])]
    return lines or ["", "Nothing was found here yet."]


def _read(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("{file} cannot be read: {why}.", file=path, why=why(error)) from error


def _show(context: ReplContext, before: str, after: str) -> None:
    from kogniterm.ui.diffs import diff

    lines = difflib.unified_diff(
        before.splitlines(),
        after.splitlines(),
        fromfile=f"a/{FILE}" if before else "/dev/null",
        tofile=f"b/{FILE}",
        lineterm="",
    )
    context.write(diff("\n".join(lines), limit=200))


def _write(context: ReplContext, path: Path, text: str) -> None:
    session = context.session
    session.undo.store.keep(session.id, session.new_id(), f"/init {path.name}", [path])
    try:
        write_regular(path, text.encode("utf-8"))
    except OSError as error:
        raise UsageError("{path} cannot be written: {why}.", path=path, why=why(error)) from error


PROJECT = (
    Command(
        "init",
        Text("write KOGNITERM.md from a scan of the project, after showing it"),
        init,
        while_running=False,
    ),
)
