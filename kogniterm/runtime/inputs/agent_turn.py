"""A turn that the user gives to a sub-agent: `@reviewer look at the last commit`.

The sub-agent works at once, without a call of the main model; its answer is that of the turn and
stands in the main history afterwards. Its own history is in the journal under an id made of the
turn, so a turn that was interrupted goes on where it was.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage

from kogniterm.agent.compaction import observation_limit
from kogniterm.agent.graph import think
from kogniterm.agent.graph_state import NamedAgent, ThinkContext
from kogniterm.agent.messages import ImageBlock
from kogniterm.agent.subagent import DELEGATE, Result, SubAgent, parse_task
from kogniterm.errors import EXIT_BUDGET, EXIT_NOT_DONE, KognitermError, UsageError
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.context import attach_files
from kogniterm.runtime.turn import TurnServices, run_turn, settle
from kogniterm.runtime.turn_end import conclude
from kogniterm.runtime.turn_ports import TurnIO
from kogniterm.sessions.records import NodeRan
from kogniterm.types import AgentState, Answer, ModelInfo, NodeUpdate, Phrase, UserInput

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession

NODE = "user_agent"
"""The node of the answer of a sub-agent that the user called."""


async def run_agent(session: LiveSession, user_input: UserInput | None, io: TurnIO) -> Answer:
    """Run a turn by the sub-agent that its input names; None continues the open turn.

    Raises `UsageError` where it cannot be used, before anything is recorded.
    """
    given = user_input or session.state.open_input
    name = given.agent if given is not None else ""
    agent = session.extensions.port.agents().get(name)
    if user_input is not None:
        if agent is None:
            raise _no_agent(session, name)
        why = agent.off or session.extensions.tools.refusal(DELEGATE.name)
        if why is not None:
            raise UsageError("The sub-agent {name} cannot be used: {why}", name=name, why=why)
        if session.services.only_plans:
            raise UsageError("A sub-agent cannot be called with --plan-only.")
        if session.model.one_command and agent.open_model is None:
            raise UsageError(
                "Model {model} is too small for sub-agents. Choose another with --model.",
                model=session.model.name,
            )
    return await run_turn(session.services, user_input, io, partial(_work, session, name, agent))


def _no_agent(session: LiveSession, name: str) -> UsageError:
    names = ", ".join(session.extensions.port.agents()) or "–"
    return UsageError("There is no sub-agent {name}; use one of: {names}.", name=name, names=names)


async def _work(
    session: LiveSession,
    name: str,
    agent: NamedAgent | None,
    services: TurnServices,
    io: TurnIO,
    count: TurnCount,
) -> Answer:
    """Let the sub-agent work until it has ended, and return its answer."""
    journal = services.journal
    if agent is None:
        raise _no_agent(session, name)
    call = _AgentCall(session, agent, io, count, f"agent-{journal.state.turn}")
    result = await call.run()
    text = journal.redact(result.text)
    said = (AIMessage(text),)
    journal.steering.heard_by(call.key)
    update = NodeUpdate(NODE, said, answer=text)
    journal.record(NodeRan(update))
    if call.over is not None:
        return Answer(text, "budget", EXIT_BUDGET, call.over, count.usage)
    if result.status != "ok":
        reason = Phrase("The sub-agent {name} did not finish.", {"name": name})
        return Answer(text, "not_done", EXIT_NOT_DONE, reason, count.usage)
    return conclude(journal.state, count, update)


@dataclass(slots=True)
class _AgentCall:
    """A call of a sub-agent by the user; `over` is the limit that ended it."""

    session: LiveSession
    agent: NamedAgent
    io: TurnIO
    count: TurnCount
    key: str
    over: Phrase | None = field(default=None)

    async def run(self) -> Result:
        """Return its result, once what it requested is settled."""
        try:
            model = self.agent.open_model() if self.agent.open_model is not None else None
        except KognitermError as error:
            raise UsageError(
                "The sub-agent {name} cannot be used: {why}", name=self.agent.name, why=error.text
            ) from error
        text, images = self._given((model or self.session.modes.model).info)
        arguments = {"task": text, "agent": self.agent.name}
        task = parse_task(arguments, named={self.agent.name: self.agent})
        services = self.session.services
        self.over = await settle(services, self.io, self.count)
        while True:
            begun = self.session.state.agents.get(self.key, AgentState())
            worker = SubAgent(self.key, task, self._context(), begun, model=model, images=images)
            result = await worker.run() if self.over is None else Result(status="failed")
            if not result.pending:
                return result
            update = NodeUpdate(DELEGATE.name, pending=result.pending)
            self.session.journal.record_update(update)
            self.over = await settle(services, self.io, self.count)

    def _given(self, model: ModelInfo) -> tuple[str, tuple[ImageBlock, ...]]:
        """Return the task: the user's words, piped data, and the files and images they name."""
        journal = self.session.journal
        given = journal.state.open_input
        if given is None:
            return self.agent.name, ()
        files = attach_files(
            given.attachments,
            Path(self.session.folder),
            observation_limit(model.context_window),
            journal.redact,
            model,
        )
        data = f"<stdin>\n{given.data}\n</stdin>" if given.data is not None else ""
        words = given.text.strip()[len(self.agent.name) + 1 :].strip()
        return "\n\n".join(filter(None, (words, data, files.text))), files.images

    def _context(self) -> ThinkContext:
        context = self.session.context.think_context(self.io, self.count)

        async def may_continue(agent: str) -> Phrase | None:
            self.over = await context.may_continue(agent)
            return self.over

        return replace(context, think=think, may_continue=may_continue)


_ADDRESSED = re.compile(r"@(\S+)(?:\s+(.*))?", re.DOTALL)


def address_agent(user_input: UserInput, names: Collection[str]) -> UserInput:
    """Return the input for a sub-agent among `names`, when it begins with one.

    A file of that name is not attached then. Raises `UsageError` without a task.
    """
    found = _ADDRESSED.fullmatch(user_input.text.strip())
    if found is None or user_input.line or found[1].lower() not in names:
        return user_input
    name = found[1].lower()
    if not found[2]:
        raise UsageError("@{name} needs a task, as in @{name} look at the last commit.", name=name)
    files = tuple(one for one in user_input.attachments if one != found[1])
    return replace(user_input, agent=name, attachments=files)
