"""`kogniterm trust`: let what a project folder brings have an effect, or take that back."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from kogniterm.cli.options import folder_of
from kogniterm.errors import UsageError
from kogniterm.ui.locale import _, translate


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `trust` with its options."""
    parser = subparsers.add_parser(
        "trust",
        help=_("let a project folder's files have an effect"),
        description=_(
            "Trust what this folder holds for KogniTerm now: instruction files, policy rules and "
            "own commands. What changes later is asked about again."
        ),
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", action="store_true", help=_("only show what is there"))
    what.add_argument("--revoke", action="store_true", help=_("trust it no longer"))
    what.add_argument("--list", action="store_true", help=_("list the trusted folders"))
    parser.add_argument("--cwd", "-C", metavar=_("FOLDER"), help=_("folder to work in"))
    parser.add_argument("--json", action="store_true", help=_("print JSON"))


def run(args: argparse.Namespace) -> int:
    """Show, trust or revoke; returns the exit status."""
    from kogniterm.runtime.trust import TrustStore, discover, policy_texts
    from kogniterm.settings import environment, quick

    store = TrustStore(quick(environment()).paths.trust_file)
    if args.list:
        return _print(args.json, list(store.folders()), "\n".join(store.folders()))
    folder = Path(folder_of(args))
    if args.revoke:
        if not store.revoke(folder):
            raise UsageError("{folder} is not trusted.", folder=folder)
        return _print(args.json, {"folder": str(folder), "trusted": False}, _("Trusted no longer."))
    files = discover(folder)
    if not args.show:
        _check_rules(policy_texts(files))
        store.trust(folder, files)
    finding = store.finding(folder, files)
    kinds = {"instructions": _("instructions"), "policy": _("rules"), "command": _("own command")}
    width = max(map(len, kinds.values()))
    lines = [f"{kinds[file.kind]:{width}}  {file.name}" for file in files]
    lines = lines or [_("Nothing there to trust.")]
    lines += [translate(text) for text in finding.texts if finding.known]
    lines.append(_("Trusted.") if finding.trusted else _("Not trusted."))
    data = {
        "folder": str(folder),
        "trusted": finding.trusted,
        "files": [{"name": f.name, "kind": f.kind, "sha256": f.digest} for f in files],
    }
    return _print(args.json, data, "\n".join(lines))


def _check_rules(texts: dict[str, str]) -> None:
    """Rules that are wrong would keep every session from opening. Raises `SettingsError`."""
    from kogniterm.approval import load_rules

    for name, text in texts.items():
        load_rules(text, origin=name, tighten_only=True)


def _print(as_json: bool, data: object, text: str) -> int:
    sys.stdout.write((json.dumps(data, indent=2) if as_json else text) + "\n")
    return 0
