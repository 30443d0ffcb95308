"""Recovery after a crash: commands that were started and have no recorded end.

Their outcome is unknown, and they are never run again by themselves. The model gets the truth with
whatever output was kept, and the user may want the effects checked first. Over any number of
crashes the same command needs the user, until they wanted it run again or a run of it that they
approved has ended; what is unknown is read from the journal (`SessionState.unsettled`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from langchain_core.messages import HumanMessage

from kogniterm import approval, prompts
from kogniterm.agent import messages
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.extensions.extension_port import ExtensionPort
from kogniterm.runtime.fixed_questions import RecoveryChoice, RecoveryQuestion
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import ToolEnd, TurnIO
from kogniterm.sessions.fold import Note
from kogniterm.sessions.history import notes
from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import Intent, Noted, Outcome, OutcomeStatus
from kogniterm.text.shorten import head_and_tail
from kogniterm.types import ActionRequest, CommandResult, Decision, Phrase, events

RUN_AGAIN = "execute_tool.run_again"
PARTIAL_CHARS = 2_000
PARTIAL_BYTES = 64 * 1024
ENDED = "command_ended"
"""The kind of a note about an action that has ended and whose outcome has to wait.

It ran beside others and ended before one of them, or hooks run after it.
"""
_LATE_RECORDS = 200
"""Records at the end of a journal among which such notes are: recovery comes first of all."""
_TRUTH = (
    "[outcome unknown: KogniTerm was stopped while this command ran; it may have finished, "
    "failed, or done part of its work. It was not run again.]"
)


async def recover(
    journal: TurnJournal, io: TurnIO, count: TurnCount, extensions: ExtensionPort | None = None
) -> None:
    """Settle every unknown outcome before anything else is journaled.

    `extensions` find out what requests did that they ran themselves.

    One that an earlier process recorded for the turn that is still open is reported again, because
    that turn had no answer yet.
    """
    journal.settle_kept()
    state = journal.state
    if state.open_turn:
        for run in state.unsettled:
            if run.turn == state.turn:
                io.sink(outcome_unknown(run.intent))
                if io.recover is None:
                    count.unknown.append(run.intent.command)
    ended = _ends_before_crash(journal) if state.unknown else {}
    for intent in state.unknown:
        request = next((r for r in journal.state.pending if r.id == intent.request_id), None)
        if request is not None and intent.request_id in ended:
            _settle_ended(journal, request, intent, ended[intent.request_id], io)
            continue
        known = ""
        own = extensions.acting_for(request) if request and extensions else None
        if request is not None and own is not None:
            asked = state.requested.get(request.id)
            end = await own.recover(asked.request if asked is not None else request, io.sink)
            if not end.lost:
                _settle_ended(journal, request, intent, end, io)
                continue
            known = end.text
        partial = known or journal.redact(partial_output(journal, intent))
        io.sink(outcome_unknown(intent))
        choice: RecoveryChoice = "skip"
        if io.recover is None:
            count.unknown.append(intent.command)
        else:
            choice = await io.recover(RecoveryQuestion(intent, partial))
        settle_unknown(journal, intent, partial, choice)
        if choice == "again":
            journal.record(Note.AGAIN.record(intent.request_id), durable=True)


def settle_unknown(
    journal: TurnJournal, intent: Intent, partial: str = "", choice: RecoveryChoice = "skip"
) -> None:
    """Record that the outcome of what was started is unknown."""
    request = next((r for r in journal.state.pending if r.id == intent.request_id), None)
    agent = request.agent if request is not None else ""
    message = _message(request, intent, partial, choice)
    journal.record(Outcome(intent.request_id, "unknown", message, agent=agent), durable=True)


def ended_note(request_id: str, result: CommandResult) -> Noted:
    """Return the note that a command has ended whose outcome waits for one before it."""
    # Its text is in its output file, and comes with the outcome.
    told = codec.to_plain(replace(result, text="", jobs=()))
    return Noted(ENDED, {"request_id": request_id, "result": told})


def tool_ended_note(request_id: str, observation: str) -> Noted:
    """Return the note that a tool has ended, with what it said, before the hooks after it run."""
    return Noted(ENDED, {"request_id": request_id, "observation": observation})


def _ends_before_crash(journal: TurnJournal) -> dict[str, CommandResult | str]:
    """Return the ends of commands and tools before a crash, by request: a result or a text."""
    first = max(1, journal.state.seq - _LATE_RECORDS)
    found: dict[str, CommandResult | str] = {}
    for note in notes(journal.records(first), ENDED):
        result = note.data.get("result")
        found[str(note.data["request_id"])] = (
            str(note.data.get("observation", ""))
            if result is None
            else codec.from_fields(CommandResult, result)
        )
    return found


def _settle_ended(
    journal: TurnJournal,
    request: ActionRequest,
    intent: Intent,
    result: CommandResult | ToolEnd | str,
    io: TurnIO,
) -> None:
    """Record the outcome of an action that had ended when KogniTerm was stopped."""
    if not isinstance(result, CommandResult):
        text, failed = (result, False) if isinstance(result, str) else (result.text, result.failed)
        message = messages.action_message(request, text, failed=failed)
        status: OutcomeStatus = "failed" if failed else "finished"
        journal.record(Outcome(request.id, status, message, agent=request.agent), durable=True)
        io.sink(events.ActionEnded(request.id, request.tool, text, failed=failed))
        return
    output = journal.redact(partial_output(journal, intent))
    result = replace(result, text=output)
    approved = Decision("approve", intent.command, "policy")
    decision = journal.state.decisions.get(request.id, approved)
    from kogniterm.approval import classify  # which few resumes need

    looked = classify(intent.command, cwd=intent.cwd).label == "safe_readonly"
    told = messages.command_message(request, result, decision, looked=looked)
    outcome = Outcome(request.id, "finished", told, result, agent=request.agent)
    journal.record(outcome, durable=True)
    io.sink(events.CommandStarted(request.id, intent.command, intent.cwd))
    io.sink(events.CommandOutput(request.id, output.encode("utf-8", "replace")))
    io.sink(events.CommandEnded(request.id, result))


def outcome_unknown(intent: Intent) -> events.Notice:
    """Return the notice that a command was started and its end is not known."""
    text = Phrase(
        "KogniTerm was stopped while this command ran; its outcome is unknown: {command}",
        {"command": intent.command},
    )
    return events.Notice(text, "warning")


def runs_repeated(journal: TurnJournal, request: ActionRequest, cwd: str) -> tuple[Intent, ...]:
    """Return the runs of unknown outcome that `request` would repeat, as a whole or in part."""
    if not journal.state.unsettled:
        return ()
    shell, command = request.effect == "command", journal.show_request(request).command
    test = approval.repeats if shell else _same_text
    return tuple(
        run.intent
        for run in journal.state.unsettled
        if bool(run.hosts) == (request.effect == "hosts")
        and (not run.hosts or set(run.hosts) & set(request.hosts))
        and test(command, cwd, run.intent.command, run.intent.cwd)
    )


def runs_settled(
    journal: TurnJournal, command: str, cwd: str, *, shell: bool, hosts: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the requests whose unknown outcome a run of `command`, as shown, settles at its end.

    `hosts` are those it runs on, where it runs on other machines.
    """
    test = approval.same_command if shell else _same_text
    return tuple(
        run.intent.request_id
        for run in journal.state.unsettled
        if bool(run.hosts) == bool(hosts)
        and set(run.hosts) <= set(hosts)
        and test(command, cwd, run.intent.command, run.intent.cwd)
    )


def _same_text(command: str, folder: str, before: str, folder_before: str) -> bool:
    return (command, folder) == (before, folder_before)


def _message(
    request: ActionRequest | None, intent: Intent, partial: str, choice: RecoveryChoice
) -> messages.Observed | HumanMessage:
    """Return the observation; `request` is None for a command of the user's own."""
    lines = [_TRUTH]
    if partial:
        lines.append(f"Output up to then:\n{partial}")
    if choice == "again":
        lines.append(prompts.text(RUN_AGAIN))
    elif choice == "check":
        lines.append(prompts.text("execute_tool.check_first"))
    else:
        lines.append(prompts.text("execute_tool.do_not_repeat"))
    text = "\n".join(lines)
    if request is None:
        return messages.user_ran(intent.command, text)
    return messages.answer(request, text, failed=True)


def partial_output(journal: TurnJournal, intent: Intent) -> str:
    """Return the end of a command's output on the disk; the record may name no other file."""
    if intent.output_path is None or journal.outputs is None:
        return ""
    try:
        path = Path(intent.output_path).resolve()
        if not path.is_relative_to(journal.outputs.resolve()):
            return ""
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - PARTIAL_BYTES))
            data = file.read()
    except (OSError, ValueError):  # of a name that no file can have
        return ""
    return head_and_tail(data.decode("utf-8", "replace").strip(), PARTIAL_CHARS)
