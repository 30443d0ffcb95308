"""Descriptors that a shell opened with `exec` or `coproc`, carried to the next command's shell.

A shell that is about to end while it has any waits a moment; they are taken from it by
pidfd_getfd(2) and given to the next shell under the same numbers, so that files keep their
positions and pipes their other ends. One that is the terminal becomes the next terminal. What
`exec` made of standard input, output and error ends with the command: the next one is heard.
"""

from __future__ import annotations

import contextlib
import os

from kogniterm.execution.process.pty import MOST_FDS
from kogniterm.execution.process.wait_diagnosis import terminal_device
from kogniterm.host.kernel_calls import closing_descriptor, duplicate
from kogniterm.host.processes import (
    closes_on_execution,
    descriptor_device,
    descriptor_name,
    descriptors_of,
    process_state,
)

_OWN_FROM, _OWN_TO = 10, 32
"""Numbers at which bash saves what a redirection replaces; a coprocess's pipes are above."""
_LAST_STANDARD = 2
_LONGEST_QUESTION = 4096


class Descriptors:
    """The descriptors open beside the terminal: number to descriptor, None for the terminal.

    A shell that is about to end asks for it to be taken over: `asked` becomes readable then, and
    it waits at the other end of `answers`. Files in the folder `own` are those of the executor.
    """

    def __init__(self, asked: int, answers: int, own: str) -> None:
        self.open: dict[int, int | None] = {}
        self.asked = asked
        self.taken = False
        """True when the shell of this command has asked and been answered."""
        self._answers = answers
        self._own = own
        self._wrapped = False
        self._given: tuple[int, ...] = ()

    def begin(self, *, wrapped: bool) -> None:
        """Wait for the question of the next command's shell.

        With `wrapped` nothing is taken from it. One in a sandbox, where what it may write to was
        allowed to it alone, does not ask, either.
        """
        self._wrapped, self.taken = wrapped, False

    def apart(self) -> Descriptors:
        """Return the descriptors of a command that runs beside others: none, and none are taken."""
        return Descriptors(self.asked, self._answers, self._own)

    def answer(self, leader: int, master: int) -> list[str]:
        """Take over and let the shell go on; returns notes for the result.

        A shell of an earlier command, a job by now, is not answered: it goes on by itself.
        """
        try:
            lines = os.read(self.asked, _LONGEST_QUESTION).split()
        except BlockingIOError:
            return []
        notes: list[str] = []
        for pid in (int(line) for line in lines if line.isdigit()):
            state = process_state(pid)
            if state is not None and state.parent == leader:
                notes = [] if self._wrapped else self._take(pid, master)
                self.taken = True
        if self.taken:
            os.write(self._answers, b"\n")
        return notes

    def end(self) -> None:
        """Throw away questions and answers of a command that has ended."""
        for fd in (self.asked, self._answers):
            with contextlib.suppress(BlockingIOError):
                os.read(fd, _LONGEST_QUESTION)

    def _take(self, pid: int, master: int) -> list[str]:
        """Take over what the shell `pid` has open; returns notes for the result.

        It has files of the executor open while it asks and waits, under any number that was free.
        """
        found, moved = _look(pid, terminal_device(master), self._own)
        taken: dict[int, int | None] = {}
        refused: list[int] = []
        with contextlib.suppress(OSError), closing_descriptor(os.pidfd_open(pid)) as shell:
            for number, is_terminal in found.items():
                try:
                    taken[number] = None if is_terminal else duplicate(shell, number)
                except OSError:
                    refused.append(number)
        self.close()
        self.open = taken
        notes = []
        if moved:
            where = ", ".join("a pipe" if name.startswith("pipe:") else name for name in moved)
            notes.append(
                f"exec pointed the shell's own input or output to {where} for this command only; "
                "later commands have the terminal again (redirect them one by one)."
            )
        if refused:
            numbers = ", ".join(map(str, refused))
            notes.append(f"Descriptors opened with exec are not carried over here: {numbers}.")
        return notes

    def hand_over(self) -> None:
        """Close them here, so that what the shell closes is closed and its locks are released."""
        numbers = tuple(self.open)
        self.close()
        self._given = numbers

    def take_lost(self) -> list[str]:
        """Return a note if the shell that had them did not give them back."""
        numbers, self._given = self._given, ()
        if not numbers:
            return []
        listed = ", ".join(map(str, numbers))
        return [f"Descriptors opened with exec by earlier commands are closed now: {listed}."]

    def close(self) -> None:
        """Close what is held here; nothing is open any more."""
        self._given = ()
        for fd in self.open.values():
            if fd is not None:
                os.close(fd)
        self.open = {}


def _look(pid: int, terminal: int, own: str) -> tuple[dict[int, bool], list[str]]:
    """Return the numbers to carry, each with whether it is the terminal, and redirected streams.

    Files in the folder `own` are left out. The shell is still opening the one that it waits at.
    """
    found: dict[int, bool] = {}
    moved: list[str] = []
    for number in descriptors_of(pid):
        with contextlib.suppress(OSError):
            target = descriptor_name(pid, number)
            if target.startswith(f"{own}/"):
                continue
            is_terminal = descriptor_device(pid, number) in (terminal, os.makedev(5, 0))
            bashs_own = number > _LAST_STANDARD and closes_on_execution(pid, number)
            if number == 0 or (bashs_own and _OWN_FROM <= number < _OWN_TO):
                if not is_terminal:
                    moved.append(target)
            elif number > _LAST_STANDARD and (not bashs_own or target.startswith("pipe:")):
                found[number] = is_terminal
    return dict(list(found.items())[:MOST_FDS]), list(dict.fromkeys(moved))
