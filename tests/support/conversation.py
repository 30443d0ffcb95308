"""A conversation as the runtime journals it, for tests of stored sessions."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kogniterm.sessions.journal.journal import Journal
from kogniterm.sessions.records import (
    Decided,
    InputReceived,
    Intent,
    Judged,
    NodeRan,
    Outcome,
    RecordBody,
    Requested,
    TurnEnded,
)
from kogniterm.types import (
    ActionRequest,
    CommandResult,
    Decision,
    NodeUpdate,
    RiskReport,
    Usage,
    UserInput,
    Verdict,
)

RECORDS_PER_TURN = 9


def command_turn(
    turn: int,
    task: str = "How many files are here?",
    command: str = "ls | wc -l",
    output: str = "7\n",
    answer: str = "There are seven.",
    *,
    cwd: str = "/home/ana/project",
    output_path: str | None = None,
) -> list[RecordBody]:
    """Return a whole turn: the user asks, the model runs one command, the model answers."""
    request = ActionRequest(f"r{turn}", f"c{turn}", "execute_command", command, "to see")
    call = {"name": "execute_command", "args": {"command": command}, "id": request.call_id}
    proposal = AIMessage("", tool_calls=[call], id=f"run-{turn}")
    result = CommandResult(command, "exited", 0, output, 0.1, cwd, output_path=output_path)
    return [
        InputReceived(turn, UserInput(task), HumanMessage(task)),
        NodeRan(
            NodeUpdate("decide_action", (proposal,), pending=(request,), usage=Usage(10, 5, 0, 1))
        ),
        Requested(request, cwd, "e" * 64),
        Judged(request.id, RiskReport(command, "safe_readonly"), Verdict("allow")),
        Decided(request.id, Decision("approve", command, "policy")),
        Intent(request.id, command, cwd, "e" * 64, output_path),
        Outcome(request.id, "finished", ToolMessage(output, tool_call_id=request.call_id), result),
        NodeRan(NodeUpdate("final_response", (AIMessage(answer),), usage=Usage(20, 3, 10, 1))),
        TurnEnded(turn, "done", 0, answer),
    ]


def agent_turn(turn: int, *, answered: bool = True) -> list[RecordBody]:
    """Return a turn in which a sub-agent runs one command and waits with another.

    With `answered` the sub-agent has ended; otherwise it is still at work.
    """
    asked, key, task = f"Do {turn}", f"d{turn}", "Count the files"
    call = {"name": "delegate", "args": {"task": task, "tools": "run"}, "id": key}
    bodies: list[RecordBody] = [
        InputReceived(turn, UserInput(asked), HumanMessage(asked)),
        NodeRan(NodeUpdate("decide_action", (AIMessage("", tool_calls=[call]),))),
        NodeRan(NodeUpdate("delegate", (HumanMessage(task),), agent=key)),
    ]
    for number in (1, 2):
        request = ActionRequest(
            f"a{turn}.{number}", f"c{number}", "execute_command", "ls", agent=key, agent_task=task
        )
        proposal = {"name": "execute_command", "args": {"command": "ls"}, "id": request.call_id}
        thought = NodeUpdate(
            "decide_action",
            (AIMessage("", tool_calls=[proposal]),),
            usage=Usage(10, 1, 0, 1),
            agent=key,
        )
        seen = ToolMessage("7", tool_call_id=request.call_id)
        bodies += [
            NodeRan(thought),
            NodeRan(NodeUpdate("execute_tool", pending=(request,))),
            Outcome(request.id, "finished", seen, agent=key),
        ]
    if not answered:
        return bodies[:-1]
    return [
        *bodies,
        NodeRan(NodeUpdate("decide_action", (AIMessage("Seven."),), agent=key)),
        NodeRan(NodeUpdate("execute_tool", (ToolMessage("Seven.", tool_call_id=key),))),
        NodeRan(NodeUpdate("decide_action", (AIMessage("There are seven."),))),
        TurnEnded(turn, "done", 0, "There are seven."),
    ]


def write(journal: Journal, bodies: list[RecordBody]) -> None:
    """Append all records."""
    for body in bodies:
        journal.append(body)
