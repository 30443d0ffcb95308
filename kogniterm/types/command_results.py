"""Commands as values: results here and on hosts, jobs, and the diagnosis of a quiet command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kogniterm.types.localized import Phrase

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
            "sandbox": "ends with KogniTerm, because it is in the sandbox",
        }[self.fate]

    @property
    def ending_text(self) -> str:
        """Return how an ended job ended, for the model."""
        return "exit status unknown" if self.exit_code is None else f"exit {self.exit_code}"

    @property
    def short_command(self) -> str:
        """Return the beginning of its command, on one line; an ellipsis marks a cut."""
        line, broken, _ = self.command.partition("\n")
        return f"{line[:80]}…" if broken or len(line) > 80 else line


class LeftRunning(NamedTuple):
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


ENDINGS: Mapping[Ended, Phrase] = {
    "timeout": Phrase("timed out"),
    "stopped": Phrase("stopped"),
    "detached": Phrase("left running"),
    "not_started": Phrase("not started"),
}
"""The ends of commands without an exit status, in words."""


ALWAYS_SUCCEEDS = "always succeeds"
"""The end of the reason why an exit status, and the output too, prove nothing."""


@dataclass(frozen=True, slots=True)
class PipeStatus:
    """The exit status of one program in the last pipeline, by name where the text tells it.

    `cut`: it ended because what read its output had ended; `answers`: its 1 is no failure.
    """

    code: int
    program: str = ""
    cut: bool = False
    answers: bool = False

    @property
    def failed(self) -> bool:
        return bool(self.code) and not (self.cut or self.answers)

    @property
    def told(self) -> Phrase:
        """Return how it ended, in words."""
        values = {"program": self.program or Phrase("a program"), "code": self.code}
        if self.cut:
            return Phrase("{program} in the pipe: output cut", values)
        return Phrase("{program} in the pipe: exit {code}", values)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command.

    `exit_code` is None when the command was ended by its timeout, stopped, or detached; a
    command that died of signal n by itself has 128+n and `signal` set. `text` is what the model
    sees: rendered as a screen would show it, clipped to head and tail. `duration` in seconds.
    `not_outside` names what sandboxed commands changed in the shell and this one, outside, lacked.
    `readable_path` is a copy of all of it that commands in the sandbox may read, if there is one.
    `pipe` are the statuses of the last pipeline, `shell` the options and the names with `()` that
    change the meaning of the text, `masked` is why the exit status is no evidence of success.
    `jobs` are those that run, and those that ended since an earlier result or wait returned them.
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
    pipe: tuple[PipeStatus, ...] = ()
    shell: tuple[str, ...] = ()
    masked: str = ""
    readable_path: str | None = None

    @property
    def pipe_told(self) -> tuple[Phrase, ...]:
        """Return what its exit status does not tell of the programs in its last pipeline."""
        return tuple(one.told for one in self.pipe[:-1] if one.code)


@dataclass(frozen=True, slots=True)
class Keystrokes:
    """Keys for a running command, sent once its output matches `wait_for`, then after `delay` s."""

    send: str
    wait_for: str | None = None
    delay: float = 0.0


HostState = Literal["answered", "failed", "unreachable", "unknown", "running", "not_started"]
"""`answered` is exit code 0, `failed` another one or a command that the host could not run.

On an `unreachable` or `not_started` host nothing ran. On an `unknown` one the command may have run:
the connection was lost. On a `running` one it has not ended yet.
"""


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """The answer of one host.

    `output` holds standard output and standard error in their order, clipped, redacted and without
    escape sequences; `clipped` says that it is not whole. `reason` says why there is no exit code.
    `changes` is a unified diff of the request's files, before and after the command.
    """

    host: str
    state: HostState
    exit_code: int | None = None
    output: str = ""
    reason: Phrase | None = None
    seconds: float = 0.0
    clipped: bool = False
    changes: str = ""


class AnswerGroup(NamedTuple):
    """Hosts that gave the same answer. `diff` compares their output with the largest group's."""

    hosts: tuple[str, ...]
    state: HostState
    exit_code: int | None = None
    output: str = ""
    reason: Phrase | None = None
    diff: str = ""
    changes: str = ""
