"""Permissions: what `kogniterm policy`, /permissions and an editor all do, and how they show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.runtime.operations.action import Action, Argument, Report, iso, local_time
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.approval import Lease
    from kogniterm.runtime.services.permission_store import PermissionStore


class Permissions(NamedTuple):
    """The permissions that an action works on, what revokes one, and when they were granted.

    Only those that are saved for projects have a date.
    """

    leases: Sequence[Lease]
    revoke: Callable[[str], Lease]
    granted: Mapping[str, date]


def of_all_projects(store: PermissionStore) -> Permissions:
    """Return the permissions that are saved for projects."""
    found, uses = store.permissions(), store.last_uses()
    return Permissions(
        [replace(one.lease, last_used=uses.get(one.lease.id)) for one in found],
        lambda name: store.revoke(name).lease,
        {one.lease.id: one.granted for one in found},
    )


def list_permissions(held: Permissions) -> Report:
    """List the permissions with their place and their last use."""
    return Report(
        [_as_json(one, held.granted.get(one.id)) for one in held.leases],
        rows=[
            (one.id, one.workspace if one.origin else Phrase("session"), one.text, _last_use(one))
            for one in held.leases
        ],
        notes=() if held.leases else [Phrase("No permissions. You grant them at approvals.")],
    )


def _last_use(lease: Lease) -> Phrase:
    if lease.last_used is None:
        return Phrase("not used yet")
    return Phrase("last used {time}", {"time": local_time(lease.last_used)})


def _as_json(lease: Lease, granted: date | None) -> dict[str, object]:
    return {
        "id": lease.id,
        "workspace": lease.workspace,
        "kind": lease.kind,
        "command": lease.report.command,
        "folder": lease.folder,
        "outside_sandbox": lease.outside,
        "granted": granted.isoformat() if granted is not None else None,
        "last_used": iso(lease.last_used),
        "from": lease.origin,
    }


def revoke_permissions(held: Permissions, permission: str) -> Report:
    """Revoke a permission, or all. Raises `UsageError` for one that there is not."""
    ids = [one.id for one in held.leases] if permission == "all" else [permission]
    gone = [held.revoke(one) for one in ids]
    return Report(
        [one.id for one in gone],
        [
            Phrase("Permission {id} revoked: {permission}", {"id": one.id, "permission": one.text})
            for one in gone
        ],
        notes=() if gone else [Phrase("You have no permissions to revoke.")],
    )


ACTIONS = (
    Action("list", "List the permissions granted for projects", list_permissions, (),
           ("kogniterm policy permissions",)),
    Action("revoke", "Revoke a permission, or all", revoke_permissions,
           (Argument("permission", "ID of the permission, or all", "ID|all"),),
           ("kogniterm policy revoke p1", "kogniterm policy revoke all")),
)  # fmt: skip
