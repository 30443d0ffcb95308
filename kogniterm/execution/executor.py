"""The executor: runs commands one at a time, carries the shell's state, keeps jobs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal

from kogniterm.errors import ExecutionError, why
from kogniterm.execution import carry, continuity, leave
from kogniterm.execution.command import RunningCommand
from kogniterm.execution.descriptors import Descriptors, Farewell
from kogniterm.execution.environment import SECRET_NAMES, UNATTENDED, base_environment, inherited
from kogniterm.execution.feed import LiveFeed
from kogniterm.execution.jobs import JobTable
from kogniterm.execution.keys import KeySequence, as_keystrokes
from kogniterm.execution.launcher import Launched, Launcher, Order, not_started, refusal
from kogniterm.execution.output import OutputKeeper, OutputLimits
from kogniterm.execution.private import PrivateFolder
from kogniterm.execution.processes import end_tree
from kogniterm.execution.results import command_result, exit_code
from kogniterm.execution.standby import CANNOT_START
from kogniterm.execution.terms import Company, Ending, RunLimits
from kogniterm.execution.wrapper import Wrapper
from kogniterm.paths import private_folder
from kogniterm.protocols import OutputSink, Terminal
from kogniterm.types import CommandResult, Job, Keystrokes

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


class CommandExecutor:
    """Runs commands in PTYs of their own; implements `protocols.Executor`.

    `cwd` is where the first command starts, `env` what commands inherit (this process's own
    environment by default), `secrets` the names never handed on. `outputs` is the folder for
    raw output; without it output is kept in a private folder until `close`. All durations are
    in seconds. Usable from any thread; one command runs at a time.
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
        shell: str = _SHELL,
    ) -> None:
        folder = Path(cwd).absolute()
        if not folder.is_dir():
            raise ExecutionError("Folder {path} does not exist.", path=str(folder))
        if not os.access(shell, os.X_OK):
            raise ExecutionError("{shell} is needed to run commands; install bash.", shell=shell)
        variables, self._other_env = base_environment(inherited() if env is None else env, secrets)
        self._shell = shell
        self._state = carry.first_state(variables, str(folder))
        self._overlay = dict(UNATTENDED)
        self._input_wait = input_wait
        self._limits = limits or OutputLimits()
        self.sandbox = sandbox
        self._private = PrivateFolder()
        self._descriptors = Descriptors()
        self._outputs = (outputs or self._private.path / "outputs") / _stamp()
        self._number = 1
        self._jobs = JobTable(self._limits, (ROWS, COLUMNS))
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._current: RunningCommand | None = None
        self._closed = False
        self._launcher = Launcher(self._private.path, self._private.held)
        self._launcher.start()

    # --- running --------------------------------------------------------------------------

    @property
    def cwd(self) -> str:
        """The folder the next command starts in."""
        return self._state.cwd

    @property
    def next_output(self) -> str:
        """The file that will hold the next command's raw output."""
        return str(self._outputs / f"{self._number:04}.log")

    @property
    def state_folder(self) -> str:
        """Where shells leave their state; a sandbox must leave it writable."""
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
        folder, notes = self._folder(cwd)
        overlay = {carry.encode(k): carry.exported(k, v) for k, v in self._extra(env, company)}
        order = self._order(command, number, folder, overlay, company)
        farewell = Farewell(self._private, self._descriptors, wrapped=order.wrapped)
        private_folder(self._outputs)
        keeper = OutputKeeper(path, self._limits, (ROWS, COLUMNS))
        with self._guard:  # an order given from its first moment on reaches the command
            launched = self._launcher.launch(order)
            self._current = running = _driven(launched, keeper, farewell)
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
            keeper.close()
            launched.let_go()
            farewell.forget()
        duration = time.monotonic() - running.started
        if ending.left_running:
            self._jobs.adopt(command, running, path, detached=ending.ended == "detached")
            self._launcher.adopt(running.leader, running.master, str(path), keeper.file_room)
        else:
            running.close()
        notes += running.notes + continuity.not_carried(command)
        if not self._carry(number, overlay, ending, notes, folder):
            notes += self._descriptors.lost()
        elif not (order.wrapped or farewell.taken):
            self._descriptors.close()  # the shell had none any more
        return command_result(
            command,
            ending,
            keeper,
            duration,
            cwd=self._state.cwd,
            jobs=self.jobs(),
            notes=notes,
            ours=self._private.traces(number),
        )

    @staticmethod
    def _refuse(launched: Launched, ending: Ending) -> None:
        """Raise ExecutionError when there was no shell at all."""
        if ending.status is not None and exit_code(ending.status) == CANNOT_START:
            refused = refusal(launched)
            if refused is not None:
                raise refused

    def _extra(self, env: Mapping[str, str], company: Company) -> Iterable[tuple[str, str]]:
        """Variables for one command alone."""
        inside = self.sandbox.variables(self._private.temporary) if self.sandbox is not None else {}
        return {**({} if company.at_once else self._overlay), **inside, **env}.items()

    def _folder(self, wanted: str | None) -> tuple[str, list[str]]:
        """The folder to start in: the nearest that exists, with a note when it is another."""
        folder = Path(self._state.cwd, wanted) if wanted else Path(self._state.cwd)
        if wanted and not folder.is_dir():
            raise ExecutionError("Folder {path} does not exist.", path=str(folder))
        found = folder
        while not found.is_dir() and found != found.parent:
            found = found.parent
        notes = [] if found == folder else [f"{folder} no longer exists; started in {found}."]
        return str(found), notes

    def _order(
        self,
        command: str,
        number: int,
        folder: str,
        overlay: Mapping[bytes, bytes],
        company: Company,
    ) -> Order:
        private, files = self._private, self._private.files(number)
        # A sandbox's own programs must not run with what a command has exported.
        variables = {**self._state.variables, **overlay}
        inherited = {} if self.sandbox is not None else carry.inheritable(variables)
        scripts = carry.enter_scripts(self._state, command, files, overlay, inherited)
        enter, restore, functions = scripts
        private.write("restore", number, restore)
        if functions:
            private.write("functions", number, functions)
        command = continuity.expand_last_background(command, self._state.background)
        argv = [self._shell, "--norc", "--noprofile", "-c", "--", command]
        if len(carry.encode(command)) > _LONGEST_ARGUMENT:
            argv[3:] = ["--", private.write("command", number, carry.encode(command))]
        environment = {
            **self._other_env,
            **{carry.decode(name): carry.decode(value) for name, value in inherited.items()},
            "BASH_ENV": private.write("enter", number, enter),
            "PWD": folder,
        }
        terminal = company.terminal
        rows, columns = (ROWS, COLUMNS) if terminal is None else terminal.size()
        plain = argv
        if self.sandbox is not None:
            argv = self.sandbox.wrap(
                plain,
                cwd=folder,
                shell_files=str(self._private.path),
                temporary=self._private.temporary,
                jobs_run=any(job.state == "running" for job in self.jobs()),
            )
        return Order(
            argv,
            environment,
            folder,
            rows=rows,
            columns=columns,
            newlines=company.at_once,
            descriptors=self._descriptors,
            wrapped=argv != plain,
        )

    def _carry(
        self,
        number: int,
        overlay: Mapping[bytes, bytes],
        ending: Ending,
        notes: list[str],
        folder: str,
    ) -> bool:
        """Take over what the command's shell left; without that, keep the last good state.

        Returns whether it left anything.
        """
        dump = self._private.left(number)
        state = None if dump is None else leave.read_dump(dump, self._state, overlay)
        if state is None:
            status = 0 if ending.status is None else exit_code(ending.status)
            self._state = carry.without_dump(self._state, status, folder)
            if ending.ended == "exited":
                notes.append(_NOT_LEFT if dump is None else _LEFT_IN_PART)
        else:
            if state.ended is not None:
                pid, code = state.ended
                (self._private.statuses / str(pid)).write_text(f"{code}\n")
            for key in state.overridden:
                self._overlay.pop(carry.decode(key), None)
            self._state = state
        if not ending.left_running:
            self._private.tidy(number)
        return state is not None

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
        """Let a job outlive this executor."""
        self._launcher.keep(self._jobs.keep(job_id))

    # --- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """End everything that still runs (but kept jobs) and release all descriptors."""
        self.stop()
        with self._turn:
            if self._closed:
                return
            self._closed = True
            self._launcher.close()
            self._descriptors.close()
            self._private.close(keep=self._jobs.close())

    def __enter__(self) -> CommandExecutor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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
