"""`kogniterm audit`: prove a session's journal, or read what was proposed, decided and run."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from kogniterm.cli import stores
from kogniterm.cli.confirm import confirmed
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError
from kogniterm.types import Text
from kogniterm.ui.approval_words import (
    decider_text,
    decision_text,
    label_text,
    outcome_text,
)
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from kogniterm.memory.ledger import LedgerReport
    from kogniterm.sessions.audit import AuditEntry, ChainReport, StoreReport
    from kogniterm.sessions.store import SessionStore


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `audit verify`, `audit show` and `audit anchor`."""
    parser = subparsers.add_parser("audit", help=_("prove and read what was decided and run"))
    actions = parser.add_subparsers(dest="action", metavar=_("ACTION"), required=True)
    verify = actions.add_parser("verify", help=_("check that no record was changed or removed"))
    verify.add_argument(
        "sessions", nargs="*", metavar=_("SESSION"), help=_("which ones; all when none is given")
    )
    show = actions.add_parser("show", help=_("every action: proposal, verdict, decision, exit"))
    show.add_argument("session", metavar=_("SESSION"), help=_("an id, a title, or last"))
    anchor = actions.add_parser(
        "anchor", help=_("begin a new head file with what is there, whatever the old one knows")
    )
    anchor.add_argument("--yes", action="store_true", help=_("do not ask"))
    for action in (verify, show, anchor):
        action.add_argument("--json", action="store_true", help=_("as JSON"))


def run(args: argparse.Namespace) -> int:
    """Print what was asked for; 1 when a journal does not hold."""
    with stores.opened(stores.location_of(args)) as store:
        return {"verify": _verify, "show": _show, "anchor": _anchor}[args.action](store, args)


def _verify(store: SessionStore, args: argparse.Namespace) -> int:
    from kogniterm.sessions.audit import StoreReport, verify, verify_all

    if args.sessions:
        found = [store.find(reference) for reference in args.sessions]
        checked, facts = StoreReport(tuple(verify(store.backend, one.id) for one in found)), None
    else:
        checked, facts = verify_all(store.backend), _facts(args)
    if args.json:
        heads = [_head_report(checked.heads)] if checked.heads is not None else []
        told = facts is not None and (facts.facts or facts.faults)
        memory = [_facts_report(facts)] if facts is not None and told else []
        stores.write_json([*map(_report, checked.sessions), *heads, *memory])
    else:
        stores.write_lines(map(_sentence, checked.sessions))
        stores.write_lines(_of_heads(checked))
        stores.write_lines(_of_facts(facts))
    sound = checked.intact and (facts is None or not facts.faults)
    return EXIT_DONE if sound else EXIT_NOT_DONE


def _facts(args: argparse.Namespace) -> LedgerReport:
    """What the ledger of facts says about the memory."""
    from kogniterm.memory.ledger import verify
    from kogniterm.memory.sql import open_sql

    location, folder = stores.location_of(args), stores.paths_in_use().data
    with closing(open_sql(location, stores.person(), heads=folder)) as sql:
        return verify(sql)


def _of_facts(report: LedgerReport | None) -> Iterator[str]:
    if report is None:
        return
    for fault in report.faults:
        yield _("memory: {reason}").format(reason=translate(fault))
    if not report.faults and report.facts:
        yield plural(
            "memory: {count} fact, as it was written",
            "memory: {count} facts, all as they were written",
            report.facts,
        )


def _facts_report(report: LedgerReport) -> dict[str, object]:
    return {
        "part": "memory",
        "intact": not report.faults,
        "facts": report.facts,
        "records": report.entries,
        "head": report.head,
        "reason": "; ".join(map(str, report.faults)) or None,
    }


def _of_heads(checked: StoreReport) -> Iterator[str]:
    """What the head file tells beside the sessions."""
    if checked.heads is not None:
        yield translate(checked.heads)
    if checked.removed:
        yield plural(
            "{count} session was deleted at the user's wish.",
            "{count} sessions were deleted at the user's wish.",
            checked.removed,
        )


def _head_report(problem: Text) -> dict[str, object]:
    return {"part": "heads", "intact": False, "reason": str(problem)}


def _anchor(store: SessionStore, args: argparse.Namespace) -> int:
    """Begin a new head file, once the user has seen what is wrong with what is there."""
    from kogniterm.sessions.anchor import accept
    from kogniterm.sessions.audit import verify_all

    checked, facts = verify_all(store.backend), _facts(args)
    broken = [_sentence(report) for report in checked.sessions if not report.intact]
    for line in (*broken, *_of_heads(checked), *_of_facts(facts)):
        sys.stderr.write(stores.visible(line) + "\n")
    if not args.yes:
        if not sys.stdin.isatty():
            raise UsageError("Beginning a new head file needs a user to confirm it, or --yes.")
        if not confirmed(_("Take everything as it is found now? [y/N] ")):
            raise UsageError("Nothing was changed.")
    count = accept(store.backend)
    _accept_facts(args)
    if args.json:
        stores.write_json({"sessions": count})
    else:
        stores.write_lines(
            [
                plural(
                    "A new head file was begun with {count} session.",
                    "A new head file was begun with {count} sessions.",
                    count,
                )
            ]
        )
    return EXIT_DONE


def _accept_facts(args: argparse.Namespace) -> None:
    from kogniterm.memory.ledger import accept
    from kogniterm.memory.sql import open_sql

    location, folder = stores.location_of(args), stores.paths_in_use().data
    with closing(open_sql(location, stores.person(), heads=folder)) as sql:
        accept(sql)


def _report(report: ChainReport) -> dict[str, object]:
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


def _sentence(report: ChainReport) -> str:
    if report.reason is not None:
        return _("{session}: record {seq} is broken: {reason}").format(
            session=report.session_id, seq=report.broken, reason=translate(report.reason)
        )
    line = _("{session}: {count} records, all as they were written ({head})").format(
        session=report.session_id, count=report.records, head=report.head[:12]
    )
    if report.forgotten:
        line += " " + _("({count} with content forgotten at the person's wish)").format(
            count=len(report.forgotten)
        )
    return line


def _show(store: SessionStore, args: argparse.Namespace) -> int:
    from kogniterm.sessions.audit import trail

    entries = trail(store.backend, store.find(args.session).id)
    if args.json:
        stores.write_json([_plain(entry) for entry in entries])
    elif not entries:
        sys.stderr.write(_("No action was proposed in this session.") + "\n")
    else:
        for entry in entries:
            stores.write_lines(_story(entry))
    return EXIT_DONE


def _plain(entry: AuditEntry) -> dict[str, object]:
    plain = {field.name: getattr(entry, field.name) for field in dataclasses.fields(entry)}
    return plain | {
        "time": stores.iso(entry.time),
        "started": stores.iso(entry.started),
        "ended": stores.iso(entry.ended),
        "risks": [str(risk) for risk in entry.risks],
        "reasons": [str(reason) for reason in entry.reasons],
        "decision_reasons": [str(reason) for reason in entry.decision_reasons],
    }


def _story(entry: AuditEntry) -> list[str]:
    """A few lines a person reads from top to bottom."""
    from kogniterm.approval.display import render

    shown = render(entry.command or entry.proposed)
    lines = [
        f"{stores.local_time(entry.time)}  "
        + _("turn {turn}").format(turn=entry.turn)
        + f"  {entry.tool}  {entry.request_id}",
        *(f"    $ {line}" for line in shown.splitlines() or [""]),
    ]
    if entry.agent:
        lines.append("    " + _("sub-agent: {task}").format(task=render(entry.agent)))
    if entry.command and entry.command != entry.proposed:
        lines.append("    " + _("proposed: {command}").format(command=render(entry.proposed)))
    if entry.cwd:
        lines.append("    " + _("in {folder}").format(folder=entry.cwd))
    if entry.verdict:
        said = (translate(reason).rstrip(". ") for reason in (*entry.risks, *entry.reasons))
        reasons = "; ".join(dict.fromkeys(said))
        verdict = f"{label_text(entry.label)} → {decision_text(entry.verdict)}"
        lines.append(f"    {verdict}" + (f": {reasons}" if reasons else ""))
    if entry.decision:
        why = entry.decision_reason
        if entry.decision_reasons:
            why = translate(Text("{why}", {"why": entry.decision_reasons}))
        who = decider_text(entry.decided_by)
        lines.append(
            "    "
            + _("{decision} by {who}").format(decision=decision_text(entry.decision), who=who)
            + (f": {why}" if why else "")
        )
    if entry.status:
        code = (
            "" if entry.exit_code is None else ", " + _("exit {code}").format(code=entry.exit_code)
        )
        digest = f"  sha256 {entry.output_digest[:16]}…" if entry.output_digest else ""
        lines.append(f"    {outcome_text(entry.status)}{code}{digest}")
    return [*lines, ""]
