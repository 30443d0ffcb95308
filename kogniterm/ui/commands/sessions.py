"""/sessions and /resume: what else was saved, and going on with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Text
from kogniterm.ui.choice import Option
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.commands.shown import local_time
from kogniterm.ui.context import ReplContext
from kogniterm.ui.locale import _, plural

if TYPE_CHECKING:
    from kogniterm.sessions.store import SessionInfo

SHOWN = 20
PICKED = 9
NONE = ""


def session_commands(
    saved: Callable[[], Sequence[SessionInfo]] | None = None,
) -> tuple[Command, ...]:
    """The commands; `saved` lists the sessions in place of the open session's store."""

    def known(context: ReplContext) -> Sequence[SessionInfo]:
        return saved() if saved is not None else context.session.cabinet.store.sessions()

    def show(context: ReplContext, argument: str) -> None:
        """/sessions."""
        from rich.table import Table
        from rich.text import Text as RichText

        from kogniterm.ui.clean import one_line

        rows = Table.grid(padding=(0, 2))
        for info in known(context)[:SHOWN]:
            own = "accent" if info.id == context.session.id else "muted"
            rows.add_row(
                RichText(info.id[:8], own),
                RichText(local_time(info.updated), "muted"),
                RichText(one_line(info.title, 60)),
                RichText(one_line(info.folder, 60), "muted"),
            )
        context.write(rows)
        context.say(Text("/resume ID goes on with one of them."))

    async def resume(context: ReplContext, argument: str) -> None:
        """/resume [ID or words of the title]."""
        found = _meant(known(context), argument)
        if [info.id for info in found] == [context.session.id]:
            raise UsageError("That is the session you are in.")
        if argument and not found:
            raise UsageError("No session is called that; /sessions lists the last ones.")
        wanted = found[0].id if len(found) == 1 and argument else await _pick(context, found)
        if not wanted:
            return
        await context.reopen(wanted)
        context.say(Text("Session: {title}", {"title": context.session.title or wanted}))

    def names(context: ReplContext) -> Iterable[str]:
        from kogniterm.ui.clean import one_line

        others = [info for info in known(context) if info.id != context.session.id]
        titles = [one_line(info.title) for info in others]
        return [*(info.id[:8] for info in others), *dict.fromkeys(filter(None, titles))]

    return (
        Command("sessions", Text("list the saved sessions"), show),
        Command(
            "resume",
            Text("go on with another session"),
            resume,
            "[ID]",
            choices=names,
            while_running=False,
        ),
    )


def _meant(infos: Sequence[SessionInfo], argument: str) -> Sequence[SessionInfo]:
    """The sessions that `argument` can mean: an id's beginning, a title, or words of titles."""
    from kogniterm.sessions.texts import fold_case, holds_words
    from kogniterm.ui.clean import one_line

    if not argument:
        return infos
    wanted = fold_case(argument.strip())
    return (
        [info for info in infos if info.id.startswith(wanted)]
        or [info for info in infos if fold_case(one_line(info.title)) == wanted]
        or [info for info in infos if holds_words(info.title, wanted)]
    )


async def _pick(context: ReplContext, infos: Sequence[SessionInfo]) -> str:
    """The id of the session that is chosen from the last few others."""
    from kogniterm.ui.clean import one_line

    all_others = [info for info in infos if info.id != context.session.id]
    others = all_others[:PICKED]
    if not others:
        raise UsageError("There is no other session yet.")
    left = len(all_others) - len(others)
    more = plural(
        "{count} more; /resume WORDS finds one by its title.",
        "{count} more; /resume WORDS finds them by their titles.",
        left,
    )
    options = [
        Option(str(number), f"{one_line(info.title, 50)} ({local_time(info.updated)})", info.id)
        for number, info in enumerate(others, 1)
    ]
    return await context.choose(
        _("Which session?"),
        [more] if left else [],
        [*options, Option("no", _("none of them"), NONE)],
    )


SESSIONS = session_commands()
