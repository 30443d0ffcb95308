"""A conversation as the runtime journals it, for tests of stored sessions."""

from __future__ import annotations

from dataclasses import replace

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.records import (
    Compacted,
    Decided,
    InputReceived,
    Intent,
    Judged,
    NodeRan,
    Outcome,
    RecordBody,
    Requested,
    Rewound,
    TurnClosed,
)
from kogniterm.types import (
    ActionRequest,
    CommandResult,
    Decision,
    NodeUpdate,
    Phrase,
    Plan,
    PlanStep,
    RiskReport,
    Usage,
    UserInput,
    Verdict,
)
from kogniterm.types.turn_values import NOTE

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
        TurnClosed(turn, "done", 0, answer),
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
        TurnClosed(turn, "done", 0, "There are seven."),
    ]


def write(journal: SessionJournal, bodies: list[RecordBody]) -> None:
    """Append all records."""
    for body in bodies:
        journal.append(body)


SECRET = "ghp_" + "q8Zr2LxV0nTb5KcY7mWs4PdJ1hGf3AeR9uXi"


def eventful_session(journal: SessionJournal) -> None:
    """Write a session in which everything happens that an export has to tell.

    Turn 1 runs a command with a plan, turn 2 a sub-agent, turn 3 is refused an action, calls a tool
    that does not exist and is compacted, turn 4 is taken back, and turn 5 breaks off in a command.
    """
    plan = Plan("Count", (PlanStep("s1", "List the files", status="active"),))
    first = command_turn(1)
    thinking = [
        {"type": "thinking", "thinking": "A listing shows it."},
        {"type": "text", "text": f"I list them with {SECRET}."},
    ]
    said = AIMessage(thinking, tool_calls=first[1].update.messages[0].tool_calls)  # type: ignore[union-attr]
    first[1] = NodeRan(replace(first[1].update, messages=(said,), plan=plan))  # type: ignore[union-attr]
    write(journal, first)
    write(journal, agent_turn(2))
    write(journal, _refused_turn(3))
    write(journal, [Compacted((HumanMessage("So far: files"),), plan, turn=3, summary="So far: "
                              "files", usage=Usage(500, 50, 0, 1))])  # fmt: skip
    seq = journal.state.seq + 1
    write(journal, command_turn(4, "Delete them", "rm -rf build"))
    write(journal, [Rewound(4, seq, (HumanMessage("So far: files"),), plan)])
    write(journal, command_turn(5, "Try again", "sleep 60")[:6])


def _refused_turn(turn: int) -> list[RecordBody]:
    asked, invalid = "Clean up", {"name": "edit_file", "args": '{"path"', "error": "cut"}
    request = ActionRequest(f"r{turn}", "c3", "execute_command", "rm -rf ~", "to clean")
    call = {"name": "execute_command", "args": {"command": "rm -rf ~"}, "id": "c3"}
    unknown = {"name": "plan_it", "args": {"kind": SECRET}, "id": "c4"}
    said = AIMessage("", tool_calls=[call, unknown], invalid_tool_calls=[
        {**invalid, "id": "c5", "type": "invalid_tool_call"}])  # fmt: skip
    hint = HumanMessage("Reply again.", additional_kwargs={NOTE: True})
    bad = ToolMessage("There is no tool plan_it.", tool_call_id="c4", status="error",
                      artifact={"malformed": True})  # fmt: skip
    refusal = ToolMessage("Refused: not this.", tool_call_id="c3", status="error")
    return [
        InputReceived(turn, UserInput(asked, line="/clean"), HumanMessage(asked)),
        NodeRan(NodeUpdate("decide_action", (said,), usage=Usage(100, 10, 40, 1, 20))),
        NodeRan(NodeUpdate("execute_tool", (bad,), pending=(request,))),
        Requested(request, "/home/ana/project", "e" * 64),
        Judged(
            request.id, RiskReport("rm -rf ~", "dangerous"), Verdict("ask", (Phrase("Deletes."),))
        ),
        Decided(request.id, Decision("reject", "rm -rf ~", "person", "not this")),
        Outcome(request.id, "refused", refusal),
        NodeRan(NodeUpdate("decide_action", (hint,))),
        TurnClosed(turn, "refused", 3, ""),
    ]
