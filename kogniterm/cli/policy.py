"""`kogniterm policy check|test`: what the rules say about a command, and would have said before."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE

if TYPE_CHECKING:
    from kogniterm.approval.rules import RuleSet
    from kogniterm.types import ApprovalMode, Verdict

History = Iterable[tuple[str, str, str]]
"""Commands of earlier sessions: (command, folder, what was decided then)."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A command the rules now judge otherwise than it was decided."""

    command: str
    folder: str
    before: str
    now: str


def check(command: str, *, folder: str, rules: RuleSet, mode: ApprovalMode) -> list[str]:
    """Lines that explain the verdict on `command`, rule by rule."""
    from kogniterm.approval import classify, render, warnings
    from kogniterm.ui.approval_words import decision_text, effect_text, label_text, origin_text
    from kogniterm.ui.locale import _, translate

    report = classify(command, cwd=folder)
    verdict = _verdict(command, folder, rules, mode)
    lines = [render(command), ""]
    lines.append(_("Risk: {label}").format(label=label_text(report.label)))
    lines.extend(f"  - {translate(reason)}" for reason in (*report.reasons, *warnings(command)))
    lines.extend(f"  * {effect_text(effect)}" for effect in report.effects)
    kind = decision_text(verdict.kind)
    lines.append(_("Verdict in {mode} mode: {kind}").format(mode=mode, kind=kind))
    for entry in verdict.trace:
        sign = "=>" if entry.matched else "  "
        lines.append(
            f"  {sign} [{decision_text(entry.decision)}] {origin_text(entry.origin)}: "
            f"{translate(entry.reason)}"
        )
    return lines


def checked(command: str, *, folder: str, rules: RuleSet, mode: ApprovalMode) -> dict[str, object]:
    """The same as `check`, as one JSON object."""
    from kogniterm.approval import classify, warnings

    report = classify(command, cwd=folder)
    verdict = _verdict(command, folder, rules, mode)
    return {
        "command": command,
        "folder": folder,
        "mode": mode,
        "risk": report.label,
        "reasons": [str(reason) for reason in (*report.reasons, *warnings(command))],
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


def differences(history: History, *, rules: RuleSet, mode: ApprovalMode) -> Iterator[Difference]:
    """The commands of `history` on which the rules now differ from what was decided."""
    for command, folder, before in history:
        now = _verdict(command, folder, rules, mode).kind
        if now != before:
            yield Difference(command, folder, before, now)


def _verdict(command: str, folder: str, rules: RuleSet, mode: ApprovalMode) -> Verdict:
    from kogniterm.approval import Circumstances, classify, judge

    report = classify(command, cwd=folder)
    circumstances = Circumstances(mode=mode, folder=folder)
    return judge(report, rules=rules, circumstances=circumstances)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb `policy` with its two sub-verbs."""
    from kogniterm.ui.locale import _

    parser = subparsers.add_parser("policy", help=_("explain and try out the approval rules"))
    verbs = parser.add_subparsers(dest="policy_verb", metavar=_("ACTION"), required=True)
    checker = verbs.add_parser("check", help=_("explain the verdict on a command, rule by rule"))
    checker.add_argument(
        "command_text", metavar=_("COMMAND"), help=_("the command, as one word in quotes")
    )
    tester = verbs.add_parser("test", help=_("show what the rules would have decided differently"))
    for verb in (checker, tester):
        verb.add_argument(
            "--mode",
            choices=("manual", "auto"),
            default="manual",
            help=_("approval mode to assume"),
        )
        verb.add_argument(
            "--file", type=Path, metavar=_("FILE"), help=_("rules to use instead of your own")
        )
        verb.add_argument("--json", action="store_true", help=_("as JSON"))
    checker.add_argument(
        "--cwd", default=None, metavar=_("FOLDER"), help=_("folder the command would run in")
    )


def run(
    args: argparse.Namespace,
    *,
    policy_file: Path | None = None,
    history: History | None = None,
) -> int:
    """Run the verb; exit status 0, or for `test` 1 when something would be decided differently.

    Without `policy_file` and `history` they are the person's own rules and earlier sessions.
    """
    from kogniterm.cli import stores
    from kogniterm.runtime.policy_desk import rules_of

    own = policy_file or stores.paths_in_use().policy_file
    rules = rules_of(args.file, must_exist=True) if args.file else rules_of(own)
    if args.policy_verb == "check":
        folder = str(Path(args.cwd or ".").resolve())
        if args.json:
            stores.write_json(
                checked(args.command_text, folder=folder, rules=rules, mode=args.mode)
            )
            return EXIT_DONE
        lines = check(args.command_text, folder=folder, rules=rules, mode=args.mode)
        sys.stdout.write("\n".join(lines) + "\n")
        return EXIT_DONE
    if history is not None:
        return _test(history, rules, args)
    from kogniterm.sessions.history import judged_commands

    with stores.opened(stores.location_of(args)) as store:
        return _test(judged_commands(store), rules, args)


def _test(history: History, rules: RuleSet, args: argparse.Namespace) -> int:
    from kogniterm.approval import render
    from kogniterm.cli import stores
    from kogniterm.ui.approval_words import decision_text
    from kogniterm.ui.locale import _

    found = list(differences(history, rules=rules, mode=args.mode))
    if args.json:
        stores.write_json([dataclasses.asdict(item) for item in found])
        return EXIT_NOT_DONE if found else EXIT_DONE
    for item in found:
        change = f"{decision_text(item.before)} => {decision_text(item.now)}"
        sys.stdout.write(f"{change}  {render(item.command)}\n")
    counts = Counter((item.before, item.now) for item in found)
    for (before, now), number in sorted(counts.items()):
        sys.stdout.write(f"{number:6}  {decision_text(before)} => {decision_text(now)}\n")
    if not found:
        sys.stdout.write(_("Nothing would have been decided differently.") + "\n")
    return EXIT_NOT_DONE if found else EXIT_DONE
