"""The add-ons that are installed beside the core, found by the rows of one table.

The core imports no add-on. It asks here for the rows of a kind, and loads a part when it is used;
so an add-on can be deleted with its rows.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, which would be the slowest import of a warm start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TABLE = "kogniterm.addons.table"


def rows(kind: str) -> tuple[Any, ...]:
    """Return the rows of a kind in the table of the add-ons; none where there is no table."""
    try:
        table = import_module(_TABLE)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{_TABLE}.".startswith(f"{error.name}."):
            raise
        return ()
    found: tuple[Any, ...] = getattr(table, kind)
    return found


def parts(kind: str) -> Iterator[Any]:
    """Load what the rows of a kind name as `module:name`: functions or classes."""
    yield from map(_load, rows(kind))


def parts_of(kind: str, name: str) -> Iterator[Any]:
    """Load what the rows of a kind bring for a name, such as that of a verb of the core."""
    return (_load(reference) for own, reference in rows(kind) if own == name)


def part(kind: str, name: str) -> Any:
    """Load what an add-on brings for a name. Raises `UsageError` if it is not installed."""
    for found in parts_of(kind, name):
        return found
    from kogniterm.errors import UsageError

    raise UsageError(
        "The add-on for {name} is not installed. Reinstall KogniTerm with it, or give a new input, "
        "which continues without it.",
        name=name,
    )


def _load(reference: str) -> Any:
    module, _colon, name = reference.partition(":")
    return getattr(import_module(module), name)
