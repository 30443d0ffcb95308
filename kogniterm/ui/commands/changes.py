"""/diff and /undo: what the session changed in the workspace, and how to bring it back."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Text
from kogniterm.ui.choice import Option
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.context import ReplContext
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.execution.preimages import Difference

SHOWN_LINES = 200
NOTHING = "/dev/null"


def show_changes(context: ReplContext, argument: str) -> None:
    """/diff."""
    images = context.session.undo.images()
    found: dict[str, Difference] = {}
    # Oldest last: what a file was before the session first touched it wins.
    for image in images:
        for difference in context.session.undo.store.differences(image):
            found[difference.path] = difference
    if not found:
        raise UsageError("Nothing that was kept differs from what is there now.")
    _show(context, list(found.values()))


async def undo(context: ReplContext, argument: str) -> None:
    """/undo."""
    from kogniterm.approval.display import render_line

    image, differences = context.session.undo.latest()
    _show(context, differences)
    answer = await context.choose(
        _("Bring back how it was before this?"),
        [f"$ {render_line(image.what)}"],
        [Option("yes", _("bring it back"), "yes"), Option("no", _("leave it as it is"), "no")],
    )
    if answer != "yes":
        context.say(Text("Nothing was changed."))
        return
    paths = context.session.undo.restore(image)
    context.say(Text("Brought back: {paths}", {"paths": ", ".join(paths)}))


def unified(difference: Difference) -> str:
    """A difference as a unified diff, or as one line where there is no text to compare."""
    from kogniterm.approval.display import render_line

    path = render_line(difference.path)
    if difference.before is None and difference.after is None:
        words = {"deleted": _("deleted"), "created": _("created"), "modified": _("changed")}
        return f"{words.get(difference.change, difference.change)}: {path}"
    lines = difflib.unified_diff(
        (difference.before or "").splitlines(),
        (difference.after or "").splitlines(),
        fromfile=NOTHING if difference.change == "created" else path,
        tofile=NOTHING if difference.change == "deleted" else path,
        lineterm="",
    )
    return "\n".join(lines)


def _show(context: ReplContext, differences: Sequence[Difference]) -> None:
    from kogniterm.ui.diffs import diff

    folder = f"{context.session.folder.rstrip('/')}/"
    for difference in differences:
        near = replace(difference, path=difference.path.removeprefix(folder))
        context.write(diff(unified(near), limit=SHOWN_LINES))


CHANGES = (
    Command("diff", Text("show what this session changed in the workspace"), show_changes),
    Command("undo", Text("bring back what the last action changed"), undo, while_running=False),
)
