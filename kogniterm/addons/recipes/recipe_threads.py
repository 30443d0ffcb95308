"""The threads of recipes: histories that model nodes share, in one run and over runs.

A thread is a session of its own in the session store, found by the folder that recipes run in and
the thread's name. So it is listed, shown, exported, forgotten and deleted like any other session,
and only one process can use it at a time. A question is added once it has its answer: a run that
is killed leaves no half of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_core.messages import BaseMessage, SystemMessage

from kogniterm import prompts
from kogniterm.agent import compaction
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.context import compact
from kogniterm.runtime.turn_end import cancel_open
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.sessions.fold import Note
from kogniterm.sessions.records import InputReceived, NodeRan, TurnClosed
from kogniterm.types import NodeUpdate, ToolSpec, Usage, UserInput
from kogniterm.types.turn_values import RECIPE_NODE

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession


class Thread:
    """One thread, open for a run; `used` is held by the node that uses it."""

    def __init__(self, session: LiveSession, journal: TurnJournal, count: TurnCount) -> None:
        self.session = session
        self.journal = journal
        self.count = count
        self.used = asyncio.Lock()

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """Return the history so far."""
        return tuple(self.journal.state.messages)

    async def make_room(self, tools: tuple[ToolSpec, ...]) -> None:
        """Compact the history where it nears the model's window, as that of a session."""
        model, window = self.session.modes.model, self.session.modes.window
        fixed = compaction.message_tokens(
            SystemMessage(prompts.text("recipe"))
        ) + compaction.tools_tokens(tools)
        most = window.history(model.info, fixed)
        if not compaction.needs_compaction(self.journal.history_tokens, most):
            return
        body = await compact(self.journal.state, model, most)
        self.count.add_usage(body.usage)
        self.session.journal.record(NodeRan(NodeUpdate(RECIPE_NODE, usage=body.usage)))
        # What it cost counts once, in the session of the run.
        self.journal.record(replace(body, usage=Usage()), durable=True)

    def keep(self, messages: Sequence[BaseMessage], *, restored: bool) -> None:
        """Add a question with its answer, and everything between them, as a turn.

        What an interrupted run said, and this one `restored`, may be there already.
        """
        question, *said = messages
        kept = self.messages[-len(messages) :]
        if restored and [*map(_gist, kept)] == [*map(_gist, messages)]:
            return
        turn, answer = self.journal.state.turn + 1, said[-1].text
        text = question.text
        given = UserInput(text, source="run", foreign=((0, len(text)),))
        self.journal.record(InputReceived(turn, given, question))
        self.journal.record_update(NodeUpdate(RECIPE_NODE, tuple(said), answer=answer))
        self.journal.record(TurnClosed(turn, "done", 0, answer), durable=True)


def _gist(message: BaseMessage) -> tuple[object, ...]:
    return message.type, message.text, getattr(message, "tool_calls", None)


class Threads:
    """The threads that a run uses: each is opened at its first use, and closed with the run."""

    def __init__(self, session: LiveSession, count: TurnCount) -> None:
        self._session = session
        self._count = count
        self._open: dict[str, Thread] = {}

    def open(self, name: str) -> Thread:
        """Return the thread called `name`. Raises `SessionBusyError` while another run uses it."""
        if name not in self._open:
            self._open[name] = Thread(self._session, self._journal(name), self._count)
        return self._open[name]

    def _journal(self, name: str) -> TurnJournal:
        session = self._session
        store, model = session.archive.store, session.modes.model.info.name
        # The same thread always has the same session.
        identity = json.dumps(["thread", store.database.user, session.folder, name])
        session_id = hashlib.sha256(identity.encode()).hexdigest()[:12]
        known = store.info(session_id) is not None
        opened = store.open_or_create(session_id, folder=session.folder, model=model)
        journal = TurnJournal(opened, session.journal.secrets, session.journal.clock)
        if not known:
            journal.record(Note.TITLE.record(journal.redact(f"thread {name}")))
        cancel_open(journal, "a recipe continued the session")
        return journal

    def close(self) -> None:
        """Release the threads for others."""
        for thread in self._open.values():
            thread.journal.journal.close()
        self._open.clear()
