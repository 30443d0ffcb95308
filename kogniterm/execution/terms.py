"""What running a command is given, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from kogniterm.execution.feed import LiveFeed
from kogniterm.execution.keys import KeySequence
from kogniterm.execution.processes import ProcessState
from kogniterm.protocols import OutputSink, Terminal
from kogniterm.types import Ended, Waiting


@dataclass(slots=True)
class Ending:
    """How a command ended: `status` as waitpid gives it, None when it was not waited for."""

    ended: Ended
    status: int | None
    victims: tuple[ProcessState, ...] = ()
    waiting: Waiting | None = None
    left_running: bool = False


@dataclass(frozen=True, slots=True)
class RunLimits:
    """`timeout` for the whole command, `input_wait` for waiting for keys nobody sends; seconds.

    None means no limit. With `detach_on_wait` a command that waits for input becomes a job.
    """

    timeout: float | None = None
    input_wait: float | None = None
    detach_on_wait: bool = False


@dataclass(slots=True)
class Company:
    """Who is with a command: prepared keys, a watcher, a person's terminal.

    `at_once` hands the terminal over from the start; otherwise when the program needs a person.
    """

    keys: KeySequence
    feed: LiveFeed
    sink: OutputSink | None = None
    terminal: Terminal | None = None
    at_once: bool = False
