"""The inventory of a session, and the files that it consists of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kogniterm.addons.hosts.host_values import Inventory
from kogniterm.host.safe_files import resolve_path
from kogniterm.host.walk import WalkLimits, walk_folder
from kogniterm.runtime.trust.trust_store import TrustStore
from kogniterm.storage.folders import expand_path
from kogniterm.types import ActionRequest

_VARIABLE_FOLDERS = ("group_vars", "host_vars")
_MOST_FILES = 500


def session_inventory(value: str | None, workspace: str, trust_file: Path) -> Inventory:
    """Return the inventory of a session in `workspace`; without a value, Ansible's own.

    A value with a comma is a list of hosts, as Ansible reads it; another names a file or folder.
    The `ansible.cfg` of the folder counts where the user trusts it: it can run programs.
    """
    trusted = TrustStore(trust_file).knows(Path(workspace))
    sources: tuple[str, ...] = ()
    if value is not None:
        sources = (value if "," in value else str(expand_path(workspace, value)),)
    return Inventory(sources, workspace if trusted else str(Path.home()))


def inventory_files(inventory: Inventory) -> tuple[str, ...]:
    """Return the files that decide where a command on hosts runs, and how, as far as known."""
    sources = [Path(one) for one in inventory.sources if "," not in one]
    folders = [one if one.is_dir() else one.parent for one in sources]
    found = [str(one) for one in sources if not one.is_dir()]
    found += [str(Path(inventory.folder) / "ansible.cfg"), *inventory.vault_files]
    for folder, source in zip(folders, sources, strict=True):
        inside = [folder] if source.is_dir() else []
        for place in (*inside, *(folder / name for name in _VARIABLE_FOLDERS)):
            below = walk_folder(resolve_path(place), None, WalkLimits(_MOST_FILES))
            found += [str(place / one.path) for one in below]
    return tuple(dict.fromkeys(found))


def inventory_of(request: ActionRequest) -> Inventory:
    """Return the inventory that the tool put into the arguments of a request."""
    told: Mapping[str, Any] = request.arguments["inventory"]
    return Inventory(
        tuple(told["sources"]), str(told["folder"]), tuple(told.get("vault_files", ()))
    )
