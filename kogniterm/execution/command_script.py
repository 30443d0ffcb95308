"""An executor that runs no command: it answers from a file, for demos, bug reports and tests.

docs/scripted.md describes the file. Every command takes the first entry, in file order, that is
not used up and that is for this command.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from kogniterm.errors import ExecutionError
from kogniterm.execution.command_output import OutputKeeper, OutputLimits
from kogniterm.execution.executor import COLUMNS, ROWS, CommandExecutor, Lane
from kogniterm.execution.process.running_command import Ending, RunOptions, command_result
from kogniterm.settings.yaml_parts import (
    Often,
    Pattern,
    Seconds,
    Text,
    YamlPart,
    read_values,
)
from kogniterm.storage.folders import private_folder
from kogniterm.types import CommandResult


class CommandAnswer(YamlPart):
    """One entry of `commands`: which commands it answers, and how they end."""

    command: Text | None = None
    matches: Pattern | None = None
    output: Text = ""
    exit: int = Field(default=0, ge=0, le=255)
    seconds: Seconds = 0.0
    folder: Text | None = None
    repeat: Often = None

    @model_validator(mode="after")
    def _one_way(self) -> CommandAnswer:
        if self.command is None and self.matches is None:
            raise ValueError("names no command; give command or matches.")
        if self.command is not None:
            self.refuse("does not go with command.", "matches")
        return self

    def is_for(self, command: str) -> bool:
        """Return whether it answers `command`, as a whole and without the space around it."""
        if self.matches is not None:
            return self.matches.fullmatch(command.strip()) is not None
        return (self.command or "").strip() == command.strip()


class CommandScript(YamlPart):
    """A whole file. `seconds` are waited for only when the file says `delays: true`."""

    commands: list[CommandAnswer] = Field(min_length=1)
    delays: bool = False

    _path: Path = PrivateAttr(default=Path("inline"))

    @property
    def path(self) -> Path:
        return self._path

    @classmethod
    def of_results(cls, path: Path, results: Iterable[CommandResult]) -> CommandScript:
        """Return the script that answers as the session recorded at `path` did.

        A command that ran several times gives its results in their order, the last one from then
        on. What ended without an exit status gets the one of a program that was stopped.
        """
        kept: dict[str, list[CommandAnswer]] = {}
        for result in results:
            if result.ended == "not_started":
                continue
            stopped = 128 + signal.SIGTERM
            answer = CommandAnswer.model_construct(
                command=result.command,
                output=result.text,
                exit=stopped if result.exit_code is None else result.exit_code,
                seconds=result.duration,
                folder=result.cwd if Path(result.cwd).is_dir() else None,
                repeat=1,
            )
            kept.setdefault(result.command, []).append(answer)
        commands = [
            one if one is not all_of[-1] else one.model_copy(update={"repeat": None})
            for all_of in kept.values()
            for one in all_of
        ]
        script = cls.model_construct(commands=commands, delays=False)
        script._path = path
        return script


def read_command_script(path: Path) -> CommandScript:
    """Return the script at `path`. Raises `UsageError` naming file, line and key."""
    script, _ = read_values(CommandScript, path)
    script._path = path
    return script


class AnsweringExecutor(CommandExecutor):
    """Answers each command from `script`, and starts none.

    Output is kept and clipped as that of a real command is. A command without an entry raises
    `ExecutionError`, which says so.
    """

    def __init__(self, script: CommandScript, cwd: str, *, outputs: Path) -> None:
        super().__init__(cwd, {}, outputs=outputs)
        self.script = script
        self._left = [answer.repeat for answer in script.commands]
        self._folder = cwd
        self._stopped = threading.Event()
        self._choosing = threading.Lock()
        self._at_work = 0

    @property
    def cwd(self) -> str:
        """Return the folder that the last entry with a folder led to."""
        return self._folder

    def prepare(self, sandbox: object = None) -> None:
        """Do nothing: no command is started."""

    def stop(self) -> None:
        """End the delay of the running command, if there is one."""
        self._stopped.set()

    def _run(
        self,
        lane: Lane,
        command: str,
        cwd: str | None,
        env: Mapping[str, str],
        options: RunOptions,
    ) -> CommandResult:
        del cwd, env  # nothing starts
        with self._choosing:
            answer = self._answer(command)
            if not self._at_work:
                self._stopped.clear()
            self._at_work += 1
        path = Path(lane.output)
        private_folder(path.parent)
        keeper = OutputKeeper(path, OutputLimits(), (ROWS, COLUMNS))
        began = time.monotonic()
        try:
            ended = self._play(answer, keeper, options)
        finally:
            keeper.close()
            with self._choosing:
                self._at_work -= 1
        if answer.folder is not None and lane.alone:
            self._folder = str(Path(self._folder) / answer.folder)
        status = answer.exit << 8 if ended == "exited" else None
        took = time.monotonic() - began if ended == "stopped" else answer.seconds
        if ended == "timeout" and options.timeout is not None:
            took = options.timeout
        return command_result(
            command,
            Ending(ended, status),
            keeper,
            took,
            cwd=self.cwd,
            jobs=(),
            notes=[],
            ours={},
        )

    def _answer(self, command: str) -> CommandAnswer:
        for number, answer in enumerate(self.script.commands):
            left = self._left[number]
            if left == 0 or not answer.is_for(command):
                continue
            if left is not None:
                self._left[number] = left - 1
            return answer
        raise ExecutionError(
            "The command script {path} has no entry for: {command}",
            path=self.script.path,
            command=command,
        )

    def _play(self, answer: CommandAnswer, keeper: OutputKeeper, options: RunOptions) -> Any:
        """Give out the output, over the entry's time where delays are kept; return how it ended."""
        text = answer.output.replace("\r\n", "\n").replace("\n", "\r\n")
        limit = options.timeout
        seconds = answer.seconds if limit is None else min(answer.seconds, limit)
        pieces = [text]
        if self.script.delays and seconds:
            pieces = text.splitlines(keepends=True) or [""]
        for piece in pieces:
            data = piece.encode("utf-8", "replace")
            keeper.add(data)
            if options.sink is not None and data:
                options.sink.output(data)
            if self.script.delays and self._stopped.wait(seconds / len(pieces)):
                return "stopped"
        return "timeout" if limit is not None and answer.seconds >= limit else "exited"
