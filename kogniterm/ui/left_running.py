"""What is said of programs that commands left running, when KogniTerm ends."""

from __future__ import annotations

from collections.abc import Sequence

from kogniterm.types import LeftRunning, Text
from kogniterm.ui.clean import one_line

LONGEST = 200
_ENDED = {
    "sandbox": Text("Ended: {command} (it ran in the sandbox, where nothing can stay)"),
    "asked": Text("Ended: {command} (--end-jobs)"),
    "background": Text("Ended: {command} (in the background, neither detached nor kept)"),
}


def left_texts(programs: Sequence[LeftRunning]) -> list[Text]:
    """A sentence for each program, those that stay first, and what to do about it."""
    return [_told(one) for one in sorted(programs, key=lambda one: not one.stays)]


def _told(one: LeftRunning) -> Text:
    command = one_line(one.command, LONGEST)
    if not one.stays:
        return Text(_ENDED[one.why].template, {"command": command})
    values = {
        "command": command,
        "pids": ", ".join(map(str, one.pids)),
        "kill": one.end_with,
        "path": one.output_path,
    }
    if one.output_path:
        return Text(
            "Runs on: {command} (process {pids}), output in {path}; end it with: {kill}", values
        )
    return Text("Runs on: {command} (process {pids}); end it with: {kill}", values)
