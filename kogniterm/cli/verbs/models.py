"""`kogniterm models`: list, pull and remove the weights of the embedded local model."""

from __future__ import annotations

import argparse

from kogniterm.cli.options import JSON, Action, Argument, Subparsers, add_actions
from kogniterm.cli.verb_helpers import Report, paths_in_use, write_report
from kogniterm.ui.locale import _


def add_parser(subparsers: Subparsers) -> None:
    """Add `models list`, `models pull` and `models remove`."""
    add_actions(subparsers, "models", ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action; failures are `KognitermError`s."""
    return write_report(args, args.perform(args))


def _list(_args: argparse.Namespace) -> Report:
    from kogniterm.models.local.weights import CATALOGUE, state_of

    folder = paths_in_use().weights
    states = [state_of(entry, folder) for entry in CATALOGUE]
    data = {
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
    words = {
        "ready": _("ready"),
        "partial": _("partly downloaded"),
        "damaged": _("damaged"),
        "missing": _("not downloaded"),
    }
    width = max(len(state.entry.name) for state in states) + len("local:")
    lines = []
    for state in states:
        entry = state.entry
        size = _("{size} MB on disk, {memory} MB in memory").format(
            size=entry.size // 1_000_000, memory=entry.memory // 1_000_000
        )
        name = f"local:{entry.name}"
        lines.append(f"{name:<{width}}  {words[state.state]:<15}  {size}  ({entry.license}, Qwen)")
    return Report(data, [*lines, _("Folder: {folder}").format(folder=folder)])


def _pull(args: argparse.Namespace) -> Report:
    from kogniterm.models.local.sources import sources_for
    from kogniterm.models.local.weights import DEFAULT_NAME, PullProgress, pull, weights_called
    from kogniterm.ui.screen.progress import transfer

    entry = weights_called(_bare(args.name or DEFAULT_NAME))
    with transfer(entry.name) as display:

        def progress(now: PullProgress) -> None:
            display.update(now.done, now.total, now.doing)

        sources = sources_for(entry, args.source)
        file = pull(entry, paths_in_use().weights, sources, progress=progress)
    ready = _("{title} is ready: {file} (its sha256 was checked).")
    return Report(lines=[ready.format(title=entry.title, file=file)])


def _remove(args: argparse.Namespace) -> Report:
    from kogniterm.models.local.weights import remove, weights_called

    entry = weights_called(_bare(args.name))
    freed = remove(entry, paths_in_use().weights)
    words = (
        _("Removed {title}: {size} MB freed.") if freed else _("{title} was not on this machine.")
    )
    return Report(lines=[words.format(title=entry.title, size=freed // 1_000_000)])


def _bare(name: str) -> str:
    """Return the catalogue's name, from `local:NAME` too, the form used with --model."""
    return name.removeprefix("local:")


ACTIONS = (
    Action("list", "List the local models and which are downloaded", _list, (JSON,),
           ("kogniterm models list",)),
    Action("pull", "Download a local model; a partial download is continued", _pull, (
        Argument("name", "Model to download; without it, the small one", "NAME", nargs="?"),
        Argument("--source", "File or URL to use; the checksum must still match", "PATH_OR_URL")),
        ("kogniterm models pull",)),
    Action("remove", "Delete a downloaded model", _remove, (
        Argument("name", "Model to delete", "NAME"),),
        ("kogniterm models remove NAME",)),
)  # fmt: skip
