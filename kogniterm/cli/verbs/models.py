"""`kogniterm models`: list all models; the embedded one adds actions for its weights."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kogniterm.cli.options import JSON, CallOptions, Subparsers, add_actions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import ModelKeyMissingError
from kogniterm.installed import parts_of
from kogniterm.models.catalog import BY_NAME, PRICES_DATE
from kogniterm.models.embedded import embedded_model
from kogniterm.runtime.operations.action import Action, Report
from kogniterm.ui.locale import _
from kogniterm.ui.screen.surface import stream_size

if TYPE_CHECKING:
    from kogniterm.models.embedded import WeightsState
    from kogniterm.models.model_lists import ListedModel, ModelListing

WHOLE = 1_000
"""Columns for a file or a pipe, where no name is cut."""


def add_parser(subparsers: Subparsers) -> None:
    """Add `models list`, `models pull` and `models remove`."""
    add_actions(subparsers, "models", ACTIONS)


def _list(call: CallOptions) -> Report:
    from kogniterm.ui.questions.model_choice import source_text

    listings = _listings(call)
    in_use = _in_use(call)
    folder = paths_in_use().weights
    embedded = embedded_model()
    states = embedded.states(folder) if embedded is not None else ()
    data = {
        "models": [_model_data(one, listing, in_use) for listing in listings
                   for one in listing.models],
        "prices_date": PRICES_DATE,
        "local": {state.name: _weights_data(state) for state in states},
    }  # fmt: skip
    about = source_text(listings)
    return Report(
        data,
        [*_model_lines(listings, in_use), *map(_weights_line, states),
         *([_("Folder: {folder}").format(folder=folder)] if states else [])],
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
            calls[one.name].result() if one.name in asked else lists.list_known(one)
            for one in lists.providers
        ]


def _in_use(call: CallOptions) -> str:
    """Return the model that a new session uses; empty where none can be."""
    from kogniterm.runtime.operations.provider_login import model_in_use

    paths = paths_in_use()
    try:
        name = model_in_use(call.load_settings(), paths)
    except ModelKeyMissingError:
        return ""
    embedded = embedded_model()
    return embedded.default_name(paths.weights) if embedded and name == "local" else name


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


def _weights_data(state: WeightsState) -> dict[str, object]:
    return {
        "state": state.state,
        "bytes": state.size,
        "bytes_on_disk": state.bytes_on_disk,
        "file": str(state.file),
        "sha256": state.sha256,
        "license": state.license,
    }


def _weights_line(state: WeightsState) -> str:
    words = {
        "ready": _("ready"),
        "partial": _("partly downloaded"),
        "damaged": _("damaged"),
        "missing": _("not downloaded"),
    }
    size = _("{size} MB on disk, {memory} MB in memory").format(
        size=state.size // 1_000_000, memory=state.memory // 1_000_000
    )
    width = max(map(len, words.values()))
    return f"local:{state.short}  {words[state.state]:<{width}}  {size}  {state.license}"


ACTIONS = (
    Action("list", "List the models of your providers and the local ones", _list, (JSON,),
           ("kogniterm models list",)),
    *parts_of("ACTIONS", "models"),
)  # fmt: skip
