"""`kogniterm models`: list, pull and remove the weights of the embedded local model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kogniterm.ui.locale import _


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `models list`, `models pull` and `models remove`."""
    parser = subparsers.add_parser("models", help=_("fetch or remove the embedded local model"))
    actions = parser.add_subparsers(dest="action", metavar=_("ACTION"), required=True)
    show = actions.add_parser("list", help=_("the local models, and which are on this machine"))
    show.add_argument("--json", action="store_true", help=_("as one JSON object"))
    pull = actions.add_parser("pull", help=_("fetch a model's weights; goes on where it stopped"))
    pull.add_argument("name", nargs="?", metavar=_("NAME"), help=_("which one (the small one)"))
    pull.add_argument(
        "--source",
        metavar=_("PATH_OR_URL"),
        help=_("take the file from here; its checksum must still be the official one"),
    )
    remove = actions.add_parser("remove", help=_("delete a model's weights from this machine"))
    remove.add_argument("name", metavar=_("NAME"), help=_("which one"))


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; failures are `KognitermError`s."""
    from kogniterm.settings import environment, quick

    folder = quick(environment()).paths.weights
    if args.action == "list":
        return _list(folder, as_json=args.json)
    if args.action == "pull":
        return _pull(args.name, args.source, folder)
    return _remove(args.name, folder)


def _list(folder: Path, *, as_json: bool) -> int:
    from kogniterm.models.local.catalogue import CATALOGUE
    from kogniterm.models.local.weights import state_of

    states = [state_of(entry, folder) for entry in CATALOGUE]
    if as_json:
        import json

        table = {
            state.entry.name: {
                "state": state.state,
                "bytes": state.entry.size,
                "bytes_on_disk": state.bytes_on_disk,
                "file": str(folder / state.entry.file),
                "sha256": state.entry.sha256,
                "license": state.entry.license,
            }
            for state in states
        }
        sys.stdout.write(json.dumps(table, indent=2) + "\n")
        return 0
    words = {
        "ready": _("ready"),
        "partial": _("partly fetched"),
        "damaged": _("damaged"),
        "missing": _("not fetched"),
    }
    width = max(len(state.entry.name) for state in states) + len("local:")
    for state in states:
        entry = state.entry
        size = _("{size} MB on disk, {memory} MB in memory").format(
            size=entry.size // 1_000_000, memory=entry.memory // 1_000_000
        )
        name = f"local:{entry.name}"
        line = f"{name:<{width}}  {words[state.state]:<15}  {size}  ({entry.license}, Qwen)"
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(_("Folder: {folder}").format(folder=folder) + "\n")
    return 0


def _pull(name: str | None, source: str | None, folder: Path) -> int:
    from kogniterm.models.local.catalogue import DEFAULT_NAME, weights_called
    from kogniterm.models.local.sources import sources_for
    from kogniterm.models.local.weights import PullProgress, pull
    from kogniterm.ui.progress import transfer

    entry = weights_called(_bare(name or DEFAULT_NAME))
    with transfer(entry.name) as display:

        def progress(now: PullProgress) -> None:
            display.update(now.done, now.total, now.doing)

        file = pull(entry, folder, sources_for(entry, source), progress=progress)
    ready = _("{title} is ready: {file} (its sha256 was checked).")
    sys.stdout.write(ready.format(title=entry.title, file=file) + "\n")
    return 0


def _remove(name: str, folder: Path) -> int:
    from kogniterm.models.local.catalogue import weights_called
    from kogniterm.models.local.weights import remove

    entry = weights_called(_bare(name))
    freed = remove(entry, folder)
    if freed:
        words = _("Removed {title}: {size} MB freed.")
        sys.stdout.write(words.format(title=entry.title, size=freed // 1_000_000) + "\n")
    else:
        words = _("{title} was not on this machine.")
        sys.stdout.write(words.format(title=entry.title) + "\n")
    return 0


def _bare(name: str) -> str:
    """The catalogue's name, from `local:NAME` too, the form used with --model."""
    return name.removeprefix("local:")
