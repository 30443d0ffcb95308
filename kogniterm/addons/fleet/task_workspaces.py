"""The folders in which tasks work: shared ones as they are, and checkouts of their own.

What a task changed in its checkout is stored with it whenever its process ends. So its files are
the same on another machine, but for what a machine took along that was lost; the model is told.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kogniterm import prompts
from kogniterm.addons.fleet.checkouts import (
    LONGEST_PATCH,
    PLACE,
    CheckoutError,
    Checkouts,
    Repository,
    repository_of,
)
from kogniterm.addons.fleet.queue_ports import TaskChanges
from kogniterm.addons.fleet.queue_values import ENDED_STATES, QueuedTask, TaskEnd
from kogniterm.errors import UsageError
from kogniterm.types import Phrase


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder of a task, the task with the commit there, and what to tell the model, if any."""

    folder: Path
    task: QueuedTask
    note: str = ""


@dataclass(frozen=True, slots=True)
class TaskWorkspaces:
    """Opens the folders of tasks on this machine, and clears what they leave."""

    checkouts: Checkouts
    patches: TaskChanges

    async def open(self, task: QueuedTask) -> Workspace:
        """Return the folder of a task as it has to be for a start.

        Raises `CheckoutError`, and `UsageError` where a folder is missing.
        """
        repository = _repository(task)
        if repository is None:
            if not Path(task.task.folder).is_dir():
                raise UsageError("No folder {folder} here.", folder=task.task.folder)
            return Workspace(Path(task.task.folder), task)
        commit = await self.checkouts.resolve(repository, task.commit_id)
        if not task.commit_id:
            self.patches.pin(task, commit)
        patch = self.patches.of(task.id)
        found = await self.checkouts.open(task.id, repository, commit, patch)
        if found.fresh and (task.seconds or task.lost):
            self.checkouts.tell(task.id)
        untold = self.checkouts.is_untold(task.id)
        note = prompts.text("queue.new_checkout", commit=commit) if untold else ""
        return Workspace(found.folder, replace(task, commit_id=commit), note)

    async def leave(self, task: QueuedTask, end: TaskEnd) -> TaskEnd:
        """Store what a task has changed when its process has ended; returns the end to report.

        The checkout is deleted with the end of the task, unless its changes cannot be stored.
        """
        repository = _repository(task)
        if repository is None or not self.checkouts.place(task.id).is_dir():
            return end
        if end.tokens:
            self.checkouts.note_told(task.id)
        kept = await self._save(task, repository)
        if kept is not None:
            self.checkouts.keep(task.id)
            return end if end.reason else replace(end, reason=kept)
        if end.state in ENDED_STATES:
            self.checkouts.remove(task.id)
        return end

    async def _save(self, task: QueuedTask, repository: Repository) -> Phrase | None:
        """Store the changes; returns why that is not possible."""
        try:
            patch = await self.checkouts.patch(task.id, repository, task.commit_id)
            if len(patch) <= LONGEST_PATCH:
                self.patches.save(task, patch.decode())
                return None
        except CheckoutError as error:
            return error.text
        except UnicodeDecodeError:
            pass
        return Phrase(
            "Its changes are too large to be stored, or not UTF-8 text; they are in {folder} on "
            "{host}.",
            {"folder": str(self.checkouts.place(task.id)), "host": socket.gethostname()},
        )

    def clear(self) -> None:
        """Delete the checkouts of tasks that have ended elsewhere, or were cancelled meanwhile."""
        for task_id in self.checkouts.ids():
            if self.patches.state(task_id) in (None, *ENDED_STATES):
                with suppress(OSError, UsageError):  # no folder of a task
                    self.checkouts.remove(task_id)


def _repository(task: QueuedTask) -> Repository | None:
    if not task.task.folder.startswith(PLACE):
        return None
    return repository_of(task.task.workspace)
