"""The commands in a custom command, which run before its text goes to the model.

The turn of a custom command begins with its line; its commands are requests like any other, one
after the other, in a history of their own. When all have ended well, the text with their output
joins the main history, and the turn goes on. A refusal, a failure and an unknown outcome end the
turn, and nothing is sent. What was done stands in the journal under ids made of the turn and the
command, so a turn that was interrupted goes on with the first command that has no outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kogniterm.agent.messages import ONLY_A_PLAN
from kogniterm.errors import EXIT_BUDGET, EXIT_NOT_DONE, EXIT_REFUSED, ModelError, UsageError
from kogniterm.host.safe_files import resolve_path
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.extensions.allowed_tools import (
    DECLINE,
    GRANT,
    named_permissions,
    not_granted,
)
from kogniterm.runtime.turn import TurnServices, run_turn, settle
from kogniterm.runtime.turn_end import refused_answer
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import TurnIO
from kogniterm.sessions.fold import Note
from kogniterm.sessions.history import SessionHistory
from kogniterm.sessions.records import NodeRan, Outcome
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    Answer,
    NodeUpdate,
    Phrase,
    UserInput,
    events,
)

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession

NODE = "custom_command"
"""The node of what a custom command adds."""


async def run_custom_command(
    session: LiveSession, user_input: UserInput | None, io: TurnIO
) -> Answer:
    """Run the turn of a custom command; None continues the one that is open."""
    given = user_input or session.state.open_input
    try:
        return await run_turn(session.services, user_input, io, partial(_prepare, session))
    finally:
        if given is not None and given.model and not session.state.open_turn:
            before = SessionHistory(session.journal.records()).open_turn.model
            if before and before != session.model.name:
                session.use_model(before)


async def _prepare(
    session: LiveSession, services: TurnServices, io: TurnIO, count: TurnCount
) -> Answer | None:
    """Use the model of the open turn's custom command, and run the commands in it.

    Returns the answer that ends the turn, when nothing can be sent.
    """
    given = session.state.open_input
    if given is None:
        return None
    name = given.line.partition(" ")[0]
    if given.model not in ("", session.model.name):
        try:
            session.use_model(given.model)
        except (UsageError, ModelError) as error:
            values = {"name": name, "model": given.model, "why": error.text}
            told = Phrase(
                "{name} asks for the model {model}, which cannot be used ({why}); {used} answers.",
                {**values, "used": session.model.name},
            )
            io.sink(events.Notice(told, "warning"))
    await _offer(session, name, given.permissions, count)
    parts = services.journal.exact_parts(given)
    return await _CommandRuns(services, io, count, name).run(parts) if parts else None


async def _offer(
    session: LiveSession, name: str, permissions: Sequence[str], count: TurnCount
) -> None:
    """Offer the user the permissions that a custom command names, once in a session."""
    asker, declined = session.extensions.asker, session.extensions.declined
    planning = session.services.only_plans or session.modes.in_plan_mode
    if not permissions or planning or asker.ask_now is None or name in declined:
        return
    named = not_granted(
        named_permissions(permissions, str(resolve_path(Path(session.folder)))),
        session.policy.session_leases,
    )
    if not named:
        return
    asks = Phrase(
        "The custom command {name} names these permissions. Allow them for this session?",
        {"name": name},
    )
    with count.waiting():
        reply = await asker.ask((asks, *(one.offer.label for one in named)), (GRANT, DECLINE))
    if reply != str(GRANT):
        declined.add(name)
        return
    for one in named:
        session.policy.grant(one.report, one.offer, session.executor.cwd)


class _CommandRuns:
    """The commands of one custom command, called `name`, on their way."""

    def __init__(self, services: TurnServices, io: TurnIO, count: TurnCount, name: str) -> None:
        self.services = services
        self.io = io
        self.count = count
        self.name = name
        self._outcomes: dict[str, Outcome] = {}
        self._again: set[str] = set()
        self._history = SessionHistory()
        state = self._journal.state
        self._key = f"command-{state.turn}"
        self._first = 1 if self._key in state.agents else state.seq

    @property
    def _journal(self) -> TurnJournal:
        return self.services.journal

    async def run(self, parts: Sequence[str]) -> Answer | None:
        """Run every command, and add the text; return why nothing was sent, if so."""
        self._read()
        if any(one.node == NODE and not one.agent for one in self._history.open_turn.nodes):
            return None
        texts, ended = (
            list(parts),
            self._over(await settle(self.services, self.io, self.count, apart=True)),
        )
        for number in range(1, len(parts), 2):
            found = ended or await self._run(number // 2 + 1, parts[number])
            if isinstance(found, Answer):
                told = f"(Not sent: {found.reason})"
                self._journal.record(NodeRan(NodeUpdate(NODE, (AIMessage(told),))))
                return found
            texts[number] = found
        text = HumanMessage("".join(texts).strip())
        self._journal.record(NodeRan(NodeUpdate(NODE, (text,))), durable=True)
        return None

    async def _run(self, number: int, command: str) -> str | Answer:
        """Return the output of a command, which runs unless it has; or why there is none."""
        self._read()
        call_id = f"{self._key}-{number}"
        while call_id in self._again:
            call_id += "-again"
        if call_id not in self._outcomes:
            journal, arguments = self._journal, {"command": command}
            given = journal.state.open_input
            call = {"name": EXECUTE_COMMAND, "args": arguments, "id": call_id, "type": "tool_call"}
            request = ActionRequest(
                journal.new_id(), call_id, EXECUTE_COMMAND, command, arguments=arguments,
                agent=self._key, agent_name=self.name,
                agent_task=given.line if given is not None else self.name,
            )  # fmt: skip
            said = (AIMessage("", tool_calls=[call]),)
            journal.record(NodeRan(NodeUpdate(NODE, said, pending=(request,), agent=self._key)))
            over = self._over(await settle(self.services, self.io, self.count, apart=True))
            self._read()
            if over is not None:
                return over
        return self._output(command, self._outcomes.get(call_id))

    def _read(self) -> None:
        """Read on in the journal: the outcomes of this turn's commands, and those to run again."""
        history = self._history
        history.read(self._journal.records(max(self._first, history.seq + 1)))
        requests: dict[str, str] = {}
        for action in history.open_turn.ended:
            outcome = action.outcome
            if outcome is None or outcome.agent != self._key or outcome.again is not None:
                continue
            if isinstance(outcome.message, ToolMessage):
                requests[action.id] = outcome.message.tool_call_id
                self._outcomes[requests[action.id]] = outcome
        for note in history.open_turn.notes:
            if note.kind == Note.AGAIN:
                self._again.add(requests.get(str(note.value), ""))

    def _over(self, limit: Phrase | None) -> Answer | None:
        if limit is None:
            return None
        return Answer("", "budget", EXIT_BUDGET, limit, self.count.usage)

    def _output(self, command: str, outcome: Outcome | None) -> str | Answer:
        """Return what a command wrote; or the answer that says why the text is not sent."""
        shown = " ".join(self._journal.redact_command(command).split())
        values: dict[str, object] = {"name": self.name, "command": shown}
        result = outcome.result if outcome is not None else None
        if outcome is not None and outcome.status == "unknown":
            unknown = Phrase(
                "{name} was not sent to the model, because the outcome of this command is "
                "unknown: {command}. To try again, enter {name} again.",
                values,
            )
            return Answer("", "unknown", EXIT_REFUSED, unknown, self.count.usage)
        if outcome is None or result is None:
            count, mode = self.count, self.services.modes.approval
            if not count.refused:
                count.refused.append((ONLY_A_PLAN, events.BY_KOGNITERM))
            answer = refused_answer("", count, mode)
            told = {"name": self.name, "why": answer.reason}
            reason = Phrase("{name} was not sent to the model. {why}", told)
            if answer.refused_by == "person":
                reason = Phrase(
                    "{name} was not sent to the model, because you refused a command in it.", told
                )
            # Without who refused it, so that the reason is told: nothing else says what became.
            return answer._replace(reason=reason, refused_by="")
        if outcome.status == "finished" and result.exit_code == 0:
            return result.text.rstrip("\n")
        values["code"] = "–" if result.exit_code is None else result.exit_code
        failed = Phrase(
            "{name} was not sent to the model, because this command failed (exit code {code}): "
            "{command}",
            values,
        )
        return Answer("", "not_done", EXIT_NOT_DONE, failed, self.count.usage)
