"""The permissions that the user granted for projects: one file of the user's own, for all sessions.

The file stands in the configuration folder, never in a project, and is read again whenever it has
changed: a permission that is granted or revoked in one session takes effect in all. A permission
belongs to the folder it was granted for, not to its name: a new folder of that name has none.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import KognitermError, UsageError, why
from kogniterm.host.safe_files import birth_time
from kogniterm.settings.user_files import read_if_there, toml_values
from kogniterm.storage.folders import private_folder, read_own_json, write_private

if TYPE_CHECKING:
    from kogniterm.approval import Lease
    from kogniterm.approval.policy.permission_file import Permission

_HEADING = (
    "# Permissions that you granted for projects, written by KogniTerm.\n"
    "# List them with: kogniterm policy permissions. Revoke one with: kogniterm policy revoke ID\n"
)


class PermissionStore:
    """The permissions in `file`, and in `uses` the time of the last use of each."""

    def __init__(self, file: Path, uses: Path) -> None:
        self.file = file
        self.uses = uses
        self._state: object = None
        self._known: tuple[Permission, ...] = ()

    def permissions(self) -> tuple[Permission, ...]:
        """Return the permissions of all projects, in the order of the file.

        Raises `UsageError` for an unreadable file, and `SettingsError` for one with mistakes.
        """
        state = self._stat()
        if state != self._state:
            from kogniterm.approval.policy.permission_file import load_permissions

            self._known = load_permissions(toml_values(self.file, self._read()))
            self._state = state
        return self._known

    def leases(self, workspace: str) -> tuple[Lease, ...]:
        """Return the leases of the project in `workspace`; void ones of an earlier folder, too."""
        real = os.path.realpath(workspace)
        found = [one for one in self.permissions() if one.lease.workspace == real]
        if not found:
            return ()
        folder, uses = folder_id(real), self.last_uses()
        return tuple(
            replace(
                one.lease,
                void=not folder or one.folder_id != folder,
                last_used=uses.get(one.lease.id),
            )
            for one in found
        )

    def add(self, lease: Lease, today: date) -> Permission:
        """Save `lease` under a new id. Raises `KognitermError` when that fails."""
        from kogniterm.approval.policy.permission_file import Permission, load_permissions

        with self._changing() as text:
            known = load_permissions(toml_values(self.file, text))
            number = max((int(one.lease.id[1:]) for one in known), default=0) + 1
            named = replace(lease, id=f"p{number}")
            permission = Permission(named, folder_id(lease.workspace), today)
            self._write(f"{text or _HEADING}\n{permission.toml}\n")
            return permission

    def revoke(self, permission_id: str) -> Permission:
        """Remove a permission and return it. Raises `KognitermError` when that fails."""
        from kogniterm.approval.policy.permission_file import load_permissions, without

        with self._changing() as text:
            file = toml_values(self.file, text)
            known = load_permissions(file)
            found = next((one for one in known if one.lease.id == permission_id), None)
            if found is None:
                raise not_found(permission_id)
            try:
                self._write(without(text, file, permission_id))
            except (KeyError, TypeError):  # written in another way than as [[permission]]
                raise UsageError(
                    "Permission {id} cannot be removed from {file}; remove its table in an editor.",
                    id=permission_id,
                    file=self.file,
                ) from None
            return found

    def note_use(self, permission_id: str, now: float) -> None:
        """Note that a permission was used; without the file nothing but the time is lost."""
        with suppress(OSError), self._locked(self.uses.parent):
            kept = {**self.last_uses(), permission_id: now}
            write_private(self.uses, json.dumps(kept).encode())

    def last_uses(self) -> Mapping[str, float]:
        """Return the time of the last use of each permission."""
        data = read_own_json(self.uses)
        return data if isinstance(data, dict) else {}

    def _stat(self) -> object:
        try:
            info = self.file.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.errno
        return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns

    def _read(self) -> str:
        return read_if_there(self.file) or ""

    def _write(self, text: str) -> None:
        # A link to a file elsewhere, as in a folder of dotfiles, stays a link.
        write_private(self.file, text.encode("utf-8"), durable=True)

    @contextmanager
    def _changing(self) -> Iterator[str]:
        """Lock the file against other processes while its text is changed."""
        try:
            with self._locked(self.file.parent):
                yield self._read()
        except OSError as error:
            raise KognitermError(
                "The permission was not saved: {file} cannot be written ({why}).",
                file=self.file,
                why=why(error),
            ) from error

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        private_folder(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def not_found(permission_id: str) -> UsageError:
    """Return the error for a permission that does not exist."""
    return UsageError(
        "Permission {id} not found; list them with /permissions, or in a shell with: "
        "kogniterm policy permissions",
        id=permission_id,
    )


def folder_id(folder: str) -> str:
    """Return the folder's identity, or "" where there is no folder.

    It is its inode and, as inodes are used again, the time it was made. The device is left out:
    its number may be another after a restart.
    """
    try:
        inode = os.stat(folder).st_ino  # noqa: PTH116 - a name that no path can have raises, too
    except (OSError, ValueError):
        return ""
    return f"{inode}:{birth_time(os.path.realpath(folder))}"
