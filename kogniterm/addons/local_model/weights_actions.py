"""`kogniterm models pull` and `kogniterm models remove`: the weights on this machine."""

from __future__ import annotations

from kogniterm.addons.local_model.embedding import EMBEDDED_MODEL
from kogniterm.addons.local_model.weights import DEFAULT_NAME, remove, weights_called
from kogniterm.cli.options import CallOptions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.models.embedded import PullProgress
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.ui.locale import _


def _pull(call: CallOptions, name: str | None, source: str | None) -> Report:
    from kogniterm.ui.screen.progress import transfer

    entry = weights_called(_bare(name or DEFAULT_NAME))
    with transfer(entry.name) as display:

        def progress(now: PullProgress) -> None:
            display.update(now.done, now.total, now.doing)

        state = EMBEDDED_MODEL.pull(entry.name, paths_in_use().weights, progress, source)
    ready = _("{title} is ready: {file} (its sha256 was checked).")
    return Report(lines=[ready.format(title=state.title, file=state.file)])


def _remove(call: CallOptions, name: str) -> Report:
    entry = weights_called(_bare(name))
    freed = remove(entry, paths_in_use().weights)
    words = (
        _("Removed {title}: {size} MB freed.") if freed else _("{title} was not on this machine.")
    )
    return Report(lines=[words.format(title=entry.title, size=freed // 1_000_000)])


def _bare(name: str) -> str:
    """Return the name in the catalogue, from `local:NAME` too, the form used with --model."""
    return name.removeprefix("local:")


PULL = Action(
    "pull", "Download a local model; a partial download is continued", _pull, (
        Argument("name", "Model to download: 0.5b or 1.5b (default: 0.5b)", "NAME", nargs="?"),
        Argument("--source", "File to use; the checksum must still match", "FILE")),
    ("kogniterm models pull",))  # fmt: skip
REMOVE = Action(
    "remove", "Delete a downloaded model", _remove, (Argument("name", "Model to delete", "NAME"),),
    ("kogniterm models remove NAME",))  # fmt: skip
