"""`kogniterm policy`: what the rules say about a command or would have said, and permissions."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.cli.options import JSON, CallOptions, Subparsers, add_actions
from kogniterm.cli.verb_helpers import open_sessions, paths_in_use
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE
from kogniterm.runtime.operations import permission_actions
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.text.language import fold_case
from kogniterm.types import MODE_NAMES, Phrase, approval_mode
from kogniterm.ui.locale import _, translate

if TYPE_CHECKING:
    from kogniterm.approval import Lease
    from kogniterm.approval.policy.rules import RuleSet
    from kogniterm.runtime.services.permission_store import PermissionStore
    from kogniterm.types import ApprovalMode, RiskReport, RuleTrace, Verdict


History = Iterable[tuple[str, str, str]]
"""Commands of earlier sessions: (command, folder, what was decided then)."""


class PolicyDifference(NamedTuple):
    """A command the rules now judge otherwise than it was decided."""

    command: str
    folder: str
    before: str
    now: str


def judge_command(
    command: str,
    folder: str,
    rules: RuleSet,
    leases: tuple[Lease, ...],
    mode: ApprovalMode,
    *,
    now: bool = False,
) -> tuple[RiskReport, Verdict]:
    """Return the risk report of a command in `folder`, and the verdict on it.

    With `now`, files are as they are on this disk, which an earlier command saw otherwise.
    """
    from kogniterm.approval import Circumstances, classify, judge
    from kogniterm.execution.effect_preview import on_disk
    from kogniterm.runtime.services.policy_service import with_remotes

    report = classify(command, cwd=folder)
    report = with_remotes(on_disk(report, folder) if now else report)
    circumstances = Circumstances(mode=mode, folder=os.path.realpath(folder))
    return report, judge(report, rules=rules, leases=leases, circumstances=circumstances)


def differences(
    history: History,
    *,
    applying_in: Callable[[str], tuple[RuleSet, tuple[Lease, ...]]],
    mode: ApprovalMode,
) -> Iterator[PolicyDifference]:
    """Yield the commands on which the rules now differ from what was decided.

    `applying_in` returns the rules and permissions that apply in a folder.
    """
    for command, folder, before in history:
        now = judge_command(command, folder, *applying_in(folder), mode)[1].kind
        if now != before:
            yield PolicyDifference(command, folder, before, now)


def add_parser(subparsers: Subparsers) -> None:
    """Add `policy check` and its siblings."""
    add_actions(subparsers, "policy", ACTIONS, JSON)


def _trace_line(entry: RuleTrace) -> str:
    """Return a line of a verdict's trace; one that did not match decided nothing."""
    from kogniterm.ui.words.approval_words import decision_text, origin_text

    decided = f"=> [{decision_text(entry.decision)}] " if entry.matched else "   "
    origin, reason = origin_text(entry.origin), translate(entry.reason)
    named = fold_case(origin) in fold_case(reason)
    return f"  {decided}{reason}" if named else f"  {decided}{origin}: {reason}"


def _check(call: CallOptions, command_text: list[str], mode: str, file: Path | None) -> Report:
    """Explain the verdict on a command, rule by rule."""
    from kogniterm.approval import render, warnings
    from kogniterm.ui.words.approval_words import (
        decision_text,
        effect_text,
        label_text,
    )

    words: list[str] = command_text
    # The shell took the quotes away where a command was given as several words.
    command = words[0] if len(words) == 1 else shlex.join(words)
    folder = call.folder()
    project, notices = _project_rules(folder)
    rules = _own_rules(file) + project
    mode = approval_mode(mode)
    leases = _store().leases(folder)
    report, verdict = judge_command(command, folder, rules, leases, mode, now=True)
    reasons = (*report.reasons, *warnings(command))
    kind = decision_text(verdict.kind)
    called = next(name for name, one in MODE_NAMES.items() if one == mode)
    lines = [
        *render(command).split("\n"),
        "",
        _("Risk: {label}").format(label=label_text(report.label)),
        *(f"  - {translate(reason)}" for reason in reasons),
        *(f"  * {effect_text(effect)}" for effect in report.effects),
        _("Verdict in {mode} mode: {kind}").format(mode=called, kind=kind),
        *map(_trace_line, verdict.trace),
        *map(translate, notices),
    ]
    data = {
        "command": command,
        "folder": folder,
        "mode": mode,
        "risk": report.label,
        "reasons": [str(reason) for reason in reasons],
        "effects": [dataclasses.asdict(effect) for effect in report.effects],
        "verdict": verdict.kind,
        "trace": [
            {
                "from": entry.origin,
                "decision": entry.decision,
                "matched": entry.matched,
                "reason": str(entry.reason),
            }
            for entry in verdict.trace
        ],
    }
    return Report(data, lines)


def _test(call: CallOptions, mode: str, file: Path | None) -> Report:
    from kogniterm.sessions.chain_audit import judged_commands

    with open_sessions(call) as store:
        return difference_report(judged_commands(store), mode, file)


def difference_report(history: History, mode: str = "ask", file: Path | None = None) -> Report:
    """Return how the rules now judge earlier commands; 1 when one is decided differently."""
    from kogniterm.approval import render
    from kogniterm.ui.words.approval_words import decision_text

    own = _own_rules(file)

    @cache
    def applying_in(folder: str) -> tuple[RuleSet, tuple[Lease, ...]]:
        return own + _project_rules(folder)[0], _store().leases(folder)

    mode = approval_mode(mode)
    found = list(differences(history, applying_in=applying_in, mode=mode))

    def change(before: str, now: str) -> str:
        return f"{decision_text(before)} => {decision_text(now)}"

    counts = Counter((item.before, item.now) for item in found)
    commands = Counter((item.command, item.before, item.now) for item in found)
    lines = [
        f"{change(before, now)}  {render(command)}"
        + (_("  ({count} times)").format(count=times) if times > 1 else "")
        for (command, before, now), times in commands.items()
    ]
    lines += [f"{number:6}  {change(*pair)}" for pair, number in sorted(counts.items())]
    return Report(
        [item._asdict() for item in found],
        lines or [_("Nothing would have been decided differently.")],
        status=EXIT_NOT_DONE if found else EXIT_DONE,
    )


def _own_rules(file: Path | None) -> RuleSet:
    from kogniterm.runtime.services.policy_service import rules_of

    if file is not None:
        return rules_of(file, must_exist=True)
    return rules_of(paths_in_use().policy_file)


def _project_rules(folder: str) -> tuple[RuleSet, tuple[Phrase, ...]]:
    """Return the trusted rules of the project in `folder`, and notices about files not trusted."""
    from kogniterm.runtime.services.policy_service import project_rules_of
    from kogniterm.runtime.trust.trust_store import policy_texts, trusted_files

    files, notices = trusted_files(paths_in_use(), Path(folder))
    return project_rules_of(policy_texts(files)), notices


def _run_shared(act: Callable[..., Report], _call: CallOptions, **arguments: Any) -> Report:
    """Run an action that /permissions has too, on the permissions of all projects."""
    return act(permission_actions.of_all_projects(_store()), **arguments)


def _store() -> PermissionStore:
    from kogniterm.runtime.services.permission_store import PermissionStore

    paths = paths_in_use()
    return PermissionStore(paths.permissions_file, paths.permission_uses)


_HOW = (
    Argument(
        "--mode",
        "Approval mode to assume: ask, accept-edits, auto or plan",
        "MODE",
        choices=tuple(MODE_NAMES),
        default="ask",
        type=lambda name: "ask" if name == "manual" else name,
    ),
    Argument("--file", "Rules to use instead of your own", "FILE", type=Path),
)
ACTIONS = (
    Action("check", "Explain how a command would be decided, rule by rule", _check, (
        Argument("command_text", "Command to check, in quotes", "COMMAND", nargs="+"),
        Argument("--cwd", "Folder the command would run in", "FOLDER", short="-C"), *_HOW),
        ('kogniterm policy check "git push"',
         'kogniterm policy check --mode auto "make install"'),
        unknown_option=Phrase(
            "Unknown option {option}. If it belongs to the command, put the whole command in "
            'quotes: {program} "…".'
        )),
    Action("test", "List earlier commands that the rules now decide differently", _test, _HOW,
           ("kogniterm policy test --file policy.toml",)),
    *(action._replace(name=name, run=partial(_run_shared, action.run)) for name, action in
      zip(("permissions", "revoke"), permission_actions.ACTIONS, strict=True)),
)  # fmt: skip
