"""Starts the real program many times with one import: modules are loaded once, then forked.

`Forge` runs this file as a server of its own. For each start it forks a child that becomes
`kogniterm WORDS` with an environment, a folder, input and output files of its own, in a process
group of its own, and reports its number and, at the end, its exit status (-N for a signal). The
child runs the same `main` as the console script; only the time for imports is saved. On a terminal
it leads a session of its own and the terminal is its controlling one. It does not outlive the test
process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

STARTED = "tests.started"
"""Audit event of a start that the test process asks another process for, with its command line."""
PRELOADED = (
    "kogniterm.__main__",
    "kogniterm.cli.main",
    "kogniterm.cli.run",
    "kogniterm.cli.json_output",
    "kogniterm.cli.text_output",
    "kogniterm.cli.user_screen",
    "kogniterm.cli.verbs.config",
    "kogniterm.cli.verbs.doctor",
    "kogniterm.cli.verbs.sessions",
    "kogniterm.settings.schema",
    "kogniterm.runtime.assembly",
    "kogniterm.runtime.build",
    "kogniterm.agent.graph",
    "kogniterm.models.scripted_model",
    "kogniterm.models.model_registry",
    "kogniterm.sessions.session_database",
    "kogniterm.cli.open_prompt",
    "kogniterm.ui.repl",
    "kogniterm.ui.prompt.terminal_front",
    "kogniterm.ui.prompt.plain_front",
    "kogniterm.ui.screen.renderer",
    "kogniterm.ui.questions.approval",
    "kogniterm.logs",
    "kogniterm.models.providers.provider_model",
    "langchain_core.messages",
    "tree_sitter",
    "tree_sitter_bash",
    "yaml",
)


@dataclass
class Started:
    """A running program; `out` and `err` are the files of its output."""

    pid: int
    out: Path
    err: Path
    forge: Forge

    def wait(self) -> int:
        """Return its exit status once it has ended; -N when signal N ended it."""
        return self.forge.wait()

    def send(self, number: int) -> None:
        """Send it a signal; do nothing when it has just ended."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    @property
    def gone(self) -> bool:
        """True when it has ended; `wait` still has to be called."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return True
        return state.rpartition(")")[2].split()[0] == "Z"

    @property
    def said(self) -> str:
        return self.out.read_text() + self.err.read_text()


class Forge:
    """A server that runs one program at a time."""

    def __init__(self) -> None:
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        self._count = 0
        self._running: Started | None = None
        self.answer()  # wait until it is ready

    def start(
        self,
        words: Sequence[str | bytes],
        *,
        environ: Mapping[str, str],
        folder: Path,
        scratch: Path,
        stdin: Path = Path(os.devnull),
        out: Path | None = None,
        file_size: int | None = None,
    ) -> Started:
        """Start `kogniterm WORDS`; its output goes to files in `scratch`, or to the one given.

        No file that it writes can grow beyond `file_size` bytes.
        """
        self._count += 1
        kept, err = (scratch / f"{kind}-{self._count}" for kind in ("out", "err"))
        files = {"stdin": stdin, "out": out or kept, "err": err}
        return self._begin(words, environ, folder, files, file_size=file_size)

    def start_on(
        self,
        terminal: Path,
        words: Sequence[str],
        *,
        environ: Mapping[str, str],
        folder: Path,
        stdin: Path | None = None,
        out: Path | None = None,
    ) -> Started:
        """Start `kogniterm WORDS` on a terminal; when this returns, it holds the terminal open.

        Another file can be its input or its output.
        """
        files = {"stdin": stdin or terminal, "out": out or terminal, "err": terminal}
        return self._begin(words, environ, folder, files | {"terminal": terminal})

    def _begin(
        self,
        words: Sequence[str | bytes],
        environ: Mapping[str, str],
        folder: Path,
        files: Mapping[str, Path],
        *,
        file_size: int | None = None,
    ) -> Started:
        assert self._running is None, "the program before this one was not waited for"
        order = {"words": [os.fsdecode(word) for word in words], "environ": dict(environ)}
        paths = {name: str(path) for name, path in files.items()}
        sys.audit(STARTED, " ".join(order["words"]))
        self._tell(order | paths | {"folder": str(folder), "file_size": file_size})
        self._running = Started(int(self.answer()["pid"]), files["out"], files["err"], self)
        return self._running

    def wait(self) -> int:
        """Return the exit status of the running program, once it has ended."""
        status = int(self.answer()["status"])
        self._running = None
        return status

    def settle(self) -> None:
        """End programs that a failed test left running, so that the next test is not affected."""
        if self._running is not None:
            self._running.send(signal.SIGKILL)
            self.wait()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return dict(json.loads(self._process.stdout.readline()))

    def _tell(self, order: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _serve() -> None:
    import importlib

    for module in PRELOADED:
        importlib.import_module(module)
    _say({"ready": True})
    for line in sys.stdin:
        order = json.loads(line)
        streams = _streams(order)
        child = os.fork()
        if child == 0:
            _become(order, streams)
        for stream in {*streams}:
            os.close(stream)
        _say({"pid": child})
        _guard(child)
        _, status = os.waitpid(child, 0)
        _say({"status": os.waitstatus_to_exitcode(status)})


def _guard(child: int) -> None:
    """Return when `child` has ended; when the test process ends first, so does `child`."""
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([ended, sys.stdin], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    os.close(ended)


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _streams(order: dict[str, Any]) -> tuple[int, int, int]:
    """Open standard input, output and error, so that the caller may read the files at once."""
    writing = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    opened: dict[str, int] = {}
    if "terminal" in order:
        opened[order["terminal"]] = os.open(order["terminal"], os.O_RDWR | os.O_NOCTTY)
    for name, flags in (("stdin", os.O_RDONLY), ("out", writing), ("err", writing)):
        if order[name] not in opened:
            opened[order[name]] = os.open(order[name], flags, 0o644)
    return opened[order["stdin"]], opened[order["out"]], opened[order["err"]]


def _become(order: dict[str, Any], streams: tuple[int, int, int]) -> NoReturn:
    """Run the program in the forked child, as if it had been started from a shell."""
    status = 70
    try:
        if "terminal" in order:
            os.setsid()
            fcntl.ioctl(streams[2], termios.TIOCSCTTY, 0)
        else:
            os.setpgid(0, 0)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        for stream in {*streams}:
            os.close(stream)
        if order["file_size"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_size"],) * 2)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False, buffering=1)
        sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1)
        os.environ.clear()
        os.environ.update(order["environ"])
        os.chdir(order["folder"])
        sys.argv = ["kogniterm", *order["words"]]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from kogniterm.__main__ import main

        status = main()
    finally:
        with contextlib.suppress(OSError):  # a terminal that is gone
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def until(holds: Callable[[], bool]) -> None:
    """Wait for a change that another process makes, by polling: there is no event for it."""
    deadline = time.monotonic() + 120  # a guard against hanging, not a measure
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("what was waited for did not happen")
        time.sleep(0.005)


if __name__ == "__main__":
    _serve()
