"""Owns the worker process that holds the weights: starts it lazily, asks it, stops it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from kogniterm.errors import (
    ContextOverflowError,
    ModelError,
    ModelReplyError,
    ModelUnavailableError,
    why,
)
from kogniterm.host.installation import install_command

WORKER = Path(__file__).with_name("worker.py")

Chat = Sequence[tuple[str, str]]
"""(role, text) pairs, oldest first."""

_START, _END = "<|im_start|>", "<|im_end|>"

Inbox = Callable[[Mapping[str, Any]], None]
_GONE: Mapping[str, Any] = {"gone": True}


def chat_text(chat: Chat) -> str:
    """Return `chat` in ChatML, the form the Qwen models know, open for the assistant's turn.

    The markers are taken out of the texts: what a file says must not become a turn.
    """
    turns = []
    for role, text in chat:
        safe = text.replace(_START, "").replace(_END, "")
        turns.append(f"{_START}{role}\n{safe}{_END}\n")
    return "".join(turns) + f"{_START}assistant\n"


class LocalPrompt(NamedTuple):
    """One completion: at most `max_tokens`, ended by `stop`, formed by a grammar or a schema."""

    text: str
    max_tokens: int
    stop: tuple[str, ...] = ()
    grammar: str | None = None
    schema: Mapping[str, Any] | None = None


class FinishedReply(NamedTuple):
    """The end of a completion: `cut` when it ran into `max_tokens`; the rest counts tokens."""

    cut: bool
    input: int
    output: int
    cached: int


def usable_threads(system: Path = Path("/sys")) -> int:
    """Return the physical cores this process may use, less one, and at least one.

    Counts one of each set of hyper-thread siblings and honours the control group's quota.
    """
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = system / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        try:
            cores.add(siblings.read_text(encoding="ascii").strip())
        except OSError:
            cores.add(str(cpu))
    count = len(cores)
    with contextlib.suppress(OSError, ValueError):
        quota, period = (system / "fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        count = min(count, max(1, int(quota) // int(period)))
    return max(1, count - 1)


class _Process:
    """A running worker: its pipes, who waits for the weights or a request, how loading went."""

    def __init__(self, popen: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self.popen, self.errors = popen, errors
        self.inboxes: dict[int, Inbox] = {}
        self.loading: list[Callable[[], None]] = []
        self.failed: Mapping[str, Any] | None = None
        self.ready = self.gone = False
        # Reentrant: the garbage collector may end a forgotten worker in the middle of anything.
        self.lock = threading.RLock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one line; a worker that has gone is noticed by its reader."""
        assert self.popen.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError), self.lock:
            self.popen.stdin.write(json.dumps(message).encode() + b"\n")
            self.popen.stdin.flush()

    def expect(self, number: int, inbox: Inbox) -> None:
        """Deliver what comes for request `number` to `inbox`; `_GONE` if the worker ends."""
        with self.lock:
            if not self.gone:
                self.inboxes[number] = inbox
                return
        inbox(_GONE)

    def when_ready(self, tell: Callable[[], None]) -> None:
        """Call `tell` once the weights are loaded, or never will be."""
        with self.lock:
            if not (self.ready or self.gone):
                self.loading.append(tell)
                return
        tell()

    def read(self) -> None:
        """Hand out what the worker says until it ends. Runs on a thread of its own.

        Closes the worker's output itself: anybody else might do so between two lines.
        """
        assert self.popen.stdout is not None
        try:
            with self.popen.stdout as lines:
                for line in lines:
                    if line.endswith(b"\n"):  # one that is killed may leave half of it
                        self._hand_out(json.loads(line))
        finally:  # whatever went wrong, no request waits for ever
            with self.lock:
                self.gone = True
                waiting = list(self.inboxes.values())
            for inbox in waiting:
                inbox(_GONE)
            self._loading_is_over()

    def _hand_out(self, message: Mapping[str, Any]) -> None:
        if "failed" in message:
            self.failed = message
        elif "ready" in message:
            with self.lock:
                self.ready = True
            self._loading_is_over()
        elif "id" in message:
            with self.lock:
                inbox = self.inboxes.get(message["id"])
            if inbox is not None:
                inbox(message)

    def _loading_is_over(self) -> None:
        with self.lock:
            waiting, self.loading = self.loading, []
        for tell in waiting:
            tell()

    def last_words(self) -> str:
        """Return the end of the worker's standard error; nothing once it was closed."""
        with contextlib.suppress(ValueError):
            self.errors.seek(0, os.SEEK_END)
            self.errors.seek(max(0, self.errors.tell() - 400))
            return self.errors.read().decode("utf-8", "replace").strip()
        return ""

    def end(self) -> None:
        """Stop the worker and let go of what it was given; its reader closes the rest."""
        self.popen.kill()
        self.popen.wait()
        assert self.popen.stdin is not None
        with self.lock, contextlib.suppress(BrokenPipeError):
            self.popen.stdin.close()
        self.errors.close()


class Runtime:
    """The weights in `file`, ready to complete prompts. Starts its worker at first need.

    Threads and event loops may come and go; requests are answered one after the other.
    """

    def __init__(self, file: Path, *, context: int, threads: int | None = None) -> None:
        self._start = {
            "file": str(file),
            "context": context,
            "threads": threads if threads is not None else usable_threads(),
        }
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._end: weakref.finalize[..., Any] | None = None
        self._count = 0

    def preload(self) -> None:
        """Start loading now; returns at once."""
        with self._lock:
            self._running()

    @property
    def loaded(self) -> bool:
        """Return whether a request is answered without loading first."""
        process = self._process
        return process is not None and process.ready and not process.gone

    async def load(self) -> None:
        """Start if need be and wait until loading is over; a request then says how it went."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: no request waits
                loop.call_soon_threadsafe(over.set)

        with self._lock:
            process = self._running()
        process.when_ready(tell)
        await over.wait()

    def close(self) -> None:
        """Stop the worker and free its memory; the next request starts it again."""
        with self._lock:
            if self._end is not None:
                self._end()
            self._process = self._end = None

    async def complete(self, prompt: LocalPrompt) -> AsyncGenerator[str | FinishedReply]:
        """Return the completion as it streams, then `FinishedReply`. Cancel the task to stop it.

        Raises `ContextOverflowError`, `ModelReplyError`, or `ModelUnavailableError` when the
        worker cannot run here. A worker that ended before its first word is replaced once.
        """
        for final_try in (False, True):
            said = False
            async with contextlib.aclosing(self._attempt(prompt)) as events:
                async for event in events:
                    if event is None:
                        if said or final_try:
                            raise self._death_error()
                        break
                    said = True
                    yield event
                else:
                    return

    async def _attempt(self, prompt: LocalPrompt) -> AsyncGenerator[str | FinishedReply | None]:
        """One request to one worker; None when the worker has gone."""
        loop = asyncio.get_running_loop()
        inbox: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

        def deliver(message: Mapping[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: no request waits
                loop.call_soon_threadsafe(inbox.put_nowait, message)

        with self._lock:
            self._count += 1
            number, process = self._count, self._running()
        process.expect(number, deliver)
        process.send({"id": number, **prompt._asdict()})
        ended = False
        try:
            while not ended:
                message = await inbox.get()
                ended = message is _GONE or "text" not in message
                yield self._event(message, process)
        finally:
            if not ended:
                process.send({"cancel": number})
            with process.lock:
                process.inboxes.pop(number, None)

    def _event(self, message: Mapping[str, Any], process: _Process) -> str | FinishedReply | None:
        if message is _GONE:
            if process.failed is not None:
                raise _load_error(process.failed, str(self._start["file"]))
            return None
        if "text" in message:
            return str(message["text"])
        if "error" in message:
            raise _request_error(message)
        return FinishedReply(
            cut=message["end"] == "length",
            input=message.get("input", 0),
            output=message.get("output", 0),
            cached=message.get("cached", 0),
        )

    def _running(self) -> _Process:
        """Return the worker, started if it is not running. Call with the lock held."""
        if self._process is not None and not self._process.gone:
            return self._process
        if self._end is not None:
            self._end()
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - the worker's, closed by `_Process.end`
        try:
            popen = subprocess.Popen(
                [sys.executable, "-P", str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                start_new_session=True,  # Ctrl-C at the terminal is ours to handle
            )
        except OSError as error:
            errors.close()
            raise ModelUnavailableError(
                "The local model's process cannot be started: {reason}.", reason=why(error)
            ) from error
        process = _Process(popen, errors)
        process.send(self._start)
        threading.Thread(target=process.read, name="local-model", daemon=True).start()
        self._process = process
        self._end = weakref.finalize(self, process.end)
        return process

    def _death_error(self) -> ModelError:
        process = self._process
        words = process.last_words() if process is not None else ""
        return ModelUnavailableError(
            "The local model's process ended unexpectedly{words}; try again. If it ran out of "
            "memory, choose a smaller model.",
            words=f" ({words.splitlines()[-1]})" if words else "",
        )


def _load_error(message: Mapping[str, Any], file: str) -> ModelError:
    detail = message.get("detail", "")
    if message["failed"] == "missing":
        return ModelUnavailableError(
            "The local model needs the package xllamacpp, which is not installed. Run `{command}`.",
            command=install_command("xllamacpp"),
        )
    if message["failed"] == "library":
        return ModelUnavailableError(
            "The local model's library cannot be loaded ({detail}). It needs the system libraries "
            "libgomp and libstdc++ (Debian: `apt install libgomp1 libstdc++6`).",
            detail=detail,
        )
    return ModelUnavailableError(
        "The weights {file} cannot be loaded: not enough memory, or not a model file.", file=file
    )


def _request_error(message: Mapping[str, Any]) -> ModelError:
    if message["error"] == "exceed_context_size_error":
        return ContextOverflowError(
            "The request is too long for the local model; shorten it, or "
            "choose a model with a larger context window."
        )
    return ModelReplyError("The local model refused the request: {why}.", why=message["detail"])
