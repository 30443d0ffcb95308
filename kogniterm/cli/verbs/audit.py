"""`kogniterm audit`: prove a session's journal, or read what was proposed, decided and run."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm.cli.options import JSON, SESSION_NAME, YES, CallOptions, Subparsers, add_actions
from kogniterm.cli.verb_helpers import (
    confirm,
    location_of,
    open_sessions,
    paths_in_use,
    user_name,
    visible,
    write_report,
)
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE
from kogniterm.runtime.operations.action import Action, Argument, Report, iso, local_time
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.words.approval_words import (
    decider_text,
    decision_text,
    label_text,
    outcome_text,
)

if TYPE_CHECKING:
    from kogniterm.runtime.operations.stored_data import Proof
    from kogniterm.sessions.chain_audit import ChainReport
    from kogniterm.sessions.history import PastAction
    from kogniterm.sessions.store import SessionStore


def add_parser(subparsers: Subparsers) -> None:
    """Add `audit verify`, `audit show` and `audit anchor`."""
    add_actions(subparsers, "audit", ACTIONS, JSON)


def run(call: CallOptions, perform: Callable[..., Report], **arguments: Any) -> int:
    """Run the action; 1 when a journal does not hold."""
    with open_sessions(call) as store:
        return write_report(call, perform(store, call, **arguments))


def _database(call: CallOptions) -> tuple[Path | str, str, Path]:
    return (
        location_of(call),
        user_name(),
        paths_in_use().data,
    )


def _verify(store: SessionStore, call: CallOptions, sessions: list[str]) -> Report:
    from kogniterm.runtime.operations.stored_data import prove_all, prove_sessions

    proof = prove_sessions(store, sessions) if sessions else prove_all(store, *_database(call))
    checked, facts = proof.sessions, proof.facts
    data = [*map(_chain_data, checked.sessions)]
    if checked.heads is not None:
        data.append({"part": "heads", "intact": False, "reason": str(checked.heads)})
    if facts is not None and (facts.facts or facts.faults):
        data.append(
            {
                "part": "memory",
                "intact": not facts.faults,
                "facts": facts.facts,
                "records": facts.entries,
                "head": facts.head,
                "reason": "; ".join(map(str, facts.faults)) or None,
            }
        )
    return Report(
        data,
        [*map(chain_text, checked.sessions), *_other_texts(proof)],
        status=EXIT_DONE if proof.intact else EXIT_NOT_DONE,
    )


def _other_texts(proof: Proof) -> Iterator[str]:
    """Yield what the head file and the ledger of facts tell beside the sessions."""
    checked, facts = proof.sessions, proof.facts
    if checked.heads is not None:
        yield translate(checked.heads)
    if checked.removed:
        yield plural(
            "{count} session was deleted by the user.",
            "{count} sessions were deleted by the user.",
            checked.removed,
        )
    for fault in facts.faults if facts is not None else ():
        yield _("memory: {reason}").format(reason=translate(fault))
    if facts is not None and facts.facts and not facts.faults:
        yield plural(
            "memory: {count} fact, as it was written",
            "memory: {count} facts, all as they were written",
            facts.facts,
        )


def _anchor(store: SessionStore, call: CallOptions, yes: bool) -> Report:
    """Begin a new head file, once the user has seen what is wrong with what is there."""
    from kogniterm.runtime.operations.stored_data import begin_heads, prove_all

    proof = prove_all(store, *_database(call))
    broken = [chain_text(report) for report in proof.sessions.sessions if not report.intact]
    for line in (*broken, *_other_texts(proof)):
        sys.stderr.write(visible(line) + "\n")
    if not yes:
        confirm(
            _("Accept all records as they are now?"),
            (),
            without_terminal=Phrase(
                "Creating a new audit anchor needs your confirmation; use --yes in scripts."
            ),
            no=Phrase("Nothing changed."),
        )
    count = begin_heads(store, *_database(call))
    begun = plural(
        "New audit anchor created with {count} session.",
        "New audit anchor created with {count} sessions.",
        count,
    )
    return Report({"sessions": count}, [begun])


def _chain_data(report: ChainReport) -> dict[str, object]:
    return {
        "part": "session",
        "session": report.session_id,
        "intact": report.intact,
        "records": report.records,
        "head": report.head,
        "broken": report.broken,
        "reason": None if report.reason is None else str(report.reason),
        "forgotten": list(report.forgotten),
    }


def chain_text(report: ChainReport) -> str:
    """Return whether a session's journal is as it was written, as one sentence."""
    if report.reason is not None and report.of_session:
        return _("{session}: {reason}").format(
            session=report.session_id, reason=translate(report.reason)
        )
    if report.reason is not None:
        return _("{session}: record {seq} is broken: {reason}").format(
            session=report.session_id, seq=report.broken, reason=translate(report.reason)
        )
    line = _("{session}: {count} records, all as they were written ({head})").format(
        session=report.session_id, count=report.records, head=report.head[:12]
    )
    if report.forgotten:
        line += " " + _("({count} with content that the user deleted)").format(
            count=len(report.forgotten)
        )
    return line


def _show(store: SessionStore, call: CallOptions, session: str) -> Report:
    from kogniterm.sessions.history import SessionHistory
    from kogniterm.sessions.journal.codec import stored_records

    history = SessionHistory()
    history.read_stored(stored_records(store.database, store.find(session).id))
    turns = history.all_turns
    actions = [(turn.number, action) for turn in turns for action in turn.actions.values()]
    found = [(action, _plain(number, action)) for number, action in actions]
    return Report(
        [entry for _action, entry in found],
        [line for action, entry in found for line in _story(action, entry)],
        notes=[] if found else [_("No action was proposed in this session.")],
    )


def _plain(turn: int, action: PastAction) -> dict[str, object]:
    request, result, decision = action.request, action.result, action.decision
    judged = action.judgements[-1] if action.judgements else None
    own = request is None and action.intent is not None  # run with `!`, not proposed
    output = result.text.encode("utf-8", "surrogatepass") if result else b""
    return {
        "request_id": action.id,
        "seq": action.seq,
        "turn": turn,
        "time": iso(action.time),
        "tool": request.tool if request else "!" if own else "",
        "proposed": request.command if request else "",
        "purpose": request.purpose if request else "",
        "agent": request.agent_task if request else "",
        "label": judged.report.label if judged else "",
        "risks": list(map(str, judged.report.reasons)) if judged else [],
        "verdict": judged.verdict.kind if judged else "",
        "reasons": list(map(str, judged.verdict.reasons)) if judged else [],
        "decision": decision.kind if decision else "approve" if own else "",
        "decided_by": decision.by if decision else "person" if own else "",
        "decision_reason": decision.reason if decision else "",
        "decision_reasons": list(map(str, decision.reasons)) if decision else [],
        "command": action.command,
        "cwd": action.cwd,
        "env_hash": action.env_hash,
        "started": iso(action.started),
        "ended": iso(action.ended),
        "status": action.status,
        "exit_code": result.exit_code if result else None,
        "output_bytes": result.output_bytes if result else 0,
        "output_digest": hashlib.sha256(output).hexdigest() if result else "",
    }


def _story(action: PastAction, entry: dict[str, Any]) -> list[str]:
    """Return a few lines to read from top to bottom, of an action and its JSON."""
    from kogniterm.text.visible import render
    from kogniterm.ui.words.turn_words import tool_label

    shown = render(entry["command"] or entry["proposed"])
    lines = [
        f"{local_time(action.time)}  "
        + _("turn {turn}").format(turn=entry["turn"])
        + f"  {tool_label(entry['tool']).rstrip(':')}  {action.id}",
        *(f"    $ {line}" for line in shown.splitlines() or [""]),
    ]
    if entry["agent"]:
        lines.append("    " + _("sub-agent: {task}").format(task=render(entry["agent"])))
    if entry["command"] and entry["command"] != entry["proposed"]:
        lines.append("    " + _("proposed: {command}").format(command=render(entry["proposed"])))
    if action.cwd:
        lines.append("    " + _("in {folder}").format(folder=action.cwd))
    if action.judgements:
        judged = action.judgements[-1]
        said = (
            translate(reason).rstrip(". ")
            for reason in (*judged.report.reasons, *judged.verdict.reasons)
        )
        reasons = "; ".join(dict.fromkeys(said))
        verdict = f"{label_text(judged.report.label)} → {decision_text(judged.verdict.kind)}"
        lines.append(f"    {verdict}" + (f": {reasons}" if reasons else ""))
    if entry["decision"]:
        why = entry["decision_reason"]
        if action.decision is not None and action.decision.reasons:
            why = translate(Phrase("{why}", {"why": action.decision.reasons}))
        decision, who = decision_text(entry["decision"]), decider_text(entry["decided_by"])
        by = _("{decision} by {who}").format(decision=decision, who=who)
        lines.append(f"    {by}" + (f": {why}" if why else ""))
    if action.status:
        code = entry["exit_code"]
        ended = "" if code is None else ", " + _("exit {code}").format(code=code)
        digest = f"  sha256 {entry['output_digest'][:16]}…" if entry["output_digest"] else ""
        lines.append(f"    {outcome_text(action.status)}{ended}{digest}")
    return [*lines, ""]


ACTIONS = (
    Action("verify", "Check that no record was changed or removed", _verify, (
        Argument("sessions", "Sessions to check; all if none is given", "SESSION", nargs="*"),),
        ("kogniterm audit verify", "kogniterm audit verify last --json")),
    Action("show", "List every action of a session and who approved it", _show, (
        SESSION_NAME,),
        ("kogniterm audit show last",)),
    Action("anchor", "Create a new audit anchor from the current records", _anchor, (YES,),
           ("kogniterm audit anchor",)),
)  # fmt: skip
