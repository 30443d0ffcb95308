"""`kogniterm models`: list all models; pull and remove the weights of the embedded one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli.options import JSON, Subparsers, add_actions
from kogniterm.cli.run_options import CallOptions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import ModelKeyMissingError
from kogniterm.models.catalog import BY_NAME, PRICES_DATE
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.ui.locale import _
from kogniterm.ui.screen.surface import stream_size

if TYPE_CHECKING:
    from kogniterm.models.local.weights import WeightsState
    from kogniterm.models.model_lists import ListedModel, ModelListing

WHOLE = 1_000
"""Columns for a file or a pipe, where no name is cut."""


def add_parser(subparsers: Subparsers) -> None:
    """Add `models list`, `models pull` and `models remove`."""
    add_actions(subparsers, "models", ACTIONS)


def _list(call: CallOptions) -> Report:
    from kogniterm.models.local.weights import CATALOGUE, state_of
    from kogniterm.ui.questions.model_choice import source_text

    listings = _listings(call)
    in_use = _in_use(call)
    folder = paths_in_use().weights
    states = [state_of(entry, folder) for entry in CATALOGUE]
    data = {
        "models": [_model_data(one, listing, in_use) for listing in listings
                   for one in listing.models],
        "prices_date": PRICES_DATE,
        "local": {state.entry.name: _weights_data(state, folder) for state in states},
    }  # fmt: skip
    about = source_text(listings)
    return Report(
        data,
        [*_model_lines(listings, in_use), *map(_weights_line, states),
         _("Folder: {folder}").format(folder=folder)],
        notes=[about] if about else [],
    )  # fmt: skip


def _listings(call: CallOptions) -> list[ModelListing]:
    """Return the models of every configured provider; those with a live list are asked at once."""
    from kogniterm.runtime.opening import model_lists

    lists = model_lists(call.load_settings(), paths_in_use())
    asked = {one.name for one in lists.asked}
    with ThreadPoolExecutor(max(len(asked), 1)) as pool:
        calls = {name: pool.submit(lists.live, BY_NAME[name]) for name in asked}
        return [
            calls[one.name].result() if one.name in asked else lists.known(one)
            for one in lists.providers
        ]


def _in_use(call: CallOptions) -> str:
    """Return the model that a new session uses; empty where none can be."""
    from kogniterm.models.local.weights import default_weights
    from kogniterm.runtime.operations.provider_login import model_in_use

    paths = paths_in_use()
    try:
        name = model_in_use(call.load_settings(), paths)
    except ModelKeyMissingError:
        return ""
    return f"local:{default_weights(paths.weights).name}" if name == "local" else name


def _model_data(model: ListedModel, listing: ModelListing, in_use: str) -> dict[str, object]:
    price = model.price
    return {
        "name": model.name,
        "default": model.name == in_use,
        "context_window": model.window,
        "input_price": price.input if price is not None else None,
        "output_price": price.output if price is not None else None,
        "listed_by_provider": listing.live,
    }


def _model_lines(listings: Sequence[ModelListing], in_use: str) -> list[str]:
    """Return the models as the list of /model shows them; nothing without a provider."""
    from kogniterm.ui.questions.model_choice import model_rows, model_text, prices_text

    models = [one for listing in listings for one in listing.models if listing.provider != "local"]
    if not models:
        return []
    rows = model_rows(models, in_use)
    columns = stream_size(sys.stdout)[1] - 1 if sys.stdout.isatty() else WHOLE
    return [*(model_text(row, columns, rows).plain.rstrip() for row in rows), prices_text(), ""]


def _weights_data(state: WeightsState, folder: Path) -> dict[str, object]:
    return {
        "state": state.state,
        "bytes": state.entry.size,
        "bytes_on_disk": state.bytes_on_disk,
        "file": str(folder / state.entry.file),
        "sha256": state.entry.sha256,
        "license": state.entry.license,
    }


def _weights_line(state: WeightsState) -> str:
    words = {
        "ready": _("ready"),
        "partial": _("partly downloaded"),
        "damaged": _("damaged"),
        "missing": _("not downloaded"),
    }
    entry = state.entry
    size = _("{size} MB on disk, {memory} MB in memory").format(
        size=entry.size // 1_000_000, memory=entry.memory // 1_000_000
    )
    width = max(map(len, words.values()))
    return f"local:{entry.short}  {words[state.state]:<{width}}  {size}  {entry.license}"


def _pull(call: CallOptions, name: str | None, source: str | None) -> Report:
    from kogniterm.models.local.sources import source_of
    from kogniterm.models.local.weights import DEFAULT_NAME, PullProgress, pull, weights_called
    from kogniterm.ui.screen.progress import transfer

    entry = weights_called(_bare(name or DEFAULT_NAME))
    with transfer(entry.name) as display:

        def progress(now: PullProgress) -> None:
            display.update(now.done, now.total, now.doing)

        file = pull(entry, paths_in_use().weights, source_of(entry, source), progress=progress)
    ready = _("{title} is ready: {file} (its sha256 was checked).")
    return Report(lines=[ready.format(title=entry.title, file=file)])


def _remove(call: CallOptions, name: str) -> Report:
    from kogniterm.models.local.weights import remove, weights_called

    entry = weights_called(_bare(name))
    freed = remove(entry, paths_in_use().weights)
    words = (
        _("Removed {title}: {size} MB freed.") if freed else _("{title} was not on this machine.")
    )
    return Report(lines=[words.format(title=entry.title, size=freed // 1_000_000)])


def _bare(name: str) -> str:
    """Return the name in the catalogue, from `local:NAME` too, the form used with --model."""
    return name.removeprefix("local:")


ACTIONS = (
    Action("list", "List the models of your providers and the local ones", _list, (JSON,),
           ("kogniterm models list",)),
    Action("pull", "Download a local model; a partial download is continued", _pull, (
        Argument("name", "Model to download: 0.5b or 1.5b (default: 0.5b)", "NAME", nargs="?"),
        Argument("--source", "File to use; the checksum must still match", "FILE")),
        ("kogniterm models pull",)),
    Action("remove", "Delete a downloaded model", _remove, (
        Argument("name", "Model to delete", "NAME"),),
        ("kogniterm models remove NAME",)),
)  # fmt: skip
