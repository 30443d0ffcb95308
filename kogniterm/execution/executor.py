"""The executor: runs commands one at a time, carries the shell's state, keeps jobs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal

from kogniterm.errors import ExecutionError, why
from kogniterm.execution import carry, continuity, leave, remaining
from kogniterm.execution.carry import ShellState
from kogniterm.execution.command import RunningCommand
from kogniterm.execution.descriptors import Descriptors, Farewell
from kogniterm.execution.environment import SECRET_NAMES, UNATTENDED, base_environment, inherited
from kogniterm.execution.feed import LiveFeed
from kogniterm.execution.jobs import JobTable, fate_of
from kogniterm.execution.keys import KeySequence, as_keystrokes
from kogniterm.execution.launcher import Launched, Launcher, Order, not_started, refusal
from kogniterm.execution.lineages import Lineages, is_folder, shown
from kogniterm.execution.output import OutputKeeper, OutputLimits
from kogniterm.execution.private import PrivateFolder
from kogniterm.execution.processes import end_tree
from kogniterm.execution.results import command_result, exit_code
from kogniterm.execution.shell_files import SealedFiles, ShellFiles
from kogniterm.execution.standby import CANNOT_START
from kogniterm.execution.terms import Company, Ending, RunLimits
from kogniterm.execution.wrapper import Wrapper
from kogniterm.paths import private_folder
from kogniterm.protocols import OutputSink, Terminal
from kogniterm.types import CommandResult, Job, Keystrokes, LeftRunning

ROWS, COLUMNS = 40, 120
"""Window size of commands that run without a person's terminal."""
INPUT_WAIT = 30.0
"""Seconds an unattended command may wait for keys that nobody is going to send."""
_LONGEST_ARGUMENT = 120 << 10
"""A command longer than this goes through a file (the kernel's limit is 128 KB an argument)."""
_SHELL = "/bin/bash"
_NOT_LEFT = (
    "The shell was replaced (exec) or its exit trap taken: what this command changed in "
    "variables or folder is not carried over."
)
_LEFT_IN_PART = (
    "The shell could not write down its state (is the disk full?): what this command changed in "
    "variables or folder is not carried over."
)
_NOT_OUTSIDE = "Changed in the sandbox and not carried to commands that run outside it: {names}."
_OUT_OF_REACH = (
    "Processes of other commands cannot be reached from inside the sandbox; jobs are read and "
    "stopped by their id."
)
_TOO_LARGE = (
    "The shell's state is incomplete or too large: what this command changed in variables or "
    "folder is not carried over."
)


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a command starts: `folder`, and then `inside` if only its sandbox has that.

    `real` is what the folder must be without links, where that was looked at before.
    """

    wrapped: bool
    folder: str
    real: str | None = None
    inside: str | None = None
    notes: list[str] = field(default_factory=list)


class CommandExecutor:
    """Runs commands in PTYs of their own; implements `protocols.Executor`.

    `cwd` is where the first command starts, `env` what commands inherit (this process's own
    environment by default), `secrets` the names never handed on. `outputs` is the folder for
    raw output; without it output is kept in a private folder until `close`. `sandbox` is what
    commands run in, and may be exchanged between them; `workspace` is where any of them lets
    commands write: the executor's own files are kept apart from it. `outlives` is what may run on
    when the executor ends: `kept` jobs alone, `detached` processes too, or `nothing`. All durations
    are in seconds. Usable from any thread; one command runs at a time.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        *,
        outputs: Path | None = None,
        secrets: Iterable[str] = SECRET_NAMES,
        limits: OutputLimits | None = None,
        input_wait: float | None = INPUT_WAIT,
        sandbox: Wrapper | None = None,
        workspace: str | os.PathLike[str] | None = None,
        shell: str = _SHELL,
        outlives: Literal["kept", "detached", "nothing"] = "kept",
    ) -> None:
        folder = Path(cwd).absolute()
        if not folder.is_dir():
            raise ExecutionError("Folder {path} does not exist.", path=str(folder))
        if not os.access(shell, os.X_OK):
            raise ExecutionError("{shell} is needed to run commands; install bash.", shell=shell)
        variables, self._other_env = base_environment(inherited() if env is None else env, secrets)
        self._shell = shell
        self._lineages = Lineages.first(carry.first_state(variables, str(folder), _umask()))
        self._overlays = {wrapped: dict(UNATTENDED) for wrapped in (False, True)}
        self._input_wait = input_wait
        self._limits = limits or OutputLimits()
        self.sandbox = sandbox
        self._private = PrivateFolder(workspace)
        self._descriptors = Descriptors()
        self._outputs = (outputs or self._private.path / "outputs") / _stamp()
        self._number = 1
        self._jobs = JobTable(self._limits, (ROWS, COLUMNS))
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._current: RunningCommand | None = None
        self._closed = False
        self._outlives = outlives
        self.left: tuple[LeftRunning, ...] = ()
        """What commands left running, and what `close` made of it."""
        self._launcher = Launcher(self._private.path, self._private.held, outlives)
        try:
            self._launcher.start()
        except BaseException:
            self._private.close(keep=False)
            raise

    # --- running --------------------------------------------------------------------------

    @property
    def cwd(self) -> str:
        """The folder the next command starts in, as commands outside of a sandbox see it."""
        return self._lineages.folder()[0]

    @property
    def next_output(self) -> str:
        """The file that will hold the next command's raw output."""
        return str(self._outputs / f"{self._number:04}.log")

    @property
    def state_folder(self) -> str:
        """The executor's own folder, which no command in a sandbox can write."""
        return str(self._private.path)

    @property
    def temporary_folder(self) -> str:
        """The private folder that commands in a sandbox have for /tmp."""
        return self._private.temporary

    def run(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        keystrokes: Iterable[Keystrokes] = (),
        sink: OutputSink | None = None,
        terminal: Terminal | None = None,
        on_wait: Literal["stop", "detach"] = "stop",
        interactive: bool = False,
    ) -> CommandResult:
        """Run `command`; see `protocols.Executor.run`.

        With `terminal` a person is there: the terminal is handed over as soon as the program
        reads it or leaves line mode, or from the start with `interactive`. Ctrl-] gives it back
        and lets the command go on as a job.

        `env` holds for this command alone. A command that waits for input nobody is going to
        send is stopped after the executor's `input_wait`, or becomes a job at once with
        `on_wait="detach"`.
        """
        if "\0" in command:
            raise ExecutionError("A command cannot contain a NUL character.")
        try:
            carry.encode(command)
        except UnicodeEncodeError as error:
            raise ExecutionError("A command cannot contain half a character.") from error
        with self._turn:
            if self._closed:
                raise ExecutionError("The executor is closed.")
            limits = RunLimits(
                timeout,
                None if terminal is not None else self._input_wait,
                on_wait == "detach",
            )
            keys = KeySequence(as_keystrokes(keystrokes))
            company = Company(keys, LiveFeed(sink), sink, terminal, interactive)
            return self._run(command, cwd, env or {}, limits, company)

    def _run(
        self,
        command: str,
        cwd: str | None,
        env: Mapping[str, str],
        limits: RunLimits,
        company: Company,
    ) -> CommandResult:
        path, number = Path(self.next_output), self._number
        self._number += 1
        start = self._start(cwd)
        with contextlib.closing(self._shell_files(number)) as files:
            order = self._order(command, files, start, env, company)
            farewell = Farewell(self._private, self._descriptors, wrapped=start.wrapped)
            private_folder(self._outputs)
            keeper = OutputKeeper(path, self._limits, (ROWS, COLUMNS))
            with self._guard:  # an order given from its first moment on reaches the command
                launched = self._launcher.launch(order)
                self._current = running = _driven(launched, keeper, farewell)
            ending = self._drive(running, launched, limits, company, farewell)
            duration = time.monotonic() - running.started
            jobs = any(job.state == "running" for job in self.jobs())
            if ending.left_running:
                fate = fate_of(self._outlives, self._private.path, wrapped=start.wrapped)
                detached = ending.ended == "detached"
                self._jobs.adopt(command, running, path, fate, detached=detached)
                self._launcher.adopt(running.leader, running.master, str(path), keeper.file_room)
            else:
                running.close()
            notes = start.notes + running.notes + continuity.not_carried(command)
            if start.wrapped and jobs and continuity.mentions_processes(command):
                notes.append(_OUT_OF_REACH)
            left, missing = self._carry(files, order.overlay, ending, notes, start)
            if not left:
                notes += self._descriptors.lost()
            elif not (start.wrapped or farewell.taken):
                self._descriptors.close()  # the shell had none any more
        return command_result(
            command,
            ending,
            keeper,
            duration,
            cwd=self.cwd,
            jobs=self.jobs(),
            notes=notes,
            ours=files.traces(),
            not_outside=missing,
        )

    def _drive(
        self,
        running: RunningCommand,
        launched: Launched,
        limits: RunLimits,
        company: Company,
        farewell: Farewell,
    ) -> Ending:
        """Serve a launched command until it has ended or is detached."""
        try:
            ending = running.run(limits, company)
            self._refuse(launched, ending)
        except BaseException:
            # An interrupt or a failing sink must not leave the command behind.
            end_tree(running.leader)
            running.close()
            raise
        finally:
            with self._guard:
                self._current = None
            running.keeper.close()
            launched.let_go()
            farewell.forget()
        return ending

    @staticmethod
    def _refuse(launched: Launched, ending: Ending) -> None:
        """Raise ExecutionError when there was no shell at all."""
        if ending.status is not None and exit_code(ending.status) == CANNOT_START:
            refused = refusal(launched)
            if refused is not None:
                raise refused

    def _overlay(
        self, env: Mapping[str, str], company: Company, wrapped: bool
    ) -> dict[bytes, bytes]:
        """Declarations of variables for one command alone."""
        inside = self.sandbox.variables(self._private.temporary) if self.sandbox is not None else {}
        ours = {} if company.at_once else self._overlays[wrapped]
        return {carry.encode(k): carry.exported(k, v) for k, v in {**ours, **inside, **env}.items()}

    def _start(self, wanted: str | None) -> _Start:
        """Where the next command starts: the nearest folder that exists, with a note on another."""
        lineages, wrapped = self._lineages, self.sandbox is not None
        folder = lineages.outside.cwd
        if wanted:
            folder = str(Path(folder, wanted))
            if not is_folder(Path(folder)):
                raise ExecutionError("Folder {path} does not exist.", path=folder)
            return _Start(wrapped, folder)
        found, real = lineages.folder()
        if lineages.elsewhere is not None and wrapped:
            return _Start(wrapped, found, real, lineages.elsewhere)
        notes = []
        if lineages.elsewhere is not None:
            notes.append(f"{_only_inside(lineages.elsewhere)}; started in {shown(found)}.")
        elif found != folder:
            gone = "is another folder now" if is_folder(Path(folder)) else "no longer exists"
            notes.append(f"{shown(folder)} {gone}; started in {shown(found)}.")
        return _Start(wrapped, found, real, None, notes)

    def _shell_files(self, number: int) -> ShellFiles:
        """What the shell of command `number` reads and leaves. Raises ExecutionError."""
        if self.sandbox is None:
            return self._private.files(number)
        if self.sandbox.may_write(str(self._private.path)):
            raise ExecutionError(
                "The sandbox cannot be used: it may write to {path}, where every folder for "
                "temporary files is. Work in another folder, or set TMPDIR to one outside of it.",
                path=str(self._private.path.parent),
            )
        return SealedFiles(leave.SANDBOXED)

    def _order(
        self,
        command: str,
        files: ShellFiles,
        start: _Start,
        env: Mapping[str, str],
        company: Company,
    ) -> Order:
        state = self._lineages.state(wrapped=start.wrapped)
        overlay = self._overlay(env, company, start.wrapped)
        # A sandbox's own programs must not run with what a command has exported.
        variables = {**state.variables, **overlay}
        inherited = {} if start.wrapped else carry.inheritable(variables)
        scripts = carry.enter_scripts(state, command, files.names, overlay, inherited, start.inside)
        enter, restore, functions = scripts
        files.write("restore", restore)
        if functions:
            files.write("functions", functions)
        command = continuity.expand_last_background(command, state.background)
        argv = [self._shell, "--norc", "--noprofile", "-c", "--", command]
        if len(carry.encode(command)) > _LONGEST_ARGUMENT:
            argv[3:] = ["--", files.write("command", carry.encode(command))]
        environment = {
            **self._other_env,
            **{carry.decode(name): carry.decode(value) for name, value in inherited.items()},
            "BASH_ENV": files.write("enter", enter),
            "PWD": start.folder,
        }
        terminal = company.terminal
        rows, columns = (ROWS, COLUMNS) if terminal is None else terminal.size()
        if self.sandbox is not None:
            argv = self.sandbox.wrap(
                argv,
                cwd=start.folder,
                shell_files=str(self._private.path),
                temporary=self._private.temporary,
                jobs_run=any(job.state == "running" for job in self.jobs()),
            )
        return Order(
            argv,
            environment,
            start.folder,
            rows=rows,
            columns=columns,
            newlines=company.at_once,
            descriptors=self._descriptors,
            overlay=overlay,
            real=start.real,
            handed=files.descriptors if isinstance(files, SealedFiles) else None,
        )

    def _carry(
        self,
        files: ShellFiles,
        overlay: Mapping[bytes, bytes],
        ending: Ending,
        notes: list[str],
        start: _Start,
    ) -> tuple[bool, tuple[str, ...]]:
        """Take over what the command's shell left; without that, keep the last good state.

        Returns whether it left anything, and what it lacked that sandboxed commands changed.
        """
        dump = files.left()
        before = self._lineages.state(wrapped=start.wrapped)
        state = None if dump is None else leave.read_dump(dump, before, overlay)
        if state is None:
            status = 0 if ending.status is None else exit_code(ending.status)
            left = carry.without_dump(before, status, start.inside or start.folder)
            if ending.ended == "exited":
                notes.append(
                    _NOT_LEFT if dump is None else _TOO_LARGE if start.wrapped else _LEFT_IN_PART
                )
        else:
            left = state
        missing = self._take_over(left, notes, wrapped=start.wrapped)
        if not ending.left_running:
            files.tidy()
        return state is not None, missing

    def _take_over(
        self,
        left: ShellState,
        notes: list[str],
        *,
        wrapped: bool,
    ) -> tuple[str, ...]:
        """Let the next commands go on from `left`; returns what this one lacked of the sandbox."""
        for name in left.overridden:
            self._overlays[True].pop(carry.decode(name), None)
            if not wrapped:
                self._overlays[False].pop(carry.decode(name), None)
        if not wrapped:
            if left.ended is not None:
                pid, code = left.ended
                (self._private.statuses / str(pid)).write_text(f"{code}\n")
            missing = self._lineages.missing_outside(left)
            if missing:
                notes.append(_NOT_OUTSIDE.format(names=", ".join(missing)))
            self._lineages = self._lineages.after_outside(left)
            return missing
        if left.held:
            notes.append("Descriptors opened with exec are not carried over from a sandbox.")
        before = self._lineages.elsewhere
        self._lineages = self._lineages.after_inside(left)
        elsewhere = self._lineages.elsewhere
        if elsewhere is not None and elsewhere != before:
            notes.append(
                f"{_only_inside(elsewhere)}; commands that run outside start in {self.cwd}."
            )
        return ()

    # --- control from other threads -------------------------------------------------------

    def stop(self) -> None:
        """End the running command's whole tree, if one runs."""
        self._tell(RunningCommand.stop)

    def detach(self) -> None:
        """Turn the running command into a job; its `run` returns with `ended="detached"`."""
        self._tell(RunningCommand.detach)

    def take_over(self, terminal: Terminal) -> None:
        """Hand the running command over to the person at `terminal`, now."""
        self._tell(lambda running: running.take_over(terminal))

    def type_keys(self, text: str) -> None:
        """Type `text` into the running command."""
        self._tell(lambda running: running.send(carry.encode(text)))

    def _tell(self, order: Callable[[RunningCommand], None]) -> None:
        with self._guard:
            if self._current is not None:
                order(self._current)

    # --- jobs -----------------------------------------------------------------------------

    def jobs(self) -> tuple[Job, ...]:
        """What earlier commands left running, and what has ended since, oldest first."""
        return self._jobs.all()

    def read_job(self, job_id: str) -> str:
        """What a job has written, as a screen would show it, clipped like a result."""
        self._launcher.sync()
        return self._jobs.read(job_id)

    def wait_job(self, job_id: str, timeout: float | None = None) -> Job:
        """Wait until a job has ended, at most `timeout` seconds; returns what it is then."""
        job = self._jobs.wait(job_id, timeout)
        self._launcher.sync()  # its file is complete when this returns
        return job

    def stop_job(self, job_id: str) -> Job:
        """End a job's tree: TERM, KILL 200 ms later."""
        job = self._jobs.stop(job_id)
        self._launcher.sync()
        return job

    def send_keys(self, job_id: str, text: str) -> None:
        """Type `text` into a job."""
        self._jobs.send(job_id, carry.encode(text))

    def keep_job(self, job_id: str) -> None:
        """Let a job outlive this executor.

        Raises ExecutionError for one that cannot.
        """
        if self._outlives == remaining.NOTHING:
            raise ExecutionError("Everything ends with KogniTerm, as --end-jobs says.")
        self._launcher.keep(self._jobs.keep(job_id))

    # --- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """End what still runs and does not stay, and release all descriptors; see `left`."""
        self.stop()
        with self._turn:
            if self._closed:
                return
            self._closed = True
            jobs = self._jobs.by_leader()
            told, stays = self._launcher.end_jobs()
            self.left = self._jobs.left(told, jobs)
            self._jobs.close()
            self._descriptors.close()
            self._private.close(keep=stays)
            self._launcher.close(stays=stays)

    def __enter__(self) -> CommandExecutor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _umask() -> bytes:
    """The umask of this process, as bash prints it; nothing when the kernel does not tell."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_bytes().splitlines():
            if line.startswith(b"Umask:"):
                return line.split()[1]
    return b""


def _only_inside(folder: str) -> str:
    return f"{shown(folder)} does not exist outside the sandbox"


def _stamp() -> str:
    """A folder name of its own for each executor, sortable by time."""
    return f"{time.time_ns():x}-{os.getpid()}-{os.urandom(2).hex()}"


def _driven(launched: Launched, keeper: OutputKeeper, farewell: Farewell) -> RunningCommand:
    """What drives a launched command. Raises `ExecutionError` when nothing more may be opened."""
    try:
        return RunningCommand(launched, keeper, farewell)
    except OSError as error:
        launched.close()
        end_tree(launched.leader)
        keeper.close()
        raise not_started(why(error)) from error
