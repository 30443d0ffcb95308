"""One session that an editor has open: a turn at a time, and everything that the client gets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acp.schema import AvailableCommandsUpdate, ConfigOptionUpdate, CurrentModeUpdate, StopReason

from kogniterm.addons.acp.config_options import MODE_IDS, config_options
from kogniterm.addons.acp.editor_commands import CONTINUE, OWN, CommandPorts, list_commands
from kogniterm.addons.acp.editor_questions import Editor, EditorQuestions
from kogniterm.addons.acp.editor_servers import offer_trust
from kogniterm.addons.acp.outbox import Outbox, Update
from kogniterm.addons.acp.prompt_blocks import Block, PromptFiles, read_prompt
from kogniterm.addons.acp.session_updates import FrontWords, SessionUpdates
from kogniterm.errors import KognitermError, UsageError
from kogniterm.runtime.budgets import option_that_raises
from kogniterm.runtime.inputs.called_input import (
    fill_prompt,
    is_slash_command,
    resolve_input,
    split_line,
)
from kogniterm.runtime.replay.recorded_events import past_turns
from kogniterm.types import Answer, Phrase, UserInput, events
from kogniterm.types.turn_values import LEFT_OPEN

if TYPE_CHECKING:
    from typing import Protocol

    from kogniterm.models.model_lists import ModelListing
    from kogniterm.runtime.session import LiveSession

    class Client(Editor, Protocol):
        """The client's methods that a session needs."""

        async def session_update(self, session_id: str, update: Update) -> None:
            """Send an update."""


log = logging.getLogger(__name__)

_MOST_TURNS = 200
_MOST_RECORDS = 20_000
"""The most of a session that is sent again when it is loaded."""


class EditorSession:
    """A live session and its client; closed once."""

    def __init__(
        self, session: LiveSession, client: Client, words: FrontWords, *, forms: bool
    ) -> None:
        self.live = session
        self.listings: tuple[ModelListing, ...] = ()
        self.servers: tuple[str, ...] = ()
        self.outbox = Outbox(lambda update: client.session_update(session.id, update))
        self.updates = SessionUpdates(session, self.outbox, words)
        self.questions = EditorQuestions(session, client, self.outbox, words.say, forms=forms)
        self._say = words.say
        self._files = PromptFiles()
        self._turn: asyncio.Task[Answer] | None = None
        self._warming = asyncio.ensure_future(asyncio.to_thread(session.warm))
        self._warming.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def running(self) -> bool:
        """Return whether a turn runs."""
        return self._turn is not None and not self._turn.done()

    def greet(self, problems: Sequence[Phrase] = (), *, resumed: bool = False) -> None:
        """Send what the user should know about a session that was opened, and its commands."""
        for notice in (*self.live.notices, *problems):
            self.updates.tell(self._say(notice))
        if resumed and (self.live.state.open_turn or self.live.state.unknown):
            told = Phrase(
                "The last turn was interrupted. /continue continues it; anything else begins a "
                "new turn."
            )
            self.updates.tell(self._say(told))
        self.send_commands()
        self.updates.usage()

    def replay(self) -> None:
        """Send the turns of the session so far."""
        past = past_turns(self.live, most=_MOST_TURNS, records=_MOST_RECORDS)
        if past.earlier:
            values = {"count": past.earlier, "session": past.reference}
            told = Phrase(
                "{count} earlier turns are not shown: kogniterm sessions show {session}", values
            )
            self.updates.tell(self._say(told))
        for turn in past.turns:
            self.updates.replay(turn)

    def send_commands(self) -> None:
        """Send the slash commands as they are now."""
        self.outbox.put(
            AvailableCommandsUpdate(
                session_update="available_commands_update",
                available_commands=list_commands(self.live, self._say),
            )
        )

    def send_options(self) -> None:
        """Send the mode and the options, after one of them was changed."""
        mode = MODE_IDS[self.live.modes.approval]
        self.outbox.put(
            CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)
        )
        options = config_options(self.live, self.listings, self._say)
        self.outbox.put(
            ConfigOptionUpdate(session_update="config_option_update", config_options=options)
        )

    # --- turns ----------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Block]) -> StopReason:
        """Take a prompt to its end; return why it stopped.

        Raises `UsageError` for one that cannot be used, `KognitermError` where the model failed.
        """
        if self._turn is not None and self._turn.cancelling():
            await asyncio.wait({self._turn})
        if self.running:
            raise UsageError("A turn is running in this session; cancel it first.")
        before = self.live.modes.approval, self.live.model.name
        self._turn = asyncio.create_task(self._work(blocks))
        # A client that is gone cancels this call, not the turn: closing the session ends that.
        await asyncio.wait({self._turn})
        try:
            if self._turn.cancelled():
                return "cancelled"
            answer = self._turn.result()
        finally:
            self.updates.title()
            self.send_commands()
            if (self.live.modes.approval, self.live.model.name) != before:
                self.send_options()
            await self.outbox.flush()
        if answer.stop == "model_failed" and answer.reason is not None:
            if "safety filter" in answer.reason.template:
                self.updates.tell(self._say(answer.reason))
                await self.outbox.flush()
                return "refusal"
            raise KognitermError(answer.reason.template, **answer.reason.values)
        return stop_reason(answer)

    def cancel(self) -> None:
        """Stop the running turn, with its command's whole tree."""
        if self._turn is not None:
            self._turn.cancel()

    async def _work(self, blocks: Sequence[Block]) -> Answer:
        session = self.live
        given: UserInput | None = read_prompt(blocks, session.folder, self._files)
        assert given is not None
        name, argument = split_line(given.text) if is_slash_command(given.text) else ("", "")
        if name in OWN:
            ports = CommandPorts(session, self.questions, self.updates, self._say)
            await OWN[name].run(ports, argument)
            return Answer("")
        await offer_trust(session, self.servers, self.questions, self._say, self.updates.tell)
        if name == CONTINUE:
            if not (session.state.open_turn or session.state.unknown):
                raise UsageError("The last turn of this session is finished; give the next task.")
            given = None
        elif name.startswith("@"):
            given = replace(given, text=given.text.removeprefix("/"))
        if given is not None:
            given = await fill_prompt(session, given)
            given = resolve_input(session, given, lambda: {*OWN, CONTINUE})
        answer = await session.run(
            given,
            approver=self.questions,
            sink=self.updates,
            recover=self.questions.choose,
            ask=self.questions.ask,
            at_limit=self.questions.choose,
            at_prompt=True,
        )
        if session.memory is not None:
            for line in session.memory.waiting_lines():
                self.updates.tell(self._say(line))
        return answer

    # --- the end --------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop the turn and release the session; a question whose user is gone stays open."""
        if self._turn is not None and not self._turn.done():
            self._turn.cancel(LEFT_OPEN if self.questions.open else None)
            await asyncio.wait({self._turn})
        session = self.live
        try:
            left = await asyncio.to_thread(session.end_jobs)
            if left:
                self.updates(events.JobsLeft(left))
            await asyncio.wait({self._warming})
            await session.finish()
        finally:
            self.outbox.close()
            self._files.close()
            await asyncio.to_thread(session.close)


_OF_TOKENS = ("--max-tokens", "--max-session-tokens")


def stop_reason(answer: Answer) -> StopReason:
    """Return the protocol's reason for the end of a turn.

    An action that was refused, or a task that was not done, is an ordinary end: `refusal` would
    tell the client to forget the turn.
    """
    if answer.stop == "interrupted":
        return "cancelled"
    if answer.stop == "budget":
        option = option_that_raises(answer.reason) if answer.reason is not None else ""
        return "max_tokens" if option in _OF_TOKENS else "max_turn_requests"
    return "end_turn"
