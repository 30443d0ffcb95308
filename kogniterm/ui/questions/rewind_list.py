"""The points of a conversation to go back to, one a line, and the question what goes back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from kogniterm.storage.folders import seen_from
from kogniterm.text.language import fold_case
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import render_line
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, age, plural
from kogniterm.ui.questions.pick_list import GAP, PickList, in_one
from kogniterm.ui.questions.question import Answered, ChoiceQuestion, Option, QuestionText, Step
from kogniterm.ui.screen.surface import cells
from kogniterm.ui.words.approval_words import effect_text

if TYPE_CHECKING:
    from rich.text import Text

    from kogniterm.execution.undo import FileDifference
    from kogniterm.runtime.operations.rewind_session import Lost, Rewind, RewindPoint
    from kogniterm.ui.screen.paint import Painter

LEAST_WORDS = 16
"""Cells for the user's words at least, however narrow the screen is."""
NAMED = 8
"""Files and commands that are listed one by one."""


class RewindRow:
    """A point as the list shows it."""

    def __init__(self, point: RewindPoint, used: str) -> None:
        self.point, self.used = point, used

    @cached_property
    def words(self) -> str:
        """The user's words, in one line."""
        return one_line(self.point.point.input.typed)

    @cached_property
    def changed(self) -> str:
        """A summary of what the turn changed and ran."""
        parts = []
        changes = self.point.changes
        if changes:
            files = plural("{count} file", "{count} files", len(changes))
            counts = [change.lines or (0, 0) for change in changes]
            added, removed = sum(one[0] for one in counts), sum(one[1] for one in counts)
            parts.append(f"{files} +{added} -{removed}" if added or removed else files)
        if self.point.commands:
            parts.append(plural("{count} action", "{count} actions", self.point.commands))
        return " · ".join(parts) or _("no changes")

    def holds(self, word: str) -> bool:
        """Return whether `word` stands in the user's words or in the name of a file."""
        names = " ".join(change.path for change in self.point.changes)
        return word in fold_case(f"{self.words} {names}")


def rewind_rows(points: Sequence[RewindPoint]) -> tuple[RewindRow, ...]:
    """Return the points as rows."""
    now = time.time()
    return tuple(RewindRow(point, age(now - point.point.time)) for point in points)


@dataclass(frozen=True)
class RewindPickList(PickList[RewindRow, int]):
    """Asks for a point; the answer is the record of its input, or 0 when none was picked."""

    folder: str = ""

    feet: ClassVar[int] = 1

    title = Phrase("Go back to before which message?")
    nothing = Phrase("No message matches.")
    enter = Phrase("continue")

    def line(self, row: RewindRow, columns: int) -> Text:
        """Return the age, the words, and what the turn changed."""
        from rich.text import Text

        used = max(cells(one.used) for one in self.rows)
        room = columns - used - 2 * len(GAP)
        changed = row.changed if cells(row.changed) <= room - LEAST_WORDS else ""
        words = Text(row.words)
        gap = len(GAP) if changed else 0
        words.truncate(max(room - cells(changed) - gap, 1), overflow="ellipsis", pad=True)
        line = Text(row.used.rjust(used), "muted").append(GAP).append_text(words)
        return line.append(GAP).append(changed, "muted") if changed else line

    def foot(self, columns: int) -> Sequence[Text]:
        """Return the files that the turn of the chosen point changed."""
        from rich.text import Text

        row = self.chosen
        if row is None or not row.point.changes:
            return [Text("")]
        names = ", ".join(_name(change, self.folder) for change in row.point.changes)
        return [Text(f"  {names}", "muted")]

    def text(self, painter: Painter, columns: int) -> QuestionText:
        """Return the messages with their numbers; line by line, none is chosen for the foot."""
        return QuestionText(super().text(painter, columns).lines[: -self.feet])

    def take(self, row: RewindRow) -> Step[int]:
        """Answer with a point."""
        return Answered(row.point.point.seq)

    def ended(self) -> int:
        """Pick none."""
        return 0


@dataclass(frozen=True)
class WayBackQuestion(ChoiceQuestion[str]):
    """Asks what goes back to before `message`; Esc changes nothing."""

    message: str

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> QuestionText:
        """Return the message, the files to restore and what cannot be restored."""
        from rich.text import Text

        parts = [(self.title, "heading"), (f"› {self.message}", "accent"), *self.body]
        lines = [in_one(Text.assemble(part), painter, columns) for part in parts]
        return QuestionText([*lines, ""] if len(lines) < rows else lines)

    def text(self, painter: Painter, columns: int) -> QuestionText:
        """Return the same, line by line."""
        title, *body = super().text(painter, columns).lines
        return QuestionText([title, f"  {self.message}", *body])

    def back(self) -> Step[str] | None:
        """Take Esc."""
        return Answered(self.ended())


def way_back_question(rewind: Rewind, folder: str) -> WayBackQuestion:
    """Return the question what goes back to a point, after what is restored and what is not."""
    files, kept = bool(rewind.files.changes), kept_lines(rewind.files.kept, folder)
    changes = [f"  {_name(one, folder)}  {_effect(one)}" for one in rewind.files.changes]
    restored = _list_rows(_("Files to restore:"), changes)
    restored = restored or [_("Files: no saved file has changed since then.")]
    lines = [*restored, *kept, *_lost(rewind.lost)]
    body = [(line, "muted" if line.startswith(" ") else "") for line in lines]
    options = [
        Option("back_both", _("conversation and files"), "both") if files else None,
        Option("back_conversation", _("conversation"), "conversation"),
        Option("back_files", _("files"), "files") if files else None,
        Option("back_changes", _("show changes"), "changes") if files else None,
        Option("no", _("cancel"), "no"),
    ]
    return WayBackQuestion(
        _("What should go back to before this message?"),
        body,
        [one for one in options if one],
        one_line(rewind.point.input.typed),
    )


def kept_lines(kept: Sequence[str], folder: str) -> list[str]:
    """Return what going back leaves alone."""
    reasons = _("Stays as it is (changed since, made by something else, or too large for a copy):")
    return _list_rows(reasons, [f"  {render_line(seen_from(folder, path))}" for path in kept])


def _lost(lost: Sequence[Lost]) -> list[str]:
    """Return what is not restored with the files."""
    lines = []
    for one in lost:
        told = [effect_text(effect) for effect in one.effects]
        told += [_("{file} was not saved").format(file=render_line(name)) for name in one.files]
        reason = ", ".join(told) or _("may have changed other files")
        lines.append(f"  {render_line(one.command)} — {reason}")
    return _list_rows(_("Cannot be restored:"), lines)


def _list_rows(head: str, lines: Sequence[str]) -> list[str]:
    left = len(lines) - NAMED
    more = ["  " + plural("{count} more", "{count} more", left)] if left > 0 else []
    return [head, *lines[:NAMED], *more] if lines else []


def _name(change: FileDifference, folder: str) -> str:
    return render_line(seen_from(folder, change.path))


def _effect(change: FileDifference) -> str:
    """Return what restoring does to a file that has changed in this way."""
    if change.change == "created":
        return _("created since; will be removed")
    if change.change == "deleted":
        return _("deleted since; comes back")
    lines = change.lines
    if lines is None:
        return _("changed since")
    return _("changed since: {lines}").format(lines=f"+{lines[0]} -{lines[1]}")
