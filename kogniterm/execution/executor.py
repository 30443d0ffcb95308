"""The executor: runs commands, carries the shell's state, keeps jobs.

Commands run one at a time, except those for which the caller opens lanes (`side_by_side`).
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kogniterm.errors import ExecutionError, why
from kogniterm.execution.command_output import OutputKeeper, OutputLimits
from kogniterm.execution.process.background_jobs import BackgroundCommand, JobTable
from kogniterm.execution.process.command_input import KeySequence, as_keystrokes
from kogniterm.execution.process.descriptors import Descriptors
from kogniterm.execution.process.launcher import Launched, Launcher, Order, not_started, refusal
from kogniterm.execution.process.outliving import NOTHING
from kogniterm.execution.process.pty import CANNOT_START
from kogniterm.execution.process.running_command import (
    Ending,
    RunningCommand,
    RunOptions,
    command_result,
    exit_code,
)
from kogniterm.execution.shell import capture, emulation, restore
from kogniterm.execution.shell.shell_files import PrivateFolder, SealedFiles, ShellFiles
from kogniterm.execution.shell.shell_state import (
    SECRET_NAMES,
    UNATTENDED,
    Lineages,
    ShellState,
    Start,
    base_environment,
    changed_names,
    decode,
    encode,
    export_line,
    first_state,
    meaning,
    only_inside,
)
from kogniterm.host.processes import end_tree
from kogniterm.host.safe_files import umask
from kogniterm.protocols import OutputSink, Terminal
from kogniterm.storage.folders import private_folder
from kogniterm.types import (
    CommandResult,
    Job,
    Keystrokes,
    LeftRunning,
    PipeStatus,
    ShellChange,
)

if TYPE_CHECKING:  # a sandbox is made by the caller, or not at all
    from kogniterm.execution.sandbox.confinement import Sandbox

ROWS, COLUMNS = 40, 120
"""Window size of commands that run without the user's terminal."""
INPUT_WAIT = 30.0
"""Seconds an unattended command may wait for keys that nobody is going to send."""
_REACTION, _LINE = 5.0, 1.0
"""Most seconds to wait for the reaction of a job to what was typed, and to a line in its middle."""
_LONGEST_ARGUMENT = 120 << 10
"""A command longer than this goes through a file (the kernel's limit is 128 KB an argument)."""
_SHELL = "/bin/bash"
_OF_SESSION = "the processes of this session's commands, in their sandbox"
_ON_MACHINE = "this machine, without what only the owners of processes see"
_NAMES_EDITOR = re.compile(r"\b(?:VISUAL|EDITOR|core\.editor)=")
_STOP_AGAIN = 0.1
"""Seconds between orders to stop, while a command may be about to start."""
_NOT_LEFT = (
    "The shell was replaced (exec) or its exit trap taken: what this command changed in "
    "variables or folder is not carried over."
)
_LEFT_IN_PART = (
    "The shell could not write down its state (is the disk full?): what this command changed in "
    "variables or folder is not carried over."
)
_NOT_OUTSIDE = "Changed inside the sandbox only, so not for commands outside it: {names}."
_OUT_OF_REACH = (
    "In the sandbox a shell does not know the jobs of other commands ($!, %1, wait); jobs are read "
    "and stopped by their id."
)
_BESIDE = (
    "It ran beside other commands, so what it changed in the shell is not carried over: {names}."
)
_ONLY_FOLDER = "Of this command only the folder is carried over, not what else it set: {names}."
_APPLIED = "Set without a process, for commands in the sandbox."
_JOB_WITH_SECRET = (
    "What runs on in the background was given a secret: what it prints from now on is not kept."
)
_TOO_LARGE = (
    "The shell's state is incomplete or too large: what this command changed in variables or "
    "folder is not carried over."
)


class Lane:
    """One of several commands that run at once: its number, its output file and its sandbox.

    `run` is called once. `left` is the state that its shell left.
    """

    def __init__(
        self, executor: CommandExecutor, number: int, output: str, descriptors: Descriptors,
        alone: bool,
    ) -> None:  # fmt: skip
        self.executor, self.number, self.alone = executor, number, alone
        self.output, self.descriptors = output, descriptors
        self.sandbox: Sandbox | None = None
        self.keeps_state, self.fresh = True, False
        self.left: ShellState | None = None

    def run(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        sink: OutputSink | None = None,
        terminal: Terminal | None = None,
        on_wait: Literal["stop", "detach"] = "stop",
    ) -> CommandResult:
        """Run `command`; see `protocols.Executor.run`. One of several never becomes a job."""
        del on_wait
        return self.executor.run_in(self, command, env=env, timeout=timeout, sink=sink,
                                    terminal=terminal)  # fmt: skip


class CommandExecutor:
    """Runs commands in PTYs of their own; implements `protocols.Executor`.

    `cwd` is where the first command starts, `env` what commands inherit (this process's own
    environment by default), `secrets` the names never handed on. `outputs` is the folder for
    raw output; without it output is kept in a private folder until `close`. `sandbox` is what
    commands run in, and may be exchanged between them; `workspace` is where any of them lets
    commands write: the executor's own files are kept apart from it. `outlives` is what may run on
    when the executor ends: `kept` jobs alone, `detached` processes too, or `nothing`. All durations
    are in seconds. Usable from any thread; one command runs at a time, or those of open lanes.
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
        sandbox: Sandbox | None = None,
        workspace: str | os.PathLike[str] | None = None,
        shell: str = _SHELL,
        outlives: Literal["kept", "detached", "nothing"] = "kept",
    ) -> None:
        folder = Path(cwd).absolute()
        if not folder.is_dir():
            raise ExecutionError("Folder {path} does not exist.", path=str(folder))
        if not os.access(shell, os.X_OK):
            raise ExecutionError("Running commands requires {shell}; install bash.", shell=shell)
        variables, self._other_env = base_environment(env, secrets)
        self._shell = shell
        self._first = first_state(variables, str(folder), umask())
        self._lineages = Lineages.first(self._first)
        self.hidden: Mapping[bytes, bytes] = {}
        """Values that no output shows, with what stands in their place."""
        self.withheld: tuple[bytes, ...] = ()
        """Values of which no variable is carried over."""
        self._overlays = {wrapped: dict(UNATTENDED) for wrapped in (False, True)}
        self._input_wait = input_wait
        self._limits = limits or OutputLimits()
        self.sandbox = sandbox
        self.literal: tuple[str, Sequence[ShellChange]] | None = None
        """The next command, if it changes the shell of sandboxed ones without a process."""
        self.beside: Sandbox | None = None
        """A second sandbox that the next command runs in too, as it lists processes."""
        self._private = PrivateFolder(workspace)
        self._descriptors = Descriptors(
            self._private.asked, self._private.answers, str(self._private.path)
        )
        self._outputs = (
            outputs or self._private.path / "outputs"
        ) / f"{time.time_ns():x}-{os.getpid()}-{os.urandom(2).hex()}"
        self._number = 1
        self._jobs = JobTable(outlives, self._private.statuses)
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._running: list[RunningCommand] = []
        self._path = variables.get("PATH")
        self._lanes_open = False
        self._lanes_used = 0
        self._closed = False
        self._prepared: set[Sandbox] = set()
        self._outlives = outlives
        self.left: tuple[LeftRunning, ...] = ()
        """Processes that commands left running, and what `close` made of them."""
        self._launcher = Launcher(self._private.path, self._private.held, outlives)

    # --- running --------------------------------------------------------------------------

    @property
    def cwd(self) -> str:
        """Return the folder the next command starts in, as commands outside of a sandbox see it."""
        return self._lineages.folder()[0]

    @property
    def next_output(self) -> str:
        return str(self._outputs / f"{self._number:04}.log")

    @property
    def temporary_folder(self) -> str:
        """Return the folder that commands in a sandbox have for /tmp, in the executor's own."""
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
        secrets: Mapping[str, str] | None = None,
        keep_state: bool = True,
    ) -> CommandResult:
        """Run `command`; see `protocols.Executor.run`.

        With `terminal` the user is there: the terminal is handed over as soon as the program
        reads it or leaves line mode, or from the start with `interactive`. Ctrl-] gives it back
        and lets the command go on as a job.

        `env` holds for this command alone. A command that waits for input nobody is going to
        send is stopped after the executor's `input_wait`, or becomes a job at once with
        `on_wait="detach"`.

        Without `keep_state`, and in a sandbox that only reads, of what the command leaves in the
        shell only its folder and its exit status are carried over; it gets no open descriptors.
        So it is with `secrets`, variables for this command alone, which starts from the first
        shell's state.
        """
        _check_text(command)
        with self._turn:
            options = RunOptions(
                KeySequence(as_keystrokes(keystrokes)),
                timeout,
                None if terminal is not None else self._input_wait,
                on_wait == "detach",
                sink,
                terminal,
                interactive,
                secrets or {},
            )
            (text, changes), self.literal = self.literal or ("", ()), None
            beside, self.beside = self.beside, None
            if changes and text == command and self.sandbox is not None and not secrets:
                self._lane(self._descriptors, alone=True)
                left = restore.apply_changes(self._lineages.state(wrapped=True), changes)
                if left is None:
                    raise ExecutionError("The shell has changed since the command was checked.")
                notes = [_APPLIED]
                self._take_over(left, notes, wrapped=True)
                return CommandResult(
                    command,
                    "exited",
                    0,
                    "",
                    0.0,
                    self.cwd,
                    jobs=self._jobs.news(),
                    notes=tuple(notes),
                )
            box = self.sandbox
            keeps = keep_state and not secrets and not (box is not None and box.reads_only)
            descriptors = self._descriptors if keeps else self._descriptors.apart()
            lane = self._lane(descriptors, alone=True)
            lane.sandbox, lane.keeps_state, lane.fresh = box, keeps, bool(secrets)
            result = self._run(lane, command, cwd, env or {}, options)
            if beside is None or result.ended != "exited":
                return result
            return self._beside(result, beside, cwd, env or {}, options)

    def _beside(
        self,
        result: CommandResult,
        box: Sandbox,
        cwd: str | None,
        env: Mapping[str, str],
        options: RunOptions,
    ) -> CommandResult:
        """Run a command that lists processes in `box` too; return both, each with its label."""
        lane = self._lane(self._descriptors.apart(), alone=True)
        lane.sandbox, lane.keeps_state, lane.fresh = box, False, False
        other = None
        if options.sink is not None:
            options.sink.output(f"[{_ON_MACHINE}]\r\n".encode())
        with contextlib.suppress(ExecutionError):
            other = self._run(lane, result.command, cwd, env, options)
        if other is None or other.ended != "exited":
            return replace(result, text=f"[{_OF_SESSION}]\n{result.text}")
        parts = ((_OF_SESSION, result), (_ON_MACHINE, other))
        text = "\n".join(f"[{label}, exit {one.exit_code}]\n{one.text.rstrip()}"
                         for label, one in parts)  # fmt: skip
        code = min(result.exit_code or 0, other.exit_code or 0)  # found in one is found
        return replace(other, text=text, exit_code=code, duration=result.duration + other.duration)

    def can_apply(self, changes: Sequence[ShellChange]) -> bool:
        """Return whether `changes` to the shell of sandboxed commands need no process now."""
        return restore.apply_changes(self._lineages.state(wrapped=True), changes) is not None

    def prepare(self, sandbox: Sandbox | None = None) -> None:
        """Have a leader made for the next command, and the sandbox if it is new; return at once.

        What keeps them from being made is told by the command's own start.
        """
        view = None
        if sandbox not in self._prepared and sandbox is not None and sandbox.gives.namespaces:
            self._prepared.add(sandbox)
            view = self._view(sandbox, shared=True, ahead=True)
        with contextlib.suppress(ExecutionError):
            self._launcher.prepare(view)

    def _view(self, sandbox: Sandbox, **how: bool) -> dict[str, Any]:
        private = self._private
        return sandbox.view(shell_files=str(private.path), temporary=private.temporary, **how)

    @contextlib.contextmanager
    def side_by_side(self, count: int) -> Iterator[Sequence[Lane]]:
        """Open lanes for `count` commands that run at once; other commands wait until they end.

        Each starts from the state that the shell has now, and none may change it: only the exit
        status of the last lane is carried over. Raises ExecutionError when closed.
        """
        with self._turn:
            lanes = [self._lane(self._descriptors.apart(), alone=False) for _ in range(count)]
            self._lanes_open = True
            try:
                yield lanes
            finally:
                self._lanes_open = False
            if (left := lanes[-1].left) is not None:
                wrapped = lanes[-1].sandbox is not None
                self._lineages = self._lineages.with_status(left, wrapped=wrapped)

    @property
    def has_plain_shell(self) -> bool:
        """Return whether names mean programs, nothing runs in the background, and no file is open.

        Only then a command's text tells what it does, whatever ran before it.
        """
        states = [self._lineages.state(wrapped=wrapped) for wrapped in (False, True)]
        busy = self._descriptors.open or any(job.state == "running" for job in self.jobs())
        programs = {state.variables.get(b"PATH", b"") for state in states}
        usual = {b"" if self._path is None else export_line("PATH", self._path)}
        return not busy and programs == usual and all(state.is_plain for state in states)

    def run_in(
        self,
        lane: Lane,
        command: str,
        *,
        env: Mapping[str, str] | None,
        timeout: float | None,
        sink: OutputSink | None,
        terminal: Terminal | None,
    ) -> CommandResult:
        """Run `command` in a lane that is open."""
        _check_text(command)
        wait = None if terminal is not None else self._input_wait
        options = RunOptions(KeySequence(()), timeout, wait, sink=sink, terminal=terminal)
        with self._guard:
            if self._closed:
                raise ExecutionError("The executor is closed.")
            self._lanes_used += 1
        try:
            return self._run(lane, command, None, env or {}, options)
        finally:
            with self._guard:
                self._lanes_used -= 1

    def _state_for(self, lane: Lane) -> ShellState:
        """Return the state that the shell of a lane starts from.

        Where a secret is given, nothing that any command left may run.
        """
        if lane.fresh:
            return self._first
        return self._lineages.state(wrapped=lane.sandbox is not None)

    def _lane(self, descriptors: Descriptors, *, alone: bool) -> Lane:
        if self._closed:
            raise ExecutionError("The executor is closed.")
        lane = Lane(self, self._number, self.next_output, descriptors, alone)
        self._number += 1
        return lane

    def _run(
        self,
        lane: Lane,
        command: str,
        cwd: str | None,
        env: Mapping[str, str],
        options: RunOptions,
    ) -> CommandResult:
        path = Path(lane.output)
        start = self._lineages.start(cwd, wrapped=lane.sandbox is not None)
        with contextlib.closing(self._shell_files(lane, options)) as files:
            overlay = self._overlay(command, env, options, lane.sandbox)
            order = self._order(command, files, start, overlay, options, lane)
            private_folder(self._outputs)
            keeper = OutputKeeper(path, self._limits, (ROWS, COLUMNS), self.hidden)
            taken = lane.alone and lane.keeps_state
            lane.descriptors.begin(wrapped=start.wrapped or not taken)
            with self._guard:  # an order given from its first moment on reaches the command
                launched = self._launcher.launch(order)
                running = self._driven(launched, keeper, options, lane.descriptors)
                self._running.append(running)
            ending = self._drive(running, launched, lane.descriptors)
            duration = time.monotonic() - running.started
            jobs = any(job.state == "running" for job in self.jobs())
            if ending.left_running:
                # What is left running goes on as a job, with `room` bytes of output.
                room = 0 if options.secrets else keeper.file_room
                detached = ending.ended == "detached"
                with self._guard:
                    self._jobs.adopt(
                        command, running, path, wrapped=start.wrapped, detached=detached
                    )
                self._launcher.adopt(running.leader, running.master, str(path), room)
            else:
                running.close()
            notes = start.notes + running.notes + emulation.not_carried(command)
            if start.wrapped and jobs and emulation.mentions_processes(command):
                notes.append(_OUT_OF_REACH)
            if ending.left_running and options.secrets:
                notes.append(_JOB_WITH_SECRET)
            before = self._state_for(lane)
            ours = {encode(k): export_line(k, v) for k, v in options.secrets.items()}
            told = self.cwd
            missing = self._carry(lane, files, {**overlay, **ours}, ending, notes, start)
            now = self.cwd
            if now != told and self._lineages.elsewhere is None:
                notes.append(f"The shell is now in {now}.")
        result = command_result(
            command,
            ending,
            keeper,
            duration,
            cwd=now,
            jobs=self._jobs.news(),
            notes=notes,
            ours=files.traces(),
            not_outside=missing,
        )
        left = lane.left or before.without_dump(0, "")
        pipe = tuple(map(PipeStatus, left.pipe)) if len(left.pipe) > 1 else ()
        return replace(result, pipe=pipe, shell=meaning(before, left, command))

    def _carry(
        self,
        lane: Lane,
        files: ShellFiles,
        overlay: Mapping[bytes, bytes],
        ending: Ending,
        notes: list[str],
        start: Start,
    ) -> tuple[str, ...]:
        """Carry the state that a command left, the last one if it left none.

        Of one that runs beside others it is only kept in the lane. Returns what it lacked that
        sandboxed commands changed.
        """
        dump, before = files.read_left(), self._state_for(lane)
        found = None if dump is None else capture.read_dump(dump, before, overlay)
        left = found
        if left is None:
            status = 0 if ending.status is None else exit_code(ending.status)
            folder = start.inside or start.folder
            left = before.without_dump(status, folder if lane.alone else before.cwd)
            if ending.ended == "exited" and lane.alone:
                notes.append(
                    _NOT_LEFT if dump is None else _TOO_LARGE if start.wrapped else _LEFT_IN_PART
                )
        kept = left
        if not (lane.alone and lane.keeps_state):
            kept = self._lineages.state(wrapped=start.wrapped).with_folder_of(left)
            was = replace(before, cwd=left.cwd) if lane.alone else before
            told = _ONLY_FOLDER if lane.alone else _BESIDE
            if names := changed_names(was, left):
                notes.append(told.format(names=", ".join(names)))
        lane.left = left
        missing: tuple[str, ...] = ()
        if lane.alone:
            missing = self._take_over(
                kept.without_values(self.withheld), notes, wrapped=start.wrapped
            )
            if found is None:
                notes += lane.descriptors.take_lost()
            elif not (start.wrapped or lane.descriptors.taken):
                lane.descriptors.close()  # the shell had none any more
        if not ending.left_running:
            files.tidy()
        return missing

    def _driven(
        self,
        launched: Launched,
        keeper: OutputKeeper,
        options: RunOptions,
        descriptors: Descriptors,
    ) -> RunningCommand:
        """Return the driver of a launched command. Raises `ExecutionError` without descriptors."""
        try:
            return RunningCommand(launched, keeper, descriptors, options)
        except BaseException as error:
            launched.close()
            end_tree(launched.leader)
            keeper.close()
            if isinstance(error, OSError):
                raise not_started(why(error)) from error
            raise

    def _drive(
        self, running: RunningCommand, launched: Launched, descriptors: Descriptors
    ) -> Ending:
        """Serve a launched command until it has ended or is detached."""
        try:
            ending = running.run()
            if ending.status is not None and exit_code(ending.status) == CANNOT_START:
                refused = refusal(launched)
                if refused is not None:
                    raise refused  # there was no shell at all
        except BaseException:
            # An interrupt or a failing sink must not leave the command behind.
            end_tree(running.leader)
            running.close()
            raise
        finally:
            with self._guard:
                self._running.remove(running)
            running.keeper.close()
            launched.let_go()
            descriptors.end()
        return ending

    def _overlay(
        self,
        command: str,
        env: Mapping[str, str],
        options: RunOptions,
        sandbox: Sandbox | None,
    ) -> dict[bytes, bytes]:
        """Return declarations of variables for one command alone."""
        inside = sandbox.variables(self._private.temporary) if sandbox is not None else {}
        ours = {} if options.at_once else dict(self._overlays[sandbox is not None])
        if _NAMES_EDITOR.search(command):
            ours.pop("GIT_EDITOR", None)  # which would win over the one that the command names
        return {encode(k): export_line(k, v) for k, v in {**ours, **inside, **env}.items()}

    def _shell_files(self, lane: Lane, options: RunOptions) -> ShellFiles:
        """Return the files of a command's shell, memory for one with secrets.

        Raises ExecutionError.
        """
        if lane.sandbox is None and not options.secrets:
            return self._private.files(lane.number)
        if lane.sandbox is None:
            return SealedFiles(capture.capture_file(None))
        if lane.sandbox.may_write(str(self._private.path)):
            raise ExecutionError(
                "The sandbox cannot be used: it allows writes to {path}, "
                "which contains all folders for temporary files. Work in "
                "another folder, or set TMPDIR to a folder outside {path}.",
                path=str(self._private.path.parent),
            )
        return SealedFiles(capture.capture_file(None))

    def _order(
        self,
        command: str,
        files: ShellFiles,
        start: Start,
        overlay: Mapping[bytes, bytes],
        options: RunOptions,
        lane: Lane,
    ) -> Order:
        state = self._state_for(lane)
        # A sandbox's own programs must not run with what a command has exported.
        variables = {**state.variables, **overlay}
        inherited = {} if start.wrapped else restore.inheritable(variables)
        scripts = restore.enter_scripts(
            state, command, files.names, overlay, inherited, start.inside
        )
        enter, restoring, functions = scripts
        files.write("restore", restoring)
        if functions:
            files.write("functions", functions)
        command = emulation.expand_last_background(command, state.background)
        command = emulation.with_terminal(command)
        argv = [self._shell, "--norc", "--noprofile", "-c", "--", command]
        if len(encode(command)) > _LONGEST_ARGUMENT:
            argv[3:] = ["--", files.write("command", encode(command))]
        environment = {
            **self._other_env,
            **{decode(name): decode(value) for name, value in inherited.items()},
            "BASH_ENV": files.write("enter", enter),
            "PWD": start.folder,
            **options.secrets,
        }
        terminal, view = options.terminal, None
        if lane.sandbox is not None:
            beside = any(job.state == "running" for job in self.jobs())
            view = self._view(lane.sandbox, shared=not options.secrets, beside=beside)
        return Order(
            argv,
            environment,
            start.folder,
            size=(ROWS, COLUMNS) if terminal is None else terminal.size(),
            newlines=options.at_once,
            descriptors=lane.descriptors,
            real=start.real,
            view=view,
            handed=files.descriptors if isinstance(files, SealedFiles) else {},
        )

    def _take_over(self, left: ShellState, notes: list[str], *, wrapped: bool) -> tuple[str, ...]:
        """Let the next commands go on from `left`; returns what this one lacked of the sandbox."""
        for name in left.overridden:
            self._overlays[True].pop(decode(name), None)
            if not wrapped:
                self._overlays[False].pop(decode(name), None)
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
                f"{only_inside(elsewhere)}; commands that run outside start in {self.cwd}."
            )
        return ()

    # --- control from other threads -------------------------------------------------------

    def stop(self) -> None:
        """End the whole trees of the running commands, if any run."""
        with self._guard:
            for running in self._running:
                running.stop()

    def detach(self) -> bool:
        """Turn the running command into a job; its `run` returns with `ended="detached"`.

        Returns whether a command was running.
        """
        return self._tell(RunningCommand.detach)

    def take_over(self, terminal: Terminal) -> None:
        """Hand the running command over to the user at `terminal`, now."""
        self._tell(lambda running: running.take_over(terminal))

    def _tell(self, order: Callable[[RunningCommand], None]) -> bool:
        """Give an order to the running command, to the first of several."""
        with self._guard:
            if self._running:
                order(self._running[0])
            return bool(self._running)

    # --- jobs -----------------------------------------------------------------------------

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs of earlier commands, running or ended, oldest first."""
        return self._jobs.all()

    def read_job(self, job_id: str) -> str:
        """Return the output of a job, as a screen would show it, clipped like a result."""
        self._launcher.sync()
        return self._jobs.find(job_id).output(self._limits, (ROWS, COLUMNS))

    def wait_job(self, job_id: str, timeout: float | None = None, *, or_asks: bool = False) -> Job:
        job = self._jobs.find(job_id)
        if or_asks:
            job.settle(timeout or 0.0, self._launcher.sync)
        else:
            job.wait(timeout)
        known = self._sync_job(job)
        job.end_returned = known.state == "ended"
        return known

    def job_asks(self, job_id: str) -> Literal["", "terminal", "password"]:
        return self._jobs.find(job_id).running.asks()

    def send_keys(self, job_id: str, text: str) -> str:
        """Type `text` into a job, line by line, and return what it writes in reaction.

        A line break is Enter. A further line is typed only when the job reads again, as it may ask
        for a password next. Raises ExecutionError when it reads with echo off, or has ended.
        """
        job = self._jobs.find(job_id)
        self._launcher.sync()
        start, left_out = job.size(), ""
        lines = text.replace("\r\n", "\r").replace("\n", "\r").splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            if job.job().state == "ended":
                raise ExecutionError("Job {job} has ended, and takes no keys.", job=job_id)
            if job.running.hides_input():
                raise ExecutionError(
                    "Job {job} reads with echo off, as for a password; only the user may type "
                    "that. Stop it, or use a command that needs none.",
                    job=job_id,
                )
            job.running.send(encode(line))
            job.settle(_REACTION if number == len(lines) else _LINE, self._launcher.sync)
            if number < len(lines) and not job.running.asks():
                left_out = f"\n[it reads no input now; lines not typed: {len(lines) - number}]"
                break
        self._launcher.sync()
        return job.output(self._limits, (ROWS, COLUMNS), start) + left_out

    def stop_job(self, job_id: str) -> Job:
        """End a job's tree: TERM, KILL 200 ms later."""
        job = self._jobs.find(job_id)
        job.stop()
        return self._sync_job(job)

    def _sync_job(self, job: BackgroundCommand) -> Job:
        known = job.job()
        self._launcher.sync()  # its file is complete when this returns
        return known

    def keep_job(self, job_id: str) -> None:
        """Let a job outlive this executor.

        Raises ExecutionError for one that cannot.
        """
        if self._outlives == NOTHING:
            raise ExecutionError(
                "The job cannot be kept: all jobs end with KogniTerm (--end-jobs)."
            )
        self._launcher.keep(self._jobs.find(job_id).keep())

    # --- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """End what still runs and does not stay, and release all descriptors; see `left`."""
        with self._last_turn():
            with self._guard:
                if self._closed:
                    return
                self._closed = True
            jobs = self._jobs.by_leader()
            told, stays = self._launcher.end_jobs()
            self.left = self._jobs.find_left(told, jobs)
            self._jobs.close()
            self._descriptors.close()
            self._private.close(keep=stays)
            self._launcher.close(stays=stays)

    @contextlib.contextmanager
    def _last_turn(self) -> Iterator[None]:
        """Stop what runs and wait for its end; lanes that nothing uses any more are not waited for.

        The thread that opened them may be the one that closes the executor.
        """
        while True:
            self.stop()
            if self._turn.acquire(timeout=_STOP_AGAIN):
                try:
                    yield
                finally:
                    self._turn.release()
                return
            with self._guard:
                unused = self._lanes_open and not self._lanes_used
            if unused:
                yield
                return

    def __enter__(self) -> CommandExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_text(command: str) -> None:
    """Raise ExecutionError for text that cannot be a command."""
    if "\0" in command:
        raise ExecutionError("A command cannot contain a NUL character.")
    try:
        encode(command)
    except UnicodeEncodeError as error:
        raise ExecutionError("A command cannot contain an unpaired surrogate character.") from error
