"""`kogniterm trust`: let what a project folder brings have an effect, or take that back."""

from __future__ import annotations

from pathlib import Path

from kogniterm.cli.options import JSON, Example, Subparsers, add_argument, add_verb
from kogniterm.cli.run_options import CallOptions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import UsageError
from kogniterm.runtime.operations.action import Argument, Report
from kogniterm.ui.locale import _, mark, translate


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
    from kogniterm.runtime.extensions.hooks.hook_files import project_hooks
    from kogniterm.runtime.services.policy_service import project_rules_of
    from kogniterm.runtime.trust.project_places import walk
    from kogniterm.runtime.trust.trust_store import TrustStore, policy_texts
    from kogniterm.ui.commands.policy import kind_words

    store = TrustStore(paths_in_use().trust_file)
    if listed:
        folders = store.folders()
        return Report(list(folders), folders or [""])
    folder = Path(call.folder())
    if revoke:
        if not store.revoke(folder):
            raise UsageError("{folder} is not trusted.", folder=folder)
        return Report(
            {"folder": str(folder), "trusted": False}, [_("The folder is no longer trusted.")]
        )
    seen = walk(folder)
    files = seen.files
    changes = store.changes(folder, files)
    if not show:
        # Rules and hooks that are wrong would keep every session from opening.
        project_rules_of(policy_texts(files))
        project_hooks(files)
        store.trust(folder, files)
    finding = store.finding(folder, files)
    kinds = kind_words()
    width = max(map(len, kinds.values()))
    lines = [f"{kinds[file.kind]:{width}}  {file.name}" for file in files]
    lines = lines or [_("This folder has no files that KogniTerm would use.")]
    lines += [translate(text) for text in finding.texts if finding.known]
    lines += [translate(text) for text in seen.passed_over]
    lines += [line for change in changes.values() for line in change.splitlines()]
    lines.append(_("Trusted.") if finding.trusted else _("Not trusted."))
    data = {
        "folder": str(folder),
        "trusted": finding.trusted,
        "files": [{"name": f.name, "kind": f.kind, "sha256": f.digest} for f in files],
    }
    return Report(data, lines)
