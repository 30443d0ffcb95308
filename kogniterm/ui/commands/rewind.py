"""/rewind: go back to before an earlier message, in the conversation, the files or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.storage.folders import seen_from
from kogniterm.types import Phrase
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.runtime.operations.rewind_session import Rewind


async def rewind(repl: Repl, argument: str) -> None:
    """Run /rewind."""
    from kogniterm.runtime.operations.rewind_session import rewind_points, way_back
    from kogniterm.ui.questions.rewind_list import RewindPickList, rewind_rows

    session = repl.session
    if session.state.open_turn:
        raise UsageError("A turn is in progress; use /rewind when it has ended.")
    found = rewind_points(session)
    if not found:
        raise UsageError("No messages yet.")
    question = RewindPickList(rewind_rows(found), folder=session.folder)
    seq = await repl.front.questions.ask(question)
    if not seq:
        return
    way = way_back(session, seq)
    wanted = await _ask(repl, way)
    if wanted == "no":
        repl.display.say(Phrase("Nothing changed."))
        return
    _go(repl, way, wanted)


async def _ask(repl: Repl, way: Rewind) -> str:
    """Ask what goes back, until the answer is not to see the changes."""
    from kogniterm.ui.commands.workspace import show_differences
    from kogniterm.ui.questions.rewind_list import way_back_question

    while True:
        question = way_back_question(way, repl.session.folder)
        answer = await repl.front.questions.ask(question)
        if answer != "changes":
            return answer
        show_differences(repl, way.files.changes)


def _go(repl: Repl, way: Rewind, wanted: str) -> None:
    from kogniterm.runtime.operations.rewind_session import go_back

    conversation = wanted in ("both", "conversation")
    restored = go_back(
        repl.session, way, files=wanted in ("both", "files"), conversation=conversation
    )
    if restored:
        names = ", ".join(seen_from(repl.session.folder, path) for path in restored)
        repl.display.say(Phrase("Restored: {paths}. /undo reverts this.", {"paths": names}))
    if conversation:
        repl.front.restore(way.point.input.typed)
        repl.display.say(
            Phrase("The conversation went back. Your message is on the input line again.")
        )
