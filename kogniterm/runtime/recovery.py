"""After a crash: commands that were started and whose end nobody saw.

Their outcome is unknown. They are never run again by themselves; the model is told the truth,
with whatever output was kept, and a person may ask to have the effects checked first.
"""

from __future__ import annotations

from pathlib import Path

from langchain_core.messages import HumanMessage

from kogniterm.agent import messages
from kogniterm.agent.compaction import clip
from kogniterm.runtime import events
from kogniterm.runtime.front import Front, Wish
from kogniterm.runtime.ports import SessionPorts, TurnCount
from kogniterm.sessions.records import Intent, Outcome
from kogniterm.types import ActionRequest, Text

PARTIAL_CHARS = 2_000
PARTIAL_BYTES = 64 * 1024
_TRUTH = (
    "[outcome unknown: KogniTerm was stopped while this command ran; it may have finished, "
    "failed, or done a part. It was not run again.]"
)


async def recover(session: SessionPorts, front: Front, count: TurnCount) -> None:
    """Settle every unknown outcome before anything else happens in the session."""
    for intent in session.state.unknown:
        partial = session.redact(partial_output(intent.output_path))
        front.sink(
            events.Notice(
                Text(
                    "KogniTerm was stopped while this command ran; its outcome is unknown: "
                    "{command}",
                    {"command": intent.command},
                ),
                "warning",
            )
        )
        wish: Wish = "skip"
        if front.recover is None:
            count.unknown.append(intent.command)
        else:
            wish = await front.recover(intent, partial)
        if wish != "again":
            count.held.add(intent.command)
        request = next((r for r in session.state.pending if r.id == intent.request_id), None)
        agent = request.agent if request is not None else ""
        message = _message(request, intent, partial, wish)
        outcome = Outcome(intent.request_id, "unknown", message, agent=agent)
        session.record(outcome, durable=True)


def _message(
    request: ActionRequest | None, intent: Intent, partial: str, wish: Wish
) -> messages.Observed | HumanMessage:
    """The truth for the model; `request` is None for a command that the person ran themselves."""
    lines = [_TRUTH]
    if partial:
        lines.append(f"Output up to then:\n{partial}")
    if wish == "again":
        lines.append("The person wants it run again: propose it again.")
    elif wish == "check":
        lines.append("The person wants you to check what it did before anything else.")
    else:
        lines.append("Do not run it again without checking what it did.")
    text = "\n".join(lines)
    if request is None:
        return messages.note(f"I ran this command myself: {intent.command}\n{text}")
    return messages.tool_message(request.call_id, request.tool, text, failed=True)


def partial_output(path: str | None) -> str:
    """The end of what a command had printed, as far as it reached the disk."""
    if path is None:
        return ""
    try:
        with Path(path).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - PARTIAL_BYTES))
            data = file.read()
    except OSError:
        return ""
    return clip(data.decode("utf-8", "replace").strip(), PARTIAL_CHARS)
