"""/sessions and /resume: what else was saved, and going on with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Text
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.context import ReplContext

if TYPE_CHECKING:
    from kogniterm.sessions.store import SessionInfo

SHOWN = 20


def session_commands(saved: Callable[[], Sequence[SessionInfo]]) -> tuple[Command, ...]:
    """The commands; `saved` lists the sessions, the last used first."""

    def show(context: ReplContext, argument: str) -> None:
        """/sessions."""
        from rich.table import Table
        from rich.text import Text as RichText

        from kogniterm.ui.clean import one_line

        rows = Table.grid(padding=(0, 2))
        for info in list(saved())[:SHOWN]:
            when = datetime.fromtimestamp(info.updated, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
            own = "accent" if info.id == context.session.id else "muted"
            rows.add_row(
                RichText(info.id[:8], own),
                RichText(when, "muted"),
                RichText(one_line(info.title, 60)),
                RichText(one_line(info.folder, 60), "muted"),
            )
        context.write(rows)
        context.say(Text("/resume ID goes on with one of them."))

    async def resume(context: ReplContext, argument: str) -> None:
        """/resume ID."""
        found = [info for info in saved() if argument and info.id.startswith(argument)]
        if len(found) != 1:
            raise UsageError("Give the id of a session, or its beginning; /sessions lists them.")
        if found[0].id == context.session.id:
            raise UsageError("That is the session you are in.")
        await context.reopen(found[0].id)
        context.say(Text("Session: {title}", {"title": context.session.title or found[0].id}))

    def ids(context: ReplContext) -> Iterable[str]:
        return [info.id[:8] for info in saved() if info.id != context.session.id]

    return (
        Command("sessions", Text("list the saved sessions"), show),
        Command(
            "resume",
            Text("go on with another session"),
            resume,
            "ID",
            choices=ids,
            while_running=False,
        ),
    )
