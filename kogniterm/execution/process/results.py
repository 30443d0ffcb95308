"""What a command's end means for whoever asked: the `CommandResult`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from kogniterm.execution.process.running_command import Ending
from kogniterm.execution.screen.output_text import OutputKeeper
from kogniterm.types import CommandResult, Job


def exit_code(status: int) -> int:
    """A shell's view of a wait status: the code, or 128 plus the signal's number."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


def signal_name(status: int | None) -> str | None:
    """The name of the signal that ended a process; None when none did."""
    if status is None or not os.WIFSIGNALED(status):
        return None
    number = os.WTERMSIG(status)
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"  # real-time signals between the named ones


def command_result(
    command: str,
    ending: Ending,
    keeper: OutputKeeper,
    duration: float,
    *,
    cwd: str,
    jobs: tuple[Job, ...],
    notes: list[str],
    ours: Mapping[str, str],
    not_outside: tuple[str, ...] = (),
) -> CommandResult:
    """The result of `command`; `ours` what bash prints of us, and what is to be read instead."""
    rendered = keeper.render()
    text = rendered.text
    for printed, instead in ours.items():
        if printed in text:
            text = text.replace(printed, instead).rstrip("\n")
    notes = list(notes)
    if keeper.cut_file:
        notes.append("The output file does not hold all of the output.")
    if ending.victims:
        killed = ", ".join(f"{s.name} ({s.pid})" for s in ending.victims[:_MOST_NAMED])
        if len(ending.victims) > _MOST_NAMED:
            killed += f" and {len(ending.victims) - _MOST_NAMED} more"
        notes.append(f"Ended after {duration:.1f} s: {killed}.")
    if rendered.full_screen and ending.victims:
        # It was on when the command was ended; that the program then cleaned up says nothing.
        text = f"{rendered.full_screen}\n{text}" if text else rendered.full_screen
    elif rendered.full_screen:
        notes.append(f"The full screen last showed:\n{rendered.full_screen[-_FULL_SCREEN:]}")
    return CommandResult(
        command=command,
        ended=ending.ended,
        exit_code=None if ending.status is None else exit_code(ending.status),
        text=text,
        duration=duration,
        cwd=cwd,
        signal=signal_name(ending.status),
        output_path=keeper.path,
        output_bytes=keeper.total,
        omitted_bytes=rendered.omitted,
        jobs=tuple(job for job in jobs if job.state == "running"),
        waiting=ending.waiting,
        notes=tuple(notes),
        not_outside=not_outside,
    )


_MOST_NAMED = 20
_FULL_SCREEN = 4000
"""Characters of a full-screen program's last screen that are told."""
