"""Undo: what an approved action will change is kept first, and restored on request."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kogniterm.errors import StorageError, UsageError
from kogniterm.execution.effect_preview import paths_changed, preview
from kogniterm.execution.undo import Preimage, PreimageStore, WayBack, settle_path
from kogniterm.types import (
    CHANGING_KINDS,
    ActionRequest,
    Effect,
    EffectKind,
    Phrase,
    RiskReport,
)

BEYOND: frozenset[EffectKind] = frozenset({"network", "privilege", "process"})
"""Effects on something other than files."""


class UndoService:
    """The pre-images of one session. Only files in the workspace are kept."""

    def __init__(self, store: PreimageStore, workspace: Path) -> None:
        self.store = store
        self.workspace = workspace
        self.running: set[str] = set()

    def keep(self, request: ActionRequest, report: RiskReport) -> Preimage | None:
        """Keep what `request` will overwrite, delete or create. Raises `StorageError`."""
        paths = self._paths(request, report)
        if not paths or request.effect == "hosts":
            return None
        self.running.add(request.id)
        return self.store.keep(request.id, request.command, paths)

    def note_left(self, request_id: str) -> None:
        """Note what an action that has ended left: only that is taken back unasked."""
        if request_id in self.running:
            with suppress(StorageError):
                self.store.note_left(request_id)

    def preview(self, request: ActionRequest, report: RiskReport) -> tuple[Phrase, ...]:
        """Return what the request would do to this disk, and whether that can be undone."""
        if request.effect == "hosts":
            safe = report.label == "safe_readonly"
            return () if safe else (Phrase("On other machines, nothing can be undone with /undo."),)
        promise, lines = self.promise(request, report), preview(report, str(self.workspace))
        return (*lines, promise) if promise is not None else lines

    def promise(self, request: ActionRequest, report: RiskReport) -> Phrase | None:
        """Return whether the action can be undone; None when it changes nothing."""
        changed = [e for e in report.effects if e.kind in CHANGING_KINDS]
        beyond = [e for e in report.effects if e.kind in BEYOND]
        if request.effect == "edit":
            if not self._paths(request, report):
                path = {"target": request.arguments.get("path", "")}
                return Phrase("Cannot be undone: {target}", path)
            return Phrase("Can be undone with /undo.")
        if report.label == "safe_readonly":
            return None
        never = [e.target for e in changed if e.outside or "…" in e.target]
        if never:
            return Phrase("Cannot be undone: {target}", {"target": never[0]})
        unkept = self.store.unkept(self._paths(request, report)) if not beyond else None
        if changed and unkept is not None:
            return Phrase(
                "Can be undone with /undo, except {target} (too large or not readable).",
                {"target": unkept.removeprefix(f"{self.workspace}/")},
            )
        if changed and not beyond:
            return Phrase("Changes in the workspace can be undone with /undo.")
        return Phrase("May not be reversible.")

    def beyond(self, report: RiskReport, *, own: bool = False) -> Iterator[Effect]:
        """Yield the effects of an action that happened that no saved copy can undo.

        For a command of the user's `own` nothing was saved.
        """
        for effect in report.effects:
            unsaved = own or effect.outside or "…" in effect.target
            runs = effect.kind == "execute" and report.label != "workspace_write"
            if effect.kind in BEYOND or runs or (effect.kind in CHANGING_KINDS and unsaved):
                yield effect

    def images(self) -> tuple[Preimage, ...]:
        """Return what can be undone, the newest first."""
        return tuple(image for image in self.store.images() if not image.undone)

    def latest(self) -> WayBack:
        """Return the way back to before the newest action that left differences.

        Raises `UsageError`.
        """
        for image in self.images():
            way = self.store.way_back([image])
            if way.changes or way.kept:
                return way
        raise UsageError("Nothing to undo: no saved file has changed.")

    def _paths(self, request: ActionRequest, report: RiskReport) -> tuple[Path, ...]:
        if request.effect == "edit" and "path" in request.arguments:
            found: Iterable[Path] = (Path(str(request.arguments["path"])),)
        else:
            found = map(settle_path, paths_changed(report, str(self.workspace)))
        inside = os.path.realpath(self.workspace)
        return tuple(path for path in found if path.is_relative_to(inside))
