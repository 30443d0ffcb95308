"""What waits when work stops is answered, truthfully, so that every history stays valid."""

from __future__ import annotations

from langchain_core.messages import BaseMessage

from kogniterm.agent import messages
from kogniterm.agent.subagent import deeds
from kogniterm.runtime.ports import SessionPorts
from kogniterm.sessions.recording import STOPPED
from kogniterm.sessions.records import NodeRan, Outcome, OutcomeStatus
from kogniterm.types import NodeUpdate

NODE = "execute_tool"
_STARTED = (
    "[outcome unknown: this was started, and then {why}; it may have finished, failed, or done "
    "a part. Do not run it again without checking what it did.]"
)


def cancel_open(session: SessionPorts, why: str) -> None:
    """Answer everything that waits, of the main agent and of sub-agents.

    Raises `OutcomeNotWrittenError` while an outcome is kept that the database does not take.
    """
    session.settle_kept()
    for agent in session.state.agents:
        cancel_agent(session, agent, why)
    _cancel_pending(session, "", why)
    rest: list[BaseMessage] = []
    for call in messages.unanswered_calls(session.state.messages):
        key = str(call["id"])
        begun = session.state.agents.get(key)
        text = f"[not run: {why}]" if begun is None else f"[stopped: {why}]{deeds(begun)}"
        rest.append(messages.tool_message(key, call["name"], text, failed=True))
    if rest:
        session.record(NodeRan(NodeUpdate(NODE, tuple(rest))))


def cancel_agent(session: SessionPorts, agent: str, why: str) -> None:
    """Answer what waits of one sub-agent, which may go on with that."""
    _cancel_pending(session, agent, why)
    history = session.state.agents[agent].messages
    rest = tuple(messages.cancel_messages(history, f"[not run: {why}]"))
    if rest:
        session.record(NodeRan(NodeUpdate(STOPPED, rest, agent=agent)))


def _cancel_pending(session: SessionPorts, agent: str, why: str) -> None:
    started = {intent.request_id for intent in session.state.unknown}
    for request in session.state.pending:
        if request.agent != agent:
            continue
        status: OutcomeStatus = "unknown" if request.id in started else "cancelled"
        text = _STARTED.format(why=why) if request.id in started else f"[not run: {why}]"
        message = messages.tool_message(request.call_id, request.tool, text, failed=True)
        session.record(Outcome(request.id, status, message, agent=agent), durable=True)
