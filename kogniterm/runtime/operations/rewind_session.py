"""Going back to an earlier point of a session: in the conversation, in the files, or in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.agent.messages import files_kept, files_restored, note
from kogniterm.approval import classify
from kogniterm.errors import UsageError
from kogniterm.execution.undo import FileDifference, Preimage, WayBack
from kogniterm.sessions.fold import title_of
from kogniterm.sessions.history import PastAction, Point, point_at, points, step_back
from kogniterm.sessions.records import NodeRan
from kogniterm.storage.folders import seen_from
from kogniterm.types import Effect, NodeUpdate

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.turn_journal import TurnJournal

LISTED = 100
"""Points that are listed: those of the last turns."""


class RewindPoint(NamedTuple):
    """A point, how its turn changed the saved files, and how many commands the turn ran."""

    point: Point
    changes: tuple[FileDifference, ...]
    commands: int


class Lost(NamedTuple):
    """An action whose effects cannot be restored: those that are known, and files not saved.

    With neither, it is not known what the action changed.
    """

    command: str
    effects: tuple[Effect, ...] = ()
    files: tuple[str, ...] = ()


class Rewind(NamedTuple):
    """The way back to a point: in the files, and what is not restored with them."""

    point: Point
    files: WayBack
    lost: tuple[Lost, ...]


def rewind_points(session: LiveSession) -> tuple[RewindPoint, ...]:
    """Return the last points of the conversation, the newest first."""
    found = _points(session)
    changes = session.undo.store.changes(reversed(_images(session, found)))
    return tuple(
        RewindPoint(point, differing, len(point.actions))
        for point, differing in zip(reversed(found), changes, strict=True)
    )


def way_back(session: LiveSession, seq: int) -> Rewind:
    """Return the way back to the point before the input `seq`. Raises `UsageError`."""
    found = _points(session)
    index = next((i for i, point in enumerate(found) if point.seq == seq), None)
    if index is None:
        raise UsageError("This point is no longer part of the conversation.")
    images = [image for group in reversed(_images(session, found)[index:]) for image in group]
    kept = {image.id: image for image in images}
    since = [action for one in found[index:] for action in one.actions]
    lost = tuple(filter(None, (_lost(session, action, kept) for action in since)))
    return Rewind(found[index], session.undo.store.way_back(images), lost)


def go_back(
    session: LiveSession, rewind: Rewind, *, files: bool, conversation: bool
) -> tuple[str, ...]:
    """Go back in the files, the conversation or both; return the paths that were restored.

    The model is told of files that are not as the conversation says. Raises `StorageError` when a
    file cannot be restored; the conversation is then unchanged.
    """
    way, what = rewind.files, f"/rewind {title_of(rewind.point.input.typed)}"
    restored = session.undo.store.restore(way, what) if files and way.changes else ()
    if conversation:
        session.context.begin_anew(step_back(session.journal.journal, rewind.point))
        left = [*(() if restored else (change.path for change in way.changes)), *way.kept]
        if left:
            _tell(session.journal, files_kept(_inside(session, left)))
    elif restored:
        tell_restored(session, restored)
    return restored


def tell_restored(session: LiveSession, paths: Sequence[str]) -> None:
    """Tell the model, with the next input, that the user restored files."""
    if session.state.messages:
        _tell(session.journal, files_restored(_inside(session, paths)))


def _tell(journal: TurnJournal, text: str) -> None:
    journal.record(NodeRan(NodeUpdate("files", (note(text),))))


def _inside(session: LiveSession, paths: Sequence[str]) -> list[str]:
    return [seen_from(session.folder, path) for path in paths]


def _points(session: LiveSession) -> list[Point]:
    inputs = session.archive.inputs()[-LISTED:]
    return points(session.journal.records(inputs[0])) if inputs else []


def _images(session: LiveSession, found: Sequence[Point]) -> list[list[Preimage]]:
    """Return the saved copies of the session for each point, the newest first."""
    grouped: list[list[Preimage]] = [[] for _ in found]
    for image in session.undo.store.images():
        index = point_at(found, image.created)
        if index >= 0:
            grouped[index].append(image)
    return grouped


def _lost(session: LiveSession, action: PastAction, kept: dict[str, Preimage]) -> Lost | None:
    """Return what of an action cannot be restored, or None."""
    if action.effect in ("none", "person", "network"):  # asked or read, but changed nothing
        return None
    own = action.report is None
    report = action.report or classify(action.command, cwd=session.folder)
    if report.label == "safe_readonly":
        return None
    image = kept.get(action.id)
    effects = tuple(session.undo.beyond(report, own=own))
    skipped = tuple(_inside(session, image.skipped)) if image is not None else ()
    changes = image is not None and bool(image.entries)
    if effects or skipped:
        return Lost(action.command, effects, skipped)
    return None if changes or report.label == "workspace_write" else Lost(action.command)
