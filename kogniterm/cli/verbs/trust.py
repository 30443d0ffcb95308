"""`kogniterm trust`: let what a project folder brings have an effect, or take that back."""

from __future__ import annotations

from pathlib import Path

from kogniterm.cli.options import JSON, CallOptions, Example, Subparsers, add_argument, add_verb
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.runtime.operations.action import Argument, Report, Shown
from kogniterm.types import Phrase
from kogniterm.ui.locale import mark


def add_parser(subparsers: Subparsers) -> None:
    """Add `trust` with its options."""
    parser = add_verb(
        subparsers,
        "trust",
        description=mark(
            "Trust the files that this folder contains now and that KogniTerm would use: "
            "instructions, rules, custom commands, sub-agents, skills, hooks and MCP servers. "
            "After a change, you are asked again."
        ),
        examples=(Example("kogniterm trust --show"), Example("kogniterm trust -C ~/project")),
    )
    what = parser.add_mutually_exclusive_group()
    for one in (
        Argument("--show", "Show what the folder contains; trust nothing"),
        Argument("--revoke", "Revoke the trust"),
        Argument("--list", "List the trusted folders", field="listed"),
    ):
        add_argument(what, one)
    cwd = Argument("--cwd", "Folder to trust, instead of the current one", "FOLDER", short="-C")
    add_argument(parser, cwd)
    add_argument(parser, JSON)


def run(call: CallOptions, *, show: bool, revoke: bool, listed: bool) -> Report:
    """Show, trust or revoke."""
    from kogniterm.runtime.operations import trust_actions
    from kogniterm.runtime.trust.trust_store import trust_store

    paths = paths_in_use()
    if listed:
        folders = trust_store(paths).folders()
        return Report(list(folders), folders or [""])
    folder = Path(call.folder())
    if revoke:
        return trust_actions.revoke_folder(paths, folder)
    found = trust_actions.compare(paths, folder)
    if not show:
        trust_actions.trust_found(paths, folder, found.files)
        found = trust_actions.compare(paths, folder)._replace(changes=found.changes)
    lines: list[Shown] = [*found.texts]
    lines += [line for change in found.changes.values() for line in change.splitlines()]
    if found.finding.trusted:
        lines.append(Phrase("This folder is trusted.") if show else trust_actions.TRUSTED)
    data = {
        "folder": str(folder),
        "trusted": found.finding.trusted,
        "files": [{"name": f.name, "kind": f.kind, "sha256": f.digest} for f in found.files],
    }
    return Report(data, lines, found.rows)
