"""Commands as values: a result, the diagnosis of a quiet command, and jobs left running."""

from __future__ import annotations

from typing import Literal

from kogniterm.lazy_dataclasses import dataclass

Ended = Literal["exited", "signaled", "timeout", "stopped", "detached", "not_started"]


WaitKind = Literal["terminal", "password", "sleeping", "busy", "network", "stopped"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The diagnosis of a quiet command, from process state: what it waits for and since when."""

    kind: WaitKind
    seconds: float
    program: str
    evidence: str
    last_lines: str = ""


JobFate = Literal["ends", "detached", "kept", "sandbox"]


@dataclass(frozen=True, slots=True)
class Job:
    """A command left running in the background.

    `fate` is what becomes of it when KogniTerm ends: it `ends`, or stays because it was `detached`
    on purpose or `kept`; what runs in a `sandbox` ends with that.
    """

    id: str
    command: str
    state: Literal["running", "ended"]
    pids: tuple[int, ...]
    started: float
    exit_code: int | None = None
    output_path: str | None = None
    fate: JobFate = "ends"

    @property
    def fate_text(self) -> str:
        """Return its fate in words, for the model."""
        return {
            "ends": "ends with KogniTerm unless the jobs tool keeps it",
            "detached": "detached: stays when KogniTerm ends",
            "kept": "kept: stays when KogniTerm ends",
            "sandbox": "in the sandbox, so it ends with KogniTerm: what is to stay has to be "
            "started outside of the sandbox",
        }[self.fate]


@dataclass(frozen=True, slots=True)
class LeftRunning:
    """A program that commands left running, and whether it stayed when KogniTerm ended.

    It stays when `why` is `detached` or `kept`, and was ended otherwise: a plain `background` job,
    one of the `sandbox`, or because the user had `asked` for that. `pids` are its processes.
    `output_path` is where what it still writes to its terminal goes.
    """

    pids: tuple[int, ...]
    command: str
    why: Literal["detached", "kept", "background", "sandbox", "asked"]
    job: str
    output_path: str | None = None

    @property
    def stays(self) -> bool:
        """Return whether it keeps running."""
        return self.why in ("detached", "kept")

    @property
    def end_with(self) -> str | None:
        """Return the command that ends it; None when it was ended."""
        return f"kill {' '.join(map(str, self.pids))}" if self.stays else None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command.

    `exit_code` is None when the command was ended by its timeout, stopped, or detached; a
    command that died of signal n by itself has 128+n and `signal` set. `text` is what the model
    sees: rendered as a screen would show it, clipped to head and tail. `duration` in seconds.
    `not_outside` names what sandboxed commands changed in the shell and this one, outside, lacked.
    """

    command: str
    ended: Ended
    exit_code: int | None
    text: str
    duration: float
    cwd: str
    signal: str | None = None
    output_path: str | None = None
    output_bytes: int = 0
    omitted_bytes: int = 0
    jobs: tuple[Job, ...] = ()
    waiting: Waiting | None = None
    notes: tuple[str, ...] = ()
    not_outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Keystrokes:
    """Keys for a running command, sent once its output matches `wait_for`, then after `delay` s."""

    send: str
    wait_for: str | None = None
    delay: float = 0.0
